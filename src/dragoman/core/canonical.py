"""JSON in one form: strict when it is read, canonical when it is hashed."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any, Final, NoReturn, TypeAlias, cast

from dragoman.core.errors import BadJSON

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
JSONObject: TypeAlias = "dict[str, JSON]"

MAX_DEPTH = 64
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def canonical(value: object) -> bytes:
    """UTF-8, sorted keys, no spaces, no NaN: equal values have equal bytes.

    >>> canonical({"b": 1, "a": "x"})
    b'{"a":"x","b":1}'
    """
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return text.encode()


def iso(at: datetime) -> str:
    """A time in its one form: UTC, microseconds, Z.

    >>> iso(datetime(2030, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))))
    '2030-01-01T00:00:00.000000Z'
    """
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def sha256(data: bytes) -> bytes:
    """The 32 bytes that stand for a text wherever the text must not."""
    return hashlib.sha256(data).digest()


def read_json(data: bytes) -> JSON:
    """Parse exactly one JSON value, or raise BadJSON without quoting a byte of it.

    Duplicate keys, NaN, Infinity, a BOM, NUL, lone surrogates, numbers of more than 400 digits
    and nesting beyond 64 levels are refused: each is read differently somewhere down the line.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadJSON("not UTF-8") from None
    if text.startswith("\ufeff"):
        raise BadJSON("starts with a byte order mark")
    try:
        value = cast(
            "JSON",
            json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_int=_read_int,
                parse_float=_read_float,
                object_pairs_hook=_refuse_duplicates,
            ),
        )
    except RecursionError:
        raise BadJSON("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadJSON(f"not JSON at byte {error.pos}") from None
    _check(value, MAX_DEPTH)
    return value


def read_object(data: bytes) -> JSONObject:
    """Parse one JSON object, or raise BadJSON."""
    value = read_json(data)
    if not isinstance(value, dict):
        raise BadJSON("not a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadJSON(f"{name} is not a JSON number")


def _read_int(digits: str) -> int:
    if len(digits) > 400:
        raise BadJSON("a number of more than 400 digits")
    return int(digits)


def _read_float(digits: str) -> float:
    value = float(digits) if len(digits) <= 400 else float("inf")
    if value in (float("inf"), float("-inf")):
        raise BadJSON("a number out of range")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJSON("the same key twice in one object")
    return found


def _check(value: JSON, depth: int) -> None:
    if depth < 0:
        raise BadJSON("nested too deeply")
    match value:
        case str():
            _check_string(value)
        case dict():
            for key, inner in value.items():
                _check_string(key)
                _check(inner, depth - 1)
        case list():
            for inner in value:
                _check(inner, depth - 1)
        case _:
            pass


def _check_string(value: str) -> None:
    if "\0" in value:
        raise BadJSON("a NUL character in a string")
    if not value.isascii() and _SURROGATE.search(value):
        raise BadJSON("a lone surrogate in a string")

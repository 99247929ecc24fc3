"""Frozen values that read themselves strictly from JSON and write themselves back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Self, TypeAlias, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from dragoman.core.canonical import JSON, JSONObject
from dragoman.core.errors import BadInput

Read: TypeAlias = Callable[[object, str], object]


class Shape:
    """A base for frozen dataclasses of strings, numbers, ids, enums, tuples and other shapes.

    Every key is required and no other is taken. An error names the field, never its value.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True)
    ... class Pair(Shape):
    ...     left: int
    ...     right: str | None
    >>> Pair.from_json({"left": 1, "right": None}).to_json()
    {'left': 1, 'right': None}
    >>> Pair.from_json({"left": True, "right": None})
    Traceback (most recent call last):
    dragoman.core.errors.BadInput: Pair.left is not a whole number
    """

    __slots__ = ()

    def to_json(self) -> JSONObject:
        """The value as JSON; reading it back gives an equal value."""
        return cast("JSONObject", _write(self))

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read the value, or raise BadInput."""
        return cast("Self", _read_shape(cls, value, cls.__name__))


def check(is_true: bool, told: str) -> None:  # noqa: FBT001 - reads as an assertion does
    """Raise BadInput unless it is true; for the rules of a shape that types cannot say."""
    if not is_true:
        raise BadInput(told)


def _write(value: object) -> JSON:
    if isinstance(value, Shape):
        return {name: _write(getattr(value, name)) for name in _hints(type(value))}
    if isinstance(value, tuple):
        return [_write(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, UUID):
        return str(value)
    return cast("JSON", value.value if isinstance(value, Enum) else value)


@cache
def _hints(shape: type[Shape]) -> dict[str, object]:
    # Field names in order of definition, so that what is written has the order of the class.
    return dict(get_type_hints(shape))


def _read_shape(shape: type[Shape], value: object, where: str) -> Shape:
    check(isinstance(value, dict), f"{where} is not an object")
    given = cast("dict[str, object]", value)
    hints = _hints(shape)
    # An unknown key is not named: it came from outside and may carry text.
    check(given.keys() <= hints.keys(), f"{where} has an unknown key")
    for name in hints:
        check(name in given, f"{where}.{name} is missing")
    found = {name: _read(hint, given[name], f"{where}.{name}") for name, hint in hints.items()}
    return shape(**found)


def _read(hint: object, value: object, where: str) -> object:
    if get_origin(hint) in (Union, UnionType):
        return _read_optional(hint, value, where)
    if get_origin(hint) is tuple:
        return _read_tuple(get_args(hint)[0], value, where)
    if isinstance(hint, type) and issubclass(hint, Shape):
        return _read_shape(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _read_enum(hint, value, where)
    return _PLAIN[hint](value, where)


def _read_optional(hint: object, value: object, where: str) -> object:
    if value is None:
        return None
    (inner,) = (arg for arg in get_args(hint) if arg is not NoneType)
    return _read(inner, value, where)


def _read_tuple(item: object, value: object, where: str) -> tuple[object, ...]:
    check(isinstance(value, list), f"{where} is not a list")
    items = enumerate(cast("list[object]", value))
    return tuple(_read(item, one, f"{where}[{at}]") for at, one in items)


def _read_enum(hint: type[Enum], value: object, where: str) -> Enum:
    try:
        return hint(_read_text(value, where))
    except ValueError:
        pass  # raised below, without the value
    raise BadInput(f"{where} is not one of {', '.join(str(member.value) for member in hint)}")


def _read_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{where} is not text")
    is_clean = "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    check(is_clean, f"{where} has a NUL character or a lone surrogate")
    return value


def _read_int(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput(f"{where} is not a whole number")
    return value


def _read_bool(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{where} is not true or false")
    return value


def _read_uuid(value: object, where: str) -> UUID:
    text = _read_text(value, where)
    try:
        found = UUID(text)
    except ValueError:
        raise BadInput(f"{where} is not a UUID") from None
    check(str(found) == text.lower(), f"{where} is not a UUID")
    return found


def _read_time(value: object, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(_read_text(value, where))
        check(found.tzinfo is not None, f"{where} has no time zone")
        return found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{where} is not an ISO 8601 time") from None


_PLAIN: dict[object, Read] = {
    str: _read_text,
    int: _read_int,
    bool: _read_bool,
    UUID: _read_uuid,
    datetime: _read_time,
}

"""What OpenAI checks before it runs a batch: every line, all or nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

import orjson

from dragoman.core.canonical import JSON, JSONObject

MAX_ITEMS: Final = 50_000
ENDPOINT: Final = "/v1/responses"


@dataclass(frozen=True, slots=True)
class Item:
    """One request of a batch, at its place in the input file (from 0)."""

    index: int
    custom_id: str
    body: JSONObject = field(repr=False)


@dataclass(slots=True)
class Checked:
    """What the lines are, and everything that is wrong with them."""

    items: list[Item] = field(default_factory=list[Item])
    errors: list[JSON] = field(default_factory=list[JSON])
    seen: set[str] = field(default_factory=set[str])

    def refuse(
        self, code: str, message: str, line: int | None = None, param: str | None = None
    ) -> None:
        """Note one error; lines count from 1."""
        self.errors.append(
            {"code": code, "message": message, "line": line, "param": param},
        )


def check_lines(data: bytes) -> Checked:
    """Read the input file of a batch.

    >>> check_lines(b"").errors[0]["code"]
    'empty_file'
    """
    found = Checked()
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        found.refuse("empty_file", "The file is empty.")
    elif len(lines) > MAX_ITEMS:
        found.refuse("too_many_tasks", "The file has more than 50,000 lines.")
    else:
        for number, line in enumerate(lines, start=1):
            _check_line(found, number, line)
    return found


def _check_line(found: Checked, number: int, data: bytes) -> None:
    line = _read(data)
    if line is None:
        found.refuse("invalid_json_line", "This line is not parseable as valid JSON.", number)
        return
    custom_id, body = line.get("custom_id"), line.get("body")
    if not isinstance(custom_id, str):
        found.refuse(*_missing("custom_id", number))
    elif custom_id in found.seen:
        found.refuse("duplicate_custom_id", "This custom_id was used before.", number, "custom_id")
    elif line.get("method") != "POST":
        found.refuse("invalid_method", "The method must be POST.", number, "method")
    elif line.get("url") != ENDPOINT:
        found.refuse("url_mismatch", "The url is not the batch's endpoint.", number, "url")
    elif not isinstance(body, dict) or not isinstance(body.get("model"), str):
        found.refuse(*_missing("body.model", number))
    elif found.items and body["model"] != found.items[0].body["model"]:
        found.refuse("model_mismatch", "A batch has one model.", number, "body.model")
    else:
        found.seen.add(custom_id)
        found.items.append(Item(number - 1, custom_id, body))


def _missing(name: str, number: int) -> tuple[str, str, int, str]:
    return "missing_required_parameter", f"Missing required parameter: '{name}'.", number, name


def _read(data: bytes) -> JSONObject | None:
    try:
        value = cast("JSON", orjson.loads(data))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None

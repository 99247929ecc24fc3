"""Scripted faults: what shall go wrong, where, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dragoman.core.canonical import JSON, JSONObject

ROUTE_FAULTS: Final = frozenset(
    {"drop_before", "drop_after", "status", "status_after", "delay", "hide"}
)
FILE_FAULTS: Final = frozenset(
    {
        "truncate",
        "torn_line",
        "missing",
        "duplicate",
        "unknown_id",
        "insert_line",
        "bom",
        "crlf",
    }
)
BATCH_FAULTS: Final = frozenset({"fail_validation", "expire_after_fraction"})
ITEM_FAULTS: Final = frozenset(
    {
        "error",
        "failed",
        "truncated",
        "refusal",
        "wrong_language",
        "bad_schema",
        "extra_keys",
        "empty",
        "blank",
        "fenced",
        "invents_time",
    }
)
ROUTES: Final = frozenset(
    {"upload", "create", "poll", "list", "content", "delete", "cancel", "response", "models"}
)


@dataclass(slots=True)
class Fault:
    """One entry of the script, and how many matching events it has seen."""

    on: str
    do: str
    nth: int
    times: int | None  # None: for ever
    item: JSONObject
    more: JSONObject = field(default_factory=dict[str, JSON])
    seen: int = 0

    def fires(self) -> bool:
        """Count one matching event; true when this is one that shall go wrong."""
        self.seen += 1
        return self.nth <= self.seen and (self.times is None or self.seen < self.nth + self.times)

    def matches_item(self, index: int, custom_id: str) -> bool:
        """Whether the item is the one that is meant: by index, by custom_id, or any."""
        return (
            self.item.get("index", index) == index
            and self.item.get("custom_id", custom_id) == custom_id
        )

    def number(self, name: str, default: float) -> float:
        """A number of the entry."""
        value = self.more.get(name, default)
        return value if isinstance(value, (int, float)) else default

    def text(self, name: str, default: str | None = None) -> str | None:
        """A string of the entry."""
        value = self.more.get(name, default)
        return value if isinstance(value, str) else default


class BadFault(ValueError):
    """The script has an entry that could never fire."""


@dataclass(slots=True)
class Script:
    """The faults that are armed.

    >>> script = Script()
    >>> script.arm({"on": "create", "do": "drop_after"})
    >>> [fault.do for fault in script.take("create")], script.take("create")
    (['drop_after'], [])
    """

    faults: list[Fault] = field(default_factory=list[Fault])

    def arm(self, entry: JSONObject) -> None:
        """Add one entry, or raise BadFault."""
        self.faults.append(_read(entry))

    def clear(self) -> None:
        """Let nothing more go wrong."""
        self.faults.clear()

    def take(self, on: str) -> list[Fault]:
        """The faults that this event meets; each one counts it."""
        return [fault for fault in self.faults if fault.on == on and fault.fires()]

    def take_item(self, index: int, custom_id: str) -> Fault | None:
        """The first fault that meets this item."""
        for fault in self.faults:
            if fault.on == "item" and fault.matches_item(index, custom_id) and fault.fires():
                return fault
        return None


def _read(entry: JSONObject) -> Fault:
    item, do, times = entry.get("item", {}), entry.get("do"), entry.get("times", 1)
    nth = entry.get("nth", 1)
    if not isinstance(do, str) or not isinstance(item, dict) or not isinstance(nth, int):
        raise BadFault("a fault needs `do`; `item` is an object, `nth` a number")
    if times is not None and not isinstance(times, int):
        raise BadFault("`times` is a number, or null for always")
    on = entry.get("on") or _home_of(do, has_item="item" in entry)
    if not isinstance(on, str) or do not in _known(on):
        raise BadFault("no such fault there")
    return Fault(on, do, nth, times, item, more=entry)


def _home_of(do: str, *, has_item: bool) -> str | None:
    """Where a fault happens when its name alone says it."""
    if do in FILE_FAULTS:
        return "content"
    if do in BATCH_FAULTS:
        return "batch"
    return "item" if has_item or do in ITEM_FAULTS else None


def _known(on: str) -> frozenset[str]:
    if on == "content":
        return ROUTE_FAULTS | FILE_FAULTS
    if on == "batch":
        return BATCH_FAULTS
    if on == "item":
        return ITEM_FAULTS
    return ROUTE_FAULTS if on in ROUTES else frozenset()

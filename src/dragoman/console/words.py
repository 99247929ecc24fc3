"""How numbers, times, ids and reasons are written on a page."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

_SMALL = "no one two three four five six seven eight nine ten eleven twelve".split()

# Why a job waits: what it says when it is not due yet.
_WAITS = {
    "none": "deferred at its creation",
    "failure": "retry backoff",
    "stale_claim": "its worker went away",
    "overflow": "the last run was full",
    "runtime_limit": "the last run was out of time",
    "free_requeue": "the provider never ran it",
    "shutdown": "given back at a shutdown",
    "next_stage": "its next stage",
    "awaiting_deliveries": "its messages are on their way",
    "never_started": "its batch was never created",
    "provably_absent": "its batch was never created",
    "gate_closed": "gate paused",
    "not_yet_due": "not due yet",
}


def number(n: int) -> str:
    """With thousands separated.

    >>> number(18402)
    '18,402'
    """
    return f"{n:,}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """A small number in words with its noun.

    >>> counted(3, "thing"), counted(1, "doubt"), counted(40, "job")
    ('three things', 'one doubt', '40 jobs')
    """
    word = _SMALL[n] if n < len(_SMALL) else number(n)
    return f"{word} {one if n == 1 else many or one + 's'}"


def capital(text: str) -> str:
    """With a capital first letter and nothing else changed."""
    return text[:1].upper() + text[1:]


def span(gap: timedelta | float | None) -> str:
    """A duration to be read, in its two largest units.

    >>> span(3138), span(timedelta(days=1, hours=3)), span(0.4)
    ('52 m 18 s', '1 d 3 h', '0 s')
    """
    if gap is None:
        return ""
    seconds = int(gap.total_seconds() if isinstance(gap, timedelta) else gap)
    for name, size, below, part in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // part
            return (
                f"{seconds // size} {name} {rest:02d} {below}"
                if name != "d"
                else f"{seconds // size} d {rest} {below}"
            )
    return f"{max(seconds, 0)} s"


def added(gap: timedelta) -> str:
    """A duration to be added by eye.

    >>> added(timedelta(seconds=4154))
    '1:09:14'
    """
    seconds = max(int(gap.total_seconds()), 0)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def clock(at: datetime | None) -> str:
    """A time of day in UTC, to the second."""
    return f"{at:%H:%M:%S}" if at else ""


def instant(at: datetime) -> str:
    """A time of day in UTC, to the millisecond."""
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"


def short(id: UUID | str | None) -> str:  # noqa: A002 - what everybody calls it
    """The last eight digits: ids are time-ordered, so their heads look alike.

    >>> short("01a1f33e-0cc2-75e8-8990-2207afaeb712")
    'afaeb712'
    """
    return str(id)[-8:] if id else ""


def pair(source: str | None, target: str | None) -> str:
    """A language pair; one language stands alone.

    >>> pair("tr", "de"), pair("en", "en")
    ('tr to de', 'en')
    """
    if not source or not target:
        return ""
    return source if source == target else f"{source} to {target}"


def wait_reason(reason: str, mode: str, *, is_ready: bool) -> str:
    """Why a queued job waits.

    >>> wait_reason("failure", "batch", is_ready=False)
    'retry backoff'
    """
    if not is_ready:
        return _WAITS.get(reason, reason.replace("_", " "))
    if reason in ("overflow", "runtime_limit"):
        return _WAITS[reason]
    return "due for the next run" if mode == "batch" else "due now"

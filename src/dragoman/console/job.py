"""One job, explained: where it was and how long, what was tried, and whether its chain holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dragoman.console.queries import Reading
from dragoman.console.words import added, clock, counted, short, span, wait_reason
from dragoman.core.job import TERMINAL

# The state after an event; what is not here leaves a job where it was.
_BECAME = {
    "enqueued": "queued",
    "claimed": "processing",
    "submitted": "batch_submitted",
    "completed": "completed",
    "failed": "failed",
    "canceled": "canceled",
    "retried": "queued",
    "deferred": "queued",
    "released": "queued",
    "advanced": "queued",
    "stale_requeued": "queued",
    "reconciled": "queued",
}
_DOUBTS = frozenset({"submit_unknown", "send_unknown"})
_SPENT = {
    "queued": "waiting",
    "batch_submitted": "at the provider",
    "processing": "our own work",
}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth".split()

Row = dict[str, Any]  # a database row, for this page alone


@dataclass(frozen=True, slots=True)
class Event:
    """One link of the chain, with the state it led to and how long after the one before."""

    seq: int
    at: datetime
    after: timedelta | None
    kind: str
    reason: str
    state: str
    came_from: str
    actor: str
    token: UUID | None
    facts: Mapping[str, object]
    hash: str
    before: str
    attempt: int
    is_linked: bool

    @property
    def is_doubt(self) -> bool:
        """Whether nobody knew then what had happened."""
        return self.kind in _DOUBTS

    @property
    def detail(self) -> str:
        """What it says: codes, ids and counts."""
        said = [] if self.reason in ("none", "failure") else [self.reason.replace("_", " ")]
        if "batch_id" in self.facts:
            item = self.facts.get("batch_item_index", "")
            said.append(f"batch {short(str(self.facts['batch_id']))}, item {item}")
        said += [str(self.facts[name]) for name in ("class", "code", "model") if name in self.facts]
        if "http_status" in self.facts:
            said.append(f"HTTP {self.facts['http_status']}")
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The events that share a token."""

    number: int
    token: UUID
    held_by: Sequence[str]
    first_at: datetime
    last_at: datetime
    ended: str
    detail: str


@dataclass(frozen=True, slots=True)
class JobPage:
    """Everything there is about a job but its text."""

    job: Row
    events: Sequence[Event]
    items: Sequence[Row]
    deliveries: Sequence[Row]
    letter: Row | None
    checks: Row | None
    queries: int

    @property
    def is_final(self) -> bool:
        """Whether nothing moves any more."""
        return self.job["state"] in TERMINAL

    @property
    def until(self) -> datetime:
        """The end of its time: when it became final, or now."""
        ends = [event.at for event in self.events if event.state in TERMINAL]
        return ends[0] if ends else self.job["now"]

    @property
    def is_verified(self) -> bool:
        """Whether every link holds and the last one is the head on the standing."""
        return bool(self.events) and self.verified == len(self.events) and self.reaches_head

    @property
    def verified(self) -> int:
        """How many links hold."""
        return sum(event.is_linked for event in self.events)

    @property
    def reaches_head(self) -> bool:
        """Whether the last event is the one the standing names."""
        return self.events[-1].hash == self.job["head"] and len(self.events) == self.job["seq"]

    @property
    def spent(self) -> list[tuple[str, str, timedelta]]:
        """Where the time went: state, words, how long; the parts add up to the whole."""
        total = dict.fromkeys(_SPENT, timedelta())
        for event, later in self.moves:
            if event.state in total:
                total[event.state] += later - event.at
        return [(state, _SPENT[state], gap) for state, gap in total.items() if gap]

    @property
    def visits(self) -> dict[str, str]:
        """What a state of the map says: how long, in how many visits, or since when it is final."""
        found: dict[str, list[timedelta]] = {}
        for event, later in self.moves:
            found.setdefault(event.state, []).append(later - event.at)
        said = {
            state: f"{added(sum(gaps, timedelta()))} in {counted(len(gaps), 'visit')}"
            for state, gaps in found.items()
        }
        if self.is_final:
            said[self.job["state"]] = f"{clock(self.until)}, final"
        return said

    @property
    def taken(self) -> dict[str, str]:
        """The edges of the map that were taken, each with the numbers of its events."""
        edges: dict[str, list[str]] = {}
        for event in self.events:
            if event.came_from and event.came_from != event.state:
                edges.setdefault(f"{event.came_from}-{event.state}", []).append(str(event.seq))
        return {edge: ", ".join(numbers) for edge, numbers in edges.items()}

    @property
    def attempts(self) -> list[Attempt]:
        """The tries, from the events that share a token."""
        tokens: dict[UUID, list[Event]] = {}
        for event in self.events:
            if event.token is not None:
                tokens.setdefault(event.token, []).append(event)
        return [_attempt(token, events) for token, events in tokens.items()]

    @property
    def moves(self) -> list[tuple[Event, datetime]]:
        """The events that changed its state, each with the time of the next one."""
        moves = [event for event in self.events if event.came_from != event.state]
        ends = [event.at for event in moves[1:]] + [self.until]
        return list(zip(moves, ends, strict=True))


async def read_job_page(page: Reading, id: UUID) -> JobPage | None:  # noqa: A002 - what everybody calls it
    """Everything about a job, or nothing."""
    job = await page.dicts("job/read_job", id)
    if not job:
        return None
    letters = await page.dicts("dead_letter/read_letter", id)
    checks = await page.dicts("output/read_checks", id)
    return JobPage(
        job=job[0],
        events=_chain(await page.dicts("job/list_events", id)),
        items=await page.dicts("batch/list_items", id),
        deliveries=await page.dicts("delivery/list_deliveries", id),
        letter=letters[0] if letters else None,
        checks=checks[0] if checks else None,
        queries=page.queries,
    )


def _chain(rows: Sequence[Row]) -> list[Event]:
    events: list[Event] = []
    state, last, head = "", None, "0" * 64
    for row in rows:
        became = _BECAME.get(str(row["kind"]), state)
        gap = row["at"] - last if last else None
        events.append(_event(row, gap, became, state, head))
        state, last, head = became, row["at"], str(row["hash"])
    return events


def _event(row: Row, gap: timedelta | None, became: str, state: str, head: str) -> Event:
    return Event(
        seq=row["seq"],
        at=row["at"],
        after=gap,
        kind=str(row["kind"]),
        reason=str(row["reason"] or "none"),
        state=became,
        came_from=state,
        actor=str(row["actor"] or "unknown"),
        token=row["token"],
        facts=row["facts"] or {},
        hash=str(row["hash"]),
        before=head,
        attempt=row["attempt"],
        is_linked=row["is_linked"],
    )


def _attempt(token: UUID, events: Sequence[Event]) -> Attempt:
    last = events[-1]
    return Attempt(
        number=events[0].attempt,
        token=token,
        held_by=list(dict.fromkeys(event.actor for event in events)),
        first_at=events[0].at,
        last_at=last.at,
        ended=last.kind,
        detail=last.detail,
    )


def explain(page: JobPage) -> str:
    """One job in a few sentences, for a page or a terminal."""
    return " ".join(
        sentence for sentence in (_now(page), *_retries(page), _doubt(page)) if sentence
    )


def _now(page: JobPage) -> str:
    job = page.job
    match job["state"]:
        case "completed" | "failed" | "canceled":
            return _ended(page)
        case "batch_submitted":
            batch = f"At {job['provider']} in batch {short(job['batch_id'])} since {_since(page)}"
            return f"{batch}; the collector takes it in when the batch has ended."
        case "processing" if job["batch_state"] == "submit_unknown":
            return (
                "Its batch was created without an answer; it is held until the provider has been"
                " asked, and is never sent twice."
            )
        case "processing":
            return f"In hand at {job['held_by'] or 'a worker'} since {_since(page)}."
        case _:
            return f"Queued for {_age(page)}: {because(job)}."


def _ended(page: JobPage) -> str:
    job, at = page.job, clock(page.until)
    if job["state"] == "completed":
        nth = _ORDINALS[min(int(job["attempt_count"]), 9)]
        return f"Completed at {at} on the {nth} attempt, {_age(page)} after it was accepted."
    if job["state"] == "canceled":
        by = next(event.actor for event in page.events if event.kind == "canceled")
        return f"Canceled at {at} by {by}, {_age(page)} after it was accepted; nothing was stored."
    letter = f" Its dead letter is {page.letter['state']}." if page.letter else ""
    why = f" with {job['last_error']}" if job["last_error"] else ""
    tries = counted(job["attempt_count"], "attempt")
    return f"Failed at {at}{why} after {tries}; nothing was stored.{letter}"


def _age(page: JobPage) -> str:
    return span(page.until - page.job["created_at"])


def because(job: Row) -> str:
    """Why a job is where it is, and what moves it.

    >>> because({"state": "failed", "last_error": "schema_invalid", "batch_state": None})
    'schema_invalid'
    """
    match job["state"]:
        case "queued":
            why = wait_reason(job["reason"] or "none", job["mode"], is_ready=job["ready"])
            return (
                why
                if job["ready"] or not job["not_before_at"]
                else f"{why} until {clock(job['not_before_at'])}"
            )
        case "processing" if job["batch_state"] == "submit_unknown":
            return "batch creation unknown, held"
        case "processing":
            return "in hand"
        case "batch_submitted":
            return "the collector, when its batch has ended"
        case "failed":
            return str(job["last_error"] or "")
        case "canceled":
            return "asked by an operator"
        case _:
            return "stored once" if job["attempt_count"] == 0 else "stored once, after a retry"


def _since(page: JobPage) -> str:
    return clock(page.moves[-1][0].at)


def _retries(page: JobPage) -> list[str]:
    said: list[str] = []
    for event in page.events:
        if event.kind in ("retried", "stale_requeued"):
            nth = _ORDINALS[min(event.attempt - 1, 9)].capitalize()
            said.append(f"{nth} attempt: {event.detail or 'unsuccessful'}, so it was queued again.")
    return said


def _doubt(page: JobPage) -> str:
    doubts = [event for event in page.events if event.is_doubt]
    if not doubts:
        return ""
    said, verb = counted(len(doubts), "doubt").capitalize(), "was" if len(doubts) == 1 else "were"
    return f"{said} on its way {verb} settled before anything was repeated."

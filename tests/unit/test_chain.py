"""The chain's formula: whatever is changed in a history is found by computing it again."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.canonical import canonical
from dragoman.core.chain import (
    Chain,
    Change,
    Changes,
    Divergence,
    Event,
    Fault,
    Head,
    link,
    link_change,
)
from dragoman.core.ids import HomeId, JobId

SMALL = st.integers(-(1 << 15), (1 << 15) - 1)
MOMENT = datetime(2020, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, 10**15).map(lambda passed: MOMENT + timedelta(microseconds=passed))
OTHER: dict[str, st.SearchStrategy[Any]] = {
    "job_id": st.uuids(),
    "home_id": st.uuids(),
    "seq": st.integers(-(1 << 31), (1 << 31) - 1),
    "at": TIMES,
    "kind": SMALL,
    "reason": SMALL,
    "stage": SMALL,
    "attempt": SMALL,
    "token": st.none() | st.uuids() | st.just(UUID(int=0)),
    "actor": st.uuids(),
    "facts": st.none() | st.binary(max_size=40),
    "hash": st.binary(max_size=40),
}


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A job's events, chained as they should be."""
    job_id, home_id = JobId(draw(st.uuids())), HomeId(draw(st.uuids()))
    at, before, events = draw(TIMES), b"", list[Event]()
    for seq in range(1, draw(st.integers(1, 6)) + 1):
        at += timedelta(microseconds=draw(st.integers(0, 10**9)))
        event = Event(
            job_id,
            home_id,
            seq,
            at,
            draw(SMALL),
            draw(SMALL),
            draw(SMALL),
            draw(SMALL),
            draw(st.none() | st.uuids().filter(lambda token: token.int != 0)),
            draw(st.uuids()),
            draw(st.none() | st.binary(min_size=1, max_size=40)),
            b"",
        )
        before = link(before, event)
        events.append(replace(event, hash=before))
    return events


def head_of(events: Sequence[Event]) -> Head:
    """The head that belongs to these events."""
    last = events[-1]
    return Head(last.job_id, last.home_id, last.seq, last.hash, last.at)


def judged(events: Sequence[Event], head: Head | None) -> Divergence | None:
    """What an auditor finds."""
    chain = Chain()
    for event in events:
        chain.take(event)
    return chain.end(head)


@given(histories())
def test_a_history_as_it_was_written_is_sound(events: list[Event]) -> None:
    """Whatever the events say, a chain that nobody touched has no fault."""
    assert judged(events, head_of(events)) is None


@given(histories(), st.data())
def test_any_change_of_one_field_is_found_where_it_is(
    events: list[Event], data: st.DataObject
) -> None:
    """One field of one event, whichever and whatever it becomes: the auditor names a place."""
    head, where = head_of(events), data.draw(st.integers(0, len(events) - 1))
    field = data.draw(st.sampled_from([field.name for field in fields(Event)]))
    value = data.draw(OTHER[field].filter(lambda value: value != getattr(events[where], field)))
    forged = [*events]
    forged[where] = replace(events[where], **{field: value})
    found = judged(forged, head)
    assert found is not None
    # What is hashed is found at the event itself; a home may first differ at the one after it.
    assert found.seq == forged[where].seq or field in {"home_id", "hash"}


@given(histories().filter(lambda events: len(events) > 1), st.data())
def test_a_missing_a_cut_and_a_swapped_event_are_found(
    events: list[Event], data: st.DataObject
) -> None:
    """Delete any event, cut any tail, let two events change their places: each is found."""
    head, where = head_of(events), data.draw(st.integers(0, len(events) - 2))
    gap = judged([*events[:where], *events[where + 1 :]], head)
    assert gap == Divergence(Fault.GAP, head.job_id, events[where + 1].seq)
    cut = judged(events[: where + 1], head)
    assert cut == Divergence(Fault.HEAD, head.job_id, events[where].seq)
    here, there = events[where], events[where + 1]
    swapped = [*events]
    swapped[where : where + 2] = [replace(there, seq=here.seq), replace(here, seq=there.seq)]
    found = judged(swapped, head)
    assert found is not None
    assert found.seq == here.seq


@given(histories())
def test_a_job_without_events_and_events_without_a_job_are_found(events: list[Event]) -> None:
    """Neither side of a history can be taken away whole while the other one stays."""
    head = head_of(events)
    assert judged([], head) == Divergence(Fault.NO_EVENTS, head.job_id, 0)
    assert judged(events, None) == Divergence(Fault.NO_JOB, head.job_id, head.seq)


@given(histories(), st.data())
def test_a_head_that_says_otherwise_is_found(events: list[Event], data: st.DataObject) -> None:
    """The head's number, hash, time and home are those of the last event."""
    head = head_of(events)
    wrong = {
        "home_id": st.uuids(),
        "seq": OTHER["seq"],
        "head": OTHER["hash"],
        "last_event_at": TIMES,
    }
    field = data.draw(st.sampled_from(sorted(wrong)))
    value = data.draw(wrong[field].filter(lambda value: value != getattr(head, field)))
    assert judged(events, replace(head, **{field: value})) is not None


def test_time_never_goes_back_even_when_the_hashes_follow() -> None:
    """A history that was computed again by its forger, but tells its times in a wrong order."""
    job, home, actor = JobId(UUID(int=1)), HomeId(UUID(int=2)), UUID(int=3)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    first = Event(job, home, 1, at, 1, 0, 0, 1, None, actor, None, b"")
    first = replace(first, hash=link(b"", first))
    second = replace(first, seq=2, at=at - timedelta(microseconds=1))
    second = replace(second, hash=link(first.hash, second))
    assert judged([first, second], head_of([second])) == Divergence(Fault.TIME, job, 2)


def changes() -> list[Change]:
    """Three changes, chained as they should be."""
    before, found = b"", list[Change]()
    for seq in (1, 2, 3):
        facts = canonical({"verb": "pause", "subject": f"gate {seq}"})
        at = datetime(2030, 1, seq, tzinfo=UTC)
        change = Change(seq, at, UUID(int=9), "pause", f"gate {seq}", facts, b"")
        before = link_change(before, change)
        found.append(replace(change, hash=before))
    return found


def test_changes_as_they_were_written_are_sound() -> None:
    """Nothing is found where nothing was touched."""
    judge = Changes()
    for change in changes():
        judge.take(change)
    assert (judge.fault, judge.seq) == (None, 3)


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("at", datetime(2030, 1, 1, 12, tzinfo=UTC), Fault.HASH),
        ("actor", UUID(int=8), Fault.HASH),
        ("verb", "resume", Fault.WORDS),
        ("subject", "gate 3", Fault.WORDS),
        ("facts", canonical({"verb": "pause", "subject": "gate 2", "x": 1}), Fault.HASH),
        ("facts", b"\xff", Fault.HASH),
        ("hash", bytes(32), Fault.HASH),
        ("seq", 4, Fault.GAP),
    ],
)
def test_any_changed_field_of_a_change_is_found(field: str, value: object, fault: Fault) -> None:
    """Also the two words that stand beside the facts which alone are hashed."""
    judge = Changes()
    for change in changes():
        judge.take(replace(change, **{field: value}) if change.seq == 2 else change)
    assert judge.fault is not None
    assert (judge.fault.fault, judge.fault.seq) == (fault, value if field == "seq" else 2)


def test_a_missing_change_and_a_time_that_goes_back_are_found() -> None:
    """A deleted row leaves a gap; a forged chain may still not go back in time."""
    judge = Changes()
    for change in changes()[1:]:
        judge.take(change)
    assert judge.fault == Divergence(Fault.GAP, seq=2)
    first, second, _ = changes()
    early = replace(second, at=datetime(2029, 1, 1, tzinfo=UTC))
    judge = Changes()
    for change in (first, replace(early, hash=link_change(first.hash, early))):
        judge.take(change)
    assert judge.fault == Divergence(Fault.TIME, seq=2)


def test_a_time_is_eight_bytes_of_microseconds_since_2000() -> None:
    """The hash of one event, computed by hand from the documented layout."""
    at = datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC)
    actor = UUID(int=3)
    event = Event(
        JobId(UUID(int=1)), HomeId(UUID(int=2)), 1, at, 2, 3, 4, 5, None, actor, b"{}", b""
    )
    by_hand = (
        bytes(15)
        + b"\x01"
        + struct.pack(">ih", 1, 2)
        + bytes(16)
        + struct.pack(">hhh", 5, 4, 3)
        + bytes(15)
        + b"\x03"
        + struct.pack(">q", 1_000_000)
        + b"{}"
    )
    assert link(b"", event) == hashlib.sha256(by_hand).digest()

"""A provider's batch that must not be created twice: the protocol of the submitter, checked.

The batch row is committed with its items and a nonce, the file is uploaded (as often as need be,
for a file alone runs nothing), the row is marked as started, the batch is created with one request
and its id is written down. What a crash leaves behind is released if it was never started. If it
was, the provider's list is searched for the nonce, when the request can no longer arrive; and as a
list may lag behind, only a second miss, some time after the first, releases the items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from spec.checker import Model, Step


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way to do it. The defaults are those of the submitter."""

    name: str
    marks_started: bool = True  # commits `started` right before the create
    waits: bool = True  # searches only when the create can no longer arrive
    looks: int = 2  # how many misses in a row release the items


class Row(IntEnum):
    """The items and their batch row as the database has them."""

    WAITING = 0  # the items are in no batch
    INTENDED = 1
    STARTED = 2
    SUBMITTED = 3


class Time(IntEnum):
    """What the clock has proved about the last create."""

    CAN_ARRIVE = 0
    SETTLED = 1  # deadline and settle time are over: it arrived, or it never will
    MISSED_ONCE = 2
    CAUGHT_UP = 3  # long enough after the first miss for the provider's list to be complete


class At(IntEnum):
    """Where a worker stands. What it knows dies with it."""

    IDLE = 0
    CLAIMED = 1
    UPLOADING = 2
    UPLOADED = 3
    STARTED = 4
    CLEARED = 5
    SENT = 6
    TAKEN = 7
    KNOWS_ID = 8
    KNOWS_NO = 9
    FOUND = 10
    MISSED = 11
    MISSED_AGAIN = 12


class Worker(NamedTuple):
    """A process, and whether the claim it holds is still the newest."""

    at: At = At.IDLE
    is_current: bool = False


class State(NamedTuple):
    """Everything there is."""

    workers: tuple[Worker, ...]
    row: Row = Row.WAITING
    time: Time = Time.SETTLED
    orphans: int = 0  # creates under way whose sender is gone
    created: int = 0  # batches made and paid for these items, under whatever nonce
    is_ours: bool = False  # one of them carries the row's nonce
    is_listed: bool = False  # and the provider's list shows it


def model(protocol: Protocol, workers: int = 2) -> Model[State]:
    """The protocol in its world."""
    return Model(
        start=State((Worker(),) * workers),
        steps=partial(_steps, protocol),
        never={
            "created twice": lambda state: state.created > 1,
            "marked but not created": lambda state: (
                state.row is Row.SUBMITTED and not state.is_ours
            ),
        },
        is_settled=lambda state: state.row is Row.SUBMITTED,
    )


def _steps(protocol: Protocol, state: State) -> Iterator[Step[State]]:
    for number, worker in enumerate(state.workers):
        for label, after, is_fault in _worker_steps(protocol, state, number, worker):
            space = "" if label.startswith("'") else " "
            yield Step(f"worker {number + 1}{space}{label}", after, is_fault)
    yield from _world_steps(state)


def _worker_steps(
    protocol: Protocol, state: State, number: int, worker: Worker
) -> Iterator[Step[State]]:
    if worker.at is At.IDLE:
        yield from _claim(state, number)
        return
    if worker.at is At.CLAIMED:
        yield from _decide(protocol, state, number)
    elif worker.at < At.SENT:
        yield from _before_the_create(protocol, state, number, worker)
    else:
        yield from _after_the_create(protocol, state, number, worker.at)
    crashed = _at(state, number, At.IDLE)
    yield Step("crashes", _orphan(crashed) if worker.at is At.SENT else crashed, is_fault=True)


def _before_the_create(
    protocol: Protocol, state: State, number: int, worker: Worker
) -> Iterator[Step[State]]:
    at = partial(_at, state, number)
    match worker.at:
        case At.UPLOADING:
            yield Step("uploads the file", at(At.UPLOADED))
        case At.UPLOADED if protocol.marks_started:
            yield Step("marks it started", _start(state, number))
        case At.UPLOADED:
            yield Step("is about to create", at(At.STARTED))
        case At.STARTED:
            ahead = At.CLEARED if worker.is_current else At.IDLE
            yield Step("checks the fence", at(ahead))
        case _:
            yield Step("sends the create", at(At.SENT))
            yield Step("is refused before it sends", at(At.KNOWS_NO), is_fault=True)


def _after_the_create(
    protocol: Protocol, state: State, number: int, stands: At
) -> Iterator[Step[State]]:
    at, write = partial(_at, state, number), partial(_write, state, number)
    match stands:
        case At.SENT:
            yield Step("'s create arrives", _create(at(At.TAKEN)))
            yield Step("'s create is lost", at(At.IDLE), is_fault=True)
            yield Step("gives up waiting", _orphan(at(At.IDLE)), is_fault=True)
        case At.TAKEN:
            yield Step("gets the batch id", at(At.KNOWS_ID))
            yield Step("'s reply is lost", at(At.IDLE), is_fault=True)
        case At.KNOWS_ID | At.FOUND:
            yield Step("writes the batch id down", write(row=Row.SUBMITTED))
        case At.MISSED if protocol.looks > 1:
            yield Step("writes the first miss down", write(time=Time.MISSED_ONCE))
        case _:
            yield Step("releases the items", write(row=Row.WAITING))


def _claim(state: State, number: int) -> Iterator[Step[State]]:
    if state.row is Row.SUBMITTED:
        return
    is_held = any(worker.is_current for worker in state.workers)
    stale = tuple(worker._replace(is_current=False) for worker in state.workers)
    after = _at(state._replace(workers=stale), number, At.CLAIMED, is_current=True)
    yield Step("takes it over from a live worker" if is_held else "claims it", after, is_held)


def _decide(protocol: Protocol, state: State, number: int) -> Iterator[Step[State]]:
    worker = state.workers[number]
    if not worker.is_current:
        yield Step("finds its claim lost", _at(state, number, At.IDLE))
    elif state.row is Row.WAITING:
        intended = state._replace(row=Row.INTENDED, is_ours=False, is_listed=False)
        yield Step("commits the batch and its nonce", _at(intended, number, At.UPLOADING))
    elif state.row is Row.INTENDED:
        yield Step("releases what never started", _write(state, number, row=Row.WAITING))
    elif not protocol.waits or state.time in (Time.SETTLED, Time.CAUGHT_UP):
        missed = At.MISSED_AGAIN if state.time is Time.CAUGHT_UP else At.MISSED
        found = At.FOUND if state.is_listed else missed
        yield Step(f"searches the list: {found.name.lower()}", _at(state, number, found))


def _world_steps(state: State) -> Iterator[Step[State]]:
    if state.orphans:
        # Two stand for two or more, so that after one of them two may be left.
        for left in {1: (0,), 2: (1, 2)}[state.orphans]:
            fewer = state._replace(orphans=left)
            yield Step("an orphaned create arrives", _create(fewer))
            yield Step("an orphaned create is lost", fewer, is_fault=True)
    if state.time is Time.CAN_ARRIVE and state.row is Row.STARTED:
        yield Step("the deadline and the settle time pass", _settle(state))
    if state.time is Time.MISSED_ONCE:
        caught_up = state._replace(time=Time.CAUGHT_UP, is_listed=state.is_ours)
        yield Step("the provider's list has had time", caught_up)
    if state.is_ours and not state.is_listed:
        yield Step("the provider lists the batch", state._replace(is_listed=True))


def _settle(state: State) -> State:
    gave_up = {At.STARTED: At.KNOWS_NO, At.CLEARED: At.KNOWS_NO, At.SENT: At.IDLE}
    after = state._replace(orphans=0, time=Time.SETTLED)
    for number, worker in enumerate(state.workers):
        after = _at(after, number, gave_up.get(worker.at, worker.at))
    return after


def _start(state: State, number: int) -> State:
    if not state.workers[number].is_current:
        return _at(state, number, At.IDLE)
    return _at(state, number, At.STARTED)._replace(row=Row.STARTED, time=Time.CAN_ARRIVE)


def _create(state: State) -> State:
    return state._replace(created=min(2, state.created + 1), is_ours=True)


def _orphan(state: State) -> State:
    return state._replace(orphans=min(2, state.orphans + 1))


def _write(state: State, number: int, *, row: Row | None = None, time: Time | None = None) -> State:
    """One fenced write to the row, and the claim ends; refused when the claim is stale."""
    freed = _at(state, number, At.IDLE)
    if not state.workers[number].is_current:
        return freed
    return freed._replace(
        row=state.row if row is None else row, time=state.time if time is None else time
    )


def _at(state: State, number: int, at: At, *, is_current: bool | None = None) -> State:
    workers = list(state.workers)
    keeps = workers[number].is_current if is_current is None else is_current
    workers[number] = Worker(at, keeps and at is not At.IDLE)
    return state._replace(workers=tuple(workers))


OURS = Protocol("batch: the submitter's")
RELEASED_UNSEEN = Protocol("batch: released without a marker", marks_started=False)
SEARCHED_AT_ONCE = Protocol("batch: searched at once", waits=False)
RELEASED_AFTER_ONE_MISS = Protocol("batch: released after one miss", looks=1)
UNSAFE = (RELEASED_UNSEEN, SEARCHED_AT_ONCE, RELEASED_AFTER_ONE_MISS)
ALL = (*UNSAFE, OURS)

"""An act on the outside world that must not happen twice: the protocol of `work/acts.py`, checked.

One delivery, a few workers, a target. At any moment a worker may crash and start again, or be
taken for dead and go on all the same; a request or its reply may be lost, or a request may arrive
long after its sender gave up. `python -m spec.act_once` checks every protocol below, and the batch
protocol of `spec/batch_once.py`, and prints what holds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import partial
from typing import NamedTuple

from spec import batch_once
from spec.checker import Model, Step, check


class Doubt(Enum):
    """What a worker does with a delivery that may or may not have been sent."""

    SEND = "send again"
    SAME_KEY = "same key again"
    ASK = "ask the target"
    HOLD = "leave it to the operator"


@dataclass(frozen=True, slots=True)
class Protocol:
    """One way to do it. The defaults are those of `work/acts.py`."""

    name: str
    on_doubt: Doubt
    has_intent: bool = True  # commits the intent before the act
    is_fenced: bool = True  # a write names its token, and is refused when it is stale
    checks_fence: bool = True  # reads the token once more right before the act
    waits: bool = True  # asks only when the act can no longer arrive
    is_synchronous: bool = False  # the target has it or not at once: nothing is ever in flight
    key_expires: bool = False  # the target forgets keys after a while
    minds_window: bool = True  # does not repeat a key that may be forgotten
    keeps_doubt: bool = True  # a refused repeat proves nothing about the act before it

    @property
    def has_deadline(self) -> bool:
        """Whether an act that has not arrived at some time never will."""
        return self.on_doubt is Doubt.ASK and self.waits


class Row(IntEnum):
    """The delivery as the database has it."""

    READY = 0
    SENDING = 1  # the intent is committed; whatever happens now, a repeat is no longer innocent
    REPEATING = 2  # the same for an act that repeats one in doubt
    UNKNOWN = 3
    HELD = 4  # visibly unknown: the operator decides
    DONE = 5


class At(IntEnum):
    """Where a worker stands. What it knows dies with it."""

    IDLE = 0
    CLAIMED = 1
    ARMED = 2  # its intent is committed
    CLEARED = 3  # it has checked the fence; the next thing it does is the act
    SENT = 4  # the request is under way
    TAKEN = 5  # the target did it; the reply is under way
    KNOWS_YES = 6
    KNOWS_NO = 7  # proof that nothing happened
    IN_DOUBT = 8
    FOUND = 9
    MISSED = 10


class Window(IntEnum):
    """How long the target remembers a key."""

    OPEN = 0
    CLOSING = 1  # our margin: nobody repeats the key any more
    CLOSED = 2  # what was begun before the margin cannot arrive any more
    FORGOTTEN = 3


class Worker(NamedTuple):
    """A process, and whether the claim it holds is still the newest."""

    at: At = At.IDLE
    is_current: bool = False


class State(NamedTuple):
    """Everything there is."""

    workers: tuple[Worker, ...]
    row: Row = Row.READY
    can_arrive: bool = False  # the deadline of the last act and its settle time are not over
    orphans: int = 0  # requests under way whose sender is gone; two stand for any number
    effects: int = 0  # how often the target did it; two stand for any number
    window: Window = Window.OPEN


def model(protocol: Protocol, workers: int = 2) -> Model[State]:
    """The protocol in its world."""
    ends = {Row.DONE, Row.HELD}
    return Model(
        start=State((Worker(),) * workers),
        steps=partial(_steps, protocol),
        never={
            "done twice": lambda state: state.effects > 1,
            "marked but not done": lambda state: state.row is Row.DONE and state.effects == 0,
        },
        is_settled=lambda state: state.row in ends,
    )


def _steps(protocol: Protocol, state: State) -> Iterator[Step[State]]:
    for number, worker in enumerate(state.workers):
        for label, after, is_fault in _worker_steps(protocol, state, number, worker):
            space = "" if label.startswith("'") else " "
            yield Step(f"worker {number + 1}{space}{label}", after, is_fault)
    yield from _world_steps(protocol, state)


def _worker_steps(
    protocol: Protocol, state: State, number: int, worker: Worker
) -> Iterator[Step[State]]:
    at = partial(_at, state, number)
    if worker.at is At.IDLE:
        yield from _claim(state, number)
        return
    if worker.at is At.CLAIMED:
        yield from _decide(protocol, state, number)
    elif worker.at is At.ARMED:
        is_lost = protocol.checks_fence and not worker.is_current
        yield Step("checks the fence", at(At.IDLE if is_lost else At.CLEARED))
    elif worker.at is At.CLEARED:
        yield from _act(protocol, state, number)
    else:
        yield from _after_the_act(protocol, state, number, worker.at)
    crashed = at(At.IDLE)
    yield Step("crashes", _orphan(crashed) if worker.at is At.SENT else crashed, is_fault=True)


def _after_the_act(
    protocol: Protocol, state: State, number: int, stands: At
) -> Iterator[Step[State]]:
    at = partial(_at, state, number)
    match stands:
        case At.SENT:
            yield Step("'s request arrives", _arrive(protocol, at(At.TAKEN)))
            yield Step("'s request is lost", at(At.IN_DOUBT), is_fault=True)
            yield Step("gives up waiting", _orphan(at(At.IN_DOUBT)), is_fault=True)
        case At.TAKEN:
            yield Step("gets the evidence", at(At.KNOWS_YES))
            yield Step("'s reply is lost", at(At.IN_DOUBT), is_fault=True)
        case At.KNOWS_NO:
            is_open = protocol.keeps_doubt and state.row is Row.REPEATING
            before = Row.UNKNOWN if is_open else Row.READY
            yield Step("releases it", _write(protocol, state, number, before))
        case At.IN_DOUBT:
            doubtful = Row.UNKNOWN if protocol.has_intent else Row.READY
            yield Step("writes unknown", _write(protocol, state, number, doubtful))
        case At.MISSED:
            yield _intend(protocol, state, number, Row.SENDING)
        case _:
            yield Step("marks it done", _write(protocol, state, number, Row.DONE))


def _claim(state: State, number: int) -> Iterator[Step[State]]:
    if state.row in (Row.HELD, Row.DONE):
        return
    is_held = any(worker.is_current for worker in state.workers)
    stale = tuple(worker._replace(is_current=False) for worker in state.workers)
    after = _at(state._replace(workers=stale), number, At.CLAIMED, is_current=True)
    yield Step("takes it over from a live worker" if is_held else "claims it", after, is_held)


def _decide(protocol: Protocol, state: State, number: int) -> Iterator[Step[State]]:
    if not protocol.has_intent:
        yield Step("is about to send", _at(state, number, At.CLEARED))
    elif state.row is Row.READY:
        # The target counts from the first request it got, whatever we believe.
        is_first = not state.effects and not state.orphans
        anew = state._replace(window=Window.OPEN if is_first else state.window)
        yield _intend(protocol, anew, number, Row.SENDING)
    elif protocol.on_doubt is Doubt.ASK:
        if not (protocol.waits and state.can_arrive):
            found = At.FOUND if state.effects else At.MISSED
            yield Step(f"asks: {found.name.lower()}", _at(state, number, found))
    elif protocol.on_doubt is Doubt.SAME_KEY and not _is_too_late(protocol, state):
        yield _intend(protocol, state, number, Row.REPEATING)
    else:
        yield Step("holds it for the operator", _write(protocol, state, number, Row.HELD))


def _is_too_late(protocol: Protocol, state: State) -> bool:
    return protocol.minds_window and state.window is not Window.OPEN


def _intend(protocol: Protocol, state: State, number: int, row: Row) -> Step[State]:
    if protocol.is_fenced and not state.workers[number].is_current:
        return Step("finds its claim lost", _at(state, number, At.IDLE))
    armed = _at(state, number, At.ARMED)
    return Step("commits the intent", armed._replace(row=row, can_arrive=protocol.has_deadline))


def _act(protocol: Protocol, state: State, number: int) -> Iterator[Step[State]]:
    if protocol.is_synchronous:
        yield Step("sends", _arrive(protocol, _at(state, number, At.TAKEN)))
    else:
        yield Step("sends", _at(state, number, At.SENT))
    yield Step("is refused before it sends", _at(state, number, At.KNOWS_NO), is_fault=True)


def _world_steps(protocol: Protocol, state: State) -> Iterator[Step[State]]:
    if state.orphans:
        # Two stand for two or more, so that after one of them two may be left.
        for left in {state.orphans - 1, state.orphans} - {0 if state.orphans > 1 else 1}:
            fewer = state._replace(orphans=left)
            yield Step("an orphaned request arrives", _arrive(protocol, fewer))
            yield Step("an orphaned request is lost", fewer, is_fault=True)
    if state.can_arrive:
        late = _nothing_arrives_any_more(state)
        yield Step("the deadline and the settle time pass", late._replace(can_arrive=False))
    if protocol.key_expires and state.window is Window.OPEN and state.row is not Row.READY:
        yield Step("the key's window is about to close", state._replace(window=Window.CLOSING))
    if state.window is Window.CLOSING:
        late = _nothing_arrives_any_more(state)
        yield Step("the margin passes", late._replace(window=Window.CLOSED))
    if state.window is Window.CLOSED:
        yield Step("the target forgets the key", state._replace(window=Window.FORGOTTEN))


def _nothing_arrives_any_more(state: State) -> State:
    gave_up = {At.ARMED: At.KNOWS_NO, At.CLEARED: At.KNOWS_NO, At.SENT: At.IN_DOUBT}
    workers = tuple(
        worker._replace(at=gave_up.get(worker.at, worker.at)) for worker in state.workers
    )
    return state._replace(workers=workers, orphans=0)


def _arrive(protocol: Protocol, state: State) -> State:
    remembers = protocol.on_doubt is Doubt.SAME_KEY and state.window is not Window.FORGOTTEN
    if remembers and state.effects:
        return state
    return state._replace(effects=min(2, state.effects + 1))


def _orphan(state: State) -> State:
    return state._replace(orphans=min(2, state.orphans + 1))


def _write(protocol: Protocol, state: State, number: int, row: Row) -> State:
    """One write to the row, and the claim ends; refused when the claim is stale."""
    is_lost = protocol.is_fenced and not state.workers[number].is_current
    freed = _at(state, number, At.IDLE)
    return freed if is_lost else freed._replace(row=row)


def _at(state: State, number: int, at: At, *, is_current: bool | None = None) -> State:
    workers = list(state.workers)
    keeps = workers[number].is_current if is_current is None else is_current
    workers[number] = Worker(at, keeps and at is not At.IDLE)
    return state._replace(workers=tuple(workers))


SEND_THEN_MARK = Protocol(
    "send, then mark", Doubt.SEND, has_intent=False, is_fenced=False, checks_fence=False
)
FENCED_ONLY = Protocol(
    "send, then mark, fenced writes", Doubt.SEND, has_intent=False, checks_fence=False
)
INTENT_AND_KEY = Protocol("intent + key for ever", Doubt.SAME_KEY, checks_fence=False)
SYNCHRONOUS_LOOKUP = Protocol(
    "intent + lookup, nothing in flight", Doubt.ASK, waits=False, is_synchronous=True
)
EAGER_LOOKUP = Protocol("intent + lookup at once", Doubt.ASK, waits=False)
PATIENT_LOOKUP = Protocol("intent + lookup after waiting", Doubt.ASK, checks_fence=False)
NEVER_REPEAT = Protocol("intent + never repeat", Doubt.HOLD, checks_fence=False)
KEY_PAST_ITS_WINDOW = Protocol(
    "same key past its window", Doubt.SAME_KEY, key_expires=True, minds_window=False
)
REFUSAL_TAKEN_FOR_PROOF = Protocol(
    "refused repeat taken for a proof", Doubt.SAME_KEY, key_expires=True, keeps_doubt=False
)
OURS = (
    Protocol("acts.py, target honours keys", Doubt.SAME_KEY, key_expires=True),
    Protocol("acts.py, target can be asked", Doubt.ASK),
    Protocol("acts.py, target can do neither", Doubt.HOLD),
)
UNSAFE = (
    SEND_THEN_MARK,
    FENCED_ONLY,
    SYNCHRONOUS_LOOKUP,
    EAGER_LOOKUP,
    KEY_PAST_ITS_WINDOW,
    REFUSAL_TAKEN_FOR_PROOF,
)
SAFE = (INTENT_AND_KEY, PATIENT_LOOKUP, NEVER_REPEAT, *OURS)


def main() -> None:
    """Check everything and print the table, with a trace for each protocol that does harm."""
    acts = [(p.name, n, check(model(p, n))) for p in (*UNSAFE, *SAFE) for n in (2, 3)]
    batches = [(p.name, n, check(batch_once.model(p, n))) for p in batch_once.ALL for n in (2, 3)]
    say = sys.stdout.write
    say(f"{'protocol':<40}{'workers':>8}{'states':>9}{'seconds':>9}  verdict\n")
    for name, workers, found in (*acts, *batches):
        said = found.broken or "holds"
        say(f"{name:<40}{workers:>8}{found.states:>9,}{found.seconds:>9.2f}  {said}\n")
    for name, workers, found in (*acts, *batches):
        if found.broken and workers == 2:
            say(f"\n{name}: {found.broken}\n")
            say("".join(f"  {n:>2}. {label}\n" for n, label in enumerate(found.trace, 1)))


if __name__ == "__main__":
    main()

"""What each event does to a job in each state: it moves by an edge, or nothing changes at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

import pytest

from dragoman.core.errors import DataRefused
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.job import EDGES, Held, Kind, Reason, Retry, State
from dragoman.store import jobs
from dragoman.work.finish import Finished, finish
from tests import stand
from tests.store.kernel import (
    A_CLAIM_IS_STALE_S,
    PIPELINES,
    Crew,
    advance,
    apply,
    bring,
    check_books,
    claim,
    crew_of,
    enqueue,
    look,
    mark,
    move,
    new_job,
    started,
)

Act = Callable[[Crew, Held], Awaitable[object]]
COMPANION_KEY = 900
STALE = Failure(FailureClass.STALE_CLAIM, "stale_claim_requeued")
GHOST = UUID(int=99)  # a worker that never had a lease


def moves_to(became: State, kind: Kind) -> Act:
    """The move that a holder makes who believes the state it is given."""

    async def act(crew: Crew, held: Held) -> object:
        return await apply(crew, move(held, became, kind))

    return act


async def enqueues(crew: Crew, held: Held) -> object:
    """Enqueue the same unit again."""
    return await enqueue(crew, new_job(unit=held.unit, queue_key=held.queue_key))


async def claims(crew: Crew, held: Held) -> object:
    """Claim whatever its queue holds."""
    return await claim(crew, held.queue_key)


async def submits(crew: Crew, held: Held) -> object:
    """Mark the job with a batch that was made for another one."""
    await enqueue(crew, new_job(queue_key=COMPANION_KEY))
    (companion,) = await claim(crew, COMPANION_KEY)
    batch = await started(crew, companion)
    return await mark(crew, batch, companion, held)


async def cancels(crew: Crew, held: Held) -> object:
    """Cancel as the operator."""
    return await jobs.cancel_jobs(crew.operator, crew.actor, [held.id])


async def notes(crew: Crew, held: Held) -> object:
    """Append an event that moves nothing."""
    async with crew.worker.transaction("note") as tx:
        note = jobs.Note(held.id, held.token, Kind.LATE_RESULT, Reason.LOST_LEASE)
        return await jobs.note_events(tx, crew.actor, [note])


async def calls(crew: Crew, held: Held) -> object:
    """Say that a model is about to be called."""
    note = jobs.Note(held.id, held.token, Kind.CALLING, Reason.NOT_YET_DUE, b'{"calls":1}')
    return await jobs.begin_calls(crew.worker, crew.actor, [note])


async def wakes(crew: Crew, held: Held) -> object:
    """Wake a job that waits for its deliveries."""
    async with crew.worker.transaction("wake") as tx:
        return await jobs.wake_jobs(tx, [held.id], Reason.NONE)


async def promotes(crew: Crew, held: Held) -> object:
    """Make ready what is due."""
    async with crew.worker.transaction("promote") as tx:
        return await tx.count("job/promote_due", most=1000, is_respected=True)


async def sweeps(crew: Crew, held: Held) -> object:
    """Take back what nobody holds any more, as the sweeper does."""
    timeouts = {"plain": float(A_CLAIM_IS_STALE_S)}
    stale = [one for one in await jobs.find_stale(crew.worker, timeouts, 100) if one.id == held.id]
    return await finish(
        crew.worker, crew.actor, PIPELINES, [Finished(one, Retry(STALE)) for one in stale]
    )


@dataclass(frozen=True)
class Rule:
    """Where an event leads from each state, and the one event row that it writes."""

    act: Act
    leads: Mapping[State, State]
    writes: Kind


HELD = (State.PROCESSING, State.BATCH_SUBMITTED)
LIVE = (State.QUEUED, *HELD)
RULES = {
    "enqueue": Rule(enqueues, {}, Kind.ENQUEUED),
    "claim": Rule(claims, {State.QUEUED: State.PROCESSING}, Kind.CLAIMED),
    "submit": Rule(submits, {State.PROCESSING: State.BATCH_SUBMITTED}, Kind.SUBMITTED),
    "call": Rule(calls, {State.PROCESSING: State.PROCESSING}, Kind.CALLING),
    "complete": Rule(
        moves_to(State.COMPLETED, Kind.COMPLETED),
        dict.fromkeys(HELD, State.COMPLETED),
        Kind.COMPLETED,
    ),
    "bury": Rule(
        moves_to(State.FAILED, Kind.FAILED), dict.fromkeys(HELD, State.FAILED), Kind.FAILED
    ),
    "retry": Rule(
        moves_to(State.QUEUED, Kind.RETRIED), dict.fromkeys(HELD, State.QUEUED), Kind.RETRIED
    ),
    "cancel": Rule(cancels, dict.fromkeys(LIVE, State.CANCELED), Kind.CANCELED),
    "note": Rule(notes, {state: state for state in State}, Kind.LATE_RESULT),
    "wake": Rule(wakes, {}, Kind.ENQUEUED),
    "promote": Rule(promotes, {}, Kind.ENQUEUED),
    "sweep": Rule(sweeps, {State.PROCESSING: State.QUEUED}, Kind.STALE_REQUEUED),
}


async def _put_to(database: str, rule: Rule, state: State, key: int) -> None:
    async with crew_of(database) as crew:
        held = await bring(crew, state, key, worker=GHOST)
        stand.move_clock(database, A_CLAIM_IS_STALE_S + 1)
        before = look(database, held.id)
        await rule.act(crew, held)
        after = look(database, held.id)
    became = rule.leads.get(state)
    if became is None and rule.act is cancels:
        assert after.kinds == [*before.kinds, Kind.CANCEL_REFUSED]
        assert after.state == before.state
    elif became is None:
        assert after == before
    else:
        assert after.kinds == [*before.kinds, rule.writes]
        assert (after.state, state == became or (state, became) in EDGES) == (became, True)


@pytest.mark.req("R038", "R110", "R227", "R252", "R261")
@pytest.mark.parametrize("name", RULES)
def test_an_event_moves_a_job_by_an_edge_or_not_at_all(shared: str, name: str) -> None:
    """From each state an event leads where the table says, and else changes nothing."""
    for number, state in enumerate(State):
        key = 1000 + 10 * list(RULES).index(name) + number
        asyncio.run(_put_to(shared, RULES[name], state, key))
    check_books(shared)


@pytest.mark.parametrize("became", [State.PROCESSING, State.BATCH_SUBMITTED])
def test_a_move_cannot_hand_a_claim_on(database: str, became: State) -> None:
    """What lets go of a job cannot leave it held: the guard refuses, and nothing has changed."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, 5)
            before = look(database, held.id)
            with pytest.raises(DataRefused) as refused:
                await apply(crew, move(held, became, Kind.DEFERRED, ready=False))
            assert refused.value.constraint == "standing_claim"
            assert look(database, held.id) == before

    asyncio.run(scenario())


@pytest.mark.req("R037")
@pytest.mark.req("R109")
def test_cancel_is_told_apart_from_a_refusal(database: str) -> None:
    """Cancel answers with what it canceled; on a final job it only says so on the chain."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            live = [await bring(crew, state, 5) for state in LIVE]
            final = [
                await bring(crew, s, 5) for s in (State.COMPLETED, State.FAILED, State.CANCELED)
            ]
            every = [one.id for one in live + final]
            assert await jobs.cancel_jobs(crew.operator, crew.actor, every) == {
                one.id for one in live
            }
        for one in live:
            seen = look(database, one.id)
            assert (seen.state, seen.kinds[-1]) == (State.CANCELED, Kind.CANCELED)
        for one in final:
            seen = look(database, one.id)
            assert (seen.state, seen.kinds[-1]) == (one.state, Kind.CANCEL_REFUSED)

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R224")
@pytest.mark.parametrize("state", list(State))
def test_a_claim_stands_on_the_row_exactly_while_it_is_held(shared: str, state: State) -> None:
    """claimed_by and claimed_at mean processing; a token means processing or out with a batch."""

    async def scenario() -> Held:
        async with crew_of(shared) as crew:
            return await bring(crew, state, 2000 + list(State).index(state))

    row = look(shared, asyncio.run(scenario()).id).standing
    is_processing = state is State.PROCESSING
    assert [row[name] is not None for name in ("claimed_by", "claimed_at", "claim_token")] == [
        is_processing,
        is_processing,
        state in HELD,
    ]


def test_a_retry_counts_an_attempt_and_a_failure(database: str) -> None:
    """Counters, failure and times move with the job; the next stage starts anew."""
    failure = '{"class":"NETWORK_TIMEOUT","code":"http_503"}'

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await enqueue(crew, new_job(queue_key=5, queue_keys=[5, 6]))
            (held,) = await claim(crew, 5)
            again = {"attempt_add": 1, "failure": failure, "reason": Reason.FAILURE}
            await apply(crew, move(held, State.QUEUED, Kind.RETRIED, **again))
            first = look(database, held.id).standing
            (held,) = await claim(crew, 5)
            await apply(crew, move(held, State.QUEUED, Kind.RETRIED, **again))
            second = look(database, held.id).standing
            (held,) = await claim(crew, 5)
            assert held.attempt == 3
            await advance(crew, held)
        third = look(database, held.id).standing
        counted = ("attempt_count", "stage_attempts", "stage", "queue_key")
        assert [[row[name] for name in counted] for row in (first, second, third)] == [
            [1, 1, 0, 5],
            [2, 2, 0, 5],
            [2, 0, 1, 6],
        ]
        assert first["first_failure_at"] == second["first_failure_at"] < second["last_failure_at"]
        assert second["last_failure"] == json.loads(failure)
        assert third["first_failure_at"] is None

    asyncio.run(scenario())
    check_books(database)


def test_each_job_of_a_chunk_finishes_at_its_own_time(database: str) -> None:
    """The clock is read for each row of a chunk, so no two jobs share a moment."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await enqueue(crew, *(new_job() for _ in range(20)))
            held = await claim(crew, 77, 20)
            moved = await apply(crew, *(move(one, State.COMPLETED, Kind.COMPLETED) for one in held))
            assert len(set(moved.values())) == 20

    asyncio.run(scenario())
    check_books(database)


def test_wake_reaches_only_those_who_wait_for_it(database: str) -> None:
    """A job that was put off for another reason is not woken."""

    async def scenario() -> list[int]:
        async with crew_of(database) as crew:
            woken = []
            for reason in (Reason.AWAITING_DELIVERIES, Reason.OVERFLOW):
                held = await bring(crew, State.PROCESSING, 5)
                later = {"ready": False, "delay_s": 60.0, "reason": reason}
                await apply(crew, move(held, State.QUEUED, Kind.DEFERRED, **later))
                async with crew.worker.transaction("wake") as tx:
                    woken.append(await jobs.wake_jobs(tx, [held.id], Reason.AWAITING_DELIVERIES))
            return woken

    assert asyncio.run(scenario()) == [1, 0]
    check_books(database)


@pytest.mark.req("R265")
def test_two_sweepers_count_one_attempt(database: str) -> None:
    """Both find the same stale claim; one of them requeues it, and it burns one attempt."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, 5, worker=GHOST)
            stand.move_clock(database, A_CLAIM_IS_STALE_S + 1)
            stale = await jobs.find_stale(crew.worker, {"plain": 600.0}, 10)
            for found in (stale, stale):
                done = [Finished(one, Retry(STALE)) for one in found]
                await finish(crew.worker, crew.actor, PIPELINES, done)
        seen = look(database, held.id)
        assert (seen.standing["attempt_count"], seen.standing["claim_token"]) == (1, None)
        assert seen.kinds.count(Kind.STALE_REQUEUED) == 1

    asyncio.run(scenario())


@pytest.mark.req("R264", "R266", "R250")
def test_what_is_stale_and_what_is_not(database: str) -> None:
    """A claim is stale when its holder's lease is gone and it is strictly older than the time-out.

    A claim of a living worker is not, nor is an item of an open batch, however old it is. The last
    attempt's job fails, with the words of the contract.
    """

    async def scenario() -> None:
        async with crew_of(database) as crew:
            young = await bring(crew, State.PROCESSING, 5, worker=GHOST)
            stand.move_clock(database, A_CLAIM_IS_STALE_S - 5)
            timeouts = {"plain": float(A_CLAIM_IS_STALE_S)}
            assert await jobs.find_stale(crew.worker, timeouts, 10) == []
            stand.move_clock(database, 6)
            (found,) = await jobs.find_stale(crew.worker, timeouts, 10)
            assert replace(found, routing={}) == replace(young, routing={})
            living = await bring(crew, State.PROCESSING, 6)
            packed = await bring(crew, State.PROCESSING, 6, worker=GHOST)
            await started(crew, packed)
            out = await bring(crew, State.BATCH_SUBMITTED, 6, worker=GHOST)
            stand.move_clock(database, A_CLAIM_IS_STALE_S + 60)
            (found,) = await jobs.find_stale(crew.worker, timeouts, 10)
            assert found.id == young.id
            for expected in (State.QUEUED, State.FAILED):
                await sweeps(crew, found)
                seen = look(database, found.id)
                assert (seen.state, seen.standing["last_failure"]["code"]) == (
                    expected,
                    "stale_claim_requeued",
                )
                if expected is State.QUEUED:
                    assert [one.id for one in await claim(crew, 5, worker=GHOST)] == [found.id]
                    stand.move_clock(database, A_CLAIM_IS_STALE_S + 60)
            untouched = {living.id, packed.id, out.id}
            assert all(look(database, job).state in HELD for job in untouched)

    asyncio.run(scenario())
    check_books(database)

"""Claiming: what is due, in order, within limits, and by one holder at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from dragoman.core.ids import JobId, uuid7, uuid7s
from dragoman.core.job import Kind, Reason, State
from dragoman.store import jobs, queues
from tests import postgres, stand
from tests.store.kernel import (
    KEY,
    Crew,
    apply,
    bring,
    check_books,
    claim,
    crew_of,
    enqueue,
    force,
    freeze,
    look,
    move,
    new_job,
)


async def some(crew: Crew, count: int, **changed: object) -> list[JobId]:
    """So many new jobs, in the order in which they were made."""
    made = [new_job(**changed) for _ in range(count)]
    for job in made:
        await enqueue(crew, job)
    return [job.id for job in made]


def ids(held: Sequence) -> set[JobId]:
    """Which jobs these are."""
    return {one.id for one in held}


@pytest.mark.req("R260", "R235", "R118")
def test_a_claim_hands_out_everything_its_holder_needs(database: str) -> None:
    """One statement sets state, token, holder and time; the holding says the rest."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            job = new_job(max_attempts=4, group_key="group", account="second")
            await enqueue(crew, job)
            fresh = look(database, job.id)
            assert (fresh.standing["attempt_count"], fresh.standing["provider_batch_id"]) == (
                0,
                None,
            )
            (held,) = await claim(crew, KEY)
        seen = look(database, job.id)
        assert seen.kinds == [Kind.ENQUEUED, Kind.CLAIMED]
        assert seen.standing["claim_token"] == str(held.token) == str(seen.events[-1].token)
        assert seen.standing["claimed_by"] == str(crew.actor) == str(seen.events[-1].actor)
        assert datetime.fromisoformat(seen.standing["claimed_at"]) == seen.events[-1].at
        assert (held.state, held.pipeline, held.unit, held.unit_lock) == (
            State.PROCESSING,
            "plain",
            job.unit,
            job.unit_lock,
        )
        assert (held.stage, held.attempt, held.max_attempts, held.free_requeues) == (0, 1, 4, 0)
        assert (held.group_key, held.account, held.mode, held.routing, held.queue_key) == (
            "group",
            "second",
            job.mode,
            job.routing,
            KEY,
        )

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R267")
def test_an_attempt_is_a_failure_and_not_a_claim(database: str) -> None:
    """A claim leaves the count alone; the retry after it adds one."""

    async def scenario() -> list[int]:
        counts = []
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            counts.append(look(database, held.id).standing["attempt_count"])
            await apply(crew, move(held, State.QUEUED, Kind.RETRIED, attempt_add=1))
            counts.append(look(database, held.id).standing["attempt_count"])
        return counts

    assert asyncio.run(scenario()) == [0, 1]


@pytest.mark.req("R251")
def test_the_order_is_priority_then_age_then_id(database: str) -> None:
    """Priority first; then who came first; then the smaller id."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            late, early, urgent = await some(crew, 3)
            twins = sorted(await some(crew, 2))
            noon = datetime.now(UTC)
            for job, at, priority in (
                (late, noon + timedelta(hours=2), 0),
                (early, noon, 0),
                (urgent, noon + timedelta(hours=9), 3),
                (twins[0], noon + timedelta(hours=1), 0),
                (twins[1], noon + timedelta(hours=1), 0),
            ):
                force(database, "sort_at = %s, priority = %s where id = %s", at, priority, job)
            order = [(await claim(crew, KEY))[0].id for _ in range(5)]
            assert order == [urgent, early, *twins, late]
            assert await claim(crew, KEY) == []

    asyncio.run(scenario())


@pytest.mark.req("R255", "R256", "R262", "R129")
def test_a_claim_takes_at_most_its_limit_and_leaves_the_rest_alone(database: str) -> None:
    """Of n + 1 jobs n are claimed, the oldest; the last one's row is untouched."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            made = await some(crew, 4)
            before = look(database, made[3])
            assert ids(await claim(crew, KEY, 3)) == set(made[:3])
            assert look(database, made[3]) == before

    asyncio.run(scenario())
    check_books(database)


def test_each_queue_gets_its_share(database: str) -> None:
    """One full queue does not crowd out the others; one that is not named is not read."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            first, second = await some(crew, 5, queue_key=1), await some(crew, 5, queue_key=2)
            await some(crew, 5, queue_key=3)
            held = await jobs.claim_jobs(crew.worker, crew.actor, [1, 2], 4, share=2)
            assert ids(held) == {*first[:2], *second[:2]}
            held = await jobs.claim_jobs(crew.worker, crew.actor, [1, 2], 3, share=3)
            assert ids(held) == set(first[2:])

    asyncio.run(scenario())


@pytest.mark.req("R259", "R240", "R102")
def test_a_job_is_due_at_its_very_moment(database: str) -> None:
    """A microsecond before `not_before_at` it waits; at that moment it is claimed."""
    noon = datetime.now(UTC)

    async def scenario() -> None:
        async with crew_of(database) as crew:
            freeze(database, noon)
            job = new_job(delay_s=60.0)
            await enqueue(crew, job)
            freeze(database, noon + timedelta(seconds=60, microseconds=-1))
            assert await claim(crew, KEY) == []
            assert await queues.count_due(crew.worker, [KEY]) == 0
            freeze(database, noon + timedelta(seconds=60))
            assert await queues.count_due(crew.worker, [KEY]) == 1
            assert ids(await claim(crew, KEY)) == {job.id}

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R257", "R258")
def test_what_overflows_waits_without_blame(database: str) -> None:
    """An overflowed job is queued with a short wait: no claim, no attempt, no failure."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            later = {"ready": False, "delay_s": 60.0, "reason": Reason.OVERFLOW}
            await apply(crew, move(held, State.QUEUED, Kind.DEFERRED, **later))
            row = look(database, held.id).standing
            assert (row["state"], row["reason"], row["attempt_count"]) == ("queued", 6, 0)
            assert (row["claim_token"], row["claimed_by"], row["last_failure"]) == (None,) * 3
            assert await claim(crew, KEY) == []
            stand.move_clock(database, 61)
            assert ids(await claim(crew, KEY)) == {held.id}

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R261")
def test_two_claimers_never_hold_one_job(database: str) -> None:
    """What one transaction has picked, another passes over; no job goes twice."""

    async def scenario() -> None:
        async with crew_of(database) as crew, stand.cell_of(database) as other:
            made = await some(crew, 6)
            async with crew.worker.transaction("claim") as tx:
                ours = await tx.tuples(
                    "job/claim_jobs",
                    keys=[KEY],
                    share=3,
                    most=3,
                    tokens=uuid7s(3),
                    seen=[],
                    worker=crew.actor,
                    kind=Kind.CLAIMED,
                )
                theirs = await jobs.claim_jobs(other, uuid7(), [KEY], 6)
            assert {row[0] for row in ours} == set(made[:3])
            assert ids(theirs) == set(made[3:])
            made = await some(crew, 3)
            both = await asyncio.gather(
                jobs.claim_jobs(crew.worker, crew.actor, [KEY], 2),
                jobs.claim_jobs(other, uuid7(), [KEY], 2),
            )
            assert sum(map(len, both)) == 3
            assert ids(both[0]) | ids(both[1]) == set(made)

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R052")
@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.req("R128")
def test_a_unit_that_is_busy_elsewhere_is_passed_over(database: str, most: int) -> None:
    """What another session has locked stays as it is, and the next ones are claimed."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            made = [new_job() for _ in range(6)]
            for job in made:
                await enqueue(crew, job)
            busy = made[0], made[1]
            before = [look(database, job.id) for job in busy]
            with psycopg.connect(postgres.dsn("dragoman_worker", database)) as elsewhere:
                for job in busy:
                    elsewhere.execute("select pg_advisory_xact_lock(%s)", (job.unit_lock,))
                held = await claim(crew, KEY, most)
                assert ids(held) == {job.id for job in made[2 : 2 + most]}
                assert [look(database, job.id) for job in busy] == before
            assert {job.id for job in busy} <= ids(await claim(crew, KEY, 6))

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R051", "R161")
def test_two_units_of_one_home_do_not_wait_for_each_other(database: str) -> None:
    """The lock's key is the unit's: with one held, the home's other unit is claimed at once."""
    home = UUID(int=7)

    async def scenario() -> None:
        async with crew_of(database) as crew:
            first, second = (new_job(home_id=home) for _ in range(2))
            await enqueue(crew, first, second)
            assert first.unit_lock != second.unit_lock
            async with crew.worker.transaction("hold") as tx:
                await jobs.lock_units(tx, [first.unit_lock])
                held = await jobs.claim_jobs(crew.worker, crew.actor, [KEY], 2)
            assert ids(held) == {second.id}

    asyncio.run(scenario())


def test_what_is_due_is_counted_by_the_claims_own_words(database: str) -> None:
    """Ready and due jobs count; deferred, held, final ones and other queues' do not."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for state in State:
                await bring(crew, state, KEY)
            await some(crew, 2, delay_s=60.0)
            await some(crew, 1, queue_key=KEY + 1)
            assert await queues.count_due(crew.worker, [KEY]) == 1
            stand.move_clock(database, 61)
            assert await queues.count_due(crew.worker, [KEY]) == 3
            assert await queues.count_due(crew.worker, [KEY], most=2) == 2
            assert len(await claim(crew, KEY, 10)) == 3

    asyncio.run(scenario())


def test_promotion_is_bounded(database: str) -> None:
    """One statement makes at most so many jobs ready, the longest due first."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            made = [new_job(delay_s=float(wait)) for wait in (30, 10, 20)]
            await enqueue(crew, *made)
            stand.move_clock(database, 60)
            async with crew.worker.transaction("promote") as tx:
                assert await tx.count("job/promote_due", most=2, is_respected=True) == 2
            ready = [look(database, job.id).standing["ready"] for job in made]
            assert ready == [False, True, True]

    asyncio.run(scenario())


def test_a_claim_that_is_full_leaves_what_is_due_to_the_sweeper(database: str) -> None:
    """A backlog costs no look at what waits; a claim with room left makes it ready and takes it."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            (late,) = await some(crew, 1, delay_s=30.0)
            await some(crew, 3)
            stand.move_clock(database, 60)
            assert late not in ids(await claim(crew, KEY, 2))
            assert not look(database, late).standing["ready"]
            assert late in ids(await claim(crew, KEY, 2))

    asyncio.run(scenario())

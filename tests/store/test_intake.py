"""How jobs come in: by age or fairly by home, and no more of one home than may wait."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from dragoman.core.errors import QueueFull
from dragoman.core.ids import HomeId, JobId, uuid7
from dragoman.core.job import Kind, State
from dragoman.store import jobs
from dragoman.store.database import Intake
from dragoman.store.intake import check_room, read_intake, set_intake
from tests import stand
from tests.store.kernel import (
    KEY,
    Crew,
    apply,
    check_books,
    claim,
    crew_of,
    enqueue,
    move,
    new_job,
)

TICK_S = 900.0


def in_order(database: str, every_s: float | None, most: int = 10_000) -> None:
    """The cell's setting, before any process reads it."""
    with stand.owner(database) as connection:
        connection.execute(
            "update cell set fair_every_s = %s, max_waiting_per_home = %s", (every_s, most)
        )


async def send(crew: Crew, home: UUID, count: int) -> list[JobId]:
    """So many jobs of one home, in one call."""
    new = [new_job(home_id=HomeId(home)) for _ in range(count)]
    assert len(await enqueue(crew, *new)) == count
    return [job.id for job in new]


async def claimed(crew: Crew, most: int) -> list[JobId]:
    """Who comes next, in that order."""
    held = {job.id for job in await claim(crew, KEY, most)}
    rows = stand.rows(crew.database, "select id from standing order by sort_at, id")
    return [row[0] for row in rows if row[0] in held]


def test_a_small_home_does_not_wait_behind_a_big_one(database: str) -> None:
    """A thousand wait when ten of another home come: those are claimed in turn with the first."""
    in_order(database, TICK_S)
    big, small = uuid4(), uuid4()

    async def scenario() -> None:
        async with crew_of(database) as crew:
            many = await send(crew, big, 1000)
            stand.move_clock(database, 60)
            few = await send(crew, small, 10)
            first = await claimed(crew, 20)
            assert first == [job for pair in zip(many[:10], few, strict=True) for job in pair]
            assert await claimed(crew, 20) == many[10:30]

    asyncio.run(scenario())
    check_books(database)


def test_by_age_the_small_home_waits(database: str) -> None:
    """Without `fair` the thousand go first, and each stands where it was created."""
    in_order(database, None)

    async def scenario() -> None:
        async with crew_of(database) as crew:
            many = await send(crew, uuid4(), 30)
            await send(crew, uuid4(), 10)
            assert set(await claimed(crew, 30)) == set(many)

    asyncio.run(scenario())
    assert stand.rows(database, "select from standing where sort_at <> created_at") == []


def test_a_homes_own_order_is_kept(database: str) -> None:
    """Whatever was claimed in between: what a home sends later stands behind what still waits."""
    in_order(database, TICK_S)
    home = uuid4()

    async def scenario() -> None:
        async with crew_of(database) as crew:
            sent = await send(crew, home, 5)
            assert await claimed(crew, 2) == sent[:2]
            stand.move_clock(database, 3600)
            sent += await send(crew, home, 3) + await send(crew, home, 1)
            assert await claimed(crew, 99) == sent[2:]

    asyncio.run(scenario())
    told = [row[0] for row in stand.rows(database, "select sort_at from standing order by 1")]
    assert all((b - a).total_seconds() >= TICK_S for a, b in pairwise(told))


def test_three_homes_take_turns(database: str) -> None:
    """Of any nine that are claimed in a row each of three homes has three."""
    in_order(database, TICK_S)
    homes = [uuid4() for _ in range(3)]

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for home, count in zip(homes, (50, 20, 9), strict=True):
                await send(crew, home, count)
            for _ in range(3):
                await claimed(crew, 9)
                rows = stand.rows(
                    database,
                    "select count(*) from standing where state = 'processing' group by home_id",
                )
                assert len({row[0] for row in rows}) == 1
                assert len(rows) == 3

    asyncio.run(scenario())


def test_a_home_that_has_been_served_begins_anew(database: str) -> None:
    """Nothing of it waits: its next job stands at the present, not behind its own past."""
    in_order(database, TICK_S)
    home = uuid4()

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await send(crew, home, 50)
            held = await claim(crew, KEY, 50)
            await apply(crew, *(move(job, State.CANCELED, Kind.CANCELED) for job in held))
            await send(crew, home, 1)

    asyncio.run(scenario())
    late = "select from standing where state = 'queued' and sort_at > clock()"
    assert stand.rows(database, late) == []


def test_a_home_has_a_bound(database: str) -> None:
    """Up to its bound it may send; beyond it the refusal is typed, and other homes go on."""
    in_order(database, None, most=10)
    home = uuid4()

    async def scenario() -> None:
        async with crew_of(database) as crew:

            async def ask(*homes: UUID) -> None:
                async with crew.orchestrator.transaction("read") as tx:
                    await check_room(tx, homes)

            await ask(*[home] * 10)
            with pytest.raises(QueueFull):
                await ask(*[home] * 11)
            await send(crew, home, 8)
            await ask(home, home, *[uuid4()] * 10)
            with pytest.raises(QueueFull) as refused:
                await ask(home, home, home)
            assert "10 jobs waiting" in str(refused.value)
            assert str(home) not in str(refused.value)
            await claim(crew, KEY, 3)  # what is claimed waits no more
            await ask(*[home] * 5)

    asyncio.run(scenario())


def test_a_deferred_job_counts_as_waiting(database: str) -> None:
    """A home cannot pass its bound by sending for later."""
    in_order(database, None, most=2)
    home = HomeId(uuid4())

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await enqueue(crew, *(new_job(home_id=home, delay_s=3600.0) for _ in range(2)))
            async with crew.orchestrator.transaction("read") as tx:
                with pytest.raises(QueueFull):
                    await check_room(tx, [home])

    asyncio.run(scenario())


def test_the_setting_is_the_operators_and_is_recorded_once(database: str) -> None:
    """A change is written with its actor; setting the same again is none."""
    actor, fair = uuid7(), Intake(TICK_S, 500)

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for expected in (True, False):
                async with crew.operator.transaction("set") as tx:
                    assert await set_intake(tx, actor, fair) is expected
            async with crew.orchestrator.transaction("read") as tx:
                assert await read_intake(tx) == fair

    asyncio.run(scenario())
    told = stand.rows(database, "select actor, verb, subject, facts from change_history")
    assert [row[:3] for row in told] == [(None, "set", "intake")]
    assert told[0][3]["fair_every_s"] == TICK_S


def test_enqueue_by_age_asks_for_nothing_more(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `fair` a second enqueue is one statement, as it was before there was an order."""
    asked: list[str] = []
    tuples, fetch = jobs.Tx.tuples, jobs.Tx.fetch

    async def noted(tx: jobs.Tx, name: str, *given: object, **params: object):
        asked.append(name)
        return await tuples(tx, name, *given, **params)  # type: ignore[arg-type]

    async def fetched(tx: jobs.Tx, kind: type, name: str, *given: object, **params: object):
        asked.append(name)
        return await fetch(tx, kind, name, *given, **params)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs.Tx, "tuples", noted)
    monkeypatch.setattr(jobs.Tx, "fetch", fetched)

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for _ in range(2):
                await send(crew, uuid4(), 2)

    asyncio.run(scenario())
    assert asked == ["intake/read_intake", "job/enqueue_jobs", "job/enqueue_jobs"]

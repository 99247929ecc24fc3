"""Scheduled roles: whose tick it is, when the next one comes, and who may ask for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from dragoman.core.errors import DataRefused, LeaseLost, NotFound
from dragoman.core.ids import uuid7
from dragoman.core.profile import DEFAULT, Profile
from dragoman.store import schedules
from dragoman.store.database import Cell
from dragoman.work.collector import Collector
from dragoman.work.loop import Station
from dragoman.work.schedule import Scheduled
from dragoman.work.submitter import Submitter
from tests import postgres, stand
from tests.eventually import eventually_async
from tests.store.attack import DENIED, connect, refusal
from tests.store.kernel import build_plain, freeze

ROLE = Submitter.role
PACE = replace(DEFAULT, name="test", lease_s=3600, idle_s=0.05)
BEGIN = datetime.fromisoformat("2026-03-01T00:00:00+00:00")


@pytest.fixture
def database() -> Generator[str]:
    """A database of one test's own."""
    name = postgres.clone(postgres.template_database(build_plain))
    yield name
    postgres.drop(name)


class Counted(Scheduled):
    """A scheduled role that finds more than a run can take, every time."""

    role = ROLE

    def __init__(self, station: Station) -> None:
        super().__init__(station)
        self.runs = 0

    @property
    def tick_s(self) -> float:
        """The submitter's."""
        return self.station.profile.submitter_every_s

    async def run_once(self) -> int:
        """As much as a run may take, and more is left."""
        self.runs += 1
        return self.station.profile.max_jobs_per_run


class CountedCollector(Counted):
    """The same at the collector's pace."""

    role = Collector.role

    @property
    def tick_s(self) -> float:
        """The collector's."""
        return self.station.profile.collector_every_s


@asynccontextmanager
async def station_of(database: str, profile: Profile = PACE) -> AsyncGenerator[Station]:
    """A process's surroundings."""
    async with stand.station_of(database, {}, profile) as station:
        yield station


@asynccontextmanager
async def operator_of(database: str) -> AsyncGenerator[tuple[Cell, UUID]]:
    """The operator, and who that is."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        yield cell, uuid7()


async def turns_at(database: str, role: Counted, *seconds: int) -> list[int]:
    """How often the role has run after a turn at each of these times."""
    counts = []
    for each in seconds:
        freeze(database, BEGIN + timedelta(seconds=each))
        await role.turn()
        counts.append(role.runs)
    return counts


@pytest.mark.req("R242")
def test_ticks_come_at_900_and_1800_seconds(database: str) -> None:
    """The submitter runs every 900 seconds and the collector every 1,800, not a second sooner."""

    async def scenario() -> None:
        async with station_of(database) as station:
            submitter, collector = Counted(station), CountedCollector(station)
            times = (0, 1, 899, 900, 901, 1799, 1800, 1801, 2700, 3599, 3600)
            assert await turns_at(database, submitter, *times) == [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5]
        async with station_of(database) as station:
            freeze(database, BEGIN)
            collector = CountedCollector(station)
            assert await turns_at(database, collector, *times) == [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3]

    asyncio.run(scenario())


def test_a_late_look_does_not_shift_the_ticks(database: str) -> None:
    """Whoever looks 500 seconds late runs then, and the next tick still comes at its own time."""

    async def scenario() -> None:
        async with station_of(database) as station:
            role = Counted(station)
            assert await turns_at(database, role, 0, 1400, 1799, 1800) == [1, 2, 2, 3]

    asyncio.run(scenario())


def test_missed_ticks_are_one(database: str) -> None:
    """After a day without a process one run comes at once, and the rest of the day is not run."""

    async def scenario() -> None:
        async with station_of(database) as station:
            assert await turns_at(database, Counted(station), 0) == [1]
        async with station_of(database) as station:
            again = Counted(station)
            assert await turns_at(database, again, 86_401, 86_402, 87_299) == [1, 1, 1]
            assert await turns_at(database, again, 87_300) == [2]

    asyncio.run(scenario())


def test_two_processes_do_not_run_one_tick(database: str) -> None:
    """Of eight processes that look at once exactly one takes the tick, each time."""

    async def scenario() -> None:
        async with stand.cell_of(database) as cell:
            await schedules.know_schedule(cell, ROLE, 900)
            for hour in range(5):
                freeze(database, BEGIN + timedelta(hours=24 * 365 + hour))
                taken = await asyncio.gather(*(schedules.take_tick(cell, ROLE) for _ in range(8)))
                assert sum(taken) == 1

    asyncio.run(scenario())


@pytest.mark.req("R221")
def test_what_is_left_over_waits_for_the_next_tick(database: str) -> None:
    """The loop of production finds more than it may take, looks again, and runs no sooner."""

    async def scenario() -> None:
        async with station_of(database, replace(PACE, idle_s=0.001)) as station:
            role, stop, looks = Counted(station), asyncio.Event(), 0
            turn = role.turn

            async def counted() -> int:
                nonlocal looks
                looks += 1
                return await turn()

            role.turn = counted
            running = asyncio.create_task(role.run(stop))
            await eventually_async(lambda: looks > 10)
            assert role.runs == 1
            stand.move_clock(database, 900)
            await eventually_async(lambda: role.runs == 2)
            stop.set()
            await asyncio.wait_for(running, 10)

    asyncio.run(scenario())


def test_a_process_whose_lease_is_over_takes_no_tick(database: str) -> None:
    """It would lose the run that it may not do: the tick stays for another process."""

    async def scenario() -> None:
        async with station_of(database) as station, station_of(database) as other:
            station.line.lost.set()
            with pytest.raises(LeaseLost):
                await Counted(station).turn()
            role = Counted(other)
            await role.turn()
            assert role.runs == 1

    asyncio.run(scenario())


def test_the_profile_is_followed_until_an_operator_sets_a_pace(database: str) -> None:
    """Another profile moves the ticks of the next process; an operator's pace stays."""

    async def pace(profile: Profile) -> schedules.Schedule:
        async with station_of(database, profile) as station:
            await Counted(station).turn()
            (found,) = await schedules.list_schedules(station.cell)
            return found

    async def scenario() -> None:
        slow = replace(PACE, submitter_every_s=7200)
        assert (await pace(slow)).every_s == 7200
        faster = await pace(PACE)
        assert (faster.every_s, faster.is_set) == (900, False)
        assert faster.ran_at
        assert faster.next_at <= faster.ran_at + timedelta(seconds=901)
        async with operator_of(database) as (cell, actor):
            await schedules.set_schedule(cell, actor, ROLE, 60)
        kept = await pace(slow)
        assert (kept.every_s, kept.is_set) == (60, True)
        assert kept.next_at <= faster.next_at

    asyncio.run(scenario())


def test_a_paused_role_takes_no_tick_until_it_is_resumed(database: str) -> None:
    """Paused for a day it does nothing; resumed, the missed ticks count as one."""

    async def scenario() -> None:
        async with station_of(database) as station, operator_of(database) as (cell, actor):
            role = Counted(station)
            await turns_at(database, role, 0)
            await schedules.pause_schedule(cell, actor, ROLE)
            assert await turns_at(database, role, 900, 86_401) == [1, 1]
            await schedules.resume_schedule(cell, actor, ROLE)
            assert await turns_at(database, role, 86_402, 86_403) == [2, 2]

    asyncio.run(scenario())


@pytest.mark.req("R244")
def test_an_operator_has_a_role_run_now(database: str) -> None:
    """It runs once, even paused; its ticks stay where they were, and the chain says who asked."""

    async def scenario() -> UUID:
        async with station_of(database) as station, operator_of(database) as (cell, actor):
            role = Counted(station)
            assert await turns_at(database, role, 0, 100) == [1, 1]
            await schedules.run_now(cell, actor, ROLE)
            await schedules.run_now(cell, actor, ROLE)
            assert (await schedules.list_schedules(cell))[0].is_asked
            assert await turns_at(database, role, 100, 101) == [2, 2]
            assert await turns_at(database, role, 899, 900) == [2, 3]
            await schedules.pause_schedule(cell, actor, ROLE)
            await schedules.run_now(cell, actor, ROLE)
            assert await turns_at(database, role, 901, 902) == [4, 4]
            return actor

    actor = asyncio.run(scenario())
    told = stand.rows(database, "select actor, verb, subject from change order by seq")
    verbs = ["run_now", "run_now", "pause", "run_now"]
    assert told == [(actor, verb, f"schedule {ROLE}") for verb in verbs]


def test_a_run_that_is_asked_for_during_a_run_comes_after_it(database: str) -> None:
    """The wish of somebody who saw the run begin is not swallowed by it."""

    async def scenario() -> None:
        async with station_of(database) as station, operator_of(database) as (cell, actor):
            role = Counted(station)
            await turns_at(database, role, 0)  # began at 0, and its clock stands still since
            await schedules.run_now(cell, actor, ROLE)
            assert await turns_at(database, role, 0, 0) == [2, 2]

    asyncio.run(scenario())


@pytest.mark.req("R244", "R245")
@pytest.mark.parametrize("role", ["worker", "orchestrator", "frontend", "auditor", "eraser"])
def test_nobody_else_asks_for_a_run(database: str, role: str) -> None:
    """The database itself refuses it to every role but the operator, the worker included."""

    async def scenario() -> None:
        async with stand.cell_of(database) as worker:
            await schedules.know_schedule(worker, ROLE, 900)
            assert await schedules.take_tick(worker, ROLE)
        async with stand.cell_of(database, f"dragoman_{role}") as cell:
            with pytest.raises(DataRefused) as refused:
                await schedules.run_now(cell, uuid7(), ROLE)
            assert (refused.value.sqlstate, refused.value.constraint) == DENIED
        async with stand.cell_of(database) as worker:
            assert not await schedules.take_tick(worker, ROLE)

    asyncio.run(scenario())
    assert stand.rows(database, "select from change") == []


def test_a_role_that_never_ran_has_no_schedule_to_change(database: str) -> None:
    """There is no such thing, and nothing is recorded."""

    async def scenario() -> None:
        async with operator_of(database) as (cell, actor):
            for change in (
                schedules.run_now(cell, actor, "rewrite_batch_nobody"),
                schedules.set_schedule(cell, actor, "rewrite_batch_nobody", 60),
                schedules.pause_schedule(cell, actor, "rewrite_batch_nobody"),
                schedules.resume_schedule(cell, actor, "rewrite_batch_nobody"),
            ):
                with pytest.raises(NotFound):
                    await change

    asyncio.run(scenario())
    assert stand.rows(database, "select from change") == []


@pytest.mark.parametrize("every_s", ["0", "-1", "'infinity'", "'nan'"])
def test_a_pace_without_an_end_or_a_beginning_is_refused(database: str, every_s: str) -> None:
    """Whoever writes the row: a tick comes after some time, and it comes."""
    with connect(database) as connection:
        told = refusal(
            connection, f"insert into schedule values ('x', {every_s}, null, false, now())"
        )
    assert told == ("23514", "schedule_every_s_check")

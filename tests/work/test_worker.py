"""The worker: calls that are paid are announced, and what it cannot finish it gives up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from dragoman.core import ports
from dragoman.core.errors import DatabaseError, LeaseLost
from dragoman.core.job import Defer, Held, Outcome
from dragoman.store import jobs, queues, workers
from dragoman.work.loop import Station
from dragoman.work.pipeline import LLMStage, stage_of
from dragoman.work.sweeper import Sweeper
from tests import postgres, stand
from tests.reviews import Desk, second_station, tell

At = Callable[[str, ports.Moment, Callable[[], object]], None]


@pytest.fixture
def once() -> Iterator[At]:
    """Do something the first time that a port is crossed."""

    def install(tag: str, moment: ports.Moment, do: Callable[[], object]) -> None:
        left = [do]

        def hook(seen: str, when: ports.Moment) -> None:
            if (seen, when) == (tag, moment) and left:
                left.pop()()

        ports.install(hook)

    yield install
    ports.install(None)


def meanwhile(story: Coroutine[Any, Any, object]) -> None:
    """Another process does this while ours stands still."""
    other = threading.Thread(target=asyncio.run, args=(story,))
    other.start()
    other.join()


async def cancel(database: str, job: UUID) -> None:
    """An operator cancels a job."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "operator", "test")
        assert await jobs.cancel_jobs(cell, actor, [jobs.JobId(job)]) == {job}


def cut_the_pool(database: str) -> None:
    """Every connection of the worker's pool is gone; its line stays."""
    with psycopg.connect(postgres.dsn(postgres.ADMIN, database)) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and application_name = 'dragoman_worker'",
            (database,),
        )


def test_a_call_is_announced_before_it_is_made(once: At) -> None:
    """When the model is asked, the event that says so is committed, with token and attempt."""
    seen: list[tuple] = []

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        once("work.answer", "before", lambda: seen.extend(desk.events("calling")))
        await desk.work()
        assert seen == [("calling", "none", 1, 1)]
        assert desk.answers() == 1

    tell(story)


def test_a_job_that_was_cancelled_is_not_asked_about_and_costs_its_neighbours_nothing(
    once: At,
) -> None:
    """Cancelled before its call: no call for it, and the other job of the same run goes on."""

    async def story(desk: Desk) -> None:
        first = (await desk.enqueue("a", 1)).job_id
        second = (await desk.enqueue("b", 2, is_rerun=True)).job_id
        await desk.work()
        once("db.claim", "after", lambda: meanwhile(cancel(desk.database, first)))
        await desk.work()
        assert (desk.state(first), desk.state(second)) == ("canceled", "queued")
        assert desk.rows("select job_id, count(*) from review_result group by 1") == [(second, 1)]
        assert desk.answers() == 1
        assert not desk.station.line.lost.is_set()
        assert desk.faults_found() == []

    tell(story)


def test_a_job_that_another_worker_holds_now_is_not_asked_about_by_the_one_before() -> None:
    """Its lease ended while it slept: the new token stands, and the old holder pays nothing."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        stale = await claimed(desk, desk.station)
        desk.later(4000)
        async with second_station(desk) as other:
            await Sweeper(other).run_once()
            assert (await claimed(desk, other)).token != stale.token
            with pytest.raises(LeaseLost):
                await asked(desk, stale)
        assert (desk.events("calling"), desk.answers()) == ([], 0)

    tell(story)


async def asked(desk: Desk, held: Held) -> Outcome:
    """What comes of asking the model about a job that somebody holds, or held."""
    stage = stage_of(desk.station.pipelines, held)
    assert isinstance(stage, LLMStage)
    return await desk.worker._ask(stage, held)


async def claimed(desk: Desk, station: Station) -> Held:
    """The one job as this station's worker holds it."""
    waiting = await queues.open_queues(station.cell, jobs.Mode.ASYNC, ["review"])
    keys = [queue.key for queue in waiting]
    [held] = await jobs.claim_jobs(station.cell, station.line.worker, keys, 1)
    return held


def test_an_answer_that_comes_after_a_cancel_is_dropped(once: At) -> None:
    """Cancel wins in flight: nothing is stored, nobody is told, and the late answer is an event."""

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work()
        once("work.answer", "after", lambda: meanwhile(cancel(desk.database, job)))
        await desk.work(2)
        counts = "select (select count(*) from finding), (select count(*) from delivery)"
        assert (desk.state(job), desk.rows(counts)) == ("canceled", [(0, 0)])
        assert [event[0] for event in desk.events()][-2:] == ["canceled", "late_result"]
        assert desk.faults_found() == []

    tell(story)


def test_a_unit_that_is_being_asked_about_elsewhere_is_put_off() -> None:
    """The lock of its unit is held by another line: no call, and no attempt is burnt."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        [(lock,)] = desk.rows("select unit_lock from standing")
        held = await claimed(desk, desk.station)
        async with second_station(desk) as other, other.line.unit(lock) as is_ours:
            assert is_ours
            assert isinstance(await asked(desk, held), Defer)
        assert (desk.events("calling"), desk.answers()) == ([], 0)

    tell(story)


def test_a_process_does_not_enter_its_own_unit_twice() -> None:
    """A session may take a lock twice; two tasks of one process must not."""

    async def story(desk: Desk) -> None:
        line = desk.station.line
        async with line.unit(1) as first, line.unit(1) as again:
            assert (first, again) == (True, False)
        async with line.unit(1) as anew:
            assert anew

    tell(story)


def test_a_worker_without_its_lease_asks_no_model(once: At) -> None:
    """The lease is lost between the announcement and the call: nothing is paid."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        once("db.calling", "after", desk.station.line.lost.set)
        with pytest.raises(LeaseLost):
            await desk.work()
        assert desk.answers() == 0

    tell(story)


def test_a_worker_that_cannot_write_down_an_outcome_gives_up_its_lease(once: At) -> None:
    """Its connections are cut at the commit: it stops, and another worker takes the job back."""

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work()
        once("db.finish", "before", lambda: cut_the_pool(desk.database))
        with pytest.raises(DatabaseError):
            await desk.work()
        assert desk.state(job) == "processing"
        assert desk.station.line.lost.is_set()
        await workers.stop_worker(desk.station.line.connection, desk.station.line.worker)
        desk.later(31)
        async with second_station(desk) as other:
            await Sweeper(other).run_once()
        assert desk.rows("select state, stage_attempts from standing") == [("queued", 1)]

    tell(story)


def test_it_takes_no_more_than_it_may_work_on_at_once(once: At) -> None:
    """Six jobs wait and four is the limit of the profile: when a call begins, no more are held."""
    held: list[tuple[int]] = []

    async def story(desk: Desk) -> None:
        for version in range(1, 7):
            await desk.enqueue(f"push-{version}", version, is_rerun=True)
        assert await desk.worker.run_once() == 6
        count = "select count(*) from standing where state = 'processing'"
        once("work.answer", "before", lambda: held.extend(desk.rows(count)))
        assert await desk.worker.run_once() == 6
        assert held == [(desk.station.profile.concurrency,)] == [(4,)]

    tell(story)


def test_a_worker_that_is_told_to_stop_gives_back_what_it_has_not_begun(once: At) -> None:
    """Stopped at its first call: that one ends as usual, the others wait as if nobody had come."""

    async def story(desk: Desk) -> None:
        for version in range(1, 4):
            await desk.enqueue(f"push-{version}", version, is_rerun=True)
        desk.worker.station = replace(
            desk.station, profile=replace(desk.station.profile, concurrency=1, claim_batch=8)
        )
        once("db.claim", "after", desk.worker.stop.set)
        await desk.work()
        assert desk.rows("select stage, state, attempt_count from standing order by stage") == [
            (0, "queued", 0),
            (0, "queued", 0),
            (0, "queued", 0),
        ]
        assert desk.events("deferred") == [("deferred", "shutdown", 0, 1)]

    tell(story)


def test_a_call_that_outlasts_the_stop_counts_as_a_failed_attempt(once: At) -> None:
    """It may have been paid, so that try is over; the job waits for its next one."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        desk.sandbox.fault({"on": "response", "do": "delay", "seconds": 30})
        desk.worker.station = replace(
            desk.station, profile=replace(desk.station.profile, drain_s=0.01, idle_s=0.05)
        )
        once("work.answer", "before", desk.worker.stop.set)
        await desk.work()
        assert desk.rows("select state, stage_attempts from standing") == [("queued", 1)]
        assert not desk.station.line.lost.is_set()

    tell(story)

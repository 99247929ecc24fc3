"""One unit, one call, one output: whoever works on it, however often, with whatever beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.ids import unit_lock
from dragoman.core.job import Defer, Done, Held, Reason
from dragoman.work.finish import Finished, finish
from dragoman.work.submitter import Submitter
from dragoman.work.worker import Worker
from tests import stand
from tests.rewrite.house import House, house_of

MODES = pytest.mark.parametrize("mode", ["async", "batch"])


def locks(house: House) -> set[int]:
    """The advisory locks that sessions of this database hold."""
    return {
        row[0]
        for row in house.rows(
            "select (classid::bigint << 32 | objid::bigint) from pg_locks l join pg_database d"
            " on d.oid = l.database where locktype = 'advisory' and granted and datname = %s",
            house.database,
        )
    }


async def two_of_one_home(house: House) -> tuple[Held, Held]:
    """Two jobs between the same two people, both held by the house's worker."""
    home = await stand.add_home(house.orchestrator.cell)
    for _ in range(2):
        await house.say(home)
    first, second = await house.claim(2)
    assert first.home_id == second.home_id == home.id
    return first, second


@pytest.mark.req("R050", "R128", "R160")
def test_two_workers_and_two_tasks_of_one_make_one_call_for_a_unit() -> None:
    """All three hold the job's token and go at once: one calls, the others put it off."""

    async def scenario() -> None:
        async with house_of("async") as house, stand.station_of(house.database) as other:
            held, neighbour = await two_of_one_home(house)
            mine = Worker(house.station, house.providers)
            during: list[set[int]] = []
            refused = asyncio.Semaphore(0)
            answer = house.providers.adapter("openai_responses").answer

            async def and_wait(*given: Any) -> Any:
                during.append(locks(house))
                if len(during) == 1:
                    await refused.acquire()
                    await refused.acquire()
                return await answer(*given)

            async def ask(worker: Worker) -> Any:
                outcome = await worker._see(held, asks=True)
                refused.release()
                return outcome

            adapter: Any = house.providers.adapter("openai_responses")
            adapter.answer = and_wait
            theirs = Worker(other, house.providers)
            async with asyncio.timeout(20):
                outcomes = await asyncio.gather(ask(mine), ask(mine), ask(theirs))
            done = [each for each in outcomes if isinstance(each, Done)]
            waits = [each for each in outcomes if isinstance(each, Defer)]
            assert [each.reason for each in waits] == [Reason.LOST_LEASE] * 2
            assert (len(done), len(house.sent)) == (1, 1)
            assert during == [{held.unit_lock}]
            assert neighbour.unit_lock not in during[0]
            assert locks(house) == set()

    asyncio.run(scenario())


@pytest.mark.req("R050", "R128", "R160")
def test_the_units_lock_is_held_when_its_end_is_written() -> None:
    """As a finish commits its locks are those of its units, one for each, and none of the home."""

    async def scenario() -> None:
        async with house_of("async") as house:
            first, second = await two_of_one_home(house)
            worker = Worker(house.station, house.providers)
            outcomes = await asyncio.gather(
                worker._see(first, asks=True), worker._see(second, asks=True)
            )
            seen: list[set[int]] = []

            def look(tag: str, moment: ports.Moment) -> None:
                if (tag, moment) == ("db.finish", "before"):
                    seen.append(locks(house))

            ports.install(look)
            try:
                for job, outcome in zip((first, second), outcomes, strict=True):
                    assert isinstance(outcome, Done)
                    await worker._finish([Finished(job, outcome)])
            finally:
                ports.install(None)
            assert seen == [{first.unit_lock}, {second.unit_lock}]
            assert first.unit_lock != second.unit_lock
            for job in (first, second):
                assert job.unit_lock == unit_lock("rewrite", job.unit)
                assert str(job.home_id) not in job.unit
                assert house.state(job.id) == "completed"

    asyncio.run(scenario())


@pytest.mark.req("R162")
def test_a_job_that_is_completed_is_found_to_be_so() -> None:
    """The same result again: noop, nothing written, nobody asked; its sender hears `completed`."""

    async def scenario() -> None:
        async with house_of("async") as house:
            home = await stand.add_home(house.orchestrator.cell)
            accepted = await house.say(home)
            (held,) = await house.claim(1)
            worker = Worker(house.station, house.providers)
            outcome = await worker._see(held, asks=True)
            assert isinstance(outcome, Done)
            everything = "select s.*, s.xmin::text, o.xmin::text from standing s, rewrite_output o"
            station = house.station

            async def end() -> dict[str, int]:
                finished = [Finished(held, outcome)]
                return dict(
                    await finish(station.cell, station.line.worker, station.pipelines, finished)
                )

            assert await end() == {"succeeded": 1}
            before = house.rows(everything)
            assert await end() == {"noop": 1}
            await house.work()
            assert (house.rows(everything), len(house.sent)) == (before, 1)
            again = await house.say(home, request_id=accepted.rewrite_request_id)
            assert (again.status, again.job_id) == ("completed", accepted.job_id)
            assert (house.rows(everything), len(house.sent)) == (before, 1)

    asyncio.run(scenario())


@MODES
@pytest.mark.req("R007", "R069", "R092")
def test_the_same_words_to_two_people_are_asked_about_twice(mode: str) -> None:
    """Two homes, one text: two questions, each under its own job, and two outputs."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            told = [await house.say(), await house.say()]
            assert len(house.rows("select distinct original_text from rewrite_request")) == 1
            await house.work()
            assert len(house.sent) == 2
            for one in told:
                assert sum(str(one.job_id).encode() in line for line in house.sent) == 1
            assert {row[0] for row in house.rows("select job_id from rewrite_output")} == {
                one.job_id for one in told
            }
            people = "select count(distinct recipient_user_id), count(*) from rewrite_output"
            assert house.rows(people) == [(2, 2)]

    asyncio.run(scenario())


@pytest.mark.req("R274")
def test_what_is_asked_at_once_goes_through_the_worker_alone() -> None:
    """Submitter and collector leave it where it is; the worker makes one call for each job."""

    async def scenario() -> None:
        async with house_of("async") as house:
            jobs = [(await house.say()).job_id for _ in range(3)]
            assert await Submitter(house.station, house.providers).run_once() == 0
            assert [house.state(job) for job in jobs] == ["queued"] * 3
            assert await Worker(house.station, house.providers).run_once() == 3
            assert [house.state(job) for job in jobs] == ["completed"] * 3
            assert len(house.sent) == 3
            assert house.rows("select from batch") == []
            ledger = house.sandbox.ledger()
            assert (ledger["creates"], ledger["uploads"]) == ([], [])

    asyncio.run(scenario())

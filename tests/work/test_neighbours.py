"""One bad moment of a worker, or one bad job, costs its neighbours nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.errors import LeaseLost, TryAgain
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.job import Bury, Done, Held, Outcome
from dragoman.store.database import Cell
from dragoman.work.finish import Finished, finish
from dragoman.work.flow import Flow
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.eventually import eventually_async
from tests.reviews import Desk, tell
from tests.store import kernel
from tests.store.kernel import Plain, crew_of, enqueue, new_job


@pytest.fixture
def _no_hooks() -> Iterator[None]:
    yield
    ports.install(None)


@pytest.mark.usefixtures("_no_hooks")
def test_an_answer_that_is_paid_for_is_stored_though_a_claim_fails_meanwhile() -> None:
    """A claim meets a lock while a model is asked: the answer is taken in, then the worker goes."""

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work()
        desk.sandbox.fault({"on": "response", "do": "delay", "seconds": 1})
        profile = replace(desk.station.profile, idle_s=0.05)
        desk.worker.station = replace(desk.station, profile=profile)
        asked, failed = [], []

        def hook(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("work.answer", "before"):
                asked.append(job)
                desk.worker.wake.set()
            if (tag, moment) == ("db.claim", "before") and asked and not failed:
                failed.append(job)
                raise TryAgain("55P03")

        ports.install(hook)
        with pytest.raises(TryAgain):
            await desk.work()
        assert failed
        assert desk.rows("select state, stage, stage_attempts from standing") == [("queued", 2, 0)]
        assert desk.station.line.lost.is_set()

    tell(story)


class Picky(Plain):
    """The database refuses the first job's values, whenever it is run."""

    refused: Held | None = None

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Ask the database something that it refuses."""
        self.refused = self.refused or job
        if job.id == self.refused.id:
            async with cell.transaction("picky") as tx:
                await tx.connection.execute("select 1 / 0")
        return Done(None)


def test_a_job_whose_values_the_database_refuses_fails_alone() -> None:
    """Its worker goes on and its neighbours are done; the job fails with the code, and pages."""
    stage = Picky("one")
    plain = replace(kernel.PIPELINES["plain"], stages=(stage,))

    async def story() -> None:
        database = postgres.clone(postgres.template_database(kernel.build_plain))
        async with (
            crew_of(database) as crew,
            stand.station_of(database, {"plain": plain}) as station,
        ):
            await enqueue(crew, *[new_job(queue_key=77) for _ in range(3)])
            with stand.owner(database) as owner:
                owner.execute("update queue set mode = 'async', provider = '' where key = 77")
            await Worker(station, stand.Providers("http://127.0.0.1:9"), asks=False).run_once()
            assert not station.line.lost.is_set()
        assert stage.refused is not None
        assert sorted(stand.rows(database, "select state, count(*) from standing group by 1")) == [
            ("completed", 2),
            ("failed", 1),
        ]
        assert stand.rows(database, "select job_id, error_class, code from dead_letter") == [
            (stage.refused.id, "RUNTIME_BUG", "DataRefused")
        ]
        assert stand.rows(database, "select kind, severity from alert") == [("runtime_bug", "page")]

    asyncio.run(story())


@pytest.mark.usefixtures("_no_hooks")
def test_a_worker_remembers_no_call_of_a_job_that_it_has_lost() -> None:
    """A job that is taken away during its call is forgotten: its next call here begins anew."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()

        def hook(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("work.answer", "after"):
                raise LeaseLost

        ports.install(hook)
        await desk.work()
        assert not desk.station.line.lost.is_set()
        assert not desk.worker._paid

    tell(story)


@pytest.fixture
def _each_look_takes_a_second() -> Iterator[None]:
    seconds = count()
    ports.install_clock(lambda: float(next(seconds)))
    yield
    ports.install_clock(None)


def test_nothing_is_claimed_while_the_hands_are_full() -> None:
    """Four were claimed for four hands: nobody asks for more until one of them is free."""

    async def story() -> None:
        asked: list[int] = []
        go_on = asyncio.Event()

        async def claim(most: int) -> list[Any]:
            asked.append(most)
            return [object()] * most if len(asked) == 1 else []

        async def run(_: Held) -> Outcome:
            await go_on.wait()
            return Done(None)

        async def finish(_: object) -> None:
            go_on.set()

        flow = Flow(claim, run, finish, 4, 200)
        await asyncio.wait(flow.step(is_stopping=False))
        flow.step(is_stopping=False)
        assert flow.claiming is None
        assert (asked, flow.size) == ([4], 4)
        go_on.set()
        while pending := flow.step(is_stopping=False):
            await asyncio.wait(pending)
        assert all(most > 0 for most in asked)
        assert flow.count == 4

    asyncio.run(story())


def test_a_gate_that_was_full_is_asked_again_as_soon_as_a_call_has_ended() -> None:
    """Two of four hands get a job each time: nobody waits an hour for the next look."""

    async def story() -> None:
        left = [object()] * 6

        async def claim(most: int) -> list[Any]:
            return [left.pop() for _ in range(min(most, 2, len(left)))]

        async def run(_: Held) -> Outcome:
            return Done(None)

        async def finish(_: object) -> None:
            pass

        flow = Flow(claim, run, finish, 4, 4, again_s=3600)
        while pending := flow.step(is_stopping=False):
            await asyncio.wait(pending)
        assert (flow.count, left) == (6, [])

    asyncio.run(story())


@pytest.mark.usefixtures("_each_look_takes_a_second")
def test_a_runner_that_is_interrupted_between_two_jobs_loses_none() -> None:
    """It is cut where it gives others a turn: what it had done is handed over all the same."""

    async def story() -> None:
        done: list[Held] = []

        async def claim(most: int) -> list[Held]:
            return []

        async def run(job: Held) -> Outcome:
            asyncio.get_running_loop().call_soon(flow.interrupt)
            return Done(None)

        async def finish(finished: Sequence[Finished]) -> None:
            done.extend(one.job for one in finished)

        flow = Flow(claim, run, finish, 1, 1)
        held: Any = object()
        flow.todo.append(held)
        is_stopping = False
        while pending := flow.step(is_stopping=is_stopping):
            await asyncio.wait(pending)
            is_stopping = True
        assert done == [held]

    asyncio.run(story())


def test_a_finish_of_many_ways_takes_its_rows_in_the_order_of_a_cancel() -> None:
    """One job fails, a later one is done: while the first is locked, the other is not touched."""

    async def story() -> None:
        database = postgres.clone(postgres.template_database(kernel.build_plain))
        async with crew_of(database) as crew:
            await enqueue(crew, *[new_job(queue_key=77) for _ in range(2)])
            first, second = sorted(await kernel.claim(crew, 77, 2), key=lambda job: job.id)
            ways = [
                Finished(second, Done(None)),
                Finished(first, Bury(Failure(FailureClass.NOT_FOUND, "gone"))),
            ]
            with stand.owner(database) as owner:
                with owner.transaction():
                    owner.execute("select from standing where id = %s for update", (first.id,))
                    finishing = asyncio.create_task(
                        finish(crew.worker, crew.actor, kernel.PIPELINES, ways)
                    )
                    await _until_somebody_waits(database)
                    owner.execute(
                        "select from standing where id = %s for update nowait", (second.id,)
                    )
                assert await finishing == {"succeeded": 1, "failed": 1}

    asyncio.run(story())


async def _until_somebody_waits(database: str) -> None:
    waiting = "select from pg_locks where not granted"
    await eventually_async(lambda: bool(stand.rows(database, waiting)))

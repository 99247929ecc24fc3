"""The wake-up: a hint after the commit wakes a sleeping worker, and nothing rests on it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace

import psycopg
import pytest

from dragoman.core import ports
from dragoman.core.ids import unit_lock
from dragoman.core.job import Mode, Queue
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs, queues
from dragoman.work import wakeup
from dragoman.work.wakeup import listening
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.eventually import eventually_async
from tests.reviews import Desk, tell
from tests.store import kernel
from tests.store.kernel import build_plain

FOR_EVER_S = 3600.0
SOON_S = 10
LISTENS = (
    "from pg_stat_activity where datname = current_database() and application_name = 'wake-up'"
)


@pytest.fixture
def database() -> Generator[str]:
    """A database with the plain pipeline, for one test."""
    name = postgres.clone(postgres.template_database(build_plain))
    yield name
    postgres.drop(name)


def dsn(database: str) -> str:
    """How a worker listens."""
    return postgres.dsn("dragoman_worker", database)


async def heard(wake: asyncio.Event) -> None:
    """The next hint, soon."""
    async with asyncio.timeout(SOON_S):
        await wake.wait()
    wake.clear()


async def is_listening(database: str, pid: int = 0) -> int:
    """The backend that listens now, once it is another one than this."""

    def found() -> int:
        with psycopg.connect(postgres.dsn(postgres.ADMIN, database)) as admin:
            rows = admin.execute(f"select pid {LISTENS} and query like 'listen%'").fetchall()
        assert [row[0] for row in rows if row[0] != pid]
        return rows[0][0]

    return await eventually_async(found, timeout=SOON_S)


def test_a_hint_after_the_commit_reaches_who_listens(database: str) -> None:
    """Every role that enqueues may send one, and whoever listens is woken."""

    async def scenario() -> None:
        wake = asyncio.Event()
        async with listening(dsn(database), wake):
            await heard(wake)  # what came before it listened
            for role in ("dragoman_orchestrator", "dragoman_operator", "dragoman_worker"):
                async with stand.cell_of(database, role) as cell:
                    await queues.hint_ready(cell)
                await heard(wake)

    asyncio.run(scenario())


def test_a_worker_asleep_begins_as_soon_as_it_is_told(database: str) -> None:
    """Its pause would last for an hour; the hint ends it, and the job is done."""
    queue = Queue("plain", "one", Mode.ASYNC)

    async def scenario() -> None:
        slow = replace(stand.TEST_PROFILE, idle_s=FOR_EVER_S)
        async with (
            kernel.crew_of(database) as crew,
            stand.station_of(database, kernel.PIPELINES, slow) as station,
        ):
            worker = Worker(station, stand.Providers(""))
            stop = asyncio.Event()
            async with listening(dsn(database), worker.wake):
                running = asyncio.create_task(worker.run(stop))
                await is_listening(database)
                async with crew.orchestrator.transaction("name") as tx:
                    await queues.name_queue(tx, queue, 0)
                    job = kernel.new_job(
                        unit="u",
                        mode=Mode.ASYNC,
                        queue_key=queue.key,
                        stage=1,
                        unit_lock=unit_lock("plain", "u"),
                    )
                    await jobs.enqueue_jobs(tx, crew.actor, [job])
                await queues.hint_ready(crew.orchestrator)
                await eventually_async(lambda: _completed(database), timeout=SOON_S)
                stop.set()
                await running

    asyncio.run(scenario())


def _completed(database: str) -> None:
    assert stand.rows(database, "select state::text from standing") == [("completed",)]


def test_hints_of_one_moment_are_one(database: str) -> None:
    """Notifications queue up at one lock of the server: a burst sends one, a later one another."""

    async def scenario() -> None:
        now = [100.0]
        sent: list[str] = []
        ports.install_clock(lambda: now[0])
        ports.install(lambda tag, when: sent.append(when) if tag == "db.hint" else None)
        try:
            async with stand.cell_of(database) as cell:
                for _ in range(5):
                    await queues.hint_ready(cell)
                assert sent == ["before", "after"]
                now[0] += 1
                await queues.hint_ready(cell)
                assert sent == ["before", "after"] * 2
        finally:
            ports.install_clock(None)
            ports.install(None)

    asyncio.run(scenario())


def test_a_hint_that_cannot_be_sent_is_nobodys_trouble(database: str) -> None:
    """The jobs are committed: whoever enqueued them is not told of a failure that is none."""

    async def scenario() -> None:
        async with stand.cell_of(database) as cell:
            pass
        await queues.hint_ready(cell)

    asyncio.run(scenario())


def test_who_listens_comes_back_after_an_outage(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is cut: it listens again, and wakes its loop for what it may have missed."""
    monkeypatch.setattr(wakeup, "_AGAIN_S", 0.05)

    async def scenario() -> None:
        wake = asyncio.Event()
        async with listening(dsn(database), wake), stand.cell_of(database) as cell:
            await heard(wake)
            first = await is_listening(database)
            with psycopg.connect(postgres.dsn(postgres.ADMIN, database)) as admin:
                admin.execute(f"select pg_terminate_backend(pid, 5000) {LISTENS}")
            await heard(wake)
            await is_listening(database, first)
            await queues.hint_ready(cell)
            await heard(wake)

    asyncio.run(scenario())


def test_who_listens_leaves_nothing_behind(database: str) -> None:
    """At the end of the block its connection is gone, and so is its task."""

    async def scenario() -> None:
        wake = asyncio.Event()
        async with listening(dsn(database), wake):
            await heard(wake)
        await eventually_async(lambda: _nobody_listens(database))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def _nobody_listens(database: str) -> None:
    with psycopg.connect(postgres.dsn(postgres.ADMIN, database)) as admin:
        assert admin.execute(f"select count(*) {LISTENS}").fetchone() == (0,)


def test_a_new_review_sends_a_hint_and_a_known_one_does_not() -> None:
    """Only what made a job wakes a worker."""

    async def story(desk: Desk) -> None:
        wake = asyncio.Event()
        async with listening(dsn(desk.database), wake):
            await heard(wake)
            await desk.enqueue()
            await heard(wake)
            await desk.enqueue()
            await is_listening(desk.database)
            assert not wake.is_set()

    tell(story)


@pytest.mark.parametrize("mode", ["async", "batch"])
def test_a_rewrite_sends_a_hint_if_a_worker_will_call_for_it(mode: str) -> None:
    """A job of batch mode waits for the submitter's tick, and wakes nobody."""
    sent: list[str] = []

    async def scenario(database: str, sandbox: Sandbox) -> None:
        providers = stand.Providers(sandbox.base_url)
        await stand.add_routes(database, mode)
        async with stand.orchestrator_of(database, providers) as orchestrator:
            await stand.submit(orchestrator, [("en", "en")])
        await providers.transport.aclose()

    name = stand.new_database()
    ports.install(lambda tag, _: sent.append(tag))
    try:
        with Sandbox() as sandbox:
            asyncio.run(scenario(name, sandbox))
    finally:
        ports.install(None)
        postgres.drop(name)
    assert sent.count("db.hint") == (2 if mode == "async" else 0)
    assert mode == "batch" or sent.index("db.hint") > sent.index("db.enqueue")

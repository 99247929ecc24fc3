"""Killing a process at any crossing of its ports, and the crew that comes after it."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
import time
import warnings
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

from psycopg.conninfo import conninfo_to_dict

from dragoman.core import ports
from dragoman.rewrite import store as rewrite_store
from dragoman.sandbox.server import Sandbox
from dragoman.store import database as store
from dragoman.store.database import Cell
from dragoman.work.collector import Collector
from dragoman.work.line import open_line
from dragoman.work.loop import Loop, Station
from dragoman.work.pipeline import Pipelines
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Sweeper
from tests import postgres, stand
from tests.invariants import violations

JOBS = 3
A_CLAIM_IS_STALE_S = 700.0
A_BATCH_IS_DONE_S = 100.0
_CHILD_S = 60


def build_empty(owner_dsn: str) -> None:
    """The schema and the routes to the sandbox."""
    stand.build(owner_dsn)
    asyncio.run(stand.add_routes(str(conninfo_to_dict(owner_dsn)["dbname"])))


def build_waiting(owner_dsn: str) -> None:
    """The schema, and three rewrites that wait in one group."""
    build_empty(owner_dsn)
    with Sandbox() as sandbox:
        asyncio.run(_enqueue(str(conninfo_to_dict(owner_dsn)["dbname"]), sandbox, JOBS))


async def _enqueue(database: str, sandbox: Sandbox, count: int) -> None:
    async with (
        providers_of(sandbox) as providers,
        stand.orchestrator_of(database, providers) as orchestrator,
    ):
        await stand.submit(orchestrator, [("en", "en")] * count)


def empty_database() -> str:
    """A database with routes and nothing to do."""
    return postgres.clone(postgres.template_database(build_empty))


def waiting_database() -> str:
    """A database in which three rewrites wait."""
    return postgres.clone(postgres.template_database(build_waiting))


@asynccontextmanager
async def providers_of(sandbox: Sandbox) -> AsyncGenerator[stand.Providers]:
    """Everything at one sandbox, with its connections closed afterwards."""
    providers = stand.Providers(sandbox.base_url)
    try:
        yield providers
    finally:
        await providers.transport.aclose()


@dataclass(frozen=True)
class Crossing:
    """One moment at which a process may die: the n-th crossing of its life."""

    index: int
    tag: str
    moment: ports.Moment

    def __str__(self) -> str:
        return f"{self.index}: {self.moment} {self.tag}"


Life = Callable[[str, Sandbox], Coroutine[Any, Any, object]]


async def a_day(database: str, sandbox: Sandbox) -> None:
    """Everything that one process does for a rewrite: submit, wait, collect."""
    async with providers_of(sandbox) as providers, stand.station_of(database) as station:
        await Submitter(station, providers).run_once()
        sandbox.advance(A_BATCH_IS_DONE_S)
        await Collector(station, providers).run_once()


async def a_repair(database: str, sandbox: Sandbox) -> None:
    """One process that does what a crew does, one after the other."""
    async with providers_of(sandbox) as providers, stand.station_of(database) as station:
        await Sweeper(station, [fail_waiting]).run_once()
        await Submitter(station, providers).run_once()
        sandbox.advance(A_BATCH_IS_DONE_S)
        await Collector(station, providers).run_once()


def crossings_of(database: str, sandbox: Sandbox, life: Life) -> list[Crossing]:
    """Every crossing of a life in which nothing goes wrong."""
    seen: list[Crossing] = []
    ports.install(lambda tag, moment: seen.append(Crossing(len(seen), tag, moment)))
    try:
        asyncio.run(life(database, sandbox))
    finally:
        ports.install(None)
    return seen


@functools.cache
def crossings_of_a_day() -> tuple[Crossing, ...]:
    """Every moment at which submitter and collector can die."""
    with fresh(waiting_database) as (database, sandbox):
        return tuple(crossings_of(database, sandbox, a_day))


def telling(crossings: Sequence[Crossing]) -> list[Crossing]:
    """Without the readings but the first: a death around one leaves what its neighbours leave."""
    reads = [each for each in crossings if each.tag == "db.read"]
    return [each for each in crossings if each.tag != "db.read" or each in reads[:2]]


class fresh:  # noqa: N801 - reads as a word
    """A database and a sandbox of one schedule's own."""

    def __init__(self, database: Callable[[], str]) -> None:
        self.database = database()
        self.sandbox = Sandbox()

    def __enter__(self) -> tuple[str, Sandbox]:
        self.sandbox.__enter__()
        return self.database, self.sandbox

    def __exit__(self, *error: object) -> None:
        self.sandbox.__exit__(None, None, None)
        postgres.drop(self.database)


Dies: TypeAlias = Callable[[str, ports.Moment], bool]


def at_crossing(at: Crossing) -> Dies:
    """Die at the n-th crossing of a life, which must be the one that was recorded."""
    passed = 0

    def dies(tag: str, moment: ports.Moment) -> bool:
        nonlocal passed
        passed += 1
        return (passed - 1, tag, moment) == (at.index, at.tag, at.moment)

    return dies


def at_nth(tag: str, moment: ports.Moment, nth: int = 1) -> Dies:
    """Die when this tag is crossed for the n-th time."""
    passed = 0

    def dies(at: str, then: ports.Moment) -> bool:
        nonlocal passed
        passed += (at, then) == (tag, moment)
        return passed == nth

    return dies


def live_and_die(database: str, sandbox: Sandbox, life: Life, dies: Dies) -> None:
    """A process of its own lives until it is killed at one of its crossings, as by kill -9."""
    assert not is_alive_after(database, sandbox, life, dies), "it was never killed"


def is_alive_after(database: str, sandbox: Sandbox, life: Life, dies: Dies) -> bool:
    """Whether a process of its own came to the end of its life instead of being killed."""
    with warnings.catch_warnings():
        # The sandbox's thread is idle while we fork, and the child never touches it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _live(database, sandbox, life, dies)
    _, status = os.waitpid(child, 0)
    how = os.waitstatus_to_exitcode(status)
    assert how in (0, -signal.SIGKILL), f"the child ended with {how}"
    return how == 0


def _live(database: str, sandbox: Sandbox, life: Life, dies: Dies) -> NoReturn:
    def die(tag: str, moment: ports.Moment) -> None:
        if dies(tag, moment):
            os.kill(os.getpid(), signal.SIGKILL)

    how = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_CHILD_S)
        ports.install(die)
        asyncio.run(life(database, sandbox))
        how = 0
    finally:
        os._exit(how)


def statement_by_statement(life: Life) -> Life:
    """The same life in which every statement is a crossing too, with the tag sql.<name>."""

    async def lives(database: str, sandbox: Sandbox) -> None:
        real = store.statement

        def told(name: str, package: str = "dragoman.store"):
            ports.at(f"sql.{name}", "before")
            return real(name, package)

        store.statement = told  # only in this process, which is about to die
        await life(database, sandbox)

    return lives


async def fail_waiting(cell: Cell) -> int:
    """The chore that the rewrite pipeline brings to the sweeper."""
    return await rewrite_store.fail_waiting(cell, 600)


@asynccontextmanager
async def crew(
    database: str, sandbox: Sandbox, pipelines: Pipelines | None = None
) -> AsyncGenerator[list[Loop]]:
    """Two submitters, two collectors and a sweeper, each with a lease of its own."""
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(providers_of(sandbox))
        first = await stack.enter_async_context(stand.station_of(database, pipelines))
        dsn, lease_s = postgres.dsn("dragoman_worker", database), first.profile.lease_s
        stations = [first]
        for name in ("second", "third", "fourth", "fifth"):
            line = open_line(dsn, role="test", name=name, lease_s=lease_s)
            opened = await stack.enter_async_context(line)
            stations.append(Station(first.cell, opened, first.pipelines, first.profile))
        yield [
            Submitter(stations[0], providers),
            Submitter(stations[1], providers),
            Collector(stations[2], providers),
            Collector(stations[3], providers),
            Sweeper(stations[4], [fail_waiting]),
        ]


async def one_round(database: str, sandbox: Sandbox, pipelines: Pipelines | None = None) -> None:
    """Everybody works once, all at the same time."""
    async with crew(database, sandbox, pipelines) as loops:
        await asyncio.gather(*(loop.run_once() for loop in loops))


def clean_up(
    database: str, sandbox: Sandbox, *, step_s: float = A_CLAIM_IS_STALE_S, rounds: int = 8
) -> int:
    """Let time pass and the crew work until nothing is left to do; how many rounds it took."""
    for n in range(1, rounds + 1):
        stand.move_clock(database, step_s)
        sandbox.advance(min(step_s, A_BATCH_IS_DONE_S))
        asyncio.run(one_round(database, sandbox))
        if is_at_rest(database):
            return n
    raise AssertionError(f"not at rest after {rounds} rounds: {standings(database)}")


def is_at_rest(database: str) -> bool:
    """Whether every job is final and every batch closed, without a file at the provider."""
    return not stand.rows(
        database,
        """select 1 from standing where state not in ('completed', 'failed', 'canceled')
           union all select 1 from batch where closed_at is null or files_deleted_at is null
             and (input_file_id is not null or cardinality(result_files) > 0)""",
    )


def standings(database: str) -> list[tuple]:
    """State, attempts, free requeues, and the last failure's code of every job."""
    return stand.rows(
        database,
        "select state, attempt_count, free_requeues, last_failure ->> 'code'"
        " from standing order by id",
    )


def ledger_of(sandbox: Sandbox) -> dict[str, Any]:
    """Everything that the sandbox was asked to do."""
    return dict(sandbox.ledger())


def alerts(database: str) -> list[str]:
    """The kinds of alert that were raised."""
    return [row[0] for row in stand.rows(database, "select kind from alert order by kind, subject")]


def outputs(database: str) -> int:
    """How many texts were stored."""
    return stand.rows(database, "select count(*) from rewrite_output")[0][0]


def faults_of(database: str, sandbox: Sandbox) -> list[str]:
    """What the auditor finds when everything is over."""
    return violations(database, ledger_of(sandbox), at_rest=True)


def completed(count: int = JOBS, attempts: int = 0, free: int = 0) -> list[tuple]:
    """What `standings` gives when so many jobs ended well."""
    return [("completed", attempts, free)] * count


def counted(rows: Sequence[tuple]) -> list[tuple]:
    """Standings without their codes."""
    return [row[:3] for row in rows]


def elsewhere(life: Callable[[], object]) -> Callable[[], None]:
    """Let somebody else's event loop run to its end in a thread, while ours stands still."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            life()
        except BaseException as error:  # noqa: BLE001 - handed over to the thread that waits
            failed.append(error)

    def wait() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(_CHILD_S)
        assert not thread.is_alive(), "the others did not come to an end"
        if failed:
            raise failed[0]

    return wait


@contextmanager
def frozen_at(
    tag: str,
    moment: ports.Moment,
    meanwhile: Callable[[], object],
    *,
    for_s: float = 0.0,
    nth: int = 1,
) -> Generator[list[str]]:
    """Stop this process once at a crossing, as SIGSTOP does, until `meanwhile` has returned.

    `for_s` moves the process's own clock as well. The list is not empty once it has happened: a
    test that never froze has proved nothing.
    """
    happened: list[str] = []
    passed = 0

    def stop(at: str, then: ports.Moment) -> None:
        nonlocal passed
        if (at, then) != (tag, moment) or happened:
            return
        passed += 1
        if passed == nth:
            happened.append(at)
            ports.install(None)
            meanwhile()
            ports.install_clock(lambda: time.monotonic() + for_s)

    ports.install(stop)
    try:
        yield happened
    finally:
        ports.install(None)
        ports.install_clock(None)
    assert happened, f"{moment} {tag} was never crossed"


def submit_once(database: str, sandbox: Sandbox, **changes: Any) -> None:
    """One run of one submitter."""

    async def life() -> None:
        profile = replace(stand.TEST_PROFILE, **changes)
        async with (
            providers_of(sandbox) as providers,
            stand.station_of(database, profile=profile) as station,
        ):
            await Submitter(station, providers).run_once()

    asyncio.run(life())


async def a_collection(database: str, sandbox: Sandbox, pipelines: Pipelines | None = None) -> None:
    """One run of one collector."""
    async with (
        providers_of(sandbox) as providers,
        stand.station_of(database, pipelines) as station,
    ):
        await Collector(station, providers).run_once()


def collect_once(database: str, sandbox: Sandbox, pipelines: Pipelines | None = None) -> None:
    """One run of one collector, here and now."""
    asyncio.run(a_collection(database, sandbox, pipelines))


def sweep_once(database: str) -> None:
    """One run of one sweeper."""

    async def life() -> None:
        async with stand.station_of(database) as station:
            await Sweeper(station).run_once()

    asyncio.run(life())


def texts(database: str) -> list[tuple]:
    """Every stored output, as its row's bytes on disk say when it was written, and what."""
    return stand.rows(
        database,
        "select job_id, xmin::text, completed_at, rewritten_text"
        " from rewrite_output order by job_id",
    )


def events(database: str, kind: str) -> int:
    """How many events of a kind there are."""
    return stand.rows(database, "select count(*) from history where kind = %s", kind)[0][0]


def stays_clean(database: str, sandbox: Sandbox) -> None:
    """The auditor finds nothing, whatever is still under way."""
    assert violations(database, ledger_of(sandbox)) == []


def ends_clean(database: str, sandbox: Sandbox) -> None:
    """Everything is over, and the auditor finds nothing."""
    assert faults_of(database, sandbox) == []

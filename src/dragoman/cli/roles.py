"""One process, one role: its own password, its own lease, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial

import structlog

from dragoman.cli.db import cell_of, check_cell, check_roles, dsn_of, line_dsn_of
from dragoman.compose import channels_of, notary_of, pipelines_of, wired
from dragoman.core.canonical import JSONObject
from dragoman.core.errors import BadSetting, DatabaseError, DragomanError, LeaseLost
from dragoman.rewrite.store import fail_waiting
from dragoman.settings import Settings
from dragoman.store import workers
from dragoman.store.database import Cell
from dragoman.store.preflight import Unfit, accept_risks, prove_role
from dragoman.work.collector import Collector
from dragoman.work.line import open_line
from dragoman.work.loop import Loop, Station
from dragoman.work.notary import Notary
from dragoman.work.relay import Relay
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Chore, Sweeper
from dragoman.work.wakeup import listening
from dragoman.work.worker import Worker

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")

DOOR_ROLES = ("orchestrator", "operator", "frontend")
WORKERS = ("submitter", "collector", "worker", "relay", "sweeper")


def run_until_stopped(settings: Settings, role: str) -> int:
    """Run a role until SIGTERM or Ctrl-C; 0 when it was told to stop, 3 when it lost its lease."""
    if role not in (*WORKERS, "door"):
        raise BadSetting(f"there is no role {role}; known are {', '.join(WORKERS)} and door")
    return asyncio.run(_run(settings, role))


async def _run(settings: Settings, role: str) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stop.set)
    try:
        if role == "door":
            from dragoman.api import serve  # noqa: PLC0415 - a worker has no door

            await _check_door(settings)
            check = partial(check_cell, settings)
            await serve(settings, partial(dsn_of, settings), stop, check)
        else:
            async with (
                _station(settings, role) as station,
                _loop(settings, role, station) as work,
                _woken(settings, work),
            ):
                log.info("running", role=role, worker=str(station.line.worker))
                await work.run(stop)
    except LeaseLost:
        return 3
    return 0


async def _check_door(settings: Settings) -> None:
    """Refuse a database that is not fit; the door opens without one, and asks again then."""
    try:
        await check_roles(settings, DOOR_ROLES)
    except Unfit:
        raise
    except DatabaseError:
        log.warning("no database yet", role="door")


@asynccontextmanager
async def _station(settings: Settings, role: str) -> AsyncGenerator[Station]:
    pace, dsn = settings.pace, line_dsn_of(settings, "worker")
    channels = channels_of(settings) if role != "door" else {}
    async with AsyncExitStack() as stack:
        cell = await stack.enter_async_context(cell_of(settings, "worker", f"dragoman {role}"))
        accepted = await check_cell(settings, cell, "worker")  # before a lease is taken
        line = await stack.enter_async_context(
            open_line(dsn, role=role, name=role, lease_s=pace.lease_s)
        )
        await prove_role(line.connection, "dragoman_worker")
        await accept_risks(cell, line.worker, accepted)
        yield Station(cell, line, pipelines_of(settings, channels), pace)


@asynccontextmanager
async def _loop(settings: Settings, role: str, station: Station) -> AsyncGenerator[Loop]:
    if role == "relay":
        yield Relay(station, channels_of(settings))
    elif role == "sweeper":
        async with _chores(settings, station) as chores:
            yield Sweeper(station, chores)
    else:
        kinds = {"submitter": Submitter, "collector": Collector, "worker": Worker}
        async with wired(settings) as providers:
            yield kinds[role](station, providers)


def _woken(settings: Settings, work: Loop) -> AbstractAsyncContextManager[None]:
    """A worker is woken by hints; the others go by their schedule."""
    if not isinstance(work, Worker):
        return nullcontext()
    return listening(line_dsn_of(settings, "worker"), work.wake)


@asynccontextmanager
async def _chores(settings: Settings, station: Station) -> AsyncGenerator[list[Chore]]:
    """What the sweeper does besides: requests that wait too long, and the anchors."""
    chores: list[Chore] = [lambda cell: _fail_waiting(cell, station.profile.request_timeout_s)]
    if settings.audit.anchor_file is None:
        yield chores
        return
    async with cell_of(settings, "auditor", "dragoman notary") as auditor:
        notary = notary_of(settings, auditor)
        yield [*chores, lambda cell: _anchor(cell, notary)]


async def _fail_waiting(cell: Cell, older_s: float) -> int:
    return await fail_waiting(cell, older_s)


async def _anchor(cell: Cell, notary: Notary) -> int:
    """Anchors that stand still are somebody's business; the sweeper goes on with its own."""
    try:
        return await notary.write_due()
    except DragomanError as error:
        log.error("not_anchored", error=str(error))  # noqa: TRY400 - no stack
        facts: JSONObject = {"error": type(error).__name__}
        await workers.raise_alert(cell, "not_anchored", cell.name, "act", facts)
        return 0

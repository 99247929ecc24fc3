"""One process, one role: its own password, its own lease, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

import structlog

from dragoman.cli.db import dsn_of
from dragoman.compose import channels_of, pipelines_of, wired
from dragoman.core.errors import BadSetting, LeaseLost
from dragoman.rewrite.store import fail_waiting
from dragoman.settings import Settings
from dragoman.store.database import Cell, open_cell
from dragoman.work.collector import Collector
from dragoman.work.line import open_line
from dragoman.work.loop import Loop, Station
from dragoman.work.relay import Relay
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Sweeper
from dragoman.work.wakeup import listening
from dragoman.work.worker import Worker

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")

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

            await serve(settings, partial(dsn_of, settings), stop)
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


@asynccontextmanager
async def _station(settings: Settings, role: str) -> AsyncGenerator[Station]:
    pace, dsn = settings.pace, dsn_of(settings, "worker")
    channels = channels_of(settings) if role != "door" else {}
    async with (
        open_cell(dsn, name=settings.cell, role=f"dragoman {role}") as cell,
        open_line(dsn, role=role, name=role, lease_s=pace.lease_s) as line,
    ):
        yield Station(cell, line, pipelines_of(settings, channels), pace)


@asynccontextmanager
async def _loop(settings: Settings, role: str, station: Station) -> AsyncGenerator[Loop]:
    if role == "relay":
        yield Relay(station, channels_of(settings))
    elif role == "sweeper":
        yield Sweeper(
            station, [lambda cell: _fail_waiting(cell, station.profile.request_timeout_s)]
        )
    else:
        kinds = {"submitter": Submitter, "collector": Collector, "worker": Worker}
        async with wired(settings) as providers:
            yield kinds[role](station, providers)


def _woken(settings: Settings, work: Loop) -> AbstractAsyncContextManager[None]:
    """A worker is woken by hints; the others go by their schedule."""
    if not isinstance(work, Worker):
        return nullcontext()
    return listening(dsn_of(settings, "worker"), work.wake)


async def _fail_waiting(cell: Cell, older_s: float) -> int:
    return await fail_waiting(cell, older_s)

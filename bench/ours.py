"""The programs of ours that race: by the kernel's functions, and by the worker as it is shipped.

As with the peers: `ready` is said, `go` is waited for, then come the jobs done and the moment of
the end.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from bench.noop import NOOP, PIPELINES, Stage, enqueue, name_queues, queue_of, units
from dragoman.core.ids import uuid7
from dragoman.core.job import Held, Outcome
from dragoman.core.profile import DEFAULT
from dragoman.store import jobs
from dragoman.store.database import Cell, open_cell
from dragoman.store.embedded import Server
from dragoman.work.finish import Finished, finish
from dragoman.work.line import open_line
from dragoman.work.loop import Station
from dragoman.work.pipeline import Pipelines
from dragoman.work.wakeup import listening
from dragoman.work.worker import Worker

TELL_S = 0.25


@dataclass(frozen=True)
class Home:
    """The server and the database of this run."""

    server: Server
    database: str

    def dsn(self, role: str) -> str:
        """How a role connects."""
        return self.server.dsn(role, self.database)


class NoProviders:
    """A worker of plain stages calls nobody."""

    def adapter(self, kind: str) -> NoReturn:
        """Nobody is called."""
        raise LookupError(kind)

    def account(self, name: str, base_url: str | None) -> NoReturn:
        """Nobody is called."""
        raise LookupError(name, base_url)


async def fill(home: Home, pipeline: str, count: str) -> None:
    """The backlog."""
    async with open_cell(home.dsn("dragoman_orchestrator")) as cell:
        await name_queues(cell)
        await enqueue(cell, uuid7(), pipeline, units("unit", int(count)))


async def drain(home: Home, pipeline: str, batch: str) -> None:
    """Claim and finish by the kernel's functions; one batch's finish overlaps the next claim."""
    worker, keys, done = uuid7(), [queue_of(pipeline).key], 0
    pending: asyncio.Task[object] | None = None
    async with open_cell(home.dsn("dragoman_worker")) as cell:
        _begin()
        claim = asyncio.create_task(jobs.claim_jobs(cell, worker, keys, int(batch)))
        while held := await claim:
            claim = asyncio.create_task(jobs.claim_jobs(cell, worker, keys, int(batch)))
            finished = [Finished(job, _outcome(pipeline)) for job in held]
            if pending is not None:
                await pending
            pending = asyncio.create_task(finish(cell, worker, PIPELINES, finished))
            done += len(held)
        if pending is not None:
            await pending
        print(done, time.monotonic())


def _outcome(pipeline: str) -> Outcome:
    stage = PIPELINES[pipeline].stages[0]
    assert isinstance(stage, Stage)
    return stage.done


async def shipped(home: Home, pipeline: str, batch: str) -> None:
    """The worker as it is shipped, told to take that many at a time."""
    only = {pipeline: PIPELINES[pipeline]}
    async with _worker(home, only, int(batch)) as worker:
        _begin()
        done = 0
        while more := await worker.run_once():
            done += more
        print(done, time.monotonic())


@asynccontextmanager
async def _worker(home: Home, pipelines: Pipelines, batch: int) -> AsyncGenerator[Worker]:
    profile, dsn = replace(DEFAULT, claim_batch=batch), home.dsn("dragoman_worker")
    async with (
        open_cell(dsn) as cell,
        open_line(dsn, role="worker", name="bench", lease_s=profile.lease_s) as line,
    ):
        yield Worker(Station(cell, line, pipelines, profile), NoProviders())


class Told(Stage):
    """Says when each job begins."""

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """The job's name and the moment."""
        began = time.monotonic()
        print(job.id, began, flush=True)
        return await super().run(cell, job)


async def idle(home: Home, hints: str) -> None:
    """A worker's loop as its process runs it, woken by hints or by its own pauses alone."""
    told = replace(PIPELINES["noop"], stages=(Told(NOOP),))
    async with _worker(home, {"noop": told}, DEFAULT.claim_batch) as worker:
        dsn = home.dsn("dragoman_worker")
        async with listening(dsn, worker.wake) if hints == "hints" else nullcontext():
            running = asyncio.create_task(worker.run(stop := asyncio.Event()))
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            stop.set()
            await running


class Counted(Stage):
    """Counts the jobs that have begun."""

    count = 0

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """One more."""
        self.count += 1
        return await super().run(cell, job)


async def steady(home: Home, batch: str) -> None:
    """The worker's loop until told to end; say four times a second how many jobs have begun."""
    stage, stop = Counted(NOOP), asyncio.Event()
    counted = {"noop": replace(PIPELINES["noop"], stages=(stage,))}
    async with (
        _worker(home, counted, int(batch)) as worker,
        listening(home.dsn("dragoman_worker"), worker.wake),
    ):
        await asyncio.to_thread(_begin)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        running = asyncio.create_task(worker.run(stop))
        while not ended.done():
            await asyncio.wait([ended], timeout=TELL_S)
            print(stage.count, time.monotonic(), flush=True)
        stop.set()
        await running
    print("end", flush=True)


def _begin() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


PROGRAMS: dict[str, Callable[..., Awaitable[None]]] = {
    "fill": fill,
    "drain": drain,
    "shipped": shipped,
    "idle": idle,
    "steady": steady,
}


def main() -> None:
    """`HOME DATABASE PROGRAM WORDS`; the first line of standard input is a secret of the peers'."""
    folder, database, program, *words = sys.argv[1:]
    sys.stdin.readline()
    asyncio.run(PROGRAMS[program](Home(Server(Path(folder)), database), *words))


if __name__ == "__main__":
    main()

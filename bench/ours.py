"""Drain no-op jobs by the kernel's own claim and finish; prints jobs a second."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import psycopg

from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7
from dragoman.core.job import Done, Held, Mode, Outcome, Queue
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.store import jobs
from dragoman.store.database import Cell, Tx, open_cell
from dragoman.store.embedded import Server
from dragoman.store.migrate import migrate
from dragoman.store.roles import ADMIN, OWNER, make_database
from dragoman.work.finish import Finished, finish
from dragoman.work.pipeline import Pipeline, Pipelines, Stored

DATABASE = "bench"
QUEUE = Queue("noop", "run", Mode.ASYNC)


class Noop:
    """A stage that is done as soon as it begins."""

    name = "run"
    retry: RetryPolicy = FullJitter()

    async def run(self, cell: Cell, job: Held) -> Outcome:  # noqa: ARG002 - the protocol's
        """Nothing to do."""
        return Done(None)

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Nothing to store."""


PIPELINES: Pipelines = {"noop": Pipeline(9, "noop", (Noop(),), 30, is_guarded=False)}


def fresh(server: Server) -> None:
    """An empty database with one more pipeline."""
    with psycopg.connect(server.dsn(ADMIN, "postgres"), autocommit=True) as connection:
        connection.execute(f"drop database if exists {DATABASE}".encode())
        make_database(connection, DATABASE)
    owner = server.dsn(OWNER, DATABASE)
    migrate(owner)
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("insert into dragoman.pipeline values (9, 'noop', '{run}')")


async def fill(server: Server, count: int) -> None:
    """The backlog."""
    home = HomeId(uuid4())
    async with open_cell(server.dsn("dragoman_orchestrator", DATABASE)) as cell:
        async with cell.transaction("name") as tx:
            await jobs.name_queue(tx, QUEUE, 0)
        for start in range(0, count, 5_000):
            new = [_job(home, f"unit-{n}") for n in range(start, min(start + 5_000, count))]
            async with cell.transaction("enqueue") as tx:
                await jobs.enqueue_jobs(tx, home, new)
    with psycopg.connect(server.dsn(OWNER, DATABASE), autocommit=True) as connection:
        connection.execute("vacuum analyze")


def _job(home: HomeId, unit: str) -> jobs.NewJob:
    return jobs.NewJob(
        id=JobId(uuid7()),
        pipeline=9,
        unit=unit,
        home_id=home,
        mode=Mode.ASYNC,
        account="",
        lane=None,
        source_locale=None,
        target_locale=None,
        group_key=None,
        routing={},
        max_attempts=5,
        request_id=None,
        recipient_id=None,
        changelist_id=None,
        review_version=None,
        input_hash=None,
        replay_of=None,
        stage=0,
        queue_key=QUEUE.key,
        queue_keys=None,
        unit_lock=unit_lock("noop", unit),
    )


async def drain(server: Server, batch: int) -> float:
    """Seconds until nothing is left; the finish of one batch overlaps the claim of the next."""
    worker, pending = uuid7(), None
    async with open_cell(server.dsn("dragoman_worker", DATABASE)) as cell:
        began = time.perf_counter()
        claim = asyncio.create_task(jobs.claim_jobs(cell, worker, [QUEUE.key], batch))
        while held := await claim:
            claim = asyncio.create_task(jobs.claim_jobs(cell, worker, [QUEUE.key], batch))
            done = [Finished(job, Done(None)) for job in held]
            if pending is not None:
                await pending
            pending = asyncio.create_task(finish(cell, worker, PIPELINES, done))
        if pending is not None:
            await pending
        return time.perf_counter() - began


def main() -> None:
    """One round."""
    home, count, batch = sys.argv[1:]
    server = Server(Path(home))
    fresh(server)
    asyncio.run(fill(server, int(count)))
    print(int(count) / asyncio.run(drain(server, int(batch))))


if __name__ == "__main__":
    main()

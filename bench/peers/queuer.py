"""pgqueuer at its best: asyncpg, uvloop as its own command takes it, whole batches.

It runs in the peers' own environment. Its password comes on standard input; `ready` is said when
it could begin, `go` is waited for, and the jobs done and the moment of the end are said at last.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries

DATABASE = "peer"
PAUSE_S = 0.05  # only the last batch is not full


class Store:
    """Results of a batch's handlers, stored by one COPY: the best that a handler can do."""

    def __init__(self, connection: asyncpg.Connection, batch: int) -> None:
        self.connection, self.batch = connection, batch
        self.waiting: list[tuple[int, str]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lock = asyncio.Lock()

    async def add(self, job: int, text: str) -> None:
        """Return when the result is committed."""
        self.waiting.append((job, text))
        mine = self.done
        if len(self.waiting) == 1:
            asyncio.get_running_loop().call_later(PAUSE_S, self._flush_soon, mine)
        if len(self.waiting) == self.batch:
            self._flush_soon(mine)
        await mine

    def _flush_soon(self, mine: asyncio.Future[None]) -> None:
        if self.waiting and mine is self.done:
            rows, self.waiting = self.waiting, []
            done, self.done = self.done, asyncio.get_running_loop().create_future()
            self.task = asyncio.ensure_future(self._flush(rows, done))

    async def _flush(self, rows: list[tuple[int, str]], done: asyncio.Future[None]) -> None:
        async with self.lock:
            await self.connection.copy_records_to_table("result", records=rows)
        done.set_result(None)


async def connect(host: str, password: str, database: str = DATABASE) -> asyncpg.Connection:
    """As the administrator: a peer needs no roles."""
    return await asyncpg.connect(
        host=host, user="dragoman_admin", password=password, database=database
    )


async def fill(host: str, password: str, count: int) -> None:
    """A database of its own with a backlog."""
    admin = await connect(host, password, "postgres")
    await admin.execute(f"drop database if exists {DATABASE} with (force)")
    await admin.execute(f"create database {DATABASE}")
    await admin.close()
    setup = await connect(host, password)
    queries = Queries(AsyncpgDriver(setup))
    await queries.install()
    await setup.execute("create table result (job_id bigint primary key, body text not null)")
    await setup.execute("alter table result alter body set storage external")
    for start in range(0, count, 1_000):
        n = min(1_000, count - start)
        await queries.enqueue(["noop"] * n, [b"x" * 300] * n, [0] * n)
    await setup.execute("vacuum analyze")
    await setup.close()


async def drain(host: str, password: str, batch: int, result_bytes: int) -> None:
    """Run until the backlog is gone."""
    worker, other = await connect(host, password), await connect(host, password)
    queuer = PgQueuer(AsyncpgDriver(worker))
    store, text, done = Store(other, batch), "y" * result_bytes, 0

    @queuer.entrypoint("noop")
    async def noop(job: object) -> None:
        nonlocal done
        done += 1
        if result_bytes:
            await store.add(job.id, text)

    print("ready", flush=True)
    sys.stdin.readline()
    await queuer.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
    print(done, time.monotonic())
    await worker.close()
    await other.close()


def main() -> None:
    """`fill HOST COUNT` or `drain HOST BATCH RESULT_BYTES`."""
    logging.disable(logging.CRITICAL)
    password = sys.stdin.readline().strip()
    what, host, *numbers = sys.argv[1:]
    work = {"fill": fill, "drain": drain}[what](host, password, *map(int, numbers))
    if what == "fill":
        asyncio.run(work)
    else:
        uvloop.run(work)


if __name__ == "__main__":
    main()

"""Drain no-op jobs by pgqueuer, in the peers' own environment; prints jobs a second."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries

USER = "dragoman_admin"


async def main(host: str, password: str, count: int, batch: int) -> None:
    """One round."""
    logging.disable(logging.CRITICAL)

    async def connect(database: str) -> asyncpg.Connection:
        return await asyncpg.connect(host=host, user=USER, password=password, database=database)

    admin = await connect("postgres")
    await admin.execute("drop database if exists peer")
    await admin.execute("create database peer")
    setup = await connect("peer")
    queries = Queries(AsyncpgDriver(setup))
    await queries.install()
    for _ in range(count // 1_000):
        await queries.enqueue(["noop"] * 1_000, [b"x" * 300] * 1_000, [0] * 1_000)
    await setup.execute("vacuum analyze")
    worker = await connect("peer")
    queuer = PgQueuer(AsyncpgDriver(worker))

    @queuer.entrypoint("noop")
    async def noop(_job: object) -> None:
        return None

    began = time.perf_counter()
    await queuer.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
    print(count / (time.perf_counter() - began))
    for connection in (setup, worker, admin):
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.stdin.read(), int(sys.argv[2]), int(sys.argv[3])))

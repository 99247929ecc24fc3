"""awa-pg at its best here: Rust takes and completes, Python handles; signals as the others have."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from urllib.parse import quote

import asyncpg
import awa

DATABASE = "rust"
QUEUE = "noop"


@dataclass
class Noop:
    """What a job carries."""

    payload: str


def url(host: str, password: str) -> str:
    """As the administrator: a peer needs no roles."""
    where = f"localhost/{DATABASE}?host={quote(host, safe='')}"
    return f"postgresql://dragoman_admin:{quote(password)}@{where}"


async def connect(host: str, password: str, database: str) -> asyncpg.Connection:
    """The same for what has to be done beside it."""
    return await asyncpg.connect(
        host=host, user="dragoman_admin", password=password, database=database
    )


async def fill(host: str, password: str, count: int) -> None:
    """A database of its own with a backlog."""
    admin = await connect(host, password, "postgres")
    await admin.execute(f"drop database if exists {DATABASE} with (force)")
    await admin.execute(f"create database {DATABASE}")
    await admin.close()
    client = awa.AsyncClient(url(host, password))
    await client.migrate()
    await client.install_queue_storage()
    for start in range(0, count, 1_000):
        n = min(1_000, count - start)
        await client.enqueue_many_copy([Noop("x" * 300)] * n, queue=QUEUE)
    await client.close()
    setup = await connect(host, password, DATABASE)
    await setup.execute("vacuum analyze")
    await setup.close()


async def drain(host: str, password: str, count: int, *how: int) -> None:
    """Run until every job has been handled; what it still writes then is given to it."""
    width, claimers, batch = how
    client = awa.AsyncClient(url(host, password), max_connections=20)
    done, end = 0, asyncio.Event()

    @client.task(Noop, queue=QUEUE)
    async def noop(_job: object) -> None:
        nonlocal done
        done += 1
        if done == count:
            end.set()

    print("ready", flush=True)
    sys.stdin.readline()
    queue = {"name": QUEUE, "max_workers": width, "claimers": claimers, "claim_batch_size": batch}
    await client.start([queue], poll_interval_ms=10)
    await end.wait()
    print(done, time.monotonic(), flush=True)
    os._exit(0)  # its own shutdown waits for seconds


def main() -> None:
    """`fill HOST COUNT` or `drain HOST COUNT WIDTH CLAIMERS BATCH`."""
    password = sys.stdin.readline().strip()
    what, host, *numbers = sys.argv[1:]
    asyncio.run({"fill": fill, "drain": drain}[what](host, password, *map(int, numbers)))


if __name__ == "__main__":
    main()

"""Drain no-op jobs by the real worker; prints jobs a second."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from bench.ours import DATABASE, PIPELINES, fill, fresh
from dragoman.core.profile import DEFAULT
from dragoman.store.database import open_cell
from dragoman.store.embedded import Server
from dragoman.work.line import open_line
from dragoman.work.loop import Station
from dragoman.work.submission import Providers
from dragoman.work.worker import Worker


async def drain(server: Server, batch: int) -> float:
    """Seconds until nothing is left."""
    dsn = server.dsn("dragoman_worker", DATABASE)
    profile = replace(DEFAULT, claim_batch=batch)
    async with (
        open_cell(dsn) as cell,
        open_line(dsn, role="worker", name="bench", lease_s=30) as line,
    ):
        worker = Worker(Station(cell, line, PIPELINES, profile), cast("Providers", None))
        began = time.perf_counter()
        await worker.run_once()
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

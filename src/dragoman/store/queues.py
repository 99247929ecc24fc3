"""Queues: where the jobs of a stage wait, and the hint that some do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dragoman.core import ports
from dragoman.core.errors import DatabaseError, Invariant
from dragoman.core.job import Mode, Queue
from dragoman.store.database import Cell, OpenQueue, Tx

_HINT_EVERY_S = 0.005
_HINT_S = 0.25  # nobody is kept waiting for a hint


async def name_queue(tx: Tx, queue: Queue, stage: int) -> int:
    """The key of a queue, made known on its first use."""
    name: dict[str, Any] = {  # Any: columns
        "key": queue.key,
        "pipeline": queue.pipeline,
        "stage": stage,
        "mode": queue.mode,
        "provider": queue.provider,
        "account": queue.account,
        "model": queue.model,
    }
    # Whoever waited for another's first use sees that row only in a second statement.
    rows = await tx.tuples("queue/name_queue", **name) or await tx.tuples(
        "queue/name_queue", **name
    )
    if rows != [(queue.key,)]:
        raise Invariant("two queues share a key")
    return queue.key


async def open_queues(cell: Cell, mode: Mode, pipelines: Sequence[str]) -> list[OpenQueue]:
    """The queues a worker of this mode looks at."""
    return await cell.fetch(OpenQueue, "queue/open_queues", mode=mode, pipelines=list(pipelines))


async def count_due(cell: Cell, keys: Sequence[int], most: int = 1000) -> int:
    """How many jobs a claim could take now, by the claim's own predicate."""
    async with cell.transaction("read") as tx:
        rows = await tx.tuples("job/count_due", keys=list(keys), most=most)
        return int(rows[0][0])


async def hint_ready(cell: Cell) -> None:
    """Wake the workers, once the jobs are committed. Polling is the truth: a lost hint is nothing.

    Notifications queue up at one lock of the server, so a process sends few.
    """
    now = ports.monotonic()
    if now - cell.hinted_at < _HINT_EVERY_S:
        return
    cell.hinted_at = now
    with suppress(DatabaseError, TimeoutError):
        async with asyncio.timeout(_HINT_S), cell.at_once("hint") as tx:
            await tx.run("queue/hint_ready")

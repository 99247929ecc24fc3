"""The wake-up: a hint after a commit, so that nobody waits for the next look. Polling is the truth.

A hint that is lost costs one pause of the loop and nothing else: no job, no order, no count. So it
is sent after the commit, outside of it, and whoever listens for it holds nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import psycopg

CHANNEL = "dragoman_ready"
_AGAIN_S = 5.0


@asynccontextmanager
async def listening(dsn: str, wake: asyncio.Event) -> AsyncGenerator[None]:
    """Set `wake` at each hint, for as long as the block runs; on a direct connection.

    A pooler in transaction mode passes no notifications on.
    """
    listener = asyncio.create_task(_listen_forever(dsn, wake))
    try:
        yield
    finally:
        listener.cancel()
        with suppress(asyncio.CancelledError):
            await listener


async def _listen_forever(dsn: str, wake: asyncio.Event) -> None:
    """Listen; after an outage again, a little later. Meanwhile the loop looks by itself."""
    never = asyncio.Event()
    while True:
        with suppress(psycopg.Error):
            await _listen(dsn, wake)
        with suppress(TimeoutError):
            await asyncio.wait_for(never.wait(), _AGAIN_S)


async def _listen(dsn: str, wake: asyncio.Event) -> None:
    connection = await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, application_name="wake-up"
    )
    async with connection:
        await connection.execute(f"listen {CHANNEL}".encode())
        wake.set()  # what was committed before we listened sent its hint to nobody
        async for _ in connection.notifies():
            wake.set()

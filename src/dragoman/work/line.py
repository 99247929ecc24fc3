"""A worker's line: one direct connection that renews its lease and holds the locks of its calls.

When the line breaks, or is not answered for two thirds of the lease by the worker's own monotonic
clock, the worker fences itself: whatever it still holds, it must not act on any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

import psycopg

from dragoman.core import ports
from dragoman.core.errors import DatabaseError, LeaseLost
from dragoman.core.ids import uuid7
from dragoman.store import workers
from dragoman.store.database import mapped


@dataclass(slots=True)
class Line:
    """The lease and the locks of one worker process."""

    connection: psycopg.AsyncConnection
    worker: UUID
    lease_s: float
    acknowledged: float
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    _held: set[int] = field(default_factory=set[int])

    def fence(self) -> None:
        """Raise LeaseLost unless this worker may still act."""
        if self.lost.is_set() or ports.monotonic() - self.acknowledged > self.lease_s * 2 / 3:
            self.lost.set()
            raise LeaseLost

    async def renew_forever(self) -> None:
        """Renew the lease at a third of its length, until it is lost."""
        while not self.lost.is_set():
            await asyncio.sleep(self.lease_s / 3)  # noqa: TID251 - a heart beats in time
            began = ports.monotonic()
            try:
                async with asyncio.timeout(self.lease_s / 3), self._busy:
                    kept = await workers.renew_lease(self.connection, self.worker, self.lease_s)
            except (DatabaseError, TimeoutError):
                kept = False
            if not kept:
                self.lost.set()
                return
            self.acknowledged = began

    @asynccontextmanager
    async def unit(self, lock: int) -> AsyncGenerator[bool]:
        """Hold a unit's lock around a call to a provider; False when somebody else holds it.

        A session may take a lock twice, so a key that this process already holds is refused here.
        """
        if lock in self._held:
            yield False
            return
        self._held.add(lock)  # before anything is awaited: two tasks may ask at once
        try:
            if not await self._ask("select pg_try_advisory_lock(%s)", lock):
                yield False
                return
            try:
                yield True
            finally:
                with suppress(LeaseLost):
                    await self._ask("select pg_advisory_unlock(%s)", lock)
        finally:
            self._held.discard(lock)

    async def _ask(self, question: str, lock: int) -> bool:
        try:
            with mapped():
                async with self._busy:
                    cursor = await self.connection.execute(question.encode(), (lock,))
                    row = await cursor.fetchone()
        except DatabaseError:
            self.lost.set()  # with the line every lock has fallen
            raise LeaseLost from None
        return bool(row and row[0])


@asynccontextmanager
async def open_line(
    dsn: str, *, role: str, name: str, lease_s: float, schema: str = "dragoman"
) -> AsyncGenerator[Line]:
    """Register a worker and keep its lease for as long as the block runs."""
    worker = uuid7()
    with mapped():
        connection = await psycopg.AsyncConnection.connect(
            dsn,
            autocommit=True,
            options=f"-c search_path={schema}",
            application_name=f"{role} line",
        )
    async with connection:
        began = ports.monotonic()
        await workers.register_worker(connection, worker, role, name, lease_s)
        line = Line(connection, worker, lease_s, began)
        beat = asyncio.create_task(line.renew_forever())
        try:
            yield line
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat
            with suppress(DatabaseError):
                await workers.stop_worker(connection, worker)

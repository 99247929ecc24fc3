"""Somebody else's connection: our statements in their transaction, and nothing of ours left on it.

Their business rows and our jobs commit together or not at all. Everything runs in a savepoint, so
that a refusal takes back what we did and leaves them their transaction. Their adapters, their row
factory and their prepared statements are neither used nor changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncCursor, adapt, pq
from psycopg.rows import AsyncRowFactory, tuple_row
from psycopg_pool import AsyncConnectionPool

from dragoman.core.errors import Refused
from dragoman.store.database import Cell, Tx, mapped
from dragoman.store.pack import read_shapes, register_dumpers

_IDLE = pq.TransactionStatus.IDLE

Connection = AsyncConnection[Any]  # Any: their own kind of row

_ADAPTERS = adapt.AdaptersMap(psycopg.adapters)
register_dumpers(_ADAPTERS)

# What the schema's types are called is read once in the life of a connection. Nothing that we write
# is remembered: their transaction may still be rolled back.
_cells: WeakKeyDictionary[Connection, Cell] = WeakKeyDictionary()


class _Cursor(AsyncCursor[Any]):
    """A cursor that reads and writes values as ours do, whatever their connection has learnt."""

    @property
    def adapters(self) -> adapt.AdaptersMap:
        return _ADAPTERS

    async def execute(
        self,
        query: Any,  # noqa: ANN401 - the driver's own signature, here and below
        params: Any = None,  # noqa: ANN401
        **_: Any,  # noqa: ANN401
    ) -> _Cursor:
        """Their cache of prepared statements stays theirs."""
        await super().execute(query, params, prepare=False, binary=True)
        return self


class _GuestTx(Tx):
    """A transaction on their connection."""

    def cursor(self, row_factory: AsyncRowFactory[Any]) -> AsyncCursor[Any]:
        cursor = _Cursor(self.connection, row_factory=row_factory)
        cursor.format = pq.Format.BINARY
        return cursor


@asynccontextmanager
async def guest(connection: Connection, schema: str = "dragoman") -> AsyncGenerator[Tx]:
    """Our statements inside their open transaction; whoever opened it commits it.

    >>> async with guest(connection) as tx:  # doctest: +SKIP
    ...     await enqueue_jobs(tx, actor, new)
    """
    with mapped():
        if connection.autocommit and connection.info.transaction_status is _IDLE:
            raise Refused(
                "this connection commits each statement by itself: open a transaction around the "
                "enqueue and your own rows"
            )
        if connection.info.encoding != "utf-8":
            raise Refused("this connection must speak UTF-8: its client_encoding is another")
        tx = _GuestTx(_cell(connection, schema), connection)
        ((path,),) = await tx.tuples("guest/read_path")  # begins it, if nothing else has
        async with connection.transaction():
            await tx.tuples("guest/set_path", path=schema)
            if not tx.cell.shapes:
                tx.cell.shapes.update(await read_shapes(tx.cursor(tuple_row)))
            yield tx
            await tx.tuples("guest/set_path", path=path)


def _cell(connection: Connection, schema: str) -> Cell:
    known = _cells.get(connection)
    if known is None or known.name != schema:
        # Its pool is never opened: a guest has the one connection of its host.
        known = _cells[connection] = Cell(schema, AsyncConnectionPool(open=False))
    return known

"""What an auditor reads: chains, their heads and the changes, streamed in small portions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from psycopg.rows import class_row

from dragoman.core.chain import Change, Event, Head
from dragoman.core.ids import JobId
from dragoman.store.database import Cell, Tx, statement

T = TypeVar("T")

_FETCH = 5_000


@asynccontextmanager
async def one_moment(cell: Cell) -> AsyncGenerator[Tx]:
    """A transaction in which events and heads agree; keep it short, it holds back clean-up."""
    async with cell.transaction("read") as tx:
        await tx.run("audit/read_consistently")
        yield tx


async def list_heads(tx: Tx, after: UUID, since: datetime | None, most: int) -> list[Head]:
    """The next heads, in the order of their jobs."""
    return await tx.fetch(Head, "audit/list_heads", after=after, since=since, most=most)


async def read_head(tx: Tx, job_id: UUID) -> list[Head]:
    """The head of one job, if it is there."""
    return await tx.fetch(Head, "audit/read_head", id=job_id)


def read_range(tx: Tx, after: UUID, upto: UUID) -> AsyncGenerator[Event]:
    """Every event of the jobs after one and up to another, also of jobs that are not there."""
    return _stream(tx, Event, "audit/read_range", after=after, upto=upto)


def read_chains(tx: Tx, ids: Sequence[JobId]) -> AsyncGenerator[Event]:
    """Every event of these jobs."""
    return _stream(tx, Event, "audit/read_chains", ids=list(ids))


def read_changes(tx: Tx) -> AsyncGenerator[Change]:
    """Every change outside of jobs."""
    return _stream(tx, Change, "audit/read_changes")


async def _stream(tx: Tx, kind: type[T], name: str, **params: object) -> AsyncGenerator[T]:
    """Rows through a cursor of the server: however many there are, few are in memory."""
    async with tx.connection.cursor(name=name, row_factory=class_row(kind)) as cursor:
        cursor.itersize = _FETCH
        await cursor.execute(statement(name), params, binary=True)
        async for row in cursor:
            yield row

"""What an auditor reads: chains, their heads and the changes, streamed in small portions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from psycopg.rows import class_row

from dragoman.core.anchor import Part
from dragoman.core.chain import Change, Event, Head
from dragoman.core.ids import JobId
from dragoman.store.database import Cell, Tx, statement

T = TypeVar("T")

_FETCH = 5_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Which life of which cell this is, and its time."""

    name: str
    incarnation: UUID
    created_at: datetime
    now: datetime


@asynccontextmanager
async def one_moment(cell: Cell) -> AsyncGenerator[Tx]:
    """A transaction in which events and heads agree; keep it short, it holds back clean-up."""
    async with cell.transaction("read") as tx:
        await tx.run("audit/read_consistently")
        yield tx


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acted."""

    id: UUID
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class Languages:
    """What one pair of languages took at one model."""

    languages: str
    provider: str
    model: str
    mode: str
    jobs: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How the jobs of one model ended."""

    provider: str
    model: str
    jobs: int
    completed: int
    failed: int
    canceled: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Checks:
    """How often the checks said something of one prompt's outputs."""

    prompt_version: str
    code: str
    jobs: int


async def read_moment(cell: Cell) -> tuple[Moment, frozenset[str]]:
    """The time, and the transactions whose events may be older than it and not yet be seen."""
    async with cell.transaction("read") as tx:
        [moment] = await tx.fetch(Moment, "audit/read_moment")
        writers = await tx.tuples("audit/list_writers")
        return moment, frozenset(row[0] for row in writers)


async def list_heads(tx: Tx, after: UUID, since: datetime | None, most: int) -> list[Head]:
    """The next heads, in the order of their jobs."""
    return await tx.fetch(Head, "audit/list_heads", after=after, since=since, most=most)


async def read_head(tx: Tx, job_id: UUID) -> list[Head]:
    """The head of one job, if it is there."""
    return await tx.fetch(Head, "audit/read_head", id=job_id)


async def find_jobs(tx: Tx, request_id: UUID) -> list[JobId]:
    """The jobs that were made for a request."""
    return [JobId(row[0]) for row in await tx.tuples("audit/find_jobs", id=request_id)]


async def name_actors(tx: Tx, ids: Sequence[UUID]) -> dict[UUID, Actor]:
    """Who they are, as far as they are known."""
    found = await tx.fetch(Actor, "audit/name_actors", ids=list(ids))
    return {actor.id: actor for actor in found}


async def read_record(cell: Cell, job_id: JobId) -> dict[str, Any] | None:
    """The record of an execution, folded from its events."""
    async with one_moment(cell) as tx:
        found = await tx.dicts("audit/read_record", id=job_id)
        return found[0] if found else None


async def sum_up(
    cell: Cell, since: datetime | None
) -> tuple[list[Languages], list[Outcomes], list[Checks]]:
    """Three sums over the records of everything that was enqueued since a time."""
    async with one_moment(cell) as tx:
        await tx.run("audit/allow_time")
        return (
            await tx.fetch(Languages, "audit/sum_languages", since=since),
            await tx.fetch(Outcomes, "audit/sum_outcomes", since=since),
            await tx.fetch(Checks, "audit/sum_checks", since=since),
        )


def read_range(tx: Tx, after: UUID, upto: UUID) -> AsyncGenerator[Event]:
    """Every event of the jobs after one and up to another, also of jobs that are not there."""
    return _stream(tx, Event, "audit/read_range", after=after, upto=upto)


def read_chains(tx: Tx, ids: Sequence[JobId]) -> AsyncGenerator[Event]:
    """Every event of these jobs."""
    return _stream(tx, Event, "audit/read_chains", ids=list(ids))


async def read_window(tx: Tx, since: datetime, upto: datetime) -> AsyncGenerator[Part]:
    """What is anchored of the events of a time."""
    await tx.run("audit/allow_time")
    async for part in _stream(tx, Part, "audit/read_window", since=since, upto=upto):
        yield part


async def last_change(tx: Tx) -> tuple[int, bytes] | None:
    """Number and hash of the newest change."""
    rows = await tx.tuples("audit/last_change")
    return (rows[0][0], rows[0][1]) if rows else None


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

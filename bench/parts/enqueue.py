"""Enqueue in bulk beside COPY into the same tables."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import psycopg

from bench.noop import enqueue, name_queues, prepare, units
from bench.part import Part, Size
from bench.place import Place
from bench.result import Result, ratio
from dragoman.core.ids import uuid7
from dragoman.store.database import open_cell

CHUNKS = (1_000, 10_000)
ROUNDS = {Size.FULL: (50_000, 7), Size.QUICK: (20_000, 3), Size.TOY: (1_000, 1)}
WANTED = 0.5
TABLES = ("job", "standing", "event", "queue_delta")


async def enqueued(place: Place, count: int, chunk: int) -> float:
    """Jobs a second by the statement that every door uses; making the values is part of it."""
    actor, names = uuid7(), units("unit", count)
    async with open_cell(place.dsn("dragoman_orchestrator")) as cell:
        await name_queues(cell)
        await enqueue(cell, actor, "noop", units("warm", 10))
        began = time.perf_counter()
        await enqueue(cell, actor, "noop", names, chunk)
        return count / (time.perf_counter() - began)


def copied(place: Place, count: int, chunk: int) -> float:
    """Jobs a second by COPY of the very same rows, as bytes that lie ready, indexes and all."""
    with place.owner() as connection:
        ready = [
            {table: _taken(connection, table, start, chunk) for table in TABLES}
            for start in range(0, count, chunk)
        ]
        connection.execute(f"truncate {', '.join(TABLES)} cascade".encode())
        connection.execute("vacuum analyze")
        began = time.perf_counter()
        for chunk_of in ready:
            with connection.transaction(), connection.cursor() as cursor:
                for table, data in chunk_of.items():
                    statement = f"copy {table} from stdin (format binary)".encode()
                    with cursor.copy(statement) as copy:
                        copy.write(data)
        return count / (time.perf_counter() - began)


def _taken(connection: psycopg.Connection, table: str, start: int, chunk: int) -> bytes:
    key = {"job": "id", "standing": "id", "event": "job_id"}.get(table)
    chosen = f"select id from job order by id offset {start} limit {chunk}"
    rows = (
        f"select * from {table} where {key} in ({chosen})"
        if key
        else f"select * from {table} limit 1"
    )
    with connection.cursor().copy(f"copy ({rows}) to stdout (format binary)".encode()) as copy:
        return b"".join(copy)


def measure(place: Place, size: Size) -> Result:
    """Ours, then COPY of what ours has just written, in turn."""
    count, rounds = ROUNDS[size]
    speeds: dict[int, list[float]] = {chunk: [] for chunk in CHUNKS}
    copies: dict[int, list[float]] = {chunk: [] for chunk in CHUNKS}
    for _ in range(rounds):
        for chunk in CHUNKS:
            prepare(place)
            speeds[chunk].append(asyncio.run(enqueued(place, count, chunk)))
            copies[chunk].append(copied(place, count, chunk))
    result = Result(head=["jobs in a transaction", "enqueue, jobs/s", "COPY, jobs/s"])
    for chunk, found in speeds.items():
        result.rows.append([f"{chunk:,}", f"{median(found):,.0f}", f"{median(copies[chunk]):,.0f}"])
        what = f"{chunk:,} jobs in a transaction"
        result.figures.append(ratio(what, found, copies[chunk], least=WANTED))
    return result


PART = Part(
    "enqueue",
    "Enqueue in bulk",
    "`enqueue_jobs` as the orchestrator's role: each job with its standing, its first chained "
    "event and the sums, units that exist left alone. Beside it COPY of the very same rows into "
    "the same four tables with all their indexes and triggers, from bytes that were made before "
    "the clock started: what only moving the bytes costs, without hashing, checking or asking.",
    measure,
)

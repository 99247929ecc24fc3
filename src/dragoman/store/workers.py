"""Workers, their runs, and alerts: one function per statement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID, uuid5

from psycopg import AsyncConnection

from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.ids import uuid7
from dragoman.store.database import Cell, Tx, mapped, statement

_ACTORS = UUID("0190f3f0-0000-7000-8000-000000000001")


def actor_id(role: str, name: str) -> UUID:
    """The id of somebody who acts under a name: the same on every machine."""
    return uuid5(_ACTORS, f"{role}\0{name}")


async def know_actor(tx: Tx, role: str, name: str) -> UUID:
    """Make somebody known who acts without being a worker."""
    actor = actor_id(role, name)
    await tx.run("worker/know_actor", id=actor, role=role, name=name)
    return actor


async def register_worker(
    line: AsyncConnection, worker: UUID, role: str, name: str, lease_s: float
) -> datetime:
    """Make a worker known on its own line, with a lease."""
    params = {"id": worker, "role": role, "name": name, "lease_s": lease_s}
    with mapped():
        async with line.transaction(), line.cursor() as cursor:
            await cursor.execute(statement("worker/register_worker"), params)
            row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - an INSERT … RETURNING gives its row
    return row[0]


async def renew_lease(line: AsyncConnection, worker: UUID, lease_s: float) -> bool:
    """Renew a lease that has not ended; False: it is gone, stop."""
    with mapped():
        async with line.transaction(), line.cursor() as cursor:
            await cursor.execute(
                statement("worker/renew_lease"), {"id": worker, "lease_s": lease_s}
            )
            return await cursor.fetchone() is not None


async def stop_worker(line: AsyncConnection, worker: UUID) -> None:
    """End a worker's lease."""
    with mapped():
        async with line.transaction():
            await line.execute(statement("worker/stop_worker"), {"id": worker})


async def raise_alert(
    cell: Cell, kind: str, subject: str, severity: str, facts: JSONObject
) -> None:
    """Raise an alert, or count it again while it is open. Metadata only."""
    async with cell.transaction("raise_alert") as tx:
        await tx.run(
            "alert/raise_alert",
            id=uuid7(),
            kind=kind,
            subject=subject,
            severity=severity,
            facts=canonical(facts).decode(),
        )


async def open_run(
    cell: Cell, role: str, worker: UUID, max_jobs: int, max_runtime_s: float
) -> UUID:
    """Begin a run."""
    run = uuid7()
    async with cell.transaction("open_run") as tx:
        await tx.run(
            "run/open_run",
            id=run,
            role=role,
            worker=worker,
            max_jobs=max_jobs,
            max_runtime_s=max_runtime_s,
        )
    return run


async def close_run(
    cell: Cell, run: UUID, counts: Mapping[str, int], models: Mapping[str, int]
) -> None:
    """End a run with its counts, and its jobs by provider and model."""
    told = {"counts": canonical(dict(counts)).decode(), "models": canonical(dict(models)).decode()}
    async with cell.transaction("close_run") as tx:
        await tx.run("run/close_run", id=run, **told)


async def skip_run(cell: Cell, role: str, worker: UUID, skipped: str) -> None:
    """Record a run that had nothing to do."""
    async with cell.transaction("skip_run") as tx:
        await tx.run("run/skip_run", id=uuid7(), role=role, worker=worker, skipped=skipped)


async def fold_deltas(cell: Cell) -> int:
    """Fold what moves have written into sums."""
    async with cell.transaction("fold_deltas") as tx:
        return await tx.count("run/fold_deltas")


async def end_lines(cell: Cell) -> int:
    """End the lines of workers whose lease is over: with them fall the locks of their units."""
    async with cell.transaction("end_lines") as tx:
        return await tx.count("worker/end_lines")


async def ensure_partitions(cell: Cell) -> int:
    """Make room for the history of the coming months; how much was made."""
    async with cell.transaction("ensure_partitions") as tx:
        return int((await tx.tuples("event/ensure_partitions"))[0][0])

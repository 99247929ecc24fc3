"""Schedules: when the scheduled roles run, whose tick it is, and what operators change about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import JSONObject
from dragoman.core.errors import NotFound
from dragoman.store.changes import record_change
from dragoman.store.database import Cell, Tx


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a role runs. `is_set`: the pace is an operator's, not the profile's."""

    role: str
    every_s: float
    is_set: bool
    is_paused: bool
    next_at: datetime
    ran_at: datetime | None
    is_asked: bool


async def know_schedule(cell: Cell, role: str, every_s: float) -> None:
    """Make a role's schedule known; the first tick is due at once."""
    async with cell.transaction("know_schedule") as tx:
        await tx.run("schedule/know_schedule", role=role, every_s=every_s)


async def take_tick(cell: Cell, role: str) -> bool:
    """Whether this process runs the tick. A crash after it loses the tick, never runs it twice."""
    async with cell.transaction("take_tick") as tx:
        return bool(await tx.tuples("schedule/take_tick", role=role))


async def list_schedules(cell: Cell) -> list[Schedule]:
    """The roles that have run here, each with its next tick."""
    return await cell.fetch(Schedule, "schedule/list_schedules")


async def run_now(cell: Cell, actor: UUID, role: str) -> None:
    """Ask for a run now: the role begins as soon as it looks; its ticks stay where they are.

    >>> await run_now(cell, actor, "rewrite_batch_submitter")  # doctest: +SKIP
    """
    async with cell.transaction("run_now") as tx:
        _known(await tx.tuples("schedule/run_now", role=role, actor=actor))
        await _record(tx, actor, "run_now", role)


async def set_schedule(cell: Cell, actor: UUID, role: str, every_s: float) -> None:
    """Let a role run at another pace; from now on the profile does not change it any more."""
    async with cell.transaction("set_schedule") as tx:
        _known(await tx.tuples("schedule/set_schedule", role=role, every_s=every_s, actor=actor))
        await _record(tx, actor, "set", role, {"every_s": every_s})


async def pause_schedule(cell: Cell, actor: UUID, role: str) -> None:
    """Let a role take no tick until it is resumed; what it began goes on."""
    await _pause(cell, actor, role, is_paused=True)


async def resume_schedule(cell: Cell, actor: UUID, role: str) -> None:
    """Let a role take its ticks again; those that were missed count as one."""
    await _pause(cell, actor, role, is_paused=False)


async def _pause(cell: Cell, actor: UUID, role: str, *, is_paused: bool) -> None:
    async with cell.transaction("pause_schedule") as tx:
        _known(await tx.tuples("schedule/pause_schedule", role=role, is_paused=is_paused))
        await _record(tx, actor, "pause" if is_paused else "resume", role)


def _known(rows: list[tuple[object, ...]]) -> None:
    if not rows:
        raise NotFound("this role has never run here; start it first, then change its schedule")


async def _record(
    tx: Tx, actor: UUID, verb: str, role: str, facts: JSONObject | None = None
) -> None:
    await record_change(tx, actor, verb, f"schedule {role}", facts)

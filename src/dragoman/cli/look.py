"""Looking at things: sums that close, and the story of one job. Everything here is metadata."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

from dragoman.cli.db import cell_of, require_running
from dragoman.cli.hint import hint
from dragoman.cli.schedule import role_name
from dragoman.console.job import explain, read_job_page
from dragoman.console.queries import Reading
from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.errors import NotFound
from dragoman.core.ids import JobId
from dragoman.core.job import State
from dragoman.settings import read_settings
from dragoman.store.database import Cell
from dragoman.store.gates import list_gates
from dragoman.store.holds import find_hold
from dragoman.store.jobs import cancel_jobs
from dragoman.store.schedules import list_schedules
from dragoman.store.workers import know_actor
from dragoman.work.gate import closed

_HERE = "dragoman.cli"
_LEFT_OUT = {"routing_decision", "standing_reason", "ready"}  # the sentence says it


async def show_status() -> int:
    """Print how everything stands; 0 unless something waits for a person."""
    settings = read_settings()
    require_running(settings)
    async with (
        cell_of(settings, "operator") as cell,
        cell.transaction("read") as tx,
    ):
        jobs = await tx.dicts("look/count_states", _HERE)
        batches = await tx.dicts("look/count_batches", _HERE)
        deliveries = await tx.dicts("look/count_deliveries", _HERE)
        asks = await tx.dicts("look/needs_you", _HERE)
        hold = await find_hold(tx)
        shut = [each for each in await list_gates(cell) if each.pause_reason]
        resting = [role_name(each.role) for each in await list_schedules(cell) if each.is_paused]
    out = Console()
    out.print(_states(jobs))
    _line(out, "batches", batches)
    _line(out, "messages", deliveries)
    if hold is not None:
        out.print(f"[bold]{hold}[/]", highlight=False, soft_wrap=True)
    for each in shut:
        out.print(closed(each), highlight=False, markup=False, soft_wrap=True)
    for name in resting:
        told = f"the {name} is paused until: {hint(f'schedule resume {name}')}"
        out.print(told, highlight=False, markup=False, soft_wrap=True)
    if not asks:
        out.print("nothing needs you")
    for ask in asks:
        out.print(
            f"[bold]{ask['severity']}[/] {ask['kind']} {ask['subject']} at {_time(ask['at'])}",
            highlight=False,
            soft_wrap=True,
        )
    return 0


def _states(rows: list[dict[str, Any]]) -> Table:
    """Everything accepted stands in exactly one state: the row of each pipeline is a sum."""
    table = Table(box=None, pad_edge=False)
    for name in ("pipeline", "accepted", *State):
        table.add_column(name.replace("_", "\n"), justify="left" if name == "pipeline" else "right")
    for pipeline in sorted({row["pipeline"] for row in rows}) or ["(none)"]:
        found = {row["state"]: row["n"] for row in rows if row["pipeline"] == pipeline}
        table.add_row(
            pipeline, str(sum(found.values())), *(str(found.get(state.value, 0)) for state in State)
        )
    return table


def _line(out: Console, name: str, rows: list[dict[str, Any]]) -> None:
    told = "  ".join(f"{row['n']} {row['state']}" for row in rows) or "none"
    out.print(f"{name}: {told}", highlight=False)


async def show_job(job_id: UUID) -> int:
    """Print one job's standing and every event of its chain."""
    settings = read_settings()
    require_running(settings)
    async with (
        cell_of(settings, "operator") as cell,
        cell.transaction("read") as tx,
    ):
        page = await read_job_page(Reading(tx), job_id)
        if page is None:
            raise NotFound("there is no job with this id")
        [record] = await tx.dicts("look/read_job", _HERE, id=job_id)
        events = await tx.dicts("look/read_history", _HERE, id=job_id)
    out = Console()
    out.print(explain(page), highlight=False)
    out.print()
    for name, value in record.items():
        if value is not None and name not in _LEFT_OUT:
            out.print(f"[dim]{name:34}[/]{_plain(value)}", highlight=False, soft_wrap=True)
    out.print(_story(events))
    told = "every link of the chain was computed again, and it ends at the job's head"
    broken = "[bold red]the chain is broken: a link does not follow from the one before it[/]"
    out.print(told if page.is_verified else broken)
    return 0 if page.is_verified else 1


def _story(events: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("#", "at", "event", "why", "try", "by", "facts", "hash"):
        table.add_column(name, overflow="fold")
    for event in events:
        facts: dict[str, object] = event["facts"] or {}
        kept = (
            "code",
            "provider_batch_id",
            "batch_item_index",
            "lane",
            "source_locale",
            "target_locale",
            "key",
        )
        told = " ".join(f"{name}={facts[name]}" for name in kept if name in facts)
        why = "" if event["reason"] == "none" else event["reason"]
        table.add_row(
            str(event["seq"]),
            _time(event["at"]),
            event["kind"],
            why,
            str(event["attempt"]),
            event["actor_role"] or "",
            told,
            event["hash"].hex()[:8],
        )
    return table


async def cancel_job(job_id: UUID) -> int:
    """Cancel a job; a final one stays as it is, and that is said."""
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "operator") as cell:
        actor = await _operator(cell)
        canceled = await cancel_jobs(cell, actor, [JobId(job_id)])
        async with cell.transaction("read") as tx:
            if not canceled and not await tx.dicts("look/read_job", _HERE, id=job_id):
                raise NotFound("there is no job with this id")
    typer.echo("canceled" if canceled else "it was final already; nothing was changed")
    return 0


async def _operator(cell: Cell) -> UUID:
    async with cell.transaction("know_actor") as tx:
        return await know_actor(tx, "operator", "cli")


def _time(value: datetime) -> str:
    return value.strftime("%H:%M:%S.%f")[:-3]


def _plain(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds")
        case bytes():
            return value.decode()
        case dict():
            return canonical(cast("JSONObject", value)).decode()
        case _:
            return str(value)

"""When the scheduled roles run, and what an operator changes about it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

from dragoman.cli.db import cell_of, require_running
from dragoman.core.errors import BadInput
from dragoman.settings import read_settings
from dragoman.store import schedules
from dragoman.store.database import Cell
from dragoman.store.workers import know_actor
from dragoman.work.collector import Collector
from dragoman.work.submitter import Submitter

ROLES = {"submitter": Submitter.role, "collector": Collector.role}
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhd]?)")


async def run_now(name: str) -> int:
    """Ask a scheduled role to run now."""
    role = _role(name)
    async with _acting() as (cell, actor):
        await schedules.run_now(cell, actor, role)
    typer.echo(f"the {name} runs as soon as it looks, within a second or two; its ticks stay")
    return 0


async def show_schedules() -> int:
    """Print when each scheduled role ran and runs next."""
    async with _acting() as (cell, _):
        found = await schedules.list_schedules(cell)
    if not found:
        typer.echo("no scheduled role has run here yet")
        return 0
    table = Table(box=None, pad_edge=False)
    for name in ("role", "every", "set by", "last tick", "next tick"):
        table.add_column(name)
    for one in found:
        table.add_row(*_row(one))
    Console().print(table)
    return 0


def _row(one: schedules.Schedule) -> tuple[str, ...]:
    ran = f"{one.ran_at:%Y-%m-%d %H:%M:%S}" if one.ran_at else "never"
    due = "paused" if one.is_paused else f"{one.next_at:%Y-%m-%d %H:%M:%S}"
    who = "operator" if one.is_set else "profile"
    return (
        role_name(one.role),
        duration(one.every_s),
        who,
        ran,
        "now, as asked" if one.is_asked else due,
    )


def role_name(role: str) -> str:
    """A scheduled role as it is typed."""
    return next((name for name, known in ROLES.items() if known == role), role)


async def set_schedule(name: str, every: str) -> int:
    """Let a role run at another pace."""
    role, every_s = _role(name), seconds(every)
    async with _acting() as (cell, actor):
        await schedules.set_schedule(cell, actor, role, every_s)
    typer.echo(f"the {name} runs every {duration(every_s)}, whatever the profile says")
    return 0


async def pause_schedule(name: str) -> int:
    """Let a role take no tick."""
    role = _role(name)
    async with _acting() as (cell, actor):
        await schedules.pause_schedule(cell, actor, role)
    typer.echo(f"the {name} is paused; a run that has begun goes on")
    return 0


async def resume_schedule(name: str) -> int:
    """Let a role take its ticks again."""
    role = _role(name)
    async with _acting() as (cell, actor):
        await schedules.resume_schedule(cell, actor, role)
    typer.echo(f"the {name} takes its ticks again")
    return 0


def seconds(told: str) -> float:
    """A duration as people write it.

    >>> seconds("15m"), seconds("2h"), seconds("90")
    (900.0, 7200.0, 90.0)
    """
    found = _DURATION.fullmatch(told)
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1 <= value <= 31 * 86_400:
        raise BadInput("--every takes a time from 1s to 31d, for instance 90s, 15m or 2h")
    return value


def duration(seconds: float) -> str:
    """The same in the largest unit that fits.

    >>> duration(900), duration(90), duration(0.5)
    ('15m', '90s', '0.5s')
    """
    unit, size = next(
        ((unit, size) for unit, size in reversed(_UNITS.items()) if seconds % size == 0 and unit),
        ("s", 1),
    )
    return f"{seconds / size:g}{unit}"


def _role(name: str) -> str:
    if name not in ROLES:
        raise BadInput(f"only {' and '.join(ROLES)} run on a schedule")
    return ROLES[name]


@asynccontextmanager
async def _acting() -> AsyncGenerator[tuple[Cell, UUID]]:
    """The cell as the operator sees it, and who acts."""
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "operator", "cli")
        yield cell, actor

"""A held engine, from the command line: what it says of itself, and the operator's release."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import typer

from dragoman.cli.hint import hint
from dragoman.core.errors import DatabaseError, NotFound, Refused
from dragoman.settings import Settings, read_settings
from dragoman.store.database import Cell
from dragoman.store.holds import Hold, Why, read_hold, release_hold, start_hold
from dragoman.store.workers import know_actor


def held_line(settings: Settings) -> str | None:
    """That the engine is held, why, and what ends it; None when it is not, or cannot tell."""
    try:
        hold = asyncio.run(_read(settings))
    except (DatabaseError, NotFound):  # a database that is not prepared yet
        return None
    return f"{hold}. Nothing is created or sent until: {hint('release')}" if hold else None


async def hold() -> int:
    """Hold the engine; every role stops before its next act."""
    async with _operator_cell() as cell, cell.transaction("start_hold") as tx:
        actor = await know_actor(tx, "operator", "cli")
        begun = await start_hold(tx, actor, Why.ASKED)
    if begun is None:
        raise Refused("the engine is held already")
    typer.echo(f"the engine is {begun}")
    return 0


async def release() -> int:
    """End the hold; refused while the providers have not told of their batches."""
    async with _operator_cell() as cell:
        hold = await read_hold(cell)
        if hold is None:
            raise Refused("the engine is not held")
        if hold.asked_at is None:
            raise Refused(
                "the providers have not told yet which batches they have of ours; "
                f"run the collector, with {hint('up')}, and look at {hint('status')}"
            )
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "operator", "cli")
        await release_hold(cell, actor)
    typer.echo("released: the engine creates and sends again")
    return 0


@asynccontextmanager
async def _operator_cell() -> AsyncGenerator[Cell]:
    from dragoman.cli.db import cell_of, require_running  # noqa: PLC0415 - they import this module

    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "operator") as cell:
        yield cell


async def _read(settings: Settings) -> Hold | None:
    from dragoman.cli.db import cell_of  # noqa: PLC0415 - it imports this module

    async with cell_of(settings, "operator") as cell:
        return await read_hold(cell)

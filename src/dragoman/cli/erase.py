"""Erasing a home or one person of it, from the command line: counted first, then step by step."""

from __future__ import annotations

import asyncio
from uuid import UUID

import typer

from dragoman.cli.db import dsn_of, require_running
from dragoman.cli.hint import hint
from dragoman.core.errors import CommitUnknown, TryAgain
from dragoman.settings import read_settings
from dragoman.store.database import Cell, open_cell
from dragoman.store.erasure import Extent, Scope, count_erasable, erase

_PAUSE_S = 1.0
_PATIENCE_S = 120.0  # longer than any message is on its way


async def erase_rows(home: UUID, user: UUID | None, *, is_sure: bool) -> int:
    """Show what there is, ask, and erase it; 1 if something is left that somebody works on."""
    settings, scope = read_settings(), Scope(home, user)
    require_running(settings)
    async with open_cell(
        dsn_of(settings, "eraser"), name=settings.cell, role="dragoman cli"
    ) as cell:
        found = await count_erasable(cell, scope)
        whose = f"home {home}" if user is None else f"user {user} of home {home}"
        typer.echo(f"{whose}: {_told(found)}")
        if not found:
            typer.echo("there is nothing to erase")
            return 0
        if not is_sure:
            typer.confirm("Erase all of it? It cannot be brought back.", abort=True)
        gone, left = await _erase_all(cell, scope)
    typer.echo(f"erased: {_told(gone)}")
    if left:
        again = hint(f"erase --home {home}" + (f" --user {user}" if user else ""))
        typer.echo(f"still in somebody's hands: {_told(left)}; run it again: {again}")
        return 1
    typer.echo("what stays: the history without texts, and a tombstone for each job")
    return 0


async def _erase_all(cell: Cell, scope: Scope) -> tuple[Extent, Extent]:
    """Steps until nothing is left, or until nothing has moved for too long."""
    gone, waited_s = Extent(0, 0, 0, 0), 0.0
    while True:
        step = await _step(cell, scope)
        gone += step
        waited_s = 0.0 if step else waited_s + _PAUSE_S
        if step:
            continue
        left = await count_erasable(cell, scope)
        if not left or waited_s > _PATIENCE_S:
            return gone, left
        await asyncio.sleep(_PAUSE_S)  # noqa: TID251 - a person waits at a terminal


async def _step(cell: Cell, scope: Scope) -> Extent:
    """One step; one that was in somebody's way, or of which nobody knows, is simply taken again."""
    try:
        return await erase(cell, scope, "cli")
    except (TryAgain, CommitUnknown):
        return Extent(0, 0, 0, 0)


def _told(extent: Extent) -> str:
    counts = {
        "people": extent.people,
        "requests": extent.requests,
        "jobs": extent.jobs,
        "messages": extent.messages,
    }
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())

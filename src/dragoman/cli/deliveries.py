"""Messages in doubt, from the command line: which there are, and a person's word about one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import typer

from dragoman.cli.db import cell_of, require_running
from dragoman.core.errors import BadInput, NotFound, Refused
from dragoman.settings import read_settings
from dragoman.store import doubts
from dragoman.store.database import Cell
from dragoman.store.doubts import Doubt
from dragoman.store.workers import know_actor

_MOST = 100
_MOST_EVIDENCE = 200


async def show_doubts() -> int:
    """Print every message in doubt and who settles it; 1 when one of them waits for you."""
    async with _cell() as cell:
        found = await doubts.list_doubts(cell, _MOST)
    for one in found:
        typer.echo(
            f"{one.id}  {one.state} since {one.doubted_at:%Y-%m-%d %H:%M:%S} UTC  {one.channel}"
            f"  {one.code or 'no code'}  {_who(one)}  job {one.job_id}"
        )
    if not found:
        typer.echo("no message is in doubt")
    elif len(found) == _MOST:
        typer.echo(f"these are the first {_MOST}; there may be more")
    return 1 if any(one.needs_a_person for one in found) else 0


async def resolve(delivery_id: UUID, evidence: str, *, sent: bool, not_sent: bool) -> int:
    """Write down whether a message in doubt has arrived."""
    if sent == not_sent:
        raise BadInput("say one of --sent and --not-sent")
    if not evidence.strip() or len(evidence) > _MOST_EVIDENCE or not evidence.isprintable():
        raise BadInput(f"the evidence must be one line of 1 to {_MOST_EVIDENCE} characters")
    async with _cell() as cell:
        one = _settleable(await doubts.read_doubt(cell, delivery_id))
        actor = await _operator(cell)
        is_done = await doubts.resolve_doubt(cell, actor, one, evidence, has_arrived=sent)
    if not is_done:
        raise Refused("the doubt was settled in this moment by another; nothing was changed")
    typer.echo("marked as sent" if sent else "it will be sent once more")
    return 0


async def mark_seen(delivery_id: UUID) -> int:
    """Close the alerts that only say what happened to a message."""
    async with _cell() as cell:
        is_done = await doubts.close_seen(cell, await _operator(cell), delivery_id)
    typer.echo("seen" if is_done else "no alert about this message is open that can be closed so")
    return 0


@asynccontextmanager
async def _cell() -> AsyncGenerator[Cell]:
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "operator") as cell:
        yield cell


async def _operator(cell: Cell) -> UUID:
    async with cell.transaction("know_actor") as tx:
        return await know_actor(tx, "operator", "cli")


def _settleable(one: Doubt | None) -> Doubt:
    if one is None:
        raise NotFound("no message with this id is in doubt")
    if one.may_arrive:
        raise Refused("a send of this message is still on its way; try again in a minute")
    if not one.needs_a_person:
        raise Refused("its target can still settle this; resolve it once that has failed")
    return one


def _who(one: Doubt) -> str:
    if one.may_arrive:
        return "on its way"
    if one.needs_a_person:
        return "waits for you"
    return "its target is asked" if one.guarantee == "lookup" else "the same key is sent again"

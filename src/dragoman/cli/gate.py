"""Gates, from the command line: what they hold, why they are closed, and who says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import typer

from dragoman.cli.db import dsn_of, require_running
from dragoman.core.errors import BadInput, NotFound
from dragoman.core.gate import Gate
from dragoman.settings import read_settings
from dragoman.store import gates
from dragoman.store.database import Cell, open_cell
from dragoman.store.workers import know_actor

_Names = tuple[str, str, str]
_MOST = 2**31 - 1
_MOST_NOTE = 200


async def show_gates() -> int:
    """Print every gate that work goes through; 1 when one of them is closed."""
    async with _cell() as cell:
        now = {each.gate: each for each in await gates.list_gates(cell)}
        known = await gates.known_names(cell)
    width = max((len(gate.name) for gate in known), default=0)
    for gate in known:
        typer.echo(f"{gate.name:{width}}  {_told(now.get(gate))}")
    if not known:
        typer.echo("no gate yet: there is no route and no queue")
    return 1 if any(each.pause_reason for each in now.values()) else 0


async def set_gate(names: _Names, **limits: str | None) -> int:
    """Change the limits that are named, and print all of them."""
    changed = {
        name: _bound(name.removeprefix("max_").replace("_", "-"), given)
        for name, given in limits.items()
        if given is not None
    }
    if not changed:
        raise BadInput("nothing to set: name a limit, for instance --in-flight 4")
    async with _cell() as cell:
        gate = await _known(cell, names)
        told = await gates.set_limits(cell, await _operator(cell), gate, **changed)
    typer.echo(
        f"{gate.name}: {_n(told.max_in_flight)} in flight, {_n(told.requests_per_minute)} requests"
        f" and {_n(told.tokens_per_minute)} tokens a minute, {_n(told.batch_tokens)} tokens in"
        " open batches"
    )
    return 0


async def pause_gate(names: _Names, reason: str) -> int:
    """Close a gate until it is opened."""
    if not reason.strip() or len(reason) > _MOST_NOTE or not reason.isprintable():
        raise BadInput(f"the reason must be one line of 1 to {_MOST_NOTE} characters")
    async with _cell() as cell:
        gate = await _known(cell, names)
        is_new = await gates.hold_gate(cell, await _operator(cell), gate, reason)
    typer.echo(f"{gate.name} {'is closed' if is_new else 'was closed already'}")
    return 0


async def open_gate(names: _Names) -> int:
    """Open a gate."""
    async with _cell() as cell:
        gate = await _known(cell, names)
        was = await gates.open_gate(cell, await _operator(cell), gate)
    typer.echo(f"{gate.name} {f'is open; it was closed by {was}' if was else 'was open already'}")
    return 0


@asynccontextmanager
async def _cell() -> AsyncGenerator[Cell]:
    settings = read_settings()
    require_running(settings)
    async with open_cell(
        dsn_of(settings, "operator"), name=settings.cell, role="dragoman cli"
    ) as cell:
        yield cell


async def _operator(cell: Cell) -> UUID:
    async with cell.transaction("know_actor") as tx:
        return await know_actor(tx, "operator", "cli")


async def _known(cell: Cell, names: _Names) -> Gate:
    """The gate, if any work goes through it; a name that is only mistyped makes no gate."""
    gate, known = Gate(*names), await gates.known_names(cell)
    if gate not in known:
        told = ", ".join(f"{each.provider} {each.account} {each.model}" for each in known)
        raise NotFound(f"there is no such gate; known are {told or 'none: there is no route yet'}")
    return gate


def _bound(name: str, given: str) -> int | None:
    if given == "none":
        return None
    if not (given.isascii() and given.isdecimal() and 0 < int(given[:11]) <= _MOST):
        raise BadInput(f"--{name} must be a number from 1 to {_MOST}, or none")
    return int(given)


def _told(now: gates.GateNow | None) -> str:
    """How a gate stands, and those of its limits that are set."""
    if now is None:
        return "open"
    limits = {
        f"{now.in_flight} of {{}} in flight": now.max_in_flight,
        "{} requests a minute": now.requests_per_minute,
        "{} tokens a minute": now.tokens_per_minute,
        f"{now.tokens_in_batches} of {{}} tokens in open batches": now.batch_tokens,
    }
    told = [words.format(limit) for words, limit in limits.items() if limit is not None]
    return "; ".join([_state(now), ", ".join(told)] if told else [_state(now)])


def _state(now: gates.GateNow) -> str:
    if now.pause_reason is None:
        return "open"
    until = f" until {now.paused_until:%H:%M:%S} UTC" if now.paused_until else ""
    note = f" ({now.pause_note})" if now.pause_note else ""
    return f"closed by {now.pause_reason}{note}{until}"


def _n(limit: int | None) -> str:
    return "any" if limit is None else str(limit)

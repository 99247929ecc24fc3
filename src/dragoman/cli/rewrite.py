"""Complaints, from the command line: one home of two people, whose names are you and they."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import NAMESPACE_URL, UUID, uuid5

import typer

from dragoman.cli.db import cell_of, require_running
from dragoman.cli.hint import hint
from dragoman.compose import wired
from dragoman.core.errors import BadInput, NotFound
from dragoman.core.locale import normalize
from dragoman.core.text import check_text
from dragoman.rewrite import store
from dragoman.rewrite.orchestrator import Complaint, Orchestrator
from dragoman.settings import Settings, read_settings
from dragoman.store.database import Cell
from dragoman.store.workers import know_actor

HOME = uuid5(NAMESPACE_URL, "dragoman/local-home")
YOU = uuid5(NAMESPACE_URL, "dragoman/local-home/you")
THEY = uuid5(NAMESPACE_URL, "dragoman/local-home/they")
_WAIT_S = 120.0
_MAX_INPUT = 1 << 20


@asynccontextmanager
async def orchestrating(settings: Settings, name: str = "cli") -> AsyncGenerator[Orchestrator]:
    """The way in, for as long as the block runs."""
    async with cell_of(settings, "orchestrator") as cell, wired(settings) as providers:
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "orchestrator", name)
        yield Orchestrator(cell, actor, providers.advisor().classify)


async def submit(message: str, to: str, source: str | None, *, wait: bool) -> int:
    """Hand in one complaint."""
    settings = read_settings()
    require_running(settings)
    text = check_text(_from_stdin() if message == "-" else message)
    for tag in (to, source):
        if tag is not None and normalize(tag) is None:
            raise BadInput("a language is given as a tag, for instance en, es or pt-BR")
    async with orchestrating(settings) as orchestrator:
        async with orchestrator.cell.transaction("add_home") as tx:
            await store.write_member(tx, HOME, YOU, "housemate", source, {})
            await store.write_member(tx, HOME, THEY, "housemate", to, {})
        accepted = await orchestrator.create(
            Complaint(HOME, YOU, THEY, text, sender_locale=source, recipient_locale=to)
        )
        typer.echo(f"{accepted.status}  {accepted.rewrite_request_id}")
        if accepted.status == "failed":
            return 1
        if wait:
            return await _wait(orchestrator.cell, accepted.rewrite_request_id)
    typer.echo(f"see it with: {hint(f'rewrite show {accepted.rewrite_request_id}')}")
    return 0


def _from_stdin() -> str:
    """Bytes that are no text come through as lone surrogates, which no message may have."""
    return sys.stdin.buffer.read(_MAX_INPUT).decode(errors="surrogateescape")


async def show(request_id: UUID) -> int:
    """Print how one complaint stands, and its rewrite."""
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "orchestrator") as cell:
        return await _show(cell, request_id)


async def _show(cell: Cell, request_id: UUID) -> int:
    known = await store.read_request(cell, request_id)
    if known is None:
        raise NotFound("there is no rewrite with this id")
    output = await store.read_output(cell, request_id)
    state = "failed" if known.failed_at else (known.state or "received")
    typer.echo(f"{state}  {request_id}  job {known.job_id}")
    if output is not None:
        made_by = f"{output.provider}/{output.model}"
        typer.echo(f"\n{output.rewritten_text}\n\n({output.output_language}, written by {made_by})")
    return 0


async def _wait(cell: Cell, request_id: UUID) -> int:
    with suppress(TimeoutError):
        async with asyncio.timeout(_WAIT_S):
            while True:
                known = await store.read_request(cell, request_id)
                if known is not None and known.state in ("completed", "failed", "canceled"):
                    return await _show(cell, request_id) or (0 if known.state == "completed" else 1)
                await asyncio.sleep(0.3)  # noqa: TID251 - a person waits at a terminal
    typer.echo(f"not yet; see it later with: {hint(f'rewrite show {request_id}')}")
    return 1

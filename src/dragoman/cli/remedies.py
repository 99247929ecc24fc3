"""Dead letters, from the command line, with the operator's rights and no others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import typer

from dragoman.cli.db import cell_of, require_running
from dragoman.cli.hint import hint
from dragoman.core.canonical import canonical
from dragoman.core.errors import BadInput
from dragoman.core.remedy import CATEGORIES, Category, needed
from dragoman.settings import read_settings
from dragoman.store import dead_letters
from dragoman.store.database import Cell
from dragoman.store.dead_letters import Letter
from dragoman.store.workers import know_actor
from dragoman.work.replay import replay

_MOST = 200


async def show_letters(*, closed_too: bool) -> int:
    """Print a line for each; 1 when one waits for a person."""
    async with _cell() as (cell, _):
        found = await dead_letters.list_letters(cell, _MOST, closed_too=closed_too)
    for each in found:
        typer.echo(
            f"{each.job_id}  {each.state:10}  {each.pipeline}/{each.stage_name}  "
            f"{each.error_class}/{each.code}  {each.created_at:%Y-%m-%d %H:%M} UTC"
        )
    if not found:
        typer.echo("no dead letter")
    return 1 if any(each.state != "resolved" for each in found) else 0


async def show_letter(letter: UUID) -> int:
    """Print one with its context and its next step."""
    async with _cell() as (cell, _):
        found = await dead_letters.read_letter(cell, letter)
    facts = {
        "letter": found.id,
        "job": found.job_id,
        "state": found.state,
        "failed": f"{found.error_class}/{found.code} at {found.pipeline}/{found.stage_name}",
        "why": f"{found.reason} after {found.attempts} attempts",
        "context": canonical(found.sanitized_context).decode(),
        "category": found.category,
        "evidence": canonical({**found.evidence}).decode() if found.evidence else None,
        "sign-off": found.sign_off,
        "replay": found.replay_id,
        "notes": found.notes,
        "next": _next(found),
    }
    for name, value in facts.items():
        if value is not None:
            typer.echo(f"{name:8}  {value}")
    return 0


async def triage(letter: UUID, category: str, sign_off: str | None) -> int:
    """Put a failure down to something."""
    async with _cell() as (cell, actor):
        return _told(await dead_letters.triage(cell, actor, letter, category, sign_off))


async def remediate(letter: UUID, ticket: str, evidence: Sequence[str]) -> int:
    """Record what was done."""
    told = dict(_named(each) for each in evidence)
    async with _cell() as (cell, actor):
        return _told(await dead_letters.remediate(cell, actor, letter, ticket, told))


async def replay_letter(letter: UUID, *, is_safe_twice: bool, full_restart: bool) -> int:
    """Replay it."""
    async with _cell() as (cell, actor):
        made = await replay(
            cell, actor, letter, is_safe_twice=is_safe_twice, full_restart=full_restart
        )
    typer.echo(f"replayed by job {made.job_id}, from stage {made.plan.stage_name}")
    typer.echo(f"see it with: {hint(f'job {made.job_id}')}")
    return 0


async def resolve(letter: UUID, notes: str) -> int:
    """Close it."""
    async with _cell() as (cell, actor):
        return _told(await dead_letters.resolve(cell, actor, letter, notes))


async def escalate(letter: UUID, why: str) -> int:
    """Hand it to engineering."""
    async with _cell() as (cell, actor):
        return _told(await dead_letters.escalate(cell, actor, letter, why))


@asynccontextmanager
async def _cell() -> AsyncGenerator[tuple[Cell, UUID]]:
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "operator", "cli")
        yield cell, actor


def _named(told: str) -> tuple[str, str]:
    name, equals, words = told.partition("=")
    if not equals:
        raise BadInput("--evidence takes NAME=WORDS, for instance release=1.4.2")
    return name.strip(), words.strip()


def _told(letter: Letter) -> int:
    typer.echo(f"{letter.job_id} is {letter.state}; next: {_next(letter) or 'nothing'}")
    return 0


def _next(letter: Letter) -> str | None:
    """What the next step takes."""
    is_rewrite = letter.pipeline == "rewrite"
    match letter.state:
        case "open" | "escalated" if not is_rewrite:
            sign_off = " --sign-off" if letter.state == "escalated" else ""
            known = " or ".join(CATEGORIES[letter.failure_class])
            return f"letters triage --category {known}{sign_off}"
        case "triaged" if not is_rewrite:
            names = needed(letter.failure_class, Category(letter.category or ""))[:-1]
            asked = " ".join(f"--evidence {name}=..." for name in names)
            return f"letters remediate --ticket ... {asked}"
        case "remediated" if not is_rewrite:
            return "letters replay --safe-twice"
        case "replayed":
            return f"letters resolve --notes ..., once job {letter.replay_id} is completed"
        case "resolved":
            return None
        case _:
            return "letters resolve --notes ...; a rewrite is not replayed"

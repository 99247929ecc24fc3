"""One job's story on the terminal, for an auditor: who did what, when, and whether it holds."""

from __future__ import annotations

from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

from dragoman.cli.db import dsn_of, require_running
from dragoman.core.canonical import canonical, iso
from dragoman.settings import read_settings
from dragoman.store.database import open_cell
from dragoman.work.story import Story, tell_stories


async def show_story(job_or_request: UUID, *, as_json: bool) -> int:
    """Print the story; 1 when a chain does not hold."""
    settings = read_settings()
    require_running(settings)
    dsn = dsn_of(settings, "auditor")
    async with open_cell(dsn, name=settings.cell, role="dragoman audit", size=1) as cell:
        stories = await tell_stories(cell, job_or_request)
    for story in stories:
        if as_json:
            typer.echo(canonical(story.to_json()).decode())
        else:
            _print(story)
    return 1 if any(story.divergence for story in stories) else 0


def _print(story: Story) -> None:
    out = Console()
    for name, value in story.record.items():
        if value is not None and name != "timestamps":  # the events say those
            told = value if isinstance(value, str) else canonical(value).decode()
            out.print(f"[dim]{name:34}[/]{told}", highlight=False, soft_wrap=True)
    out.print(_table(story))
    verdict = "every event follows from the one before it, and the last one is the job's head"
    out.print(str(story.divergence or verdict), highlight=False, soft_wrap=True)


def _table(story: Story) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("#", "at", "event", "why", "try", "by", "facts", "hash", "holds"):
        table.add_column(name, overflow="fold")
    for step in story.steps:
        event, facts = step.event, step.facts
        new = {name: value for name, value in facts.items() if story.record.get(name) != value}
        table.add_row(
            str(event.seq),
            iso(event.at),
            step.kind,
            step.reason,
            str(event.attempt),
            f"{step.actor.role} {step.actor.name}" if step.actor else str(event.actor),
            canonical(new).decode() if new else "",
            event.hash.hex()[:8],
            "yes" if step.is_verified else "NO",
        )
    return table

"""The auditor's commands: chains computed again, told as counts and first divergences."""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID

import typer

from dragoman.cli.db import dsn_of, require_running
from dragoman.core.ids import JobId
from dragoman.settings import Settings, read_settings
from dragoman.store.database import open_cell
from dragoman.work.audit import Report, verify, verify_job


async def show_verdict(job_id: UUID | None, since: datetime | None) -> int:
    """Verify, and say what was found; 1 when anything is wrong."""
    settings = read_settings()
    began = time.monotonic()
    report = await _verify(settings, job_id, since)
    _tell(report, time.monotonic() - began)
    return 0 if report.is_sound else 1


async def _verify(settings: Settings, job_id: UUID | None, since: datetime | None) -> Report:
    require_running(settings)
    dsn = dsn_of(settings, "auditor")
    async with open_cell(dsn, name=settings.cell, role="dragoman audit", size=1) as cell:
        return await (verify_job(cell, JobId(job_id)) if job_id else verify(cell, since))


def _tell(report: Report, took_s: float) -> None:
    for found in report.divergences:
        typer.echo(str(found))
    if report.broken > len(report.divergences):
        typer.echo(f"and {report.broken - len(report.divergences)} more")
    pace = round(report.events / max(took_s, 0.001))
    typer.echo(
        f"{report.jobs} chains, {report.events} events and {report.changes} changes computed again"
        f" in {took_s:.1f} s, {pace} events a second"
    )
    typer.echo("nothing diverges" if report.is_sound else f"{report.broken} diverge")

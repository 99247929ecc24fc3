"""The auditor's commands: chains computed again, told as counts and first divergences."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.cli.db import cell_of, require_running
from dragoman.core.anchor import new_key, read_public
from dragoman.core.canonical import iso
from dragoman.core.errors import BadInput, NotFound, Refused
from dragoman.core.ids import JobId
from dragoman.settings import read_settings
from dragoman.store.database import Cell
from dragoman.store.files import write_file
from dragoman.work.anchors import Anchored, verify_anchors
from dragoman.work.audit import Report, verify, verify_job


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be verified: everything, one job, or what has moved; and by which anchors."""

    job_id: UUID | None = None
    since: datetime | None = None
    anchors: Path | None = None
    key: Path | None = None


async def show_verdict(asked: Asked) -> int:
    """Verify, and say what was found; 1 when anything is wrong."""
    settings = read_settings()
    key = _public_key(asked)
    require_running(settings)
    began = time.monotonic()
    async with cell_of(settings, "auditor", "dragoman audit") as cell:
        report = await _verify(cell, asked)
        _tell_chains(report, time.monotonic() - began)
        if asked.anchors and key:
            _tell_anchors(await verify_anchors(cell, asked.anchors, key, report, asked.since))
    _tell_verdict(report)
    return 0 if report.is_sound else 1


def _public_key(asked: Asked) -> Ed25519PublicKey | None:
    if (asked.anchors is None) != (asked.key is None):
        raise BadInput("anchors are verified with their public key: give both, --anchors and --key")
    if asked.anchors is None or asked.key is None:
        return None
    if asked.job_id:
        raise BadInput("anchors are about everybody's history: leave --job out")
    if not asked.anchors.is_file():
        raise BadInput(f"there is no file of anchors {asked.anchors}")
    try:
        return read_public(asked.key.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"the key file {asked.key} cannot be read") from None


async def _verify(cell: Cell, asked: Asked) -> Report:
    if asked.job_id is None:
        return await verify(cell, asked.since)
    report = await verify_job(cell, JobId(asked.job_id))
    if not report.jobs:
        raise NotFound("there is no job with this id, and no event of it")
    return report


def _tell_chains(report: Report, took_s: float) -> None:
    pace = round(report.events / max(took_s, 0.001))
    typer.echo(
        f"{report.jobs} chains, {report.events} events and {report.changes} changes computed again"
        f" in {took_s:.1f} s, {pace} events a second"
    )


def _tell_anchors(anchored: Anchored) -> None:
    if anchored.upto is None:
        typer.echo("the file holds no anchor")
        return
    typer.echo(
        f"{anchored.lines} anchors cover the history until {iso(anchored.upto)};"
        f" the slowest was written {anchored.slowest.total_seconds():.0f} s after its time"
    )


def _tell_verdict(report: Report) -> None:
    for found in report.divergences:
        typer.echo(str(found))
    if report.broken > len(report.divergences):
        typer.echo(f"and {report.broken - len(report.divergences)} more")
    typer.echo("nothing diverges" if report.is_sound else f"{report.broken} found")


def make_key(path: Path) -> None:
    """Write a new key to sign anchors with, for its owner's eyes only, and its public half."""
    public_path = path.with_name(f"{path.name}.pub")
    for each in (path, public_path):
        if each.exists():
            raise Refused(f"{each} is there already; a key that has signed must not be lost")
    private, public = new_key()
    try:
        write_file(path, private, 0o600)
        write_file(public_path, public, 0o644)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    typer.echo(f"the key is {path}: name it in audit.key_file, and keep it from the database")
    typer.echo(f"whoever verifies needs {public_path}")

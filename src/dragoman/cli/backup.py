"""Backup and restore of the embedded database, from the command line."""

from __future__ import annotations

from pathlib import Path

import typer

from dragoman.cli.alone import only_one
from dragoman.cli.db import line_dsn_of, require_running
from dragoman.cli.hint import hint
from dragoman.core.errors import BadSetting, Refused
from dragoman.settings import Settings, read_secret, read_settings
from dragoman.store import restore as places
from dragoman.store.archive import check_key, open_archive
from dragoman.store.backup import take_backup
from dragoman.store.cluster import installed


def backup(target: Path, *, may_lie_open: bool) -> None:
    """Write one, and say what is in it."""
    settings = read_settings()
    key = "" if may_lie_open else _key(settings, "or say --unencrypted: then it can be read by all")
    require_running(settings)
    programs = installed() / "bin"
    path, about = take_backup(line_dsn_of(settings, "owner"), programs, target.absolute(), key)
    kind = "sealed" if key else "NOT sealed, every text in it can be read"
    typer.echo(
        f"{path}: {path.stat().st_size:,} bytes, {kind}; {about.jobs:,} jobs of the cell "
        f"{about.cell} at {about.taken_at:%Y-%m-%d %H:%M:%S} UTC"
    )


def restore(file: Path, *, may_replace: bool) -> None:
    """Put one in place, and say what to do next."""
    settings = read_settings()
    if settings.database != "embedded":
        raise Refused("a database by URL is restored where it runs, by its own tools")
    with open_archive(file) as archive, only_one(settings.home):
        key = _key(settings, "this backup is sealed") if archive.is_sealed else ""
        done = places.restore(
            settings.home / "postgresql", archive, key, cell=settings.cell, may_replace=may_replace
        )
    typer.echo(f"restored {done.about.jobs:,} jobs; every role has a new password")
    if done.aside is not None:
        typer.echo(f"the data that were here are in {done.aside}")
    typer.echo(f"the engine is {done.hold}")
    typer.echo(f"start it: {hint('up')}; look: {hint('status')}; let it go on: {hint('release')}")


def _key(settings: Settings, why: str) -> str:
    key = read_secret(settings.backup.key_env, settings.backup.key_file)
    if not key:
        raise BadSetting(f"there is no key: set backup.key_file or backup.key_env; {why}")
    check_key(key)
    return key

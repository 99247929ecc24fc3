"""A restore: loaded beside its place, and put there whole. Nothing that stood there is deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from dragoman.core.errors import BadSetting, DatabaseError, Refused
from dragoman.store.archive import About, Archive, BadBackup, RestoreFailed
from dragoman.store.backup import load_dump
from dragoman.store.cluster import MAJOR, Cluster
from dragoman.store.database import mapped, open_cell
from dragoman.store.embedded import Server, State
from dragoman.store.files import sync_folder
from dragoman.store.holds import Hold, Why, read_hold, renew_incarnation, start_hold
from dragoman.store.incarnation import NAME, check_incarnation
from dragoman.store.migrate import known_migrations, migrate
from dragoman.store.roles import OWNER
from dragoman.store.workers import know_actor

_STAGING = ".restoring"


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    about: About
    hold: Hold
    aside: Path | None  # where the old data are now


def refuse_half_restored(home: Path) -> None:
    """Refuse a place into which a restore is still going on, or was cut short."""
    if _beside(home).exists():
        raise BadSetting(
            f"a restore into {home} has not come to its end: wait if it still runs, "
            "else run dragoman db restore again"
        )


def restore(home: Path, archive: Archive, key: str, *, cell: str, may_replace: bool) -> Restored:
    """Put a backup's data into a home of the embedded server, held, with new passwords.

    The caller makes sure that nobody else starts, stops or restores there.

    >>> restore(home, archive, key, cell="main", may_replace=False)  # doctest: +SKIP
    """
    archive.check(key)
    _refuse_stranger(archive, cell)
    home = home.resolve()
    _refuse_used(home, may_replace=may_replace)
    with _staged(home) as server:
        server.bootstrap()
        load_dump(server.dsn(OWNER), server.bin_dir, archive.read(key))
        migrate(server.dsn(OWNER), cell=cell)
        hold = _begin_anew(server, cell, archive.about)
        server.stop()
        aside = _put_in_place(server.home, home)
    return Restored(archive.about, hold, aside)


def _refuse_stranger(archive: Archive, cell: str) -> None:
    """What cannot be right is refused before anything is made."""
    about, known = archive.about, known_migrations()
    if about.cell != cell:
        raise BadBackup(f"{archive.path} is of the cell {about.cell}, and this one is {cell}")
    if about.postgres > int(MAJOR):
        raise BadBackup(f"{archive.path} is of PostgreSQL {about.postgres}, and this is {MAJOR}")
    for name, digest in about.migrations:
        if known.get(name) != digest:
            raise BadBackup(
                f"{archive.path} was made by another version of Dragoman, its schema has {name}: "
                "use that version, or a newer one"
            )


def _refuse_used(home: Path, *, may_replace: bool) -> None:
    state = Server(home).status().state
    if state not in {State.ABSENT, State.STOPPED, State.WRONG_VERSION}:
        raise Refused(f"the database in {home} is {state}: stop it first, with dragoman db stop")
    if state is not State.ABSENT and not may_replace:
        raise Refused(
            f"there are data in {home}: with --replace they are moved aside, and nothing is deleted"
        )


@contextmanager
def _staged(home: Path) -> Generator[Server]:
    """A server in a place of its own; nothing of it is left unless it was put in place."""
    server = Server(_beside(home))
    _clear(server)  # what a restore before this one has left
    try:
        yield server
    except DatabaseError:  # its log will not be there any more
        raise RestoreFailed from None
    finally:
        _clear(server)


def _clear(server: Server) -> None:
    if server.home.exists():
        server.stop()
        shutil.rmtree(server.home)
    sockets = Cluster(server.home).sockets
    if sockets.parent != server.home:
        with suppress(OSError):
            sockets.rmdir()


def _begin_anew(server: Server, cell: str, about: About) -> Hold:
    """Another life of the data, held; with room for the events to come and fresh statistics."""
    dsn = server.dsn(OWNER)
    hold = asyncio.run(_hold(dsn, cell, about.taken_at))
    with (
        mapped(),
        psycopg.connect(dsn, autocommit=True, options="-c search_path=dragoman") as connection,
    ):
        connection.execute("select ensure_partitions()")
        connection.execute("analyze")
    check_incarnation(dsn, server.home / NAME, cell)
    return hold


async def _hold(dsn: str, cell: str, data_at: datetime) -> Hold:
    async with open_cell(dsn, name=cell, role="dragoman restore") as opened:
        async with opened.transaction("start_hold") as tx:
            actor = await know_actor(tx, "operator", "restore")
            await tx.run("hold/end_marks")
            # A backup of data that were held themselves knows no more than they did.
            before = [row[0] for row in await tx.tuples("hold/supersede_hold", actor=actor)]
            await start_hold(tx, actor, Why.RESTORED, min([data_at, *before]))
            await renew_incarnation(tx)
        hold = await read_hold(opened)
    assert hold is not None  # noqa: S101 - it was begun above
    return hold


def _put_in_place(staging: Path, home: Path) -> Path | None:
    aside = None
    if home.exists():
        aside = home.with_name(f"{home.name}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        home.rename(aside)
    staging.rename(home)
    sync_folder(home.parent)
    return aside


def _beside(home: Path) -> Path:
    place = home.resolve()
    return place.with_name(f"{place.name}{_STAGING}")

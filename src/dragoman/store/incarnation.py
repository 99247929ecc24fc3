"""Which data stood here last: a small file beside them, compared at every start.

A copy of the data folder that is put back is a whole, healthy database, and nothing in it says that
the world has gone on since. The file does: it knows the incarnation, the server's own identity, and
how far its log was on disk. Data that are another's, or that end earlier, start held.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from dragoman.core.canonical import canonical, read_object
from dragoman.core.errors import BadJSON, NotFound
from dragoman.store.database import mapped, open_cell, statement
from dragoman.store.files import write_file
from dragoman.store.holds import Hold, Why, renew_incarnation, start_hold
from dragoman.store.workers import know_actor

NAME: Final = "incarnation"


@dataclass(frozen=True, slots=True)
class Mark:
    """Which data these are, and how far they are written."""

    incarnation: UUID
    system: int
    database: int
    written: int
    is_marked: bool = True

    def differs(self, last: Mark | None) -> Why | None:
        """Why these are not the data that stood here last, nor those that came of them.

        >>> ours = Mark(UUID(int=1), 7, 8, written=100)
        >>> ours.differs(Mark(UUID(int=1), 7, 8, written=101)).value
        'older_data'
        """
        if last is None:
            return Why.UNKNOWN_DATA if self.is_marked else None
        if (last.incarnation, last.system, last.database) != (
            self.incarnation,
            self.system,
            self.database,
        ):
            return Why.OTHER_DATA
        return Why.OLDER_DATA if self.written < last.written else None


def check_incarnation(dsn: str, file: Path, cell: str) -> Hold | None:
    """Compare the data with the file; the hold that follows, if they are not the same.

    >>> check_incarnation(server.dsn(OWNER), server.home / NAME, "main")  # doctest: +SKIP
    """
    found, hold = _look(dsn), None
    if why := found.differs(_read(file)):
        hold = asyncio.run(_hold(dsn, cell, why))
        found = _look(dsn)
    _write(file, found)
    if not found.is_marked:
        with mapped(), psycopg.connect(dsn, options="-c search_path=dragoman") as connection:
            connection.execute(statement("hold/record_marked"))
    return hold


def note_progress(dsn: str, file: Path) -> None:
    """Write down how far the data are; never that they have become less or others."""
    found, last = _look(dsn), _read(file)
    if last is not None and found.written > last.written and found.differs(last) is None:
        _write(file, found)


async def _hold(dsn: str, cell: str, why: Why) -> Hold | None:
    async with (
        open_cell(dsn, name=cell, role="dragoman start") as opened,
        opened.transaction("start_hold") as tx,
    ):
        hold = await start_hold(tx, await know_actor(tx, "system", "start"), why)
        if hold is not None:
            await renew_incarnation(tx)
        return hold


def _look(dsn: str) -> Mark:
    with (
        mapped(),
        psycopg.connect(dsn, options="-c search_path=dragoman") as connection,
        connection.cursor(row_factory=class_row(Mark)) as cursor,
    ):
        row = cursor.execute(statement("hold/read_mark")).fetchone()
    if row is None:
        raise NotFound("there is no schema in this database yet")
    return row


def _read(file: Path) -> Mark | None:
    """What the file says; one that cannot be understood knows nothing."""
    try:
        told = read_object(file.read_bytes())
        return Mark(
            UUID(str(told["incarnation"])),
            int(str(told["system"])),
            int(str(told["database"])),
            int(str(told["written"])),
        )
    except (FileNotFoundError, BadJSON, KeyError, ValueError):
        return None


def _write(file: Path, mark: Mark) -> None:
    told = {
        "incarnation": str(mark.incarnation),
        "system": str(mark.system),
        "database": mark.database,
        "written": mark.written,
    }
    write_file(file, canonical(told).decode() + "\n", 0o600)

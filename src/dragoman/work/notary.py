"""The notary: writes a signed line about every stretch of history to a file outside the database.

A line is written only about a time that is over: whoever wrote history when that time was read has
committed or rolled back since. The file itself is the record of what was done. A crash before the
line is whole leaves a torn line, which the next one takes away; two notaries on one file take
turns. The margin guards against a new primary whose clock is behind the old one's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dragoman.core import ports
from dragoman.core.anchor import Anchor, Digest, line_hash, read_line
from dragoman.core.errors import BadInput, Refused
from dragoman.store import audit
from dragoman.store.audit import Moment
from dragoman.store.database import Cell
from dragoman.store.files import sync_folder

_LONGEST = timedelta(hours=1)  # what is caught up with at once; a window is sorted in memory
_LINES = 50
_TAIL = 1 << 16
_BEGIN = b'{"cell":'
_NOT_OURS = (
    "the anchors do not end with a line that was written with this key; "
    "keep the file as it is and name another one in audit.anchor_file"
)


@dataclass(slots=True)
class Notary:
    """Reads as an auditor and holds the key; the two things it has nothing else to do with."""

    cell: Cell
    path: Path
    key: Ed25519PrivateKey
    every_s: float = 300.0
    margin_s: float = 60.0
    _asked: tuple[Moment, frozenset[str]] | None = field(default=None)

    async def write_due(self) -> int:
        """Write the lines that are due, a bounded number; how many were written."""
        upto = await self._settled()
        if upto is None:
            return 0
        try:
            with self._file() as file:
                return await self._write_until(file, *upto) if file else 0
        except OSError as error:
            raise Refused(
                f"the anchors in {self.path} cannot be written: {error.strerror}"
            ) from None

    async def _settled(self) -> tuple[Moment, datetime] | None:
        """A time of which all events are there: nobody who wrote then is writing still."""
        before, now = self._asked, await audit.read_moment(self.cell)
        if before and before[1] & now[1]:
            return None
        self._asked = now
        if before is None:
            return None
        return now[0], min(before[0].now, now[0].now - timedelta(seconds=self.margin_s))

    async def _write_until(self, file: BinaryIO, moment: Moment, upto: datetime) -> int:
        last, previous = _last(file, self.key)
        since = last.upto if last else moment.created_at
        number = last.number if last else 0
        every = timedelta(seconds=self.every_s)
        written = 0
        while since + every <= upto and written < _LINES:
            end = min(upto, since + max(every, _LONGEST), _next_month(since))
            number += 1
            line = await self._line(moment, number, since, end, previous)
            _append(file, line)
            since, previous, written = end, line_hash(line), written + 1
        return written

    async def _line(
        self, moment: Moment, number: int, since: datetime, upto: datetime, previous: str
    ) -> bytes:
        digest, changes, head = Digest(), 0, b""
        async with audit.one_moment(self.cell) as tx:
            async with aclosing(audit.read_window(tx, since, upto)) as parts:
                async for part in parts:
                    digest.take(part)
            if last := await audit.last_change(tx):
                changes, head = last
        anchor = Anchor(
            number=number,
            cell=moment.name,
            incarnation=moment.incarnation,
            since=since,
            upto=upto,
            written_at=moment.now,
            events=digest.events,
            jobs=digest.jobs,
            digest=digest.hex,
            changes=changes,
            change_head=head.hex(),
            previous=previous,
        )
        return anchor.line(self.key)

    @contextmanager
    def _file(self) -> Generator[BinaryIO | None]:
        """The file, held against other notaries; None while another one holds it."""
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "a+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            if is_new:
                sync_folder(self.path.parent)
            yield file


def _append(file: BinaryIO, line: bytes) -> None:
    ports.at("notary.append", "before")
    whole = line + b"\n"
    while whole:
        whole = whole[file.write(whole) :]
    os.fsync(file.fileno())
    ports.at("notary.append", "after")


def _last(file: BinaryIO, key: Ed25519PrivateKey) -> tuple[Anchor | None, str]:
    """The last line and its hash, after a torn one was taken away."""
    start = max(0, file.seek(0, os.SEEK_END) - _TAIL)
    file.seek(start)
    lines, _, torn = file.read(_TAIL).rpartition(b"\n")
    if torn:
        if not _BEGIN.startswith(torn[: len(_BEGIN)]):
            raise Refused(_NOT_OURS)
        file.truncate(file.tell() - len(torn))
        os.fsync(file.fileno())
    if not lines:
        return None, ""
    line = lines.rpartition(b"\n")[2]
    try:
        return read_line(line, key.public_key()), line_hash(line)
    except BadInput:
        raise Refused(_NOT_OURS) from None


def _next_month(at: datetime) -> datetime:
    """A window never crosses months, so that a month's events can be dropped with its windows."""
    at = at.astimezone(UTC)
    year, month = divmod(at.year * 12 + at.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)

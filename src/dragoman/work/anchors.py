"""The anchors, compared with the history that they were written about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.core.anchor import Anchor, Digest, line_hash, read_line
from dragoman.core.chain import Divergence, Fault
from dragoman.core.errors import BadInput
from dragoman.store import audit
from dragoman.store.database import Cell
from dragoman.work.audit import Report

_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(slots=True)
class Anchored:
    """What the lines of a file cover."""

    lines: int = 0
    upto: datetime | None = None
    slowest: timedelta = timedelta()  # from the end of a window to its line


async def verify_anchors(
    cell: Cell, path: Path, key: Ed25519PublicKey, report: Report, since: datetime | None = None
) -> Anchored:
    """Check the lines of a file, and that the history is still what each of them says."""
    anchored, changes = Anchored(), await _changes(cell)
    for anchor in _lines(path, key, report):
        if not anchored.lines:
            await _check_beginning(cell, anchor, report)
        anchored.lines += 1
        anchored.upto = anchor.upto
        anchored.slowest = max(anchored.slowest, anchor.written_at - anchor.upto)
        if anchor.change_head != changes.get(anchor.changes, b"").hex():
            report.add(_wrong(Fault.ANCHORED_CHANGES, anchor.number))
        if since is None or anchor.upto > since:
            await _check_window(cell, anchor, report)
    return anchored


def _lines(path: Path, key: Ed25519PublicKey, report: Report) -> Iterator[Anchor]:
    """The lines whose signature is right; what is wrong with one, or with their order, is told."""
    last: Anchor | None = None
    previous = ""
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return  # a torn line: its notary was cut short, and the next one takes it away
            line = raw.removesuffix(b"\n")
            try:
                anchor = read_line(line, key)
            except BadInput:
                report.add(_wrong(Fault.LINE, number))
                continue
            if not _follows(anchor, number, last, previous):
                report.add(_wrong(Fault.LINES, number))
            last, previous = anchor, line_hash(line)
            yield anchor


def _follows(anchor: Anchor, number: int, last: Anchor | None, previous: str) -> bool:
    if (anchor.number, anchor.previous) != (number, previous):
        return False
    return last is None or (anchor.since, anchor.cell) == (last.upto, last.cell)


async def _check_window(cell: Cell, anchor: Anchor, report: Report) -> None:
    digest = await _digest(cell, anchor.since, anchor.upto)
    if (digest.events, digest.jobs, digest.hex) != (anchor.events, anchor.jobs, anchor.digest):
        report.add(_wrong(Fault.ANCHOR, anchor.number))


async def _check_beginning(cell: Cell, anchor: Anchor, report: Report) -> None:
    if (await _digest(cell, _BEGINNING, anchor.since)).events:
        report.add(_wrong(Fault.BEFORE, anchor.number))


async def _digest(cell: Cell, since: datetime, upto: datetime) -> Digest:
    digest = Digest()
    async with (
        audit.one_moment(cell) as tx,
        aclosing(audit.read_window(tx, since, upto)) as parts,
    ):
        async for part in parts:
            digest.take(part)
    return digest


async def _changes(cell: Cell) -> dict[int, bytes]:
    """The hash of every change; they are few. Before the first one there is nothing."""
    async with audit.one_moment(cell) as tx, aclosing(audit.read_changes(tx)) as found:
        return {0: b""} | {change.seq: change.hash async for change in found}


def _wrong(fault: Fault, number: int) -> Divergence:
    return Divergence(fault, seq=number, where="anchor")

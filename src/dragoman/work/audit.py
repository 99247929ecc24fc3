"""The audit: every chain computed again from its events, and compared with where it should end.

Jobs are read in the order of their ids, some hundreds in one short transaction, so that the oldest
snapshot stays young while millions of events are read. Within it events and heads are of the same
moment: a chain that grows meanwhile is no divergence.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from dragoman.core.chain import Chain, Changes, Divergence, Event, Head
from dragoman.core.ids import JobId
from dragoman.store import audit
from dragoman.store.database import Cell, Tx

_FIRST, _LAST = UUID(int=0), UUID(int=(1 << 128) - 1)
_PORTION = 2_000
_KEPT = 100


@dataclass(slots=True)
class Report:
    """What was read and what was wrong with it; of the divergences the first hundred are kept."""

    jobs: int = 0
    events: int = 0
    changes: int = 0
    broken: int = 0
    divergences: list[Divergence] = field(default_factory=list[Divergence])

    def add(self, found: Divergence | None) -> None:
        """Count what was found, if anything was."""
        if found is not None:
            self.broken += 1
            if len(self.divergences) < _KEPT:
                self.divergences.append(found)

    @property
    def is_sound(self) -> bool:
        """Whether nothing at all was wrong."""
        return not self.broken


async def verify(cell: Cell, since: datetime | None = None, portion: int = _PORTION) -> Report:
    """Verify every chain, or those that have moved since a time, and the chain of changes.

    >>> (await verify(cell)).is_sound  # doctest: +SKIP
    True
    """
    report, after = Report(), _FIRST
    while after != _LAST:
        async with audit.one_moment(cell) as tx:
            heads = await audit.list_heads(tx, after, since, portion)
            upto = heads[-1].job_id if len(heads) == portion else _LAST
            await _check(report, heads, _events(tx, heads, after, upto, since))
        after = upto
    await _check_changes(cell, report)
    return report


async def verify_job(cell: Cell, job_id: JobId) -> Report:
    """Verify the chain of one job."""
    report = Report()
    async with audit.one_moment(cell) as tx:
        heads = await audit.read_head(tx, job_id)
        await _check(report, heads, audit.read_chains(tx, [job_id]))
    return report


def _events(
    tx: Tx, heads: Sequence[Head], after: UUID, upto: UUID, since: datetime | None
) -> AsyncGenerator[Event]:
    """Of everything: the whole range, so that events without a job are seen."""
    if since is None:
        return audit.read_range(tx, after, upto)
    return audit.read_chains(tx, [head.job_id for head in heads])


async def _check(report: Report, heads: Sequence[Head], events: AsyncGenerator[Event]) -> None:
    """Read chain after chain; the heads that no event belongs to are left over."""
    left = {head.job_id: head for head in heads}
    job_id: JobId | None = None
    chain = Chain()
    async with aclosing(events):
        async for event in events:
            if event.job_id != job_id:
                report.add(chain.end(left.pop(job_id, None) if job_id else None))
                job_id, chain = event.job_id, Chain()
                report.jobs += 1
            chain.take(event)
            report.events += 1
    report.add(chain.end(left.pop(job_id, None) if job_id else None))
    for head in left.values():
        report.jobs += 1
        report.add(Chain().end(head))


async def _check_changes(cell: Cell, report: Report) -> None:
    changes = Changes()
    async with audit.one_moment(cell) as tx, aclosing(audit.read_changes(tx)) as found:
        async for change in found:
            changes.take(change)
            report.changes += 1
    report.add(changes.fault)

"""The sweeper: takes back what a dead worker held, folds the sums, and makes next month's room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import ACCOUNT_S
from dragoman.core.job import Retry
from dragoman.store import gates, jobs, workers
from dragoman.store.database import Cell
from dragoman.store.holds import read_hold
from dragoman.work.finish import Finished, finish
from dragoman.work.loop import Loop, Station, log

_MANY = 1000
Chore: TypeAlias = Callable[[Cell], Awaitable[int]]


class Sweeper(Loop):
    """Runs at its own pace; two of them do no harm."""

    role = "sweeper"

    def __init__(self, station: Station, chores: Sequence[Chore] = ()) -> None:
        super().__init__(station)
        self.chores = chores

    @property
    def every_s(self) -> float:
        """How long it sleeps when it found nothing."""
        return self.station.profile.sweep_every_s

    async def run_once(self) -> int:
        """Stale claims, what is due, permits, sums, room, and the chores of pipelines."""
        await workers.end_lines(self.station.cell)
        # A held engine's claims are of another life: its collector lets go of them.
        swept = 0 if await read_hold(self.station.cell) else await self.sweep_stale()
        while await self.station.promote(_MANY) == _MANY:
            pass
        await gates.drop_permits(self.station.cell)
        await gates.calm_gates(self.station.cell, ACCOUNT_S)
        await workers.ensure_partitions(self.station.cell)
        while await workers.fold_deltas(self.station.cell) >= 100_000:
            pass
        for chore in self.chores:
            swept += await chore(self.station.cell)
        return swept

    async def sweep_stale(self) -> int:
        """Requeue claims whose holder is gone; each counts as one failed attempt, once."""
        station = self.station
        timeouts = {
            pipeline.name: pipeline.claim_timeout_s for pipeline in station.pipelines.values()
        }
        stale = await jobs.find_stale(station.cell, timeouts, station.profile.max_jobs_per_run)
        failure = Failure(FailureClass.STALE_CLAIM, "stale_claim_requeued")
        counts = await finish(
            station.cell,
            station.line.worker,
            station.pipelines,
            [Finished(job, Retry(failure)) for job in stale],
        )
        if stale:
            log.info("swept", requeued=counts["requeued"], failed=counts["failed"])
        return len(stale)

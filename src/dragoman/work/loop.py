"""The one base of everything that runs: start, stop, wait, wake, jitter, and the log of errors."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from dragoman.core.errors import DatabaseError, DragomanError, LeaseLost
from dragoman.core.frames import frames
from dragoman.core.profile import Profile
from dragoman.store import jobs, workers
from dragoman.store.database import Cell
from dragoman.store.holds import read_hold
from dragoman.work.line import Line
from dragoman.work.pipeline import Pipelines

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")


@dataclass(frozen=True, slots=True)
class Station:
    """What every role works with."""

    cell: Cell
    line: Line
    pipelines: Pipelines
    profile: Profile

    async def promote(self, most: int = 1000) -> int:
        """Make ready what has become due, or all that waits if the profile respects no times."""
        is_respected = self.profile.respect_not_before_at
        return await jobs.promote_due(self.cell, most, is_respected=is_respected)


class Loop(ABC):
    """A role. Production calls `run`, tests call `run_once`."""

    role: str
    is_scheduled = False

    def __init__(self, station: Station) -> None:
        self.station = station
        self.wake = asyncio.Event()
        self.stop = asyncio.Event()
        self._said: UUID | None = None

    @abstractmethod
    async def run_once(self) -> int:
        """Do what there is to do, bounded; how much it was."""

    @property
    @abstractmethod
    def every_s(self) -> float:
        """How long it sleeps when it found nothing."""

    async def turn(self) -> int:
        """One turn of the loop; the next one comes at once unless this one found nothing."""
        return await self.run_once()

    async def run(self, stop: asyncio.Event) -> None:
        """Take turns until told to stop."""
        self.stop = stop
        while not stop.is_set():
            done = await self._guarded()
            if self.station.line.lost.is_set():
                log.error("lease_lost", role=self.role)
                raise LeaseLost
            if not done:
                await self._sleep(stop)

    async def is_held(self) -> bool:
        """Whether nothing may be created or sent now; a skipped run says so, in a tick or once."""
        hold = await read_hold(self.station.cell)
        if hold is not None and (self.is_scheduled or self._said != hold.id):
            self._said = hold.id
            log.warning("held", role=self.role, why=hold.why, since=hold.held_at.isoformat())
            sentence = f"{self.role} held: {hold.why}"
            await workers.skip_run(self.station.cell, self.role, self.station.line.worker, sentence)
        return hold is not None

    async def _guarded(self) -> int:
        try:
            return await self.turn()
        except DatabaseError as error:
            log.warning("database", role=self.role, error=str(error))
            self._give_up()
        except LeaseLost:
            log.warning("lease_lost", role=self.role)
        except DragomanError as error:
            log.error("refused", role=self.role, error=str(error))  # noqa: TRY400 - no stack
        except Exception as error:  # noqa: BLE001 - becomes an alert, without its message
            log.error("bug", role=self.role, frames=frames(error))  # noqa: TRY400 - no values
            self._give_up()
            await self._page(error)
        return 0

    def _give_up(self) -> None:
        """What this process holds and cannot let go of, others take back once its lease is gone."""
        self.station.line.lost.set()

    async def _page(self, error: Exception) -> None:
        facts = {"frames": list[object](frames(error))[-5:]}
        await workers.raise_alert(
            self.station.cell,
            "runtime_bug",
            f"{self.role}:{type(error).__name__}",
            "page",
            facts,  # type: ignore[arg-type]  # a list of str is JSON
        )

    async def _sleep(self, stop: asyncio.Event) -> None:
        pause = self.every_s * (0.75 + random.random() / 2)  # noqa: S311 - no secret
        waits = [
            asyncio.ensure_future(each.wait()) for each in (stop, self.wake, self.station.line.lost)
        ]
        await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        self.wake.clear()


@dataclass(frozen=True, slots=True)
class Record:
    """What a run tells of itself: where each job it took went, and whose model makes them."""

    counts: Counter[str] = field(default_factory=Counter[str])
    models: Counter[str] = field(default_factory=Counter[str])

    def add(self, provider: str, model: str, counts: Mapping[str, int]) -> None:
        """Count what became of jobs of one provider's model."""
        self.counts.update(counts)
        if claimed := counts.get("claimed"):
            self.models[f"{provider}/{model}"] += claimed


@asynccontextmanager
async def recorded_run(station: Station, role: str) -> AsyncGenerator[Record]:
    """The record of one bounded run, begun before its work; one that was cut short stays open."""
    profile, record = station.profile, Record()
    run = await workers.open_run(
        station.cell, role, station.line.worker, profile.max_jobs_per_run, profile.max_runtime_s
    )
    yield record
    await workers.close_run(station.cell, run, record.counts, record.models)
    log.info("run", role=role, run=str(run), **record.counts, models=dict(record.models))

"""The worker: runs plain stages, and calls models whose answer is wanted now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from dragoman.core import ports
from dragoman.core.call import Call, Reply
from dragoman.core.errors import DatabaseError, LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.frames import frames
from dragoman.core.job import Bury, Defer, Held, Kind, Mode, Outcome, Reason
from dragoman.store import jobs, workers
from dragoman.store.jobs import facts
from dragoman.work.collector import absorb
from dragoman.work.finish import Finished, finish
from dragoman.work.loop import Loop, Station
from dragoman.work.pipeline import LLMStage, stage_of
from dragoman.work.submission import Providers


class Worker(Loop):
    """Takes a few jobs at a time and goes on while there is work."""

    role = "worker"

    def __init__(self, station: Station, providers: Providers) -> None:
        super().__init__(station)
        self.providers = providers

    @property
    def every_s(self) -> float:
        """How long it sleeps when it found nothing."""
        return self.station.profile.idle_s

    async def run_once(self) -> int:
        """Claim a handful and see each to its outcome."""
        station = self.station
        if await self.is_held():
            return 0
        queues = await jobs.open_queues(station.cell, Mode.ASYNC, list(station.pipelines))
        if not queues:
            return 0
        station.line.fence()
        keys = [queue.key for queue in queues]
        held = await jobs.claim_jobs(
            station.cell, station.line.worker, keys, station.profile.concurrency
        )
        seen = await asyncio.gather(*map(self._see_through, held), return_exceptions=True)
        for each in seen:
            if isinstance(each, BaseException):
                # What this worker cannot let go of, others take back once its lease is gone.
                station.line.lost.set()
                raise each
        return len(held)

    async def _see_through(self, job: Held) -> Counter[str]:
        station = self.station
        try:
            outcome = await self._outcome(job)
        except LeaseLost:
            station.line.fence()  # the whole worker, or this job alone?
            return Counter(lost=1)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001 - an unknown exception is a bug: no retry, a page
            await self._page(error)
            outcome = Bury(
                Failure(FailureClass.RUNTIME_BUG, type(error).__name__), tuple(frames(error))
            )
        return await finish(
            station.cell, station.line.worker, station.pipelines, [Finished(job, outcome)]
        )

    async def _outcome(self, job: Held) -> Outcome:
        stage = stage_of(self.station.pipelines, job)
        if isinstance(stage, LLMStage):
            return await self._ask(stage, job)
        return await stage.run(self.station.cell, job)

    async def _ask(self, stage: LLMStage, job: Held) -> Outcome:
        given = await stage.load(self.station.cell, [job])
        if job.id not in given:
            return Bury(Failure(FailureClass.NOT_FOUND, "input_is_gone"))
        calls = stage.prepare(job, given[job.id])
        if isinstance(calls, Failure):
            return Bury(calls)
        async with self.station.line.unit(job.unit_lock) as is_ours:
            if not is_ours:
                return Defer(Reason.LOST_LEASE, delay_s=self.station.profile.overflow_delay_s)
            replies = await self._call(job, calls)
        return absorb(stage, job, given, replies)

    async def _call(self, job: Held, calls: Sequence[Call]) -> list[Reply]:
        """Each call is paid; that it begins is written down first, while the token still holds."""
        routing, station = job.routing, self.station
        base_url = routing.get("base_url")
        account = self.providers.account(job.account, str(base_url) if base_url else None)
        adapter = self.providers.adapter(str(routing["adapter_kind"]))
        note = jobs.Note(
            job.id,
            job.token,
            Kind.CALLING,
            facts=facts(provider=routing["provider"], model=routing["model"], calls=len(calls)),
        )
        if job.id not in await jobs.begin_calls(station.cell, station.line.worker, [note]):
            raise LeaseLost
        replies: list[Reply] = []
        for call in calls:
            station.line.fence()
            asked = adapter.answer(
                account, call, str(routing["model"]), station.profile.answer_deadline_s
            )
            replies.append(await ports.cross("work.answer", asked))
        return replies

    async def _page(self, error: Exception) -> None:
        await workers.raise_alert(
            self.station.cell,
            "runtime_bug",
            f"{self.role}:{type(error).__name__}",
            "page",
            {"frames": [*frames(error)[-5:]]},
        )

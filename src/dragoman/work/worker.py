"""The worker: runs plain stages, and calls models whose answer is wanted now."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import cast

from dragoman.core import ports
from dragoman.core.call import Call, Reply
from dragoman.core.errors import DatabaseError, DataRefused, LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.frames import frames
from dragoman.core.gate import tokens_of
from dragoman.core.ids import JobId
from dragoman.core.job import Bury, Defer, Held, Kind, Mode, Outcome, Reason, Retry
from dragoman.store import jobs, queues, workers
from dragoman.store.database import OpenQueue
from dragoman.store.jobs import facts
from dragoman.work.collector import absorb
from dragoman.work.finish import Finished, finish
from dragoman.work.flow import Flow
from dragoman.work.gate import Gates, claims, gate_of
from dragoman.work.loop import Loop, Station
from dragoman.work.pipeline import LLMStage, PlainStage, stage_of
from dragoman.work.submission import Providers


class Worker(Loop):
    """Goes on while there is work; jobs that ask a model and jobs that do not go side by side.

    With `asks` it is told to see to the ones or to the others alone.
    """

    role = "worker"

    def __init__(self, station: Station, providers: Providers, *, asks: bool | None = None) -> None:
        super().__init__(station)
        self.providers = providers
        self.gates = Gates(station.cell, station.line.worker)
        self.asks = asks
        self._looking = asyncio.Lock()
        self.again_s = float("inf")
        self._paid: set[JobId] = set()  # whose call has begun
        self._queues: Sequence[OpenQueue] = ()
        self._queues_at = float("-inf")

    @property
    def every_s(self) -> float:
        """How long it sleeps when it found nothing."""
        return self.station.profile.idle_s

    async def run(self, stop: asyncio.Event) -> None:
        """Run until told to stop; a free hand looks for work while another is busy."""
        self.again_s = self.every_s
        await super().run(stop)

    async def run_once(self) -> int:
        """See through whatever is ready."""
        slots, most = self.station.profile.concurrency, self.station.profile.claim_batch
        self._queues_at = float("-inf")
        flows = [
            Flow(
                partial(self._claim, asks=asks),
                partial(self._see, asks=asks),
                self._finish,
                slots,
                slots if asks else max(slots, most),
                self.again_s,
            )
            for asks in ((False, True) if self.asks is None else (self.asks,))
        ]
        try:
            await self._flow(flows)
        except BaseException:
            # What this worker cannot let go of, others take back once its lease is gone.
            self.station.line.lost.set()
            going_on = [task for flow in flows for task in flow.going_on]
            for task in going_on:
                task.cancel()
            await asyncio.gather(*going_on, return_exceptions=True)
            raise
        return sum(flow.count for flow in flows)

    async def _flow(self, flows: Sequence[Flow]) -> None:
        try:
            await self._go_on(flows)
        except DatabaseError:
            # A neighbour's answer may be paid for: what has begun is let go of before the lease is.
            await self._go_on(flows, is_broken=True)
            raise

    async def _go_on(self, flows: Sequence[Flow], *, is_broken: bool = False) -> None:
        give_up_at = float("inf")
        while True:
            is_stopping = is_broken or self.stop.is_set()
            if is_stopping:
                give_up_at = min(give_up_at, ports.monotonic() + self.station.profile.drain_s)
            if ports.monotonic() >= give_up_at:
                if is_broken:
                    return
                for flow in flows:
                    flow.interrupt()
            if self.wake.is_set():
                self.wake.clear()
                for flow in flows:
                    flow.look_again()
            pending = {task for flow in flows for task in flow.step(is_stopping=is_stopping)}
            if not pending:
                return
            await asyncio.wait(pending, timeout=self.every_s, return_when=asyncio.FIRST_COMPLETED)

    async def _claim(self, most: int, *, asks: bool) -> Sequence[Held]:
        station = self.station
        await self._look()
        station.line.fence()
        rooms = await self.gates.rooms([q for q in self._queues if bool(q.provider) is asks])
        held: list[Held] = []
        for keys, free in claims(rooms, most):
            left = most - len(held)
            if left:
                held += await jobs.claim_jobs(
                    station.cell, station.line.worker, keys, min(free, left)
                )
        return held

    async def _look(self) -> None:
        """Which queues there are, and what has become due, for both kinds of jobs."""
        async with self._looking:
            if ports.monotonic() - self._queues_at < self.every_s:
                return
            station = self.station
            self._queues = [] if await self.is_held() else await self._open_queues()
            if self._queues:
                await station.promote()
            self._queues_at = ports.monotonic()

    async def _open_queues(self) -> list[OpenQueue]:
        station = self.station
        return await queues.open_queues(station.cell, Mode.ASYNC, list(station.pipelines))

    async def _finish(self, finished: Sequence[Finished]) -> Counter[str]:
        station = self.station
        if self._paid:
            self._paid.difference_update(one.job.id for one in finished)
        return await finish(station.cell, station.line.worker, station.pipelines, finished)

    async def _see(self, job: Held, *, asks: bool) -> Outcome | None:
        """What comes of a job; None when it is not ours any more."""
        try:
            stage = stage_of(self.station.pipelines, job)
            if asks:
                return await self._ask(cast("LLMStage", stage), job)
            return await cast("PlainStage", stage).run(self.station.cell, job)
        except asyncio.CancelledError:
            if not self.stop.is_set():
                raise
            return self._interrupted(job)
        except LeaseLost:
            self._paid.discard(job.id)
            self.station.line.fence()  # the whole worker, or this job alone?
            return None
        except Exception as error:  # an unknown exception is a bug: no retry, a page
            if isinstance(error, DatabaseError) and not isinstance(error, DataRefused):
                raise
            await self._page(error)
            failure = Failure(FailureClass.RUNTIME_BUG, type(error).__name__)
            return Bury(failure, tuple(frames(error)))

    def _interrupted(self, job: Held) -> Outcome:
        """A call that has begun may have been paid: that try is over. Anything else begins anew."""
        if job.id in self._paid:
            return Retry(Failure(FailureClass.NETWORK_TIMEOUT, "interrupted"))
        return Defer(Reason.SHUTDOWN)

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
            async with self.gates.permit(gate_of(job), len(calls), tokens_of(calls)) as permit:
                if not permit.may_pass:
                    return Defer(Reason.GATE_CLOSED, delay_s=permit.delay_s)
                replies = await self._call(job, calls)
        return absorb(stage, job, given, replies)

    async def _call(self, job: Held, calls: Sequence[Call]) -> list[Reply]:
        """Each call is paid; that it begins is written down first, while the token still holds.

        A reply that closes the gate is the reply to the calls after it, which are not made.
        """
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
        self._paid.add(job.id)
        replies: list[Reply] = []
        for call in calls:
            station.line.fence()
            asked = adapter.answer(
                account, call, str(routing["model"]), station.profile.answer_deadline_s
            )
            replies.append(await ports.cross("work.answer", asked))
            if await self.gates.learn_from(gate_of(job), replies[-1:]):
                return replies + replies[-1:] * (len(calls) - len(replies))
        return replies

    async def _page(self, error: Exception) -> None:
        await workers.raise_alert(
            self.station.cell,
            "runtime_bug",
            f"{self.role}:{type(error).__name__}",
            "page",
            {"frames": [*frames(error)[-5:]]},
        )

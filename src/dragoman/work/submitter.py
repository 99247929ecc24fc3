"""The submitter: claims queued jobs, packs them into batch files, and creates each batch once."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import assert_never, cast

from dragoman.core import ports
from dragoman.core.answer import Doubt, Happened, NothingHappened
from dragoman.core.call import Call
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import BYTES_PER_TOKEN
from dragoman.core.ids import BatchId, Token, uuid7
from dragoman.core.job import Bury, Defer, Held, Mode, Reason
from dragoman.providers.base import Adapter, Limits, ProviderFailed
from dragoman.store import batches, jobs, queues, workers
from dragoman.store.database import OpenQueue
from dragoman.store.gates import GateNow
from dragoman.work.acts import act_once, create_batch
from dragoman.work.finish import Finished, finish
from dragoman.work.gate import Gates, closed, gate_of, room
from dragoman.work.loop import Station, log, recorded_run
from dragoman.work.pipeline import LLMStage, custom_id, stage_of
from dragoman.work.schedule import Scheduled
from dragoman.work.submission import Providers, Submission, give_back, new_batch


@dataclass(frozen=True, slots=True)
class Written:
    """A job and the lines it puts into a batch file."""

    job: Held
    calls: tuple[Call, ...]
    lines: tuple[bytes, ...]


class Submitter(Scheduled):
    """Runs once per tick and takes at most its limit; what is left waits, and that is normal."""

    role = "rewrite_batch_submitter"

    def __init__(self, station: Station, providers: Providers) -> None:
        super().__init__(station)
        self.providers = providers
        self.gates = Gates(station.cell, station.line.worker)

    @property
    def tick_s(self) -> float:
        """The cadence."""
        return self.station.profile.submitter_every_s

    async def run_once(self) -> int:
        """Claim, pack, submit; one recorded run, or one recorded skip."""
        station = self.station
        if await self.is_held():
            return 0
        waiting = await queues.open_queues(station.cell, Mode.BATCH, list(station.pipelines))
        keys = list(await self.gates.rooms(waiting))
        if not station.profile.respect_not_before_at:
            await station.promote()
        if not await queues.count_due(station.cell, keys):
            why = await self._why_not(waiting)
            skipped = f"{self.role} skipped: {why}"
            await workers.skip_run(station.cell, self.role, station.line.worker, skipped)
            return 0
        station.line.fence()
        async with recorded_run(station, self.role) as record:
            most = station.profile.max_jobs_per_run
            held = await jobs.claim_jobs(station.cell, station.line.worker, keys, most)
            deadline = self._deadline()
            for group in groups(held):
                counts = await self._submit_group(group, deadline)
                routing = group[0].routing
                record.add(
                    str(routing["provider"]),
                    str(routing["model"]),
                    {**counts, "claimed": len(group)},
                )
        return len(held)

    async def _why_not(self, waiting: Sequence[OpenQueue]) -> str:
        """Why there is nothing to submit: nothing waits, or what waits stands before a gate."""
        for key, now in (await self.gates.look(waiting)).items():
            if not room(now, Mode.BATCH) and await queues.count_due(self.station.cell, [key], 1):
                return closed(now)
        return "no pending items"

    def _deadline(self) -> float:
        return ports.monotonic() + self.station.profile.max_runtime_s

    async def _submit_group(self, held: Sequence[Held], deadline: float) -> Counter[str]:
        adapter = self.providers.adapter(str(held[0].routing["adapter_kind"]))
        now = await self.gates.at(gate_of(held[0]))
        if later := self._not_now(now, deadline):
            return await self._finish([Finished(job, later) for job in held])
        written, refused = await self._write(held, adapter)
        counts = await self._finish(refused)
        for parcel in parcels(written, limits_at(now, adapter.limits)):
            counts += await self._submit_or_defer(parcel, adapter, deadline)
        return counts

    async def _submit_or_defer(
        self, parcel: Sequence[Written], adapter: Adapter, deadline: float
    ) -> Counter[str]:
        later = self._not_now(await self.gates.at(gate_of(parcel[0].job)), deadline)
        if later is None:
            return await self._submit(parcel, adapter)
        return await self._finish([Finished(each.job, later) for each in parcel])

    def _not_now(self, now: GateNow | None, deadline: float) -> Defer | None:
        """Why what is left must wait: we are told to stop, are out of time, or the gate closed."""
        delay_s = self.station.profile.overflow_delay_s
        if self.stop.is_set():
            return Defer(Reason.SHUTDOWN)
        if ports.monotonic() > deadline:
            return Defer(Reason.RUNTIME_LIMIT, delay_s=delay_s)
        if not room(now, Mode.BATCH):
            return Defer(Reason.GATE_CLOSED, delay_s=delay_s)
        return None

    async def _write(
        self, held: Sequence[Held], adapter: Adapter
    ) -> tuple[list[Written], list[Finished]]:
        """Lines for the jobs that can be asked about; the others fail alone and at once."""
        stage = cast("LLMStage", stage_of(self.station.pipelines, held[0]))
        given = await stage.load(self.station.cell, held)
        written: list[Written] = []
        refused: list[Finished] = []
        for job in held:
            calls = stage.prepare(job, given[job.id]) if job.id in given else _nothing_to_ask()
            lines = _lines(job, calls, adapter)
            if isinstance(lines, Failure):
                refused.append(Finished(job, Bury(lines)))
            else:
                written.append(lines)
        return written, refused

    async def _submit(self, parcel: Sequence[Written], adapter: Adapter) -> Counter[str]:
        """One batch: record it, upload its file, create it once."""
        station, first = self.station, parcel[0].job
        batch = new_batch(first, secrets.token_hex(16), BatchId(uuid7()), Token(uuid7()))
        items = list(_items(parcel))
        taken = await batches.record_batch(
            station.cell, station.line.worker, batch, items, weight(parcel)
        )
        if taken is None:
            later = Defer(Reason.GATE_CLOSED, delay_s=station.profile.overflow_delay_s)
            return await self._finish([Finished(each.job, later) for each in parcel])
        ours = {item.job_id for item in items if item.item_index in taken}
        lost = Counter(lost=len(parcel) - len(ours))
        if not taken:
            return lost
        every = [line for each in parcel for line in each.lines]
        lines = [line for index, line in enumerate(every) if index in taken]
        account = self.providers.account(batch.account, batch.base_url)
        try:
            file_id = await ports.cross(
                "submit.upload", adapter.upload(account, batch.nonce, lines)
            )
        except ProviderFailed as failed:
            given = await give_back(
                station.cell,
                station.line.worker,
                station.pipelines,
                batch,
                f"upload_{failed.failure.code}",
                failed.failure.retry_after_s,
            )
            return lost + given + await self.gates.learn(batch.gate, failed.failure)
        book = Submission(
            station.cell,
            station.line.worker,
            station.pipelines,
            batch,
            file_id,
            hashlib.sha256(b"".join(lines)).digest(),
            sum(map(len, lines)),
            lost,
        )
        act = create_batch(
            adapter, account, file_id, batch.nonce, station.profile.create_deadline_s
        )
        try:
            answer = await act_once(book, act, station.line.fence)
        except LeaseLost:
            return Counter(lost=len(parcel))
        match answer:
            case Happened(evidence_id=theirs):
                log.info("submitted", batch=str(batch.id), theirs=theirs, items=len(lines))
            case Doubt(failure=failure):
                log.warning("submit_unknown", batch=str(batch.id), code=failure.code)
                book.counts.update(submitted=len(ours), in_doubt=len(ours))
            case NothingHappened(failure=failure):
                book.counts.update(await self.gates.learn(batch.gate, failure))
            case _:
                assert_never(answer)
        return book.counts

    async def _finish(self, finished: Sequence[Finished]) -> Counter[str]:
        station = self.station
        return await finish(station.cell, station.line.worker, station.pipelines, finished)


def groups(held: Sequence[Held]) -> Iterator[list[Held]]:
    """Jobs that may share a batch: one stage, address, account and group key; homes may mix."""

    def key(job: Held) -> tuple[str, ...]:
        routing = job.routing
        return (
            job.pipeline,
            str(job.stage),
            str(routing["adapter_kind"]),
            str(routing.get("base_url") or ""),
            job.account,
            job.group_key or "",
            str(routing["model"]),
        )

    for _, group in groupby(sorted(held, key=key), key=key):
        yield list(group)


def parcels(written: Sequence[Written], limits: Limits) -> Iterator[list[Written]]:
    """Cut a group at the provider's limits; a job's lines stay together."""
    parcel: list[Written] = []
    items = size = 0
    for each in written:
        more = weight([each])
        if parcel and (
            items + len(each.lines) > limits.max_items or size + more > limits.max_bytes
        ):
            yield parcel
            parcel, items, size = [], 0, 0
        parcel.append(each)
        items, size = items + len(each.lines), size + more
    if parcel:
        yield parcel


def weight(parcel: Sequence[Written]) -> int:
    """How many bytes a parcel's lines have."""
    return sum(len(line) for each in parcel for line in each.lines)


def limits_at(now: GateNow | None, limits: Limits) -> Limits:
    """The provider's limits, and below them what the gate has room for in open batches."""
    if now is None or now.batch_tokens is None:
        return limits
    left = (now.batch_tokens - now.tokens_in_batches) * BYTES_PER_TOKEN
    return replace(limits, max_bytes=min(limits.max_bytes, left))


def _lines(job: Held, calls: Sequence[Call] | Failure, adapter: Adapter) -> Written | Failure:
    if isinstance(calls, Failure):
        return calls
    if any(call.custom_id != custom_id(job, k) for k, call in enumerate(calls)):
        return Failure(FailureClass.RUNTIME_BUG, "custom_id_differs")
    lines = tuple(adapter.encode_line(call, str(job.routing["model"])) for call in calls)
    if not lines:
        return Failure(FailureClass.RUNTIME_BUG, "no_calls")
    if any(len(line) > adapter.limits.max_line_bytes for line in lines):
        return Failure(FailureClass.SCHEMA_INVALID, "line_too_long")
    return Written(job, tuple(calls), lines)


def _nothing_to_ask() -> Failure:
    return Failure(FailureClass.NOT_FOUND, "input_is_gone")


def _items(parcel: Sequence[Written]) -> Iterator[batches.Item]:
    index = 0
    for each in parcel:
        for k, call in enumerate(each.calls):
            yield batches.Item(each.job.id, each.job.token, index, k, call.custom_id)
            index += 1

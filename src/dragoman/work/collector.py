"""The collector: settles doubtful submissions, polls open batches, and takes every result in once.

Ids are compared as sets before anything is written. An item with its own line, good or bad, is
judged by that line. In a batch that failed, expired or was canceled, an item without a line never
ran: it waits again and burns no attempt. In a batch that says completed, an item without a line, or
with two different ones, is looked for once more and then fails, with an alert and without a guess.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from dragoman.core import ports
from dragoman.core.call import Reply, told
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import failure_of_batch
from dragoman.core.ids import JobId
from dragoman.core.job import Bury, Defer, Held, Outcome, Reason, Retry
from dragoman.providers.base import Account, Adapter, BatchStatus, BatchView, ProviderFailed
from dragoman.store import batches, workers
from dragoman.store.holds import read_hold
from dragoman.work.finish import Finished, finish
from dragoman.work.gate import Gates
from dragoman.work.lookback import Lookback
from dragoman.work.loop import Record, Station, log, recorded_run
from dragoman.work.pipeline import LLMStage, stage_of
from dragoman.work.schedule import Scheduled
from dragoman.work.submission import Providers, by_job, give_back, mark

_CHUNK = 200
_ABSENCES = 2
_SKEW_S = 900.0  # how far a provider's clock may be behind ours
_CLOCKS_DIFFER_S = 86_400
_GONE = 404
_ENDED = frozenset(
    {BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.CANCELED, BatchStatus.EXPIRED}
)


@dataclass(slots=True)
class Results:
    """What a provider's files said, by id; a conflict is an id with two different lines."""

    replies: dict[str, Reply] = field(default_factory=dict[str, Reply])
    digests: dict[str, bytes] = field(default_factory=dict[str, bytes])
    conflicts: set[str] = field(default_factory=set[str])
    unknown: int = 0

    def add(self, custom_id: str, line: bytes, reply: Reply) -> None:
        """Take one line; an identical one a second time counts once."""
        digest = hashlib.sha256(line).digest()
        if self.digests.setdefault(custom_id, digest) != digest:
            self.conflicts.add(custom_id)
        self.replies.setdefault(custom_id, reply)

    def of(self, items: Sequence[batches.OpenItem]) -> list[Reply] | None:
        """The replies to all calls of a job, or None when one is missing or contradicts itself."""
        ids = [item.custom_id for item in items]
        if any(each not in self.replies or each in self.conflicts for each in ids):
            return None
        return [self.replies[each] for each in ids]


class Collector(Scheduled):
    """Runs once per tick."""

    role = "rewrite_batch_collector"

    def __init__(self, station: Station, providers: Providers) -> None:
        super().__init__(station)
        self.providers = providers
        self._lookback = Lookback(station, providers)
        self.gates = Gates(station.cell, station.line.worker)

    @property
    def tick_s(self) -> float:
        """The cadence."""
        return self.station.profile.collector_every_s

    async def run_once(self) -> int:
        """Settle, poll, collect, tidy; one recorded run, or one recorded skip."""
        station = self.station
        hold = await read_hold(station.cell)
        if hold is None and not await batches.count_work(station.cell):
            await workers.skip_run(
                station.cell,
                self.role,
                station.line.worker,
                f"{self.role} skipped: no pending items",
            )
            return 0
        station.line.fence()
        async with recorded_run(station, self.role) as record:
            if hold is not None:
                record.counts.update(await self._lookback.look(hold))
            await self._settle_doubts(record, is_held=hold is not None)
            await self._look_at_open(record, is_held=hold is not None)
            if hold is None:
                await self._delete_files()
        return record.counts.total()

    async def _settle_doubts(self, record: Record, *, is_held: bool) -> None:
        station = self.station
        await batches.doubt_overdue(station.cell)
        never_started = [] if is_held else await batches.find_never_started(station.cell)
        for batch in never_started:
            ours = await batches.take_over(station.cell, batch, station.line.worker)
            if ours is not None:
                record.add(
                    batch.provider, batch.model, await self._give_back(ours, "never_started")
                )
        for batch in await batches.find_doubtful(station.cell, station.profile.settle_s):
            record.add(batch.provider, batch.model, await self._ask_about(batch))

    async def _give_back(self, batch: batches.Batch, code: str) -> Counter[str]:
        station = self.station
        counts = await give_back(station.cell, station.line.worker, station.pipelines, batch, code)
        counts["claimed"] = counts.total()
        return counts

    async def _ask_about(self, batch: batches.Batch) -> Counter[str]:
        """Nothing can arrive any more: what the provider's list says, once settled, is true."""
        station, (adapter, account) = self.station, self._at(batch)
        assert batch.deadline_at is not None  # noqa: S101 - find_doubtful compares it
        since = int(batch.deadline_at.timestamp()) - _CLOCKS_DIFFER_S
        try:
            found = await ports.cross(
                "collect.find", adapter.find(account, batch.nonce, created_after=since)
            )
        except ProviderFailed as failed:
            await batches.record_asked(station.cell, batch)
            await self._alert("submit_unknown", batch, "act", code=failed.failure.code)
            return await self.gates.learn(batch.gate, failed.failure)
        if found:
            return await self._adopt(batch, found)
        if await batches.record_absence(station.cell, batch) < _ABSENCES:
            return Counter()
        return await self._give_back(batch, "provably_absent")

    async def _adopt(self, batch: batches.Batch, found: Sequence[BatchView]) -> Counter[str]:
        station, oldest = self.station, found[0]
        if len(found) > 1:
            await self._alert("batch_created_twice", batch, "page", times=len(found))
        try:
            counts = await mark(
                station.cell,
                station.line.worker,
                batch,
                oldest.provider_batch_id,
                oldest.raw_status,
                Reason.ADOPTED,
            )
        except LeaseLost:  # somebody else has settled this doubt meanwhile
            return Counter(lost=1)
        log.info("adopted", batch=str(batch.id), theirs=oldest.provider_batch_id)
        return counts + Counter(claimed=counts.total(), adopted=1)

    async def _look_at_open(self, record: Record, *, is_held: bool) -> None:
        """Poll each open batch, but none whose provider has just said: not so fast."""
        found = await batches.find_open(self.station.cell)
        slow = await self.gates.throttled([batch.gate for batch in found])
        for batch in found:
            seen = Counter(put_off=1)
            if batch.gate not in slow:
                seen = await self._look_at(batch, is_held=is_held)
            if seen["capacity_errors"]:
                slow |= await self.gates.throttled([batch.gate])
            record.add(batch.provider, batch.model, seen)

    async def _look_at(self, batch: batches.Batch, *, is_held: bool) -> Counter[str]:
        station, (adapter, account) = self.station, self._at(batch)
        assert batch.provider_batch_id is not None  # noqa: S101 - find_open asks for it
        try:
            view = await ports.cross("collect.poll", adapter.poll(account, batch.provider_batch_id))
            is_known = await self._record(batch, view)
            if not is_known or view.status not in _ENDED:
                return Counter(polled=1)
            results = await self._download(batch, view, may_be_gone=is_held)
        except ProviderFailed as failed:
            return await self._unreachable(batch, failed.failure)
        counts = await self._take_in(batch, view, results)
        # After the taking in: what was erased while it went on is found here too.
        counts["erased"] += await batches.drop_erased(
            self.station.cell, self.station.line.worker, batch.id, results.replies
        )
        await batches.close_batch(station.cell, batch)
        return counts

    async def _record(self, batch: batches.Batch, view: BatchView) -> bool:
        if view.status is BatchStatus.UNKNOWN:
            await self._alert("unknown_batch_status", batch, "act", status=view.raw_status)
        state = None if view.status is BatchStatus.UNKNOWN else view.status.value
        return await batches.record_poll(
            self.station.cell,
            batch,
            status=view.raw_status,
            state=state,
            files=view.result_files,
            ended=view.status in _ENDED,
        )

    async def _download(
        self, batch: batches.Batch, view: BatchView, *, may_be_gone: bool
    ) -> Results:
        """Every line of both files, by id; a line of an unknown id is dropped, with an alert."""
        known, results = await batches.known_ids(self.station.cell, batch.id), Results()
        for file in view.result_files:
            try:
                await self._read(batch, file, known, results)
            except ProviderFailed as failed:
                # Taken in and deleted after the backup: nobody has these lines any more.
                if not may_be_gone or failed.failure.http_status != _GONE:
                    raise
        if results.unknown:
            await self._alert("unknown_batch_item", batch, "act", lines=results.unknown)
        return results

    async def _read(
        self, batch: batches.Batch, file: str, known: set[str], results: Results
    ) -> None:
        adapter, account = self._at(batch)
        ports.at("collect.download", "before")
        async for raw in adapter.download(account, file):
            line = adapter.decode_line(raw)
            if line.custom_id in known:
                results.add(line.custom_id, raw, line.reply)
            else:
                results.unknown += 1
        ports.at("collect.download", "after")

    async def _take_in(
        self, batch: batches.Batch, view: BatchView, results: Results
    ) -> Counter[str]:
        groups = by_job(await batches.open_items(self.station.cell, batch.id))
        answered = [
            (group, replies) for group in groups if (replies := results.of(group)) is not None
        ]
        silent = [group for group in groups if results.of(group) is None]
        counts: Counter[str] = Counter()
        for start in range(0, len(answered), _CHUNK):
            counts += await self._take_chunk(batch, answered[start : start + _CHUNK])
        if silent:
            counts += await self._take_silent(batch, view, silent)
        return counts

    async def _take_chunk(
        self, batch: batches.Batch, answered: Sequence[tuple[list[batches.OpenItem], list[Reply]]]
    ) -> Counter[str]:
        station = self.station
        station.line.fence()
        stage = cast("LLMStage", stage_of(station.pipelines, answered[0][0][0].job))
        await self.gates.learn_from(batch.gate, [reply for _, some in answered for reply in some])
        given = await stage.load(station.cell, [group[0].job for group, _ in answered])
        finished = [
            _finished(batch, group, absorb(stage, group[0].job, given, replies))
            for group, replies in answered
        ]
        return await self._finish(finished)

    async def _take_silent(
        self, batch: batches.Batch, view: BatchView, silent: Sequence[list[batches.OpenItem]]
    ) -> Counter[str]:
        station = self.station
        if view.status is BatchStatus.COMPLETED:
            if await batches.count_download(station.cell, batch) < _ABSENCES:
                return Counter(looked_for_again=len(silent))
            await self._alert("batch_item_count_mismatch", batch, "act", missing=len(silent))
        refused = failure_of_batch([error.code for error in view.errors])
        counts = await self.gates.learn(batch.gate, refused) if refused else Counter[str]()
        finished = [_finished(batch, group, _silent(view, group)) for group in silent]
        return counts + await self._finish(finished)

    async def _finish(self, finished: Sequence[Finished]) -> Counter[str]:
        station = self.station
        counts = await finish(station.cell, station.line.worker, station.pipelines, finished)
        for one in finished:
            if isinstance(one.outcome, Retry):
                counts["capacity_errors"] += one.outcome.failure.is_capacity
        counts["claimed"] = len(finished)
        return counts

    async def _unreachable(self, batch: batches.Batch, failure: Failure) -> Counter[str]:
        log.warning("provider", role=self.role, batch=str(batch.id), code=failure.code)
        is_final = failure.error_class in (FailureClass.NOT_FOUND, FailureClass.AUTH_DENIED)
        # Another collector may have taken it in and deleted its files while this one looked.
        if is_final and batch.id in {one.id for one in await batches.find_open(self.station.cell)}:
            await self._alert("batch_out_of_reach", batch, "act", code=failure.code)
        return Counter(unreachable=1) + await self.gates.learn(batch.gate, failure)

    async def _delete_files(self) -> None:
        """When a batch is closed the provider keeps nothing of it."""
        for batch in await batches.find_closed_with_files(self.station.cell):
            adapter, account = self._at(batch)
            files = [*batch.result_files, *([batch.input_file_id] if batch.input_file_id else [])]
            try:
                for file in files:
                    await ports.cross("collect.delete", adapter.delete_file(account, file))
            except ProviderFailed as failed:
                log.warning(
                    "provider", role=self.role, batch=str(batch.id), code=failed.failure.code
                )
                if await self.gates.learn(batch.gate, failed.failure):
                    return  # the rest at the next tick
                continue
            await batches.record_files_deleted(self.station.cell, batch)

    def _at(self, batch: batches.Batch) -> tuple[Adapter, Account]:
        return self.providers.adapter(batch.adapter_kind), self.providers.account(
            batch.account, batch.base_url
        )

    async def _alert(
        self, kind: str, batch: batches.Batch, severity: str, **facts: str | int
    ) -> None:
        await workers.raise_alert(
            self.station.cell, kind, str(batch.id), severity, {"batch_id": str(batch.id), **facts}
        )


def absorb(
    stage: LLMStage, job: Held, given: Mapping[JobId, object], replies: Sequence[Reply]
) -> Outcome:
    """The stage's own judgement and what the replies cost; without its input a job has none."""
    spent = told(replies)
    if job.id not in given:
        return Bury(Failure(FailureClass.NOT_FOUND, "input_is_gone"), facts=spent)
    outcome = stage.absorb(job, given[job.id], replies)
    if isinstance(outcome, Defer):
        return outcome
    return replace(outcome, facts={**outcome.facts, **spent})


def _finished(
    batch: batches.Batch, group: Sequence[batches.OpenItem], outcome: Outcome
) -> Finished:
    return Finished(group[0].job, outcome, batch.id, tuple(item.item_index for item in group))


def _silent(view: BatchView, group: Sequence[batches.OpenItem]) -> Outcome:
    """What becomes of an item that has no line, or two that differ."""
    if view.status is BatchStatus.COMPLETED:
        return Bury(Failure(FailureClass.RESULT_MISSING, "result_missing"))
    guilty = {error.line: error.code for error in view.errors if error.line is not None}
    for item in group:
        if item.item_index + 1 in guilty:
            return Bury(Failure(FailureClass.SCHEMA_INVALID, guilty[item.item_index + 1]))
    code = next((error.code for error in view.errors), f"batch_{view.status}")
    return Retry(Failure(FailureClass.NOT_EXECUTED, code))

"""What a held engine asks the providers: which batches they have of ours that our data do not know.

Such a batch was made after the backup and is paid. A job takes it over if, and only if, the line
that the provider was sent is byte for byte the call that this job would make now: then the reply is
its own. What no job can take over is an alert with the batch's id, for a person to see.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import cast
from uuid import UUID

from dragoman.core import ports
from dragoman.core.call import Call
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure
from dragoman.core.ids import BatchId, JobId, Token, uuid7
from dragoman.core.job import Defer, Held, Mode, Reason
from dragoman.providers.base import Account, Adapter, BatchView, Lists, ProviderFailed
from dragoman.store import batches, found, jobs, workers
from dragoman.store.found import Found, Place
from dragoman.store.holds import NOT_ASKED, Hold, record_providers_asked
from dragoman.work.finish import Finished, finish
from dragoman.work.loop import Station, log
from dragoman.work.pipeline import LLMStage, custom_id, stage_of
from dragoman.work.submission import Providers, mark, new_batch

_CLOCKS_DIFFER_S = 86_400
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_OURS = re.compile(rf"(?:[0-9a-f]{{8}}-)?({_UUID})(?:-\d+)?")


@dataclass(frozen=True, slots=True)
class Sent:
    """The file that a batch was made of: each line by its custom_id, with its place."""

    lines: dict[str, tuple[int, bytes]]
    sha256: bytes
    size: int

    @property
    def jobs(self) -> list[JobId]:
        """Whose calls these are."""
        names = (_OURS.fullmatch(each) for each in self.lines)
        return sorted({JobId(UUID(name[1])) for name in names if name})

    def items(self, job: Held, calls: Sequence[Call], lines: Sequence[bytes]) -> list[batches.Item]:
        """The job's items, or none when it was not asked exactly this."""
        made: list[batches.Item] = []
        for k, (call, line) in enumerate(zip(calls, lines, strict=True)):
            index, sent = self.lines.get(call.custom_id, (-1, b""))
            if sent != line:
                return []
            made.append(batches.Item(job.id, job.token, index, k, call.custom_id))
        return made


@dataclass(slots=True)
class Lookback:
    """The collector's work while the engine is held; safe to repeat and to cut short anywhere."""

    station: Station
    providers: Providers
    _seen: set[str] = field(default_factory=set[str])

    async def look(self, hold: Hold) -> Counter[str]:
        """Let go of the claims of the life before, then ask every provider; say when all told."""
        counts = Counter(released=await self._release_claims())
        counts["doubted"] += await found.doubt_restored(self.station.cell)
        if await jobs.count_claims(self.station.cell, hold.held_at):
            return counts  # a lease of that life has not ended, and its jobs may be in a batch
        has_told = True
        for place in await found.find_accounts(self.station.cell):
            try:
                counts += await self._ask(hold, place)
            except ProviderFailed as failed:
                has_told = False
                await self._tell(NOT_ASKED, place.account, place, failed.failure)
        if has_told and hold.asked_at is None:
            await record_providers_asked(self.station.cell, hold)
        return counts

    async def _release_claims(self) -> int:
        """Nobody holds them any more, and that they were cut short was no attempt's fault."""
        station = self.station
        timeouts = dict.fromkeys(station.pipelines, 0.0)
        stale = await jobs.find_stale(station.cell, timeouts, station.profile.max_jobs_per_run)
        later = [Finished(job, Defer(Reason.LOST_LEASE, delay_s=0.0)) for job in stale]
        await finish(station.cell, station.line.worker, station.pipelines, later)
        return len(stale)

    async def _ask(self, hold: Hold, place: Place) -> Counter[str]:
        adapter = self.providers.adapter(place.adapter_kind)
        account = self.providers.account(place.account, place.base_url)
        if not isinstance(adapter, Lists):
            await self._tell("batches_cannot_be_listed", place.account, place)
            return Counter()
        since = int(hold.data_at.timestamp()) - _CLOCKS_DIFFER_S
        views = await ports.cross(
            "lookback.list", adapter.list_batches(account, created_after=since)
        )
        fresh = [view for view in views if view.nonce and view.provider_batch_id not in self._seen]
        known = await found.known_nonces(
            self.station.cell, [view.nonce for view in fresh if view.nonce]
        )
        counts: Counter[str] = Counter()
        for view in fresh:
            if view.nonce not in known:
                counts += await self._take(hold, place, view, cast("Adapter", adapter), account)
            self._seen.add(view.provider_batch_id)
        return counts

    async def _take(
        self, hold: Hold, place: Place, view: BatchView, adapter: Adapter, account: Account
    ) -> Counter[str]:
        """One batch that these data do not know: adopted by those jobs whose calls it carries."""
        sent = await self._sent(adapter, account, view)
        taken = 0
        if sent is not None and (askers := await self._askers(adapter, sent)):
            taken = await self._adopt(hold, view, sent, askers)
        lines = len(sent.lines) if sent else view.total
        severity = "notice" if taken and taken == lines else "act"
        await workers.raise_alert(
            self.station.cell,
            "batch_after_backup",
            view.provider_batch_id,
            severity,
            {
                "provider": place.provider,
                "account": place.account,
                "provider_batch_id": view.provider_batch_id,
                "lines": lines,
                "adopted": taken,
            },
        )
        return Counter(found_batches=1, adopted_items=taken)

    async def _sent(self, adapter: Adapter, account: Account, view: BatchView) -> Sent | None:
        """The lines that the provider was sent; None when it has them no more."""
        if view.input_file_id is None:
            return None
        lines: dict[str, tuple[int, bytes]] = {}
        digest, size, index = hashlib.sha256(), 0, 0
        try:
            async for raw in adapter.download(account, view.input_file_id):
                line = raw + b"\n"
                if (name := adapter.decode_line(raw).custom_id) is not None:
                    lines[name] = (index, line)
                digest.update(line)
                size, index = size + len(line), index + 1
        except ProviderFailed as failed:
            if failed.failure.http_status == 404:
                return None
            raise
        return Sent(lines, digest.digest(), size)

    async def _askers(self, adapter: Adapter, sent: Sent) -> list[tuple[Held, list[batches.Item]]]:
        """The waiting jobs that would ask exactly this, and as one batch: it gets one row."""
        waiting = await jobs.read_waiting(self.station.cell, sent.jobs)
        asking = [job for job in waiting if job.mode is Mode.BATCH and self._stage(job)]
        asking.sort(key=_group)
        groups = [list(group) for _, group in groupby(asking, key=_group)]
        proven = [await self._proven(adapter, sent, group) for group in groups]
        return max(proven, key=len) if proven else []

    async def _proven(
        self, adapter: Adapter, sent: Sent, group: Sequence[Held]
    ) -> list[tuple[Held, list[batches.Item]]]:
        stage = cast("LLMStage", self._stage(group[0]))
        given = await stage.load(self.station.cell, group)
        made: list[tuple[Held, list[batches.Item]]] = []
        for job in group:
            calls = stage.prepare(job, given[job.id]) if job.id in given else ()
            if isinstance(calls, Failure) or not calls:
                continue
            lines = [adapter.encode_line(call, str(job.routing["model"])) for call in calls]
            is_named = all(call.custom_id == custom_id(job, k) for k, call in enumerate(calls))
            if is_named and (items := sent.items(job, calls, lines)):
                made.append((job, items))
        return made

    def _stage(self, job: Held) -> LLMStage | None:
        if job.pipeline not in self.station.pipelines:
            return None
        stage = stage_of(self.station.pipelines, job)
        return stage if isinstance(stage, LLMStage) else None

    async def _adopt(
        self,
        hold: Hold,
        view: BatchView,
        sent: Sent,
        group: Sequence[tuple[Held, list[batches.Item]]],
    ) -> int:
        """Claim the jobs and record the batch in doubt, in one go; then mark it like any other.

        A crash between the two leaves a doubt, which the next run settles by the nonce.
        """
        station = self.station
        batch = new_batch(group[0][0], str(view.nonce), BatchId(uuid7()), Token(uuid7()))
        known = Found(
            datetime.fromtimestamp(view.created_at, UTC),
            str(view.input_file_id),
            sent.sha256,
            sent.size,
            hold.incarnation,
        )
        async with station.cell.transaction("adopt_found") as tx:
            held = [job for job, _ in group]
            await jobs.lock_units(tx, [job.unit_lock for job in held])
            claimed = await jobs.claim_found(tx, station.line.worker, held)
            items = [item for job, of_job in group if job.id in claimed for item in of_job]
            taken = await found.adopt_batch(tx, station.line.worker, batch, items, known)
        if taken:
            await self._mark(batch, view)
        return len(taken)

    async def _mark(self, batch: batches.NewBatch, view: BatchView) -> None:
        theirs, station = view.provider_batch_id, self.station
        try:
            await mark(
                station.cell, station.line.worker, batch, theirs, view.raw_status, Reason.ADOPTED
            )
        except LeaseLost:  # another collector has settled this doubt meanwhile
            return
        log.info("adopted", batch=str(batch.id), theirs=theirs)

    async def _tell(
        self, kind: str, subject: str, place: Place, failure: Failure | None = None
    ) -> None:
        facts = {"provider": place.provider, "account": place.account}
        if failure is not None:
            facts["code"] = failure.code
        await workers.raise_alert(self.station.cell, kind, subject, "act", dict(facts))


def _group(job: Held) -> tuple[str, ...]:
    routing = job.routing
    names = ("provider", "adapter_kind", "base_url", "model")
    return (
        job.pipeline,
        str(job.stage),
        *(str(routing.get(name) or "") for name in names),
        job.account,
        job.group_key or "",
    )

"""Rewrites from the way in to the way out, and everything that was said to their model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

from dragoman.core.call import Answered, Call, Reply
from dragoman.core.ids import JobId
from dragoman.core.job import Held
from dragoman.providers.base import Account, Adapter, Line
from dragoman.rewrite.orchestrator import Accepted, Complaint, Orchestrator
from dragoman.rewrite.stage import Generate
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs, queues
from dragoman.work.collector import Collector
from dragoman.work.loop import Station
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Sweeper
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.crash import rig

A_DAY_S = 90_000.0
PATIENT = replace(stand.TEST_PROFILE, lease_s=1e8)  # its lease outlives every day that passes


@dataclass
class Listening(stand.Providers):
    """Providers that remember whom they were asked for, and each line that was sent."""

    kinds: list[str] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    says: dict[str, str] = field(default_factory=dict)  # what the model says instead, by job

    def adapter(self, kind: str) -> Adapter:
        """The wire, with an ear on it."""
        self.kinds.append(kind)
        if kind not in self.adapters:
            self._listen(super().adapter(kind))
        return self.adapters[kind]

    def _listen(self, adapter: Adapter) -> None:
        answer, upload, decode = adapter.answer, adapter.upload, adapter.decode_line

        async def answered(account: Account, call: Call, model: str, deadline_s: float) -> Reply:
            self.sent.append(adapter.encode_line(call, model))
            return self._said(call.custom_id, await answer(account, call, model, deadline_s))

        def decoded(raw: bytes) -> Line:
            line = decode(raw)
            return replace(line, reply=self._said(line.custom_id, line.reply))

        async def uploaded(account: Account, name: str, lines: Any) -> str:
            self.sent.extend(lines)
            return await upload(account, name, lines)

        changed = cast("Any", adapter)
        changed.answer, changed.upload, changed.decode_line = answered, uploaded, decoded

    def _said(self, custom_id: str | None, reply: Reply) -> Reply:
        text = self.says.get(custom_id or "")
        return replace(reply, text=text) if text and isinstance(reply, Answered) else reply


@dataclass
class House:
    """Who takes messages, who works on them, and the model at the other end."""

    database: str
    sandbox: Sandbox
    providers: Listening
    orchestrator: Orchestrator
    station: Station

    @property
    def sent(self) -> list[bytes]:
        """Every line that a rewriter got."""
        return self.providers.sent

    async def say(
        self,
        home: stand.Home | None = None,
        source: str = "en",
        target: str = "en",
        request_id: UUID | None = None,
    ) -> Accepted:
        """Somebody complains to somebody."""
        home = home or await stand.add_home(self.orchestrator.cell, source, target)
        text = stand.NOISE[source]
        return await self.orchestrator.create(
            Complaint(home.id, home.sender, home.recipient, text, rewrite_request_id=request_id)
        )

    async def work(self, times: int = 1) -> None:
        """Every role works, in both modes, so many times, and then a day passes."""
        for _ in range(times):
            await Worker(self.station, self.providers).run_once()
            await self.submit()
            await self.collect()
            if times > 1:
                await self.a_day_passes()

    async def submit(self) -> None:
        """One run of the submitter."""
        await Submitter(self.station, self.providers).run_once()

    async def collect(self) -> None:
        """One run of the collector, when every batch is done."""
        self.sandbox.advance(rig.A_BATCH_IS_DONE_S)
        await Collector(self.station, self.providers).run_once()

    async def a_day_passes(self) -> None:
        """What waited is due."""
        stand.move_clock(self.database, A_DAY_S)
        await Sweeper(self.station, [rig.fail_waiting]).run_once()

    async def line_of(self, job: JobId) -> bytes:
        """What would be sent for this job if it were sent now."""
        stage = cast("Generate", self.station.pipelines["rewrite"].stages[0])
        (held,) = await jobs.read_waiting(self.station.cell, [job])
        given = await stage.load(self.station.cell, [held])
        calls = cast("list[Call]", stage.prepare(held, given[job]))
        adapter = self.providers.adapter("openai_responses")
        return adapter.encode_line(calls[0], str(held.routing["model"]))

    async def claim(self, most: int) -> list[Held]:
        """The worker's own claim of what waits to be asked at once."""
        waiting = await queues.open_queues(self.station.cell, jobs.Mode.ASYNC, ["rewrite"])
        keys = [queue.key for queue in waiting]
        return await jobs.claim_jobs(self.station.cell, self.station.line.worker, keys, most)

    def rows(self, query: str, *params: object) -> list[tuple]:
        """What the owner sees."""
        return stand.rows(self.database, query, *params)

    def state(self, job: UUID | None) -> str:
        """Where a job stands."""
        return self.rows("select state::text from standing where id = %s", job)[0][0]


@asynccontextmanager
async def house_of(mode: str) -> AsyncGenerator[House]:
    """A house of a database and a sandbox of its own, whose rewrites go this way."""
    database = stand.new_database()
    try:
        await stand.add_routes(database, mode)
        with Sandbox() as sandbox:
            async with (
                rig.providers_of(sandbox) as door,
                stand.orchestrator_of(database, door) as orchestrator,
                stand.station_of(database, profile=PATIENT) as station,
            ):
                providers = Listening(sandbox.base_url)
                try:
                    yield House(database, sandbox, providers, orchestrator, station)
                finally:
                    await providers.transport.aclose()
    finally:
        postgres.drop(database)

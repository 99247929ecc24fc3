"""The record of a run: its limits, where each job went, by whose model, and what was refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row

from dragoman.core import ports
from dragoman.core.errors import BadSetting, DataRefused
from dragoman.core.ids import JobId, uuid7
from dragoman.core.profile import DEFAULT, Profile
from dragoman.sandbox.server import Sandbox
from dragoman.store import batches, jobs, workers
from dragoman.work import collector as collecting
from dragoman.work.collector import Collector
from dragoman.work.loop import Station
from dragoman.work.submitter import Submitter
from tests import postgres, stand
from tests.crash import rig

PACE = replace(stand.TEST_PROFILE, max_jobs_per_run=5)
WENT = ("succeeded", "failed", "requeued", "submitted", "deferred", "noop", "lost")


@dataclass
class Hall:
    """A submitter, a collector and the sandbox, around complaints that wait."""

    database: str
    sandbox: Sandbox
    station: Station
    submitter: Submitter
    collector: Collector

    async def submit(self) -> dict[str, Any]:
        """One run of the submitter, as its record tells it."""
        await self.submitter.run_once()
        return self.last(Submitter.role)

    async def collect(self) -> dict[str, Any]:
        """One run of the collector after the batch is done."""
        self.sandbox.advance(rig.A_BATCH_IS_DONE_S)
        await self.collector.run_once()
        return self.last(Collector.role)

    def last(self, role: str) -> dict[str, Any]:
        """The newest record of a role; whatever was claimed went somewhere."""
        (newest, *_) = runs(self.database, role)
        assert newest["claimed_count"] == sum(newest[f"{name}_count"] for name in WENT), newest
        return newest


def runs(database: str, role: str) -> list[dict[str, Any]]:
    """The records of a role as the operator sees them, the newest first."""
    dsn = postgres.dsn("dragoman_operator", database)
    with (
        psycopg.connect(dsn, options="-c search_path=dragoman") as operator,
        operator.cursor(row_factory=dict_row) as cursor,
    ):
        cursor.execute("select * from run_log where role = %s order by started_at desc", (role,))
        return cursor.fetchall()


@pytest.fixture
def database() -> Generator[str]:
    """A database with routes to the sandbox."""
    name = rig.empty_database()
    yield name
    postgres.drop(name)


@asynccontextmanager
async def hall_of(
    database: str, complaints: int, profile: Profile = PACE, *faults: Mapping[str, Any]
) -> AsyncGenerator[Hall]:
    """So many complaints that wait, and whoever works on them."""
    with Sandbox() as sandbox:
        async with rig.providers_of(sandbox) as providers:
            async with stand.orchestrator_of(database, providers) as orchestrator:
                await stand.submit(orchestrator, [("en", "en")] * complaints)
            for fault in faults:
                sandbox.fault(dict(fault))
            async with stand.station_of(database, profile=profile) as station:
                yield Hall(
                    database,
                    sandbox,
                    station,
                    Submitter(station, providers),
                    Collector(station, providers),
                )


@pytest.mark.req("R280", "R281", "R255", "R256")
def test_a_run_tells_where_each_of_its_jobs_went(database: str) -> None:
    """Seven wait and five may go: submitted; of those three come back, one fails, one waits."""
    overloaded = {"item": {"index": 0}, "do": "error", "status": 503, "code": "overloaded"}
    spoiled = {"item": {"index": 1}, "do": "wrong_language"}

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        async with hall_of(database, 7, PACE, overloaded, spoiled) as hall:
            return await hall.submit(), await hall.collect()

    submitted, collected = asyncio.run(scenario())
    assert submitted["max_jobs_per_run"] == 5
    assert (submitted["claimed_count"], submitted["submitted_count"]) == (5, 5)
    assert submitted["models"] == collected["models"] == {"sandbox/sandbox-large": 5}
    assert [collected[f"{name}_count"] for name in WENT] == [3, 1, 1, 0, 0, 0, 0]
    for told in (submitted, collected):
        assert told["finished_at"] > told["started_at"]
        assert told["run_id"].version == 7
    states = "select state::text, count(*) from standing group by 1 order by 1"
    assert stand.rows(database, states) == [("completed", 3), ("failed", 1), ("queued", 3)]


@pytest.mark.req("R281")
def test_jobs_are_counted_by_provider_and_model(database: str) -> None:
    """Two models in one run: each of them has its own number, which together are the claimed."""
    with stand.owner(database) as connection:
        connection.execute(
            "update route set decision = jsonb_set(decision, '{model}', '\"sandbox-small\"')"
            " where lane = 'cross_language'"
        )

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        async with hall_of(database, 2) as hall:
            async with stand.orchestrator_of(database, hall.submitter.providers) as orchestrator:  # type: ignore[arg-type]  # the stand's own
                await stand.submit(orchestrator, [("en", "es")] * 3)
            return await hall.submit(), await hall.collect()

    for told in asyncio.run(scenario()):
        assert told["models"] == {"sandbox/sandbox-large": 2, "sandbox/sandbox-small": 3}
        assert told["claimed_count"] == 5


THROTTLED = {"do": "status", "status": 429, "times": 1}


@pytest.mark.req("R282")
@pytest.mark.parametrize("route", ["upload", "create"])
def test_a_429_on_the_way_out_is_counted(database: str, route: str) -> None:
    """The provider had no room: one error in the record, and the jobs wait again."""

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        async with hall_of(database, 3, PACE, {"on": route, **THROTTLED}) as hall:
            first = await hall.submit()
            stand.move_clock(database, 400)
            return first, await hall.submit()

    first, second = asyncio.run(scenario())
    assert (first["capacity_errors"], first["requeued_count"]) == (1, 3)
    assert (second["capacity_errors"], second["submitted_count"]) == (0, 3)


@pytest.mark.req("R282")
@pytest.mark.parametrize("route", ["poll", "content"])
def test_a_429_on_the_way_back_is_counted(database: str, route: str) -> None:
    """The collector could not ask: one error, and the next run takes everything in."""

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        async with hall_of(database, 2) as hall:
            await hall.submit()
            hall.sandbox.fault({"on": route, **THROTTLED})
            first = await hall.collect()
            stand.move_clock(database, 10)  # the gate opens again
            return first, await hall.collect()

    first, second = asyncio.run(scenario())
    assert (first["capacity_errors"], first["claimed_count"]) == (1, 0)
    assert (second["capacity_errors"], second["succeeded_count"]) == (0, 2)


@pytest.mark.req("R282")
def test_items_that_a_provider_had_no_room_for_are_counted(database: str) -> None:
    """Two of three lines say 429, one of them for want of credit: two errors."""
    faults = [
        {"item": {"index": 0}, "do": "error", "status": 429, "code": "rate_limit_exceeded"},
        {"item": {"index": 2}, "do": "error", "status": 429, "code": "insufficient_quota"},
    ]

    async def scenario() -> dict[str, Any]:
        async with hall_of(database, 3, PACE, *faults) as hall:
            await hall.submit()
            return await hall.collect()

    told = asyncio.run(scenario())
    assert (told["capacity_errors"], told["requeued_count"], told["succeeded_count"]) == (2, 2, 1)


@pytest.mark.req("R280")
def test_a_job_that_was_canceled_under_a_run_is_lost_to_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canceled between claim and batch: two of three are submitted, and the sum still closes."""
    record = batches.record_batch

    async def cancel_first(*given: Any) -> set[int] | None:
        items = given[3]
        async with stand.cell_of(database, "dragoman_operator") as cell:
            assert await jobs.cancel_jobs(cell, uuid7(), [items[0].job_id])
        return await record(*given)

    async def scenario() -> dict[str, Any]:
        async with hall_of(database, 3) as hall:
            monkeypatch.setattr(batches, "record_batch", cancel_first)
            return await hall.submit()

    told = asyncio.run(scenario())
    assert (told["claimed_count"], told["submitted_count"], told["lost_count"]) == (3, 2, 1)


@pytest.mark.req("R280")
def test_a_job_that_was_canceled_while_its_batch_was_made_is_lost_to_it(database: str) -> None:
    """Canceled between the creation and its mark: what the statement moved is what counts."""

    async def scenario() -> dict[str, Any]:
        async with hall_of(database, 3) as hall:
            create = hall.submitter.providers.adapter("openai_responses").create

            async def and_cancel(*given: Any) -> Any:
                answer = await create(*given)
                ids = [JobId(row[0]) for row in stand.rows(database, "select id from standing")]
                async with stand.cell_of(database, "dragoman_operator") as cell:
                    await jobs.cancel_jobs(cell, uuid7(), ids[:1])
                return answer

            hall.submitter.providers.adapter("openai_responses").create = and_cancel  # type: ignore[method-assign]
            return await hall.submit()

    told = asyncio.run(scenario())
    assert (told["claimed_count"], told["submitted_count"], told["lost_count"]) == (3, 2, 1)


@pytest.mark.req("R280")
def test_of_two_collectors_at_once_one_has_nothing_to_add(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read every line before either writes: three succeed once, three need nothing."""

    async def scenario() -> None:
        async with hall_of(database, 3) as hall:
            await hall.submit()
            hall.sandbox.advance(rig.A_BATCH_IS_DONE_S)
            ready, look = asyncio.Barrier(2), collecting.Collector._take_in

            async def together(*given: Any) -> Any:
                await ready.wait()
                return await look(*given)

            monkeypatch.setattr(collecting.Collector, "_take_in", together)
            await asyncio.gather(hall.collector.run_once(), hall.collector.run_once())

    asyncio.run(scenario())
    told = runs(database, Collector.role)
    assert sorted((run["succeeded_count"], run["noop_count"]) for run in told) == [(0, 3), (3, 0)]
    assert [run["claimed_count"] for run in told] == [3, 3]


@pytest.mark.req("R280")
def test_a_run_in_doubt_says_so(database: str) -> None:
    """The creation's answer was lost: its jobs count as submitted; adopted, they do so again."""

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        async with hall_of(database, 2, PACE, {"on": "create", "do": "drop_after"}) as hall:
            first = await hall.submit()
            stand.move_clock(database, 200)
            return first, await hall.collect()

    first, second = asyncio.run(scenario())
    assert (first["submitted_count"], second["submitted_count"]) == (2, 2)
    (counts,) = stand.rows(database, "select counts from run where role = %s", Submitter.role)[0]
    assert counts["in_doubt"] == 2


def test_a_run_that_is_cut_short_stays_open(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record was there before its work: it has a beginning and no end."""

    async def break_off(*given: Any) -> None:
        raise KeyError

    async def scenario() -> None:
        async with hall_of(database, 1) as hall:
            monkeypatch.setattr(Submitter, "_submit_group", break_off)
            with pytest.raises(KeyError):
                await hall.submitter.run_once()

    asyncio.run(scenario())
    (told,) = runs(database, Submitter.role)
    assert (told["finished_at"], told["claimed_count"], told["max_jobs_per_run"]) == (None, 0, 5)


@pytest.mark.req("R285", "R246", "R247")
def test_with_nothing_to_do_a_run_is_skipped(database: str) -> None:
    """Nobody is asked, nothing is claimed, no alert: a row says `skipped: no pending items`."""

    async def scenario() -> None:
        async with hall_of(database, 0) as hall:
            assert await hall.submitter.run_once() == await hall.collector.run_once() == 0
            assert hall.sandbox.ledger()["creates"] == []

    asyncio.run(scenario())
    for role in (Submitter.role, Collector.role):
        (told,) = runs(database, role)
        assert told["skipped"] == f"{role} skipped: no pending items"
        assert (told["finished_at"] is not None, told["claimed_count"]) == (True, 0)
    assert stand.rows(database, "select from alert") == []


@pytest.mark.req("R248", "R289")
@pytest.mark.parametrize("most", [1, 2])
def test_our_own_limit_comes_before_any_call(database: str, most: int) -> None:
    """Of four complaints a run sends as many as its setting says, though nobody else limits it."""

    async def scenario() -> None:
        async with hall_of(database, 4, replace(PACE, max_jobs_per_run=most)) as hall:
            told = await hall.submit()
            assert (told["claimed_count"], told["max_jobs_per_run"]) == (most, most)
            await hall.collect()
            items = rig.ledger_of(hall.sandbox)["items"]
            assert sum(item["batch_id"] != "response" for item in items) == most

    asyncio.run(scenario())


@pytest.mark.req("R288")
@pytest.mark.parametrize("most", [None, 0, -1, float("inf"), float("nan")])
def test_a_run_without_a_limit_is_refused(database: str, most: Any) -> None:
    """Neither the settings nor the database know a run without a limit."""
    with pytest.raises(BadSetting):
        replace(DEFAULT, max_jobs_per_run=most).check()

    async def scenario() -> DataRefused:
        async with stand.cell_of(database) as cell:
            with pytest.raises(DataRefused) as refused:
                await workers.open_run(cell, Submitter.role, UUID(int=1), most, 240)
            return refused.value

    refused = asyncio.run(scenario())
    assert refused.constraint == "run_is_bounded" or refused.sqlstate == "22003"
    assert runs(database, Submitter.role) == []


@pytest.mark.req("R283")
def test_a_final_job_records_how_it_got_there(database: str) -> None:
    """State, attempts, routing and times stand in its record, whether it succeeded or failed."""
    spoiled = {"item": {"index": 0}, "do": "wrong_language"}

    async def scenario() -> None:
        async with hall_of(database, 2, PACE, spoiled) as hall:
            await hall.submit()
            await hall.collect()

    asyncio.run(scenario())
    told = stand.rows(
        database,
        "select status::text, attempt_count, routing_decision, created_at < updated_at,"
        " provider_batch_id is not null, last_error, last_error_at is not null from job_record"
        " order by status",
    )
    assert [(*row[:2], *row[3:]) for row in told] == [
        ("completed", 0, True, True, None, False),
        ("failed", 1, True, True, "non_target_locale", True),
    ]
    for _, _, routing, *_ in told:
        assert {"provider", "model", "adapter_kind", "prompt_version"} <= routing.keys()
        assert "text" not in json.dumps(routing)


@pytest.mark.req("R249")
def test_a_run_stops_at_its_time_and_gives_the_rest_back(database: str) -> None:
    """Two groups, and the time is up after the first: the second waits, without an attempt."""
    moved = [0.0]

    async def scenario() -> dict[str, Any]:
        async with hall_of(database, 2) as hall:
            providers = cast("stand.Providers", hall.submitter.providers)
            async with stand.orchestrator_of(database, providers) as orchestrator:
                await stand.submit(orchestrator, [("en", "es")] * 2)
            began = ports.monotonic()
            create = providers.adapter("openai_responses").create

            async def and_take_long(*given: Any) -> Any:
                answer = await create(*given)
                moved[0] = PACE.max_runtime_s + 1
                hall.station.line.acknowledged += moved[0]
                return answer

            providers.adapter("openai_responses").create = and_take_long  # type: ignore[method-assign]
            ports.install_clock(lambda: began + moved[0])
            try:
                return await hall.submit()
            finally:
                ports.install_clock(None)

    told = asyncio.run(scenario())
    assert (told["submitted_count"], told["deferred_count"]) == (2, 2)
    rows = stand.rows(
        database,
        "select state::text, stage_attempts, attempt_count, last_failure, not_before_at > clock()"
        " from standing where state <> 'batch_submitted'",
    )
    assert rows == [("queued", 0, 0, None, True)] * 2
    reasons = "select distinct reason from history where kind = 'deferred'"
    assert stand.rows(database, reasons) == [("runtime_limit",)]

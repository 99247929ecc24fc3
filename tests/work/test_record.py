"""The record of an execution: everything that was done, read from the events alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.rows import dict_row

from dragoman.cli.complaints import COMPLAINTS
from dragoman.cli.report import Sums, read_prices, sum_up, to_json
from dragoman.core.chain import Fault
from dragoman.core.errors import BadInput, NotFound
from dragoman.core.ids import HomeId, JobId
from dragoman.core.job import Defer, Reason
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs
from dragoman.store.erasure import Scope, erase
from dragoman.work.audit import Report, verify
from dragoman.work.finish import Finished, finish
from dragoman.work.story import Story, tell_stories
from dragoman.work.sweeper import Sweeper
from tests import stand
from tests.crash import rig

KEYS = """
rewrite_request_id job_id home_id sender_user_id recipient_user_id recipient_snapshot_id
recipient_preference_snapshot_id source_locale target_locale lane classifier_version
detected_language language_confidence provider model prompt_version policy_version execution_mode
provider_batch_id batch_group_key batch_id batch_item_index attempts timestamps status
""".split()
ROWS = """
select j.request_id as rewrite_request_id, j.id as job_id, j.home_id, r.sender_user_id,
       r.recipient_user_id, rs.id as recipient_snapshot_id,
       ps.id as recipient_preference_snapshot_id, r.source_locale, r.target_locale,
       r.lane::text, r.classifier_version, r.detected_language, r.language_confidence,
       o.provider, b.model, r.routing_decision ->> 'prompt_version' as prompt_version,
       r.policy_version, j.mode::text as execution_mode, s.provider_batch_id,
       j.group_key as batch_group_key, i.batch_id, i.item_index as batch_item_index,
       s.attempt_count as attempts, s.state::text as status
  from job j
  join standing s using (id)
  join rewrite_request r on r.id = j.request_id
  join recipient_snapshot rs on rs.request_id = r.id
  join recipient_preference_snapshot ps on ps.request_id = r.id
  join rewrite_output o on o.job_id = j.id
  join batch_item i on i.job_id = j.id
  join batch b on b.id = i.batch_id
 order by j.id
"""


@dataclass(frozen=True)
class Scene:
    """Rewrites that went through a batch."""

    database: str
    sandbox: Sandbox


@pytest.fixture(scope="module")
def done() -> Generator[Scene]:
    """Three that are completed, for tests that only read."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.clean_up(database, sandbox)
        yield Scene(database, sandbox)


@pytest.fixture
def waiting() -> Generator[Scene]:
    """Three that wait, for one test."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        yield Scene(database, sandbox)


def dicts(database: str, query: str, *params: object) -> list[dict[str, Any]]:
    """What the owner sees, by the names of the columns."""
    with stand.owner(database) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(query.encode(), params).fetchall()


def records(database: str) -> list[dict[str, Any]]:
    """The 25 keys of every job, as the auditor reads them."""
    found = dicts(database, "select * from audit order by job_id")
    return [{name: row[name] for name in KEYS} for row in found]


def stories(database: str, which: UUID) -> list[Story]:
    """What the auditor is told."""

    async def tell() -> list[Story]:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            return await tell_stories(cell, which)

    return asyncio.run(tell())


def report(database: str, prices: Path | None = None) -> dict[str, Any]:
    """The report, as a program reads it."""

    async def read() -> Sums:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            return await sum_up(cell, None, read_prices(prices) if prices else {})

    return json.loads(json.dumps(to_json(asyncio.run(read()))))


@pytest.mark.req("R083", "R190")
def test_the_record_has_every_key_of_the_contract_and_outlives_its_rows(waiting: Scene) -> None:
    """25 keys, equal to the rows; and the same again when all of those rows are gone."""
    rig.clean_up(waiting.database, waiting.sandbox)
    found = records(waiting.database)
    assert len(KEYS) == 25
    unknown = {name for row in found for name, value in row.items() if value is None}
    assert unknown <= {"detected_language"}, "of these only a language may be undetected"
    told = [{name: value for name, value in row.items() if name != "timestamps"} for row in found]
    assert told == dicts(waiting.database, ROWS)
    tables = (
        "rewrite_output batch_item batch delivery reveal dead_letter stage_result standing job"
        " recipient_preference_snapshot recipient_snapshot rewrite_request"
    ).split()
    with stand.owner(waiting.database) as connection:
        for table in tables:
            connection.execute(f"alter table {table} disable trigger user".encode())
            connection.execute(f"delete from {table}".encode())
    assert records(waiting.database) == found


@pytest.mark.req("R083")
def test_an_erased_job_keeps_its_record_and_its_chain(waiting: Scene) -> None:
    """After erasure the record is as it was, and the chain ends at the tombstone."""
    rig.clean_up(waiting.database, waiting.sandbox)
    found = records(waiting.database)

    async def erase_all() -> Report:
        async with stand.cell_of(waiting.database, "dragoman_eraser") as cell:
            for home in {row["home_id"] for row in found}:
                while await erase(cell, Scope(HomeId(home)), "test"):
                    pass
        async with stand.cell_of(waiting.database, "dragoman_auditor") as cell:
            return await verify(cell)

    report = asyncio.run(erase_all())
    assert stand.rows(waiting.database, "select count(*) from job") == [(0,)]
    assert (report.jobs, report.is_sound) == (rig.JOBS, True)
    assert records(waiting.database) == found


@pytest.mark.req("R190")
def test_the_record_has_a_time_for_each_state(done: Scene) -> None:
    """Every move, in its order, at the time of its event."""
    states = ["queued", "processing", "batch_submitted", "completed"]
    for row in records(done.database):
        assert [each["state"] for each in row["timestamps"]] == states
        times = [each["at"] for each in row["timestamps"]]
        assert times == sorted(times)
        kinds = "('enqueued', 'claimed', 'submitted', 'completed')"
        of_events = stand.rows(
            done.database,
            "select to_char(at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
            f" from history where job_id = %s and kind in {kinds} order by seq",
            row["job_id"],
        )
        assert times == [at for (at,) in of_events]


@pytest.mark.req("R241")
def test_every_time_is_utc_wherever_its_reader_sits(done: Scene) -> None:
    """No column forgets its zone, and a session in Tokyo reads the same record, in UTC."""
    unzoned = stand.rows(
        done.database,
        "select table_name, column_name from information_schema.columns"
        " where table_schema = 'dragoman' and (data_type like '%%without time zone'"
        " or column_name like '%%\\_at' and data_type not like 'timestamp with%%'"
        " and data_type <> 'USER-DEFINED')",
    )
    assert unzoned == []
    (story,) = stories(done.database, records(done.database)[0]["job_id"])
    here = story.to_json()
    with stand.owner(done.database) as connection:
        connection.execute(
            "do $$ begin execute format('alter database %I set timezone = ''Asia/Tokyo''',"
            " current_database()); end $$"
        )
    try:
        (story,) = stories(done.database, story.job_id)
        assert story.to_json() == here
        times = re.findall(r'"\d{4}-\d\d-\d\dT[^"]*"', json.dumps(here))
        assert len(times) > 10
        assert all(re.fullmatch(r'"[-0-9]{10}T[:0-9]{8}\.\d{6}Z"', at) for at in times)
    finally:
        with stand.owner(done.database) as connection:
            connection.execute(
                "do $$ begin execute format('alter database %I reset timezone',"
                " current_database()); end $$"
            )


@pytest.mark.req("R283")
def test_a_job_that_is_over_says_how_after_how_many_tries_where_and_when(waiting: Scene) -> None:
    """Completed, failed or canceled: state, attempts, routing and times stand on its record."""
    waiting.sandbox.fault({"do": "bad_schema", "item": {"index": 1}})
    rig.submit_once(waiting.database, waiting.sandbox, max_jobs_per_run=2)
    waiting.sandbox.advance(rig.A_BATCH_IS_DONE_S)
    rig.collect_once(waiting.database, waiting.sandbox)
    (left,) = stand.rows(waiting.database, "select id from standing where state = 'queued'")

    asyncio.run(_cancel(waiting.database, left[0]))
    rows = dicts(waiting.database, "select * from job_record order by status")
    ended = [(row["status"], row["attempt_count"]) for row in rows]
    assert ended == [("completed", 0), ("failed", 1), ("canceled", 0)]
    for row in rows:
        assert {"provider", "model", "prompt_version"} <= row["routing_decision"].keys()
        assert row["created_at"] <= row["updated_at"]
    told = {row["job_id"]: (row["status"], row["attempts"]) for row in records(waiting.database)}
    assert told == {row["job_id"]: (row["status"], row["attempt_count"]) for row in rows}


@pytest.mark.req("R191")
def test_one_report_gives_cost_reliability_and_checks_from_metadata_alone(
    waiting: Scene, tmp_path: Path
) -> None:
    """Tokens and money per pair, failures per model, codes per prompt, when all texts are gone."""
    waiting.sandbox.fault({"do": "bad_schema", "item": {"index": 1}})
    rig.submit_once(waiting.database, waiting.sandbox)
    waiting.sandbox.advance(rig.A_BATCH_IS_DONE_S)
    rig.collect_once(waiting.database, waiting.sandbox)
    with stand.owner(waiting.database) as connection:
        connection.execute("drop table rewrite_output, rewrite_request cascade")
    prices = tmp_path / "prices.toml"
    models = {row["model"] for row in records(waiting.database)}
    prices.write_text(
        "".join(
            f'["sandbox/{model}"]\ninput = 2.0\ncached = 1.0\noutput = 8.0\n' for model in models
        )
    )
    told = report(waiting.database, prices)
    paid = rig.ledger_of(waiting.sandbox)["items"]
    assert sum(row["jobs"] for row in told["languages"]) == rig.JOBS
    assert len(paid) == rig.JOBS
    for row in told["languages"]:
        fresh = 2 * (row["input_tokens"] - row["cached_tokens"]) + row["cached_tokens"]
        money = Decimal(fresh + 8 * row["output_tokens"]) / 2 / 1_000_000
        assert Decimal(row["money"]) == money
        assert row["input_tokens"] > 0
        assert row["output_tokens"] > 0
    assert sum(row["failed"] for row in told["outcomes"]) == 1
    assert [row["failure_rate"] for row in told["outcomes"]] == [pytest.approx(1 / 3, abs=1e-4)]
    codes = {row["code"]: row["jobs"] for row in told["checks"]}
    (failed,) = stand.rows(
        waiting.database, "select last_failure ->> 'code' from standing where state = 'failed'"
    )
    assert (codes["passed"], codes[failed[0]], codes["not_judged"]) == (2, 1, 2)


@pytest.mark.parametrize(
    "content",
    ["x", "[a]\ninput = 1", '["a/b"]\ninput = -1\ncached = 1\noutput = 1', "\udcff", None],
)
def test_prices_that_are_none_are_refused(tmp_path: Path, content: str | None) -> None:
    """A file that is not there, no TOML, or without a price says what it should hold."""
    path = tmp_path / "prices.toml"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput):
        read_prices(path)


@pytest.mark.req("R191")
def test_a_request_has_one_story_with_every_event_in_words(done: Scene) -> None:
    """By the job or by the request: who did what and when, each event verified, and no message."""
    record = records(done.database)[0]
    (story,) = stories(done.database, record["rewrite_request_id"])
    assert [story.to_json()] == [each.to_json() for each in stories(done.database, story.job_id)]
    steps = [(step.kind, step.actor.role if step.actor else None) for step in story.steps]
    assert [kind for kind, _ in steps] == [
        "enqueued",
        "claimed",
        "submitted",
        "judged",
        "completed",
    ]
    assert None not in {role for _, role in steps}
    assert all(step.is_verified for step in story.steps)
    assert story.divergence is None
    assert {*KEYS} <= story.record.keys()
    words = json.dumps(story.to_json(), ensure_ascii=False)
    written = stand.rows(done.database, "select rewritten_text from rewrite_output")
    assert len(written) == rig.JOBS
    for text in [
        *(text for texts in COMPLAINTS.values() for text in texts),
        *(t for (t,) in written),
    ]:
        assert text not in words


def test_a_story_stops_to_hold_where_it_was_forged(waiting: Scene) -> None:
    """What comes before the forged event is verified, what follows is not; no fact is trusted."""
    rig.clean_up(waiting.database, waiting.sandbox)
    job = records(waiting.database)[0]["job_id"]
    with stand.owner(waiting.database) as connection:
        connection.execute("alter table event disable trigger user")
        connection.execute(
            "update event set facts = '\\xff', kind = 999, reason = 999"
            " where job_id = %s and seq = 3",
            (job,),
        )
    (story,) = stories(waiting.database, job)
    assert [step.is_verified for step in story.steps] == [True, True, False, False, False]
    assert story.divergence is not None
    assert (story.divergence.fault, story.divergence.seq) == (Fault.HASH, 3)
    assert (story.steps[2].kind, story.steps[2].reason) == ("999", "999")
    assert story.steps[2].facts == {"unreadable": True}


def test_nobody_knows_a_story_of_what_never_was(done: Scene) -> None:
    """An id of neither a job nor a request is refused."""
    with pytest.raises(NotFound):
        stories(done.database, uuid4())


@pytest.mark.req("R104")
def test_every_stage_of_a_life_is_an_event(waiting: Scene) -> None:
    """Thirteen stages: each has its event, and what was persisted is named by the one that judged.

    Collecting and validating are one event, with the batch's item and the checks' verdict;
    persisting and completing are one statement, and so one event.
    """
    database, sandbox = waiting.database, waiting.sandbox
    first = asyncio.run(_stale_and_deferred(database))
    rig.submit_once(database, sandbox)
    wrong, later = stand.rows(
        database, "select item_index from batch_item where job_id <> %s order by 1", first
    )
    sandbox.fault(
        {"do": "bad_schema", "item": {"index": wrong[0]}},
        {"do": "error", "item": {"index": later[0]}, "status": 500},
    )
    asyncio.run(_cancel(database, first))
    sandbox.advance(rig.A_BATCH_IS_DONE_S)
    rig.collect_once(database, sandbox)
    rig.clean_up(database, sandbox)
    trails = dict(
        stand.rows(database, "select job_id, array_agg(kind order by seq) from history group by 1")
    )
    life = ["enqueued", "claimed", "submitted"]
    assert trails.pop(first) == [
        *("enqueued", "claimed", "stale_requeued", "claimed", "deferred", "claimed", "submitted"),
        *("canceled", "late_result"),
    ]
    assert sorted(trails.values()) == [
        [*life, "judged", "failed"],
        [*life, "judged", "retried", "claimed", "submitted", "judged", "completed"],
    ]
    ((facts, digest, item),) = stand.rows(
        database,
        "select h.facts, encode(sha256(convert_to(o.rewritten_text, 'UTF8')), 'hex'),"
        " array[i.batch_id::text, i.item_index::text] from history h join rewrite_output o using"
        " (job_id) join batch_item i using (job_id) where h.kind = 'judged' and i.state = 'done'"
        " and h.facts ->> 'verdict' = 'passed'",
    )
    assert (facts["sha256"], facts["eval"]["schema_valid"]) == (digest, True)
    assert [facts["batch_id"], str(facts["batch_item_index"])] == item


async def _stale_and_deferred(database: str) -> JobId:
    """The first job, once left by a dead worker and once put off by a living one."""
    async with stand.station_of(database) as station:
        keys = [row[0] for row in stand.rows(database, "select key from queue")]
        (left,) = await jobs.claim_jobs(station.cell, uuid4(), keys, 1)
        stand.move_clock(database, rig.A_CLAIM_IS_STALE_S)
    async with stand.station_of(database) as station:
        assert await Sweeper(station).sweep_stale() == 1
        (held,) = await jobs.claim_jobs(station.cell, station.line.worker, keys, 1)
        later = Finished(held, Defer(Reason.OVERFLOW, delay_s=1))
        assert await finish(station.cell, station.line.worker, station.pipelines, [later])
        assert held.id == left.id
    stand.move_clock(database, 2)
    return held.id


async def _cancel(database: str, job: UUID) -> None:
    async with stand.cell_of(database, "dragoman_operator") as cell:
        assert await jobs.cancel_jobs(cell, uuid4(), [JobId(job)])

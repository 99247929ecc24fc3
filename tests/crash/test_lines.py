"""What a provider's files may say wrong: lines missing, doubled, torn, unknown, spoilt, refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.call import Call, Reply
from dragoman.core.canonical import JSONObject
from dragoman.core.failure import Failure
from dragoman.core.ids import JobId
from dragoman.core.job import Held, Outcome
from dragoman.rewrite import store as rewrite_store
from dragoman.rewrite.stage import Generate, _output, rewrite_pipeline
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs
from dragoman.store.database import Cell, Tx
from dragoman.store.workers import know_actor
from dragoman.work.pipeline import Stored
from tests import stand
from tests.crash import rig

FOR_EVER = {"times": None}


def failed_with(code: str, attempts: int = 1) -> tuple:
    """A job that has failed."""
    return ("failed", attempts, 0, code)


def done(count: int) -> list[tuple]:
    """Jobs that ended well at the first try."""
    return [("completed", 0, 0, None)] * count


def collected(database: str, sandbox: Sandbox, *faults: JSONObject, times: int = 1) -> None:
    """Submit, let the provider work, and collect so many times with these faults armed."""
    sandbox.fault(*faults)
    rig.submit_once(database, sandbox)
    sandbox.advance(rig.A_BATCH_IS_DONE_S)
    for _ in range(times):
        rig.collect_once(database, sandbox)


def the_end(database: str, sandbox: Sandbox) -> list[tuple]:
    """The sorted standings when the auditor is content."""
    rig.ends_clean(database, sandbox)
    return sorted(rig.standings(database))


@pytest.mark.req("R213", "R214", "R215", "R216", "R277")
def test_an_item_without_a_line_is_looked_for_once_more_and_then_fails_alone() -> None:
    """A completed batch of three with two lines: read again, one alert, one failure."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "missing", **FOR_EVER})
        assert (rig.outputs(database), rig.alerts(database)) == (2, [])
        assert stand.rows(database, "select count(*) from batch where closed_at is null") == [(1,)]
        rig.collect_once(database, sandbox)
        assert the_end(database, sandbox) == [*done(2), failed_with("result_missing")]
        assert rig.alerts(database) == ["batch_item_count_mismatch"]
        assert stand.rows(database, "select times from alert") == [(1,)]
        silent = (
            "select i.state, o.job_id from batch_item i"
            " left join rewrite_output o using (job_id) where i.code is not null"
        )
        assert stand.rows(database, silent) == [("failed", None)]


def test_a_line_that_was_only_late_costs_nothing() -> None:
    """Missing in the first reading and there in the second: completed, no alert, no attempt."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "missing"}, times=2)
        assert (the_end(database, sandbox), rig.alerts(database)) == (done(3), [])


@pytest.mark.req("R214")
def test_two_collectors_that_miss_a_line_at_once_have_looked_once() -> None:
    """Both read the file in the same moment: that is one look, so nothing fails yet."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"do": "missing", "times": 2})
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)

        async def both() -> None:
            ready, look = asyncio.Barrier(2), rig.Collector._take_in

            async def together(*given):
                await ready.wait()
                return await look(*given)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rig.Collector, "_take_in", together)
                one, two = rig.a_collection(database, sandbox), rig.a_collection(database, sandbox)
                await asyncio.gather(one, two)

        asyncio.run(both())
        assert stand.rows(database, "select downloads from batch") == [(1,)]
        rig.collect_once(database, sandbox)
        assert (the_end(database, sandbox), rig.alerts(database)) == (done(3), [])


def test_a_batch_that_another_collector_took_in_meanwhile_is_no_alert() -> None:
    """Its files are deleted just before this one reads them: nothing is out of reach."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        left = [rig.a_collection(database, sandbox)]

        def hook(tag: str, when: ports.Moment) -> None:
            if (tag, when) == ("collect.download", "before") and left:
                other = threading.Thread(target=asyncio.run, args=(left.pop(),))
                other.start()
                other.join()

        ports.install(hook)
        try:
            rig.collect_once(database, sandbox)
        finally:
            ports.install(None)
        assert left == []
        assert (the_end(database, sandbox), rig.alerts(database)) == (done(3), [])


@pytest.mark.req("R206", "R216")
def test_a_line_of_nobody_is_dropped_and_fills_no_gap() -> None:
    """One line is missing and a stranger's is there: an alert, and the gap stays a gap."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        missing = {"do": "missing", "index": 1, **FOR_EVER}
        collected(database, sandbox, missing, {"do": "unknown_id", **FOR_EVER}, times=2)
        assert the_end(database, sandbox) == [*done(2), failed_with("result_missing")]
        assert rig.alerts(database) == ["batch_item_count_mismatch", "unknown_batch_item"]


@pytest.mark.req("R206")
def test_a_line_of_nobody_harms_nobody() -> None:
    """All lines are there and a stranger's too: every item completes, one alert tells of it."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "unknown_id"})
        assert (the_end(database, sandbox), rig.alerts(database)) == (
            done(3),
            ["unknown_batch_item"],
        )


@pytest.mark.req("R063")
def test_a_line_whose_mapping_is_gone_is_dropped() -> None:
    """Without its row of batch_item a line is nobody's: an alert, and nothing is written."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        with stand.owner(database) as connection:
            gone = connection.execute(
                "delete from batch_item where item_index = 1 returning job_id, token"
            ).fetchall()
            held = connection.execute("select id, claim_token from standing").fetchall()
        assert gone[0] in held
        rig.collect_once(database, sandbox)
        assert rig.alerts(database) == ["unknown_batch_item"]
        assert stand.rows(
            database,
            "select s.state::text from standing s"
            " left join rewrite_output o on o.job_id = s.id where o.job_id is null",
        ) == [("batch_submitted",)]
        assert stand.rows(database, "select id from standing where state <> 'completed'") == [
            gone[0][:1]
        ]


def test_the_same_line_twice_counts_once() -> None:
    """An identical duplicate is no contradiction: three outputs, no alert."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "duplicate"})
        assert (the_end(database, sandbox), rig.alerts(database)) == (done(3), [])


@pytest.mark.req("R215")
def test_two_different_lines_for_one_item_fail_it() -> None:
    """An item that contradicts itself, read twice: it fails alone, and neither line is believed."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        twice = {"do": "duplicate", "changed": True, **FOR_EVER}
        collected(database, sandbox, twice, times=2)
        assert the_end(database, sandbox) == [*done(2), failed_with("result_missing")]
        assert rig.alerts(database) == ["batch_item_count_mismatch"]


@pytest.mark.parametrize("is_cured", [True, False], ids=["once", "for ever"])
def test_a_torn_line_costs_its_own_item_at_most(is_cured: bool) -> None:
    """The last line ends in the middle: read again it may be whole, else its item alone fails."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        torn = {"do": "torn_line", "times": 1 if is_cured else None}
        collected(database, sandbox, torn, times=2)
        left = done(3) if is_cured else [*done(2), failed_with("result_missing")]
        assert the_end(database, sandbox) == left


def test_a_download_that_is_cut_is_no_result() -> None:
    """Half a file and a closed connection: nothing is taken in, the next run reads it whole."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"on": "content", "do": "truncate"})
        assert rig.outputs(database) == 0
        rig.collect_once(database, sandbox)
        assert (the_end(database, sandbox), rig.alerts(database)) == (done(3), [])


@pytest.mark.req("R152", "R277", "R278", "R213")
def test_one_bad_item_fails_alone_and_each_has_its_own_trail() -> None:
    """The item in the middle breaks its schema: two completed, one failed, an end for each."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "bad_schema", "item": {"index": 1}})
        ended = the_end(database, sandbox)
        assert [row[:3] for row in ended] == [*rig.completed(2), ("failed", 1, 0)]
        trails = stand.rows(
            database,
            "select array_agg(kind order by seq) from history group by job_id order by 1",
        )
        steps = ["enqueued", "claimed", "submitted"]
        assert trails == [
            ([*steps, "judged", "completed"],),
            ([*steps, "judged", "completed"],),
            ([*steps, "judged", "failed"],),
        ]


@pytest.mark.req("R047", "R119", "R267", "R268")
def test_an_item_that_failed_for_now_is_tried_once_more_in_another_batch() -> None:
    """500 at first: +1, queued, the claim cleared; then completed, under its first batch's id."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        collected(database, sandbox, {"do": "error", "item": {"index": 1}, "status": 500})
        waiting = stand.rows(
            database,
            "select attempt_count, claim_token, claimed_by, claimed_at, not_before_at is not null"
            " from standing where state = 'queued'",
        )
        assert waiting == [(1, None, None, None, True)]
        asked = "select id, provider_batch_id from standing order by id"
        first = stand.rows(database, asked)
        rig.clean_up(database, sandbox)
        assert rig.counted(the_end(database, sandbox)) == [*rig.completed(2), ("completed", 1, 0)]
        assert stand.rows(database, asked) == first
        assert len({row[1] for row in first}) == 1
        assert len(rig.ledger_of(sandbox)["creates"]) == 2


@pytest.mark.req("R080", "R181")
@pytest.mark.req("R036", "R109")
def test_when_every_attempt_has_failed_so_have_job_and_request() -> None:
    """500 at every try: failed after two, without an output, and the sender sees it as failed."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        always = {"do": "error", "item": {"index": 0}, "status": 500, **FOR_EVER}
        sandbox.fault(always)
        rig.clean_up(database, sandbox)
        ended = the_end(database, sandbox)
        assert rig.counted(ended)[-1] == ("failed", 2, 0)
        failed = (
            "select status from rewrite_status"
            " join standing s on s.id = job_id where s.state = 'failed'"
        )
        assert set(stand.rows(database, failed)) == {("failed",)}
        assert rig.outputs(database) == len([row for row in ended if row[0] == "completed"])


@pytest.mark.req("R212", "R213")
def test_a_batch_that_expired_half_way_keeps_what_it_has() -> None:
    """One item ran before the window closed and completes; the others wait again, unburnt."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"do": "expire_after_fraction", "fraction": 0.5})
        rig.submit_once(database, sandbox)
        sandbox.advance(90_000)
        rig.collect_once(database, sandbox)
        assert sorted(rig.counted(rig.standings(database))) == [
            ("completed", 0, 0),
            *[("queued", 0, 1)] * 2,
        ]
        rig.clean_up(database, sandbox)
        assert rig.counted(the_end(database, sandbox)) == [
            ("completed", 0, 0),
            *rig.completed(2, free=1),
        ]
        assert len(rig.ledger_of(sandbox)["items"]) == rig.JOBS


@pytest.mark.req("R212", "R152")
@pytest.mark.parametrize("line", [1, 2])
def test_a_refused_line_is_charged_to_the_item_whose_line_it_was(line: int) -> None:
    """One job was canceled between claim and record, so the lines moved up: the right one fails."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        ids = [row[0] for row in stand.rows(database, "select id from standing order by sort_at")]
        canceled = rig.elsewhere(lambda: asyncio.run(cancel(database, ids[0])))
        sandbox.fault({"do": "fail_validation", "line": line})
        with rig.frozen_at("db.claim", "after", canceled):
            rig.submit_once(database, sandbox)
        numbered = "select item_index, job_id from batch_item order by item_index"
        assert [row[0] for row in stand.rows(database, numbered)] == [0, 1]
        guilty = stand.rows(database, numbered)[line - 1][1]
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        told = dict(stand.rows(database, "select id, state::text from standing"))
        innocent = ({*ids[1:]} - {guilty}).pop()
        assert told == {ids[0]: "canceled", guilty: "failed", innocent: "completed"}


async def cancel(database: str, job: JobId) -> None:
    """An operator cancels a job."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "operator", "test")
        assert await jobs.cancel_jobs(cell, actor, [job]) == {job}


@dataclass(frozen=True)
class Poisoned:
    """The generate stage, with a bug: one job's output claims that nothing was checked."""

    inner: Generate
    poison: JobId
    name: str = "generate"

    @property
    def retry(self) -> Any:
        return self.inner.retry

    async def load(self, cell: Cell, held: Sequence[Held]) -> Mapping[JobId, object]:
        return await self.inner.load(cell, held)

    def prepare(self, job: Held, given: object) -> Sequence[Call] | Failure:
        return self.inner.prepare(job, given)

    def absorb(self, job: Held, given: object, replies: Sequence[Reply]) -> Outcome:
        return self.inner.absorb(job, given, replies)

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        outputs = [
            replace(_output(one), eval_result={}) if one.job.id == self.poison else _output(one)
            for one in finished
        ]
        await rewrite_store.store_outputs(tx, outputs)


def poisoned(job: JobId) -> dict[str, Any]:
    """The rewrite pipeline with that bug."""
    pipeline = rewrite_pipeline((900,), 600)
    stage = Poisoned(pipeline.stages[0], job)  # type: ignore[arg-type]  # it is Generate
    return {"rewrite": replace(pipeline, stages=(stage,))}


@pytest.mark.parametrize("place", range(rig.JOBS))
@pytest.mark.req("R152", "R277")
@pytest.mark.req("R012")
def test_a_result_that_the_database_refuses_fails_alone(place: int) -> None:
    """A poison item anywhere in a chunk: its neighbours complete in the same run."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        poison = stand.rows(database, "select job_id from batch_item order by job_id")[place][0]
        rig.collect_once(database, sandbox, poisoned(poison))
        ended = the_end(database, sandbox)
        assert ended == [*done(2), failed_with("refused_by_database_23514")]
        assert stand.rows(database, "select job_id, error_class from dead_letter") == [
            (poison, "RUNTIME_BUG")
        ]

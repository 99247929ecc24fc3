"""Results are taken in item by item: each wholly or not at all, by however many."""

from __future__ import annotations

import asyncio
import random

import pytest

from dragoman.core import ports
from dragoman.core.errors import CommitUnknown
from dragoman.sandbox.server import Sandbox
from dragoman.work import collector
from dragoman.work.sweeper import Sweeper
from tests import stand
from tests.crash import rig

LINES_OF_FINISH = (
    "job/lock_units",
    "job/record_verdicts",
    "job/move_jobs",
    "output/store_outputs",
    "batch/settle_items",
)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item is finished in a transaction of its own."""
    monkeypatch.setattr(collector, "_CHUNK", 1)


def submitted(database: str, sandbox: Sandbox) -> None:
    """Three rewrites that were submitted and whose batch is done."""
    rig.submit_once(database, sandbox)
    sandbox.advance(rig.A_BATCH_IS_DONE_S)


def wholly_finished(database: str) -> int:
    """How many items are finished in every respect; any that is so only in part is a fault."""
    rows = stand.rows(
        database,
        """select s.state = 'completed', o.job_id is not null, i.state = 'done',
                  i.settled_at is not null,
                  exists (select from history h where h.job_id = s.id and h.kind = 'completed')
             from standing s join batch_item i on i.job_id = s.id
             left join rewrite_output o on o.job_id = s.id""",
    )
    assert all(len(set(row)) == 1 for row in rows), rows
    return sum(row[0] for row in rows)


def ends_as_if_nothing_had_happened(database: str, sandbox: Sandbox) -> None:
    """The next run ends the rest: three outputs, each item run once, the auditor content."""
    rig.clean_up(database, sandbox)
    rig.ends_clean(database, sandbox)
    assert rig.counted(rig.standings(database)) == rig.completed()
    assert len(rig.ledger_of(sandbox)["items"]) == rig.JOBS


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("item", [1, 2, 3])
@pytest.mark.req("R137")
def test_a_collector_killed_at_an_item_has_finished_those_before_it(
    one_by_one: None, item: int, moment: ports.Moment
) -> None:
    """Killed before or after the commit of item k: k - 1 or k are whole, the next run goes on."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        dies = rig.at_nth("db.finish", moment, item)
        rig.live_and_die(database, sandbox, rig.a_collection, dies)
        assert wholly_finished(database) == (item if moment == "after" else item - 1)
        rig.stays_clean(database, sandbox)
        ends_as_if_nothing_had_happened(database, sandbox)


@pytest.mark.parametrize("name", LINES_OF_FINISH)
@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.req("R137")
@pytest.mark.req("R066", "R159")
def test_a_collector_killed_between_two_statements_leaves_its_chunk_untouched(
    monkeypatch: pytest.MonkeyPatch, chunk: int, name: str
) -> None:
    """Between any two statements of a finish: nothing of that chunk, everything of those before."""
    monkeypatch.setattr(collector, "_CHUNK", chunk)
    nth = 2 if chunk == 1 else 1
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        life = rig.statement_by_statement(rig.a_collection)
        rig.live_and_die(database, sandbox, life, rig.at_nth(f"sql.{name}", "before", nth))
        assert wholly_finished(database) == nth - 1
        ends_as_if_nothing_had_happened(database, sandbox)


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.req("R065", "R185")
@pytest.mark.req("R159")
def test_two_collectors_at_once_take_every_result_in_once(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Both have downloaded everything before either writes: one output and one event each."""
    monkeypatch.setattr(collector, "_CHUNK", chunk)

    async def both(database: str, sandbox: Sandbox) -> None:
        ready, look = asyncio.Barrier(2), collector.Collector._take_in

        async def together(*given):
            await ready.wait()
            return await look(*given)

        monkeypatch.setattr(collector.Collector, "_take_in", together)
        await asyncio.gather(
            rig.a_collection(database, sandbox), rig.a_collection(database, sandbox)
        )
        monkeypatch.undo()

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        asyncio.run(both(database, sandbox))
        assert wholly_finished(database) == rig.JOBS
        assert rig.events(database, "completed") == rig.JOBS
        assert rig.events(database, "late_result") == 0
        ends_as_if_nothing_had_happened(database, sandbox)


@pytest.mark.req("R065", "R101")
def test_a_finish_whose_commit_gave_no_answer_is_recognised_as_done(one_by_one: None) -> None:
    """The reply of the second item's COMMIT is lost: the next run writes the third alone."""
    lost = rig.at_nth("db.finish", "after", 2)

    def lose(tag: str, moment: ports.Moment) -> None:
        if lost(tag, moment):
            ports.install(None)
            raise CommitUnknown

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        ports.install(lose)
        with pytest.raises(CommitUnknown):
            rig.collect_once(database, sandbox)
        first = rig.texts(database)
        assert (len(first), wholly_finished(database)) == (2, 2)
        rig.collect_once(database, sandbox)
        assert set(first) < set(rig.texts(database))
        assert rig.events(database, "late_result") == 0
        ends_as_if_nothing_had_happened(database, sandbox)


@pytest.mark.req("R061", "R163", "R164", "R211", "R210", "R186")
def test_running_again_after_the_end_does_nothing() -> None:
    """Every role once more over completed jobs: no call, no write to any of their rows."""

    def rows(database: str) -> object:
        asked = "select s.*, s.xmin::text from standing s order by id"
        return stand.rows(database, asked), rig.texts(database)

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(rig.a_day(database, sandbox))
        before, ledger = rows(database), rig.ledger_of(sandbox)
        asyncio.run(rig.one_round(database, sandbox))
        assert (rows(database), rig.ledger_of(sandbox)) == (before, ledger)
        skipped = "select count(*) from run where skipped like '%%skipped: no pending items'"
        assert stand.rows(database, skipped) == [(4,)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.req("R101", "R185")
def test_every_step_twice_in_any_order_ends_the_same(seed: int) -> None:
    """Every role twice, shuffled, round after round: one batch, three outputs."""
    order = random.Random(seed)  # noqa: S311 - an order, no secret

    async def shuffled(database: str, sandbox: Sandbox) -> None:
        async with rig.crew(database, sandbox) as loops:
            for loop in order.sample(loops * 2, len(loops) * 2):
                await loop.run_once()

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        for _ in range(4):
            asyncio.run(shuffled(database, sandbox))
            stand.move_clock(database, order.choice([1, 40, 700]))
            sandbox.advance(40)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()
        assert len(rig.ledger_of(sandbox)["creates"]) == 1


@pytest.mark.req("R054", "R132", "R134", "R118", "R053", "R131", "R148", "R149", "R150")
@pytest.mark.req("R276")
def test_a_rewrite_goes_from_queued_to_completed_step_by_step() -> None:
    """Our batch before theirs, items 0 to n-1, one mark for all, no change until it is done."""

    def standing(database: str) -> list[tuple]:
        return stand.rows(
            database, "select state::text, provider_batch_id is not null from standing order by id"
        )

    def items(database: str) -> list[tuple]:
        return stand.rows(
            database,
            "select b.state, b.provider_batch_id, i.item_index, r.id is not null"
            " from batch b join batch_item i on i.batch_id = b.id join job j on j.id = i.job_id"
            " left join rewrite_request r on r.id = j.request_id order by i.item_index",
        )

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        assert standing(database) == [("queued", False)] * rig.JOBS
        seen: list[object] = []
        look = rig.elsewhere(lambda: seen.append((items(database), standing(database))))
        with rig.frozen_at("submit.create", "before", look):
            rig.submit_once(database, sandbox)
        known = [("submitting", None, index, True) for index in range(rig.JOBS)]
        assert seen == [(known, [("processing", False)] * rig.JOBS)]
        out = [("batch_submitted", True)] * rig.JOBS
        assert standing(database) == out
        rig.collect_once(database, sandbox)
        sandbox.advance(30)
        rig.collect_once(database, sandbox)
        assert (standing(database), rig.outputs(database)) == (out, 0)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)
        assert standing(database) == [("completed", True)] * rig.JOBS
        rig.ends_clean(database, sandbox)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.req("R053", "R131")
@pytest.mark.req("R276")
def test_the_mark_of_a_batch_is_one_write(moment: ports.Moment) -> None:
    """Killed around it: no job carries the provider's id, or every job and the batch do."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.live_and_die(database, sandbox, rig.a_day, rig.at_nth("db.record_submitted", moment))
        is_marked = moment == "after"
        assert stand.rows(
            database,
            "select distinct s.state = 'batch_submitted', s.provider_batch_id is not null,"
            " b.provider_batch_id is not null from standing s cross join batch b",
        ) == [(is_marked, is_marked, is_marked)]


@pytest.mark.req("R217", "R218")
def test_every_item_has_a_completion_time_of_its_own() -> None:
    """Three items of one chunk: three times, read for each row, and none is the batch's."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(rig.a_day(database, sandbox))
        times = [row[0] for row in stand.rows(database, "select completed_at from rewrite_output")]
        ended = stand.rows(database, "select ended_at from batch")[0][0]
        assert len({*times, ended}) == rig.JOBS + 1
        assert stand.rows(
            database,
            "select count(*) from event e join rewrite_output o using (job_id)"
            " where e.at = o.completed_at",
        ) == [(rig.JOBS,)]


@pytest.mark.req("R062", "R156", "R065")
@pytest.mark.req("R158")
def test_a_batch_of_several_homes_and_locales_gives_each_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four homes, four locales, shuffled lines: every output is its pair's, in its language."""
    monkeypatch.setattr("dragoman.rewrite.orchestrator.batch_group_key", lambda *_: "one for all")
    pairs = [("en", "en"), ("de", "en"), ("es", "fr"), ("fr", "de")]

    async def enqueue(database: str, sandbox: Sandbox) -> None:
        async with (
            rig.providers_of(sandbox) as providers,
            stand.orchestrator_of(database, providers) as orchestrator,
        ):
            await stand.submit(orchestrator, pairs)

    with rig.fresh(rig.empty_database) as (database, sandbox):
        asyncio.run(enqueue(database, sandbox))
        asyncio.run(rig.a_day(database, sandbox))
        rig.ends_clean(database, sandbox)
        sent = stand.rows(database, "select custom_id from batch_item order by item_index")
        ledger = rig.ledger_of(sandbox)
        run = [(row["custom_id"],) for row in ledger["items"] if row["batch_id"] != "response"]
        assert (len(ledger["creates"]), len(sent)) == (1, 4)
        assert sorted(run) == sorted(sent)
        assert run != sent
        assert stand.rows(
            database,
            """select count(*) from rewrite_output o
                 join job j on j.id = o.job_id join rewrite_request r on r.id = o.request_id
                where (o.home_id, o.recipient_user_id, o.target_locale, o.output_language)
                    = (r.home_id, r.recipient_user_id, j.target_locale, j.target_locale)""",
        ) == [(4,)]


@pytest.mark.req("R257")
def test_what_is_over_the_limit_of_a_run_waits_as_it_is() -> None:
    """Two of three jobs fit: the third keeps its attempts, its failure and its place."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        before = (
            "select id, attempt_count, last_failure, reason, sort_at, xmin::text"
            " from standing where state = 'queued'"
        )
        waiting = stand.rows(database, before)
        rig.submit_once(database, sandbox, max_jobs_per_run=2)
        left = stand.rows(database, before)
        assert len(left) == 1
        assert left[0] in waiting
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()


def test_every_role_can_do_its_work_with_the_rights_it_has() -> None:
    """The sweeper folds every sum and fails what waits in vain, as the worker's role."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(rig.a_day(database, sandbox))

        async def sweep() -> None:
            async with stand.station_of(database) as station:
                await Sweeper(station, [rig.fail_waiting]).run_once()

        asyncio.run(sweep())
        assert stand.rows(database, "select count(*) from queue_delta") == [(0,)]
        assert stand.rows(database, "select state::text, n from queue_sum where n <> 0") == [
            ("completed", rig.JOBS)
        ]
        rig.ends_clean(database, sandbox)

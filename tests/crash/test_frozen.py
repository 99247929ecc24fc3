"""A process that stood still while its lease ended gets zero rows everywhere and does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import JobId
from dragoman.core.job import Bury, Done, Mode, Retry
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs, queues
from dragoman.store.workers import know_actor
from dragoman.work.finish import Finished, finish
from dragoman.work.sweeper import Sweeper
from tests import stand
from tests.crash import rig

IS_FROZEN = pytest.mark.parametrize("for_s", [0.0, 2000.0], ids=["clock jumped", "stood still"])


def creates(sandbox: Sandbox) -> int:
    """How many batches were created, and paid."""
    return len(rig.ledger_of(sandbox)["creates"])


def cleaned(database: str, sandbox: Sandbox) -> Callable[[], None]:
    """Meanwhile the crew brings everything to its end."""
    return rig.elsewhere(lambda: rig.clean_up(database, sandbox))


@IS_FROZEN
@pytest.mark.req("R263")
def test_a_submitter_frozen_after_its_claim_submits_nothing(for_s: float) -> None:
    """Its jobs were requeued and submitted by others meanwhile: no upload, no batch row."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        with rig.frozen_at("db.claim", "after", cleaned(database, sandbox), for_s=for_s):
            rig.submit_once(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), len(rig.ledger_of(sandbox)["uploads"])) == (1, 1)
        assert stand.rows(database, "select count(*) from batch") == [(1,)]
        assert rig.counted(rig.standings(database)) == rig.completed(attempts=1)


@IS_FROZEN
def test_a_submitter_frozen_after_its_upload_creates_nothing(for_s: float) -> None:
    """Its submission was given back and made anew by others: its own create is never sent."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        with rig.frozen_at("submit.upload", "after", cleaned(database, sandbox), for_s=for_s):
            rig.submit_once(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), len(rig.ledger_of(sandbox)["uploads"])) == (1, 2)
        assert rig.counted(rig.standings(database)) == rig.completed(free=1)


def test_a_submitter_frozen_before_its_create_sends_it_no_more() -> None:
    """It comes back after its deadline, when others may have settled its doubt: no POST at all."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        with rig.frozen_at("submit.create", "before", lambda: None, for_s=2000):
            rig.submit_once(database, sandbox)
        assert creates(sandbox) == 0
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert creates(sandbox) == 1
        assert rig.counted(rig.standings(database)) == rig.completed(free=1)


@IS_FROZEN
def test_a_submitter_frozen_after_its_create_marks_nothing(for_s: float) -> None:
    """Its batch was adopted and collected meanwhile: its own mark finds nothing to mark."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        with rig.frozen_at("submit.create", "after", cleaned(database, sandbox), for_s=for_s):
            rig.submit_once(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert creates(sandbox) == 1
        assert rig.events(database, "submitted") == rig.JOBS
        assert rig.counted(rig.standings(database)) == rig.completed()


@pytest.mark.req("R043", "R065", "R186", "R210", "R185", "R061", "R211", "R163")
def test_a_collector_frozen_over_a_whole_batch_changes_nothing() -> None:
    """Another took the same results in meanwhile: the same rows, no event, no call, no alert."""
    seen: list[object] = []

    def facts(database: str) -> object:
        heads = stand.rows(database, "select id, seq, head, xmin::text from standing order by id")
        return heads, rig.texts(database)

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)

        def meanwhile() -> None:
            rig.collect_once(database, sandbox)
            seen.append(facts(database))

        with rig.frozen_at("collect.download", "after", rig.elsewhere(meanwhile)):
            rig.collect_once(database, sandbox)
        assert facts(database) == seen[0]
        assert (rig.events(database, "late_result"), rig.alerts(database)) == (0, [])
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), len(rig.ledger_of(sandbox)["items"])) == (1, rig.JOBS)


def test_a_result_for_a_job_that_was_canceled_meanwhile_is_dropped_and_told() -> None:
    """Cancel wins: no output, the item is ignored, and the job's chain tells of the late result."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        gone = stand.rows(database, "select id from standing order by id")[0][0]
        canceled = rig.elsewhere(lambda: asyncio.run(cancel(database, gone)))
        with rig.frozen_at("collect.download", "after", canceled):
            rig.collect_once(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert sorted(rig.counted(rig.standings(database))) == [
            ("canceled", 0, 0),
            *rig.completed(2),
        ]
        assert rig.outputs(database) == 2
        late = "select kind, reason from history where job_id = %s order by seq desc limit 1"
        assert stand.rows(database, late, gone) == [("late_result", "lost_lease")]
        ignored = "select job_id from batch_item where state = 'ignored'"
        assert stand.rows(database, ignored) == [(gone,)]


async def cancel(database: str, job: JobId) -> None:
    """An operator cancels a job."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await know_actor(tx, "operator", "test")
        assert await jobs.cancel_jobs(cell, actor, [job]) == {job}


@pytest.mark.parametrize(
    "outcome",
    [
        Done(None),
        Bury(Failure(FailureClass.SCHEMA_INVALID, "made_up")),
        Retry(Failure(FailureClass.UPSTREAM_ERROR, "made_up")),
    ],
    ids=["done", "bury", "retry"],
)
@pytest.mark.req("R263", "R265")
def test_who_lost_its_claim_finishes_nothing(outcome: Done | Bury | Retry) -> None:
    """Two sweepers requeued its jobs, once: whatever it brings moves no row and is told as late."""

    async def work(database: str) -> None:
        async with stand.station_of(database) as lost:
            waiting = await queues.open_queues(lost.cell, Mode.BATCH, ["rewrite"])
            keys = [queue.key for queue in waiting]
            held = await jobs.claim_jobs(lost.cell, lost.line.worker, keys, 10)
            stand.move_clock(database, rig.A_CLAIM_IS_STALE_S)
            await sweep_together(database)
            before = stand.rows(database, STANDINGS)
            counts = await finish(
                lost.cell,
                lost.line.worker,
                lost.pipelines,
                [Finished(job, outcome) for job in held],
            )
            assert counts == {"lost": rig.JOBS}
            assert stand.rows(database, STANDINGS) == before

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(work(database))
        rig.stays_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == [("queued", 1, 0)] * rig.JOBS
        assert rig.events(database, "late_result") == rig.JOBS
        assert stand.rows(database, "select count(*) from dead_letter") == [(0,)]
        assert rig.outputs(database) == 0


STANDINGS = """
select id, state, stage, claim_token, claimed_by, ready, not_before_at, attempt_count,
       free_requeues, last_failure
  from standing order by id
"""


async def sweep_together(database: str) -> None:
    """Two sweepers that have both looked before either of them acts."""
    both, look = asyncio.Barrier(2), jobs.find_stale

    async def look_together(*given):
        found = await look(*given)
        await both.wait()
        return found

    async def sweep() -> None:
        async with stand.station_of(database) as station:
            await Sweeper(station).run_once()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "find_stale", look_together)
        await asyncio.gather(sweep(), sweep())


@pytest.mark.req("R265", "R266", "R268")
def test_two_sweepers_requeue_a_stale_claim_once() -> None:
    """+1 exactly once, the exact code, the token cleared, and nothing said about a loser."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.live_and_die(database, sandbox, rig.a_day, rig.at_nth("db.claim", "after"))
        stand.move_clock(database, rig.A_CLAIM_IS_STALE_S)
        asyncio.run(sweep_together(database))
        rig.stays_clean(database, sandbox)
        assert (
            stand.rows(
                database,
                "select state::text, attempt_count, claim_token, claimed_by,"
                " last_failure ->> 'code', ready from standing",
            )
            == [("queued", 1, None, None, "stale_claim_requeued", True)] * rig.JOBS
        )
        assert rig.events(database, "stale_requeued") == rig.JOBS
        assert rig.events(database, "late_result") == 0


@pytest.mark.req("R264")
def test_a_claim_that_goes_stale_for_the_last_time_fails_its_job() -> None:
    """At max_attempts the sweeper does not requeue any more: failed, with its dead letter."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        for _ in range(2):
            rig.live_and_die(database, sandbox, rig.a_day, rig.at_nth("db.claim", "after"))
            stand.move_clock(database, rig.A_CLAIM_IS_STALE_S)
            rig.sweep_once(database)
        rig.ends_clean(database, sandbox)
        told = [("failed", 2, 0, "stale_claim_requeued")] * rig.JOBS
        assert rig.standings(database) == told


@pytest.mark.req("R264")
def test_an_item_of_an_open_batch_is_never_requeued_by_age() -> None:
    """Its submitter died in doubt: however old the claim, only the collector settles it."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.live_and_die(database, sandbox, rig.a_day, rig.at_nth("submit.create", "after"))
        before = stand.rows(database, STANDINGS)
        stand.move_clock(database, 10 * rig.A_CLAIM_IS_STALE_S)
        rig.sweep_once(database)
        assert stand.rows(database, STANDINGS) == before
        assert {row[1] for row in before} == {"processing"}
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()

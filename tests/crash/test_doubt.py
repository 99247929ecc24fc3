"""A create whose answer is lost, late, refused or not believed makes one batch and no other."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.server import Sandbox
from dragoman.store import batches
from dragoman.work.collector import Collector
from dragoman.work.submitter import Submitter
from tests import stand
from tests.crash import rig

STEP_S = 20.0
QUEUED = ("queued", 0, 1)


def creates(sandbox: Sandbox) -> int:
    """How many batches were created, and paid."""
    return len(rig.ledger_of(sandbox)["creates"])


@pytest.mark.parametrize("hidden_s", [0, 30, 100])
def test_a_create_whose_answer_is_lost_is_adopted(hidden_s: int) -> None:
    """The provider did the work, dropped the reply and hid the batch from its list: one create."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault(
            {"on": "create", "do": "drop_after"},
            {"on": "create", "do": "hide", "seconds": hidden_s},
        )
        rig.submit_once(database, sandbox)
        assert stand.rows(database, "select state from batch") == [("submit_unknown",)]
        rig.stays_clean(database, sandbox)
        rig.clean_up(database, sandbox, step_s=STEP_S, rounds=20)
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), rig.counted(rig.standings(database))) == (1, rig.completed())
        adopted = "select count(*) from history where kind = 'submitted' and reason = 'adopted'"
        assert stand.rows(database, adopted) == [(rig.JOBS,)]


@pytest.mark.parametrize("status", [200, 500, 502])
def test_a_create_whose_answer_says_nothing_is_adopted(status: int) -> None:
    """The work is done and the answer is HTML, whatever its status: doubt, then one batch."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"on": "create", "do": "status_after", "status": status})
        rig.submit_once(database, sandbox)
        assert stand.rows(database, "select state from batch") == [("submit_unknown",)]
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), rig.counted(rig.standings(database))) == (1, rig.completed())


@pytest.mark.parametrize(
    "fault",
    [{"on": "create", "do": "drop_before"}, {"on": "create", "do": "status", "status": 503}],
    ids=["dropped", "503"],
)
def test_a_create_that_never_arrived_is_released_once_it_is_provably_absent(
    fault: JSONObject,
) -> None:
    """Nothing was created, but only two looks at the list, apart, prove it: then once more."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault(fault)
        rig.submit_once(database, sandbox)
        stand.move_clock(database, 70)
        asyncio.run(rig.one_round(database, sandbox))  # two collectors ask at the same time
        assert stand.rows(database, "select state, absences from batch") == [("submit_unknown", 1)]
        stand.move_clock(database, 50)
        asyncio.run(rig.one_round(database, sandbox))
        assert stand.rows(database, "select state, absences from batch") == [("submit_unknown", 1)]
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert creates(sandbox) == 1
        assert rig.counted(rig.standings(database)) == rig.completed(free=1)
        released = "select state, absences from batch order by created_at"
        assert stand.rows(database, released) == [("released", 2), ("completed", 0)]


@pytest.mark.parametrize(
    "fault",
    [
        {"on": "create", "do": "status", "status": 400, "code": "invalid_value"},
        {"on": "create", "do": "status", "status": 429, "code": "rate_limit_exceeded"},
        {"on": "upload", "do": "status", "status": 500},
        {"on": "upload", "do": "drop_before"},
        {"on": "upload", "do": "drop_after"},
    ],
    ids=["400", "429", "upload 500", "upload dropped", "upload answer dropped"],
)
@pytest.mark.req("R257")
def test_a_refused_submission_gives_its_jobs_back(fault: JSONObject) -> None:
    """A definite no, or a failed upload: the jobs wait, unburnt, and the next tick sends them."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault(fault)
        rig.submit_once(database, sandbox)
        assert rig.counted(rig.standings(database)) == [QUEUED] * rig.JOBS
        assert stand.rows(database, "select state from batch") == [("released",)]
        assert creates(sandbox) == 0
        stand.move_clock(database, 10)  # a 429 closes the gate for a moment
        rig.submit_once(database, sandbox)
        assert creates(sandbox) == 1
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed(free=1)


@pytest.mark.req("R219")
def test_a_provider_that_always_refuses_is_not_asked_for_ever() -> None:
    """Three free requeues, then attempts: after five submissions every job has failed, unpaid."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"on": "create", "do": "status", "status": 400, "times": None})
        rounds = rig.clean_up(database, sandbox, step_s=8000, rounds=9)
        rig.ends_clean(database, sandbox)
        assert rounds <= 6
        assert rig.counted(rig.standings(database)) == [("failed", 2, 3)] * rig.JOBS
        assert (creates(sandbox), len(rig.ledger_of(sandbox)["uploads"])) == (0, 5)


@pytest.mark.req("R219")
def test_a_provider_that_always_fails_is_paid_for_the_attempts_there_are() -> None:
    """Every item answers 500: each job is run max_attempts times, then it has failed."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"on": "item", "do": "error", "status": 500, "times": None})
        rig.clean_up(database, sandbox, step_s=8000, rounds=9)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == [("failed", 2, 0)] * rig.JOBS
        assert (creates(sandbox), len(rig.ledger_of(sandbox)["items"])) == (2, 2 * rig.JOBS)


def test_the_provider_is_asked_about_the_time_of_the_create_however_long_ago_it_was() -> None:
    """After four days of standing still the list is read back to before the create."""
    asked: list[int | None] = []

    async def collect(database: str, sandbox: Sandbox) -> None:
        async with rig.providers_of(sandbox) as providers, stand.station_of(database) as station:
            adapter = providers.adapter("openai_responses")
            find = adapter.find

            async def watched(account, nonce, *, created_after=None):
                asked.append(created_after)
                return await find(account, nonce, created_after=created_after)

            adapter.find = watched
            await Collector(station, providers).run_once()

    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"on": "create", "do": "drop_after"})
        rig.submit_once(database, sandbox)
        began = stand.rows(database, "select extract(epoch from started_at) from batch")[0][0]
        stand.move_clock(database, 4 * 86_400)
        asyncio.run(collect(database, sandbox))
        assert [since is not None and since <= began - 3600 for since in asked] == [True]
        assert stand.rows(database, "select provider_batch_id is not null from batch") == [(True,)]


def test_a_submitter_that_was_only_slow_finds_its_batch_taken_or_keeps_it() -> None:
    """A collector that read of a submission as never started cannot release one that began."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(_slow_submitter(database, sandbox))
        assert creates(sandbox) == 1
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert (creates(sandbox), rig.counted(rig.standings(database))) == (1, rig.completed())


async def _slow_submitter(database: str, sandbox: Sandbox) -> None:
    """The submitter goes on exactly between the collector's look and its act."""
    uploaded, go_on = asyncio.Event(), asyncio.Event()
    async with (
        rig.providers_of(sandbox) as providers,
        rig.providers_of(sandbox) as others,
        stand.station_of(database) as slow,
    ):
        adapter = providers.adapter("openai_responses")
        upload = adapter.upload

        async def slowly(*given):
            file_id = await upload(*given)
            uploaded.set()
            await go_on.wait()
            return file_id

        adapter.upload = slowly  # type: ignore[method-assign]  # the test holds it up
        submitting = asyncio.create_task(Submitter(slow, providers).run_once())
        await uploaded.wait()
        stand.move_clock(database, 700)
        real = batches.find_never_started

        async def look(cell):
            found = await real(cell)
            go_on.set()
            await submitting
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches, "find_never_started", look)
            async with stand.station_of(database) as fresh:
                await Collector(fresh, others).run_once()

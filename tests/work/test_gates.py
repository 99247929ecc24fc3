"""What the loops do before a gate: they wait, they say why, and they learn from what they meet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from dragoman.core.canonical import JSONObject
from dragoman.core.errors import DatabaseDown
from dragoman.core.gate import Gate
from dragoman.core.ids import uuid7
from dragoman.sandbox.server import Sandbox
from dragoman.store import gates
from dragoman.store.gates import Permit
from dragoman.work.gate import Gates
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Sweeper
from tests import stand
from tests.crash import rig
from tests.reviews import Desk, tell

LARGE = Gate("sandbox", "default", "sandbox-large")
ALWAYS_429: JSONObject = {
    "on": "response",
    "do": "status",
    "status": 429,
    "retry_after": 20,
    "times": None,
}
NO_QUOTA: JSONObject = {
    "on": "response",
    "do": "status",
    "status": 429,
    "code": "insufficient_quota",
    "times": None,
}


def requests(sandbox: Sandbox, on: str) -> int:
    """How many requests of a kind have come, refused ones too."""
    found: Any = sandbox.traffic()["requests"]
    return int(found.get(on, 0))


def gate_of_all(database: str) -> Gate:
    """The one gate that the waiting rewrites go through."""
    [names] = stand.rows(database, "select distinct provider, account, model from queue")
    return Gate(*names)


Rule = Callable[[Any, Any, Gate], Awaitable[object]]


def rule(database: str, do: Rule) -> None:
    """The operator does something to the gate."""

    async def ruled() -> None:
        async with stand.cell_of(database, "dragoman_operator") as cell:
            await do(cell, uuid7(), gate_of_all(database))

    asyncio.run(ruled())


def hold(database: str) -> None:
    """The operator closes the gate."""
    rule(database, lambda cell, actor, gate: gates.hold_gate(cell, actor, gate, "wait"))


def runs(database: str) -> list[tuple]:
    """What the runs say, oldest first: a skip or the counts."""
    return stand.rows(database, "select skipped, counts from run order by started_at")


def queued(database: str) -> list[tuple]:
    """State, attempts, free requeues and why of each job."""
    return stand.rows(
        database,
        "select s.state, s.attempt_count, s.free_requeues, w.name from standing s"
        " join word w on w.about = 'reason' and w.id = s.reason order by s.id",
    )


def test_a_submitter_before_a_closed_gate_claims_nothing_and_says_why() -> None:
    """Three rewrites wait and the gate is paused: a skip with its name, and no event on any job."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        hold(database)
        rig.submit_once(database, sandbox)
        name = gate_of_all(database).name
        said = f"rewrite_batch_submitter skipped: gate {name} is paused (operator)"
        assert runs(database) == [(said, {})]
        assert queued(database) == [("queued", 0, 0, "none")] * 3
        assert rig.events(database, "claimed") == 0
        rule(database, gates.open_gate)
        rig.submit_once(database, sandbox)
        assert len(rig.ledger_of(sandbox)["creates"]) == 1


@pytest.mark.req("R285")
def test_a_closed_gate_before_which_nobody_waits_is_no_reason() -> None:
    """Nothing is pending, and that is what the skip says."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        hold(database)
        rig.submit_once(database, sandbox)
        skips = [said for said, _ in runs(database) if said]
        assert skips == ["rewrite_batch_submitter skipped: no pending items"]


def test_what_does_not_fit_into_the_open_batches_waits_without_an_attempt() -> None:
    """Room for one rewrite: one goes out, two wait for the gate; when it is back, the next goes."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rule(
            database,
            lambda cell, actor, gate: gates.set_limits(cell, actor, gate, batch_tokens=10),
        )
        rig.submit_once(database, sandbox)
        states = sorted(queued(database))
        assert [row[0] for row in states] == ["batch_submitted", "queued", "queued"]
        assert states[1:] == [("queued", 0, 0, "gate_closed")] * 2
        stand.move_clock(database, 70)
        rig.submit_once(database, sandbox)
        assert runs(database)[-1][0].endswith("is full")
        rig.clean_up(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()
        assert len(rig.ledger_of(sandbox)["creates"]) == 3
        rig.ends_clean(database, sandbox)


@pytest.mark.req("R282")
@pytest.mark.parametrize("on", ["upload", "create"])
def test_a_429_at_a_submission_closes_the_gate_and_is_counted(on: str) -> None:
    """Two parcels: the first is refused, the second is not even tried; both wait, unburnt."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"on": on, "do": "status", "status": 429, "retry_after": 30, "code": "slow"})
        one_by_one(database, sandbox)
        assert requests(sandbox, on) == 1
        [(_, counts)] = runs(database)
        assert counts["rate_limited"] == 1
        assert sorted(queued(database)) == [
            ("queued", 0, 0, "gate_closed"),
            ("queued", 0, 0, "gate_closed"),
            ("queued", 0, 1, "free_requeue"),
        ]
        rig.submit_once(database, sandbox)
        assert requests(sandbox, on) == 1
        rig.clean_up(database, sandbox)
        assert [row[:2] for row in rig.standings(database)] == [("completed", 0)] * 3


def one_by_one(
    database: str, sandbox: Sandbox, told: Callable[[Submitter], object] | None = None
) -> None:
    """One run of a submitter whose provider takes one item in a batch."""

    async def life() -> None:
        async with rig.providers_of(sandbox) as providers, stand.station_of(database) as station:
            adapter: Any = providers.adapter("openai_responses")
            adapter.limits = replace(adapter.limits, max_items=1)
            submitter = Submitter(station, providers)
            if told:
                told(submitter)
            await submitter.run_once()

    asyncio.run(life())


def test_a_submitter_that_is_told_to_stop_lets_go_of_what_it_has_not_sent() -> None:
    """Stopped after its first batch: the others are ready for the next one, with nothing burnt."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):

        def stop_after_one(submitter: Submitter) -> None:
            real = submitter._submit

            async def submit(*given: Any) -> Any:
                submitter.stop.set()
                return await real(*given)

            submitter._submit = submit  # type: ignore[method-assign]  # a signal at that moment

        one_by_one(database, sandbox, stop_after_one)
        assert sorted(queued(database))[1:] == [("queued", 0, 0, "shutdown")] * 2
        assert len(rig.ledger_of(sandbox)["creates"]) == 1
        assert stand.rows(database, "select count(*) from standing where ready") == [(2,)]


@pytest.mark.req("R282")
def test_a_collector_that_polls_too_fast_stops_polling() -> None:
    """Three batches out, the first poll meets a 429: no other poll until the time has passed."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        one_by_one(database, sandbox)
        assert len(rig.ledger_of(sandbox)["creates"]) == 3
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        sandbox.fault({"on": "poll", "do": "status", "status": 429, "retry_after": 60})
        rig.collect_once(database, sandbox)
        assert requests(sandbox, "poll") == 1
        assert runs(database)[-1][1] == {"rate_limited": 1, "unreachable": 1, "put_off": 2}
        rig.collect_once(database, sandbox)
        assert requests(sandbox, "poll") == 1
        stand.move_clock(database, 61)
        rig.collect_once(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()


def test_batches_of_a_gate_without_quota_are_still_collected() -> None:
    """What was paid is taken in, whatever the account lacks now."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        hold(database)
        rig.collect_once(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()


def test_an_item_that_the_account_cannot_pay_closes_the_gate() -> None:
    """One line of three says so: it waits without a failed attempt, and nothing else is sent."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        sandbox.fault(
            {
                "on": "item",
                "do": "error",
                "item": {"index": 0},
                "status": 429,
                "code": "insufficient_quota",
            }
        )
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)
        assert max(rig.counted(rig.standings(database))) == ("queued", 0, 1)
        assert rig.alerts(database) == ["gate_paused"]
        rig.submit_once(database, sandbox)
        assert runs(database)[-1][0].endswith("is paused (quota)")


async def limit(desk: Desk, **limits: int) -> None:
    """The operator says what the model's gate holds."""
    async with stand.cell_of(desk.database, "dragoman_operator") as cell:
        await gates.set_limits(cell, uuid7(), LARGE, **limits)


def reasons(desk: Desk) -> list[str]:
    """Why gates are closed."""
    found = desk.rows("select pause_reason from gate_now where pause_reason is not null")
    return [row[0] for row in found]


@pytest.mark.req("R289")
def test_what_a_worker_claims_is_bounded_before_any_call() -> None:
    """Four reviews at the model and a gate of one: one is claimed, one call is made."""

    async def story(desk: Desk) -> None:
        for version in range(1, 5):
            await desk.enqueue(f"push-{version}", version, is_rerun=True)
        await desk.work()
        await limit(desk, max_in_flight=1)
        assert await desk.worker.run_once() == 1
        assert desk.answers() == 1
        assert desk.rows("select count(*) from permit") == [(0,)]

    tell(story)


def test_a_job_that_finds_its_gate_full_waits_without_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Claimed, and then somebody else was faster: no call, no event of a call, no attempt."""

    async def refuse(*_given: Any) -> Permit:
        return Permit("in_flight", 1.0)

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work()
        monkeypatch.setattr(gates, "take_permit", refuse)
        await desk.work()
        assert queued(desk.database) == [("queued", 0, 0, "gate_closed")]
        assert (desk.events("calling"), desk.answers()) == ([], 0)
        monkeypatch.undo()
        desk.later(1.1)
        await desk.work()
        assert desk.rows("select stage from standing where id = %s", job) == [(2,)]

    tell(story)


def test_a_worker_learns_from_a_429_and_claims_nothing_until_it_has_passed() -> None:
    """Its job counts one attempt; the other job is not even claimed for twenty seconds."""

    async def story(desk: Desk) -> None:
        await desk.enqueue("a", 1)
        await desk.work()
        desk.sandbox.fault({**ALWAYS_429, "times": 1})
        await desk.work()
        assert reasons(desk) == ["throttled"]
        await desk.enqueue("b", 2, is_rerun=True)
        await desk.work()
        assert await desk.worker.run_once() == 0
        assert requests(desk.sandbox, "response") == 1
        assert desk.rows("select sum(attempt_count) from standing") == [(1,)]
        desk.later(21)
        await desk.work(2)
        assert desk.rows("select distinct stage from standing") == [(2,)]
        assert desk.alerts() == []

    tell(story)


def test_an_account_without_quota_burns_no_attempt_and_is_tried_again_by_itself() -> None:
    """One alert; fifteen minutes later a call finds the account in order, and the alert goes."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work()
        desk.sandbox.fault({**NO_QUOTA, "times": 1})
        await desk.work(3)
        assert (requests(desk.sandbox, "response"), reasons(desk)) == (1, ["quota"])
        assert desk.rows("select attempt_count, free_requeues from standing") == [(0, 1)]
        assert desk.alerts() == [("gate_paused", "act")]
        desk.later(901)
        await desk.work()
        assert desk.rows("select stage from standing") == [(2,)]
        desk.later(901)
        await Sweeper(desk.station).run_once()
        assert desk.rows("select count(*) from alert where closed_at is null") == [(0,)]

    tell(story)


def test_a_model_that_always_says_429_is_asked_as_often_as_the_attempts_allow() -> None:
    """However long it goes on: so many calls as attempts, then the job has failed, for ever."""

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work()
        desk.sandbox.fault(ALWAYS_429)
        for _ in range(12):
            await desk.work()
            desk.later(400)
        assert desk.state(job) == "failed"
        [(attempts,)] = desk.rows("select max_attempts from standing")
        assert requests(desk.sandbox, "response") == attempts

    tell(story)


def test_a_permit_that_could_not_be_given_back_is_given_back_before_the_next_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The database was away for a moment: the slot is not lost for the life of the worker."""
    real = gates.release_permits

    async def story(desk: Desk) -> None:
        await limit(desk, max_in_flight=1)
        mine = Gates(desk.station.cell, desk.station.line.worker)

        async def away(*_given: Any) -> int:
            raise DatabaseDown

        monkeypatch.setattr(gates, "release_permits", away)
        async with mine.permit(LARGE, 1, 1) as permit:
            assert permit.may_pass
        monkeypatch.setattr(gates, "release_permits", real)
        async with mine.permit(LARGE, 1, 1) as permit:
            assert permit.why == "in_flight"
        await mine.rooms([])
        async with mine.permit(LARGE, 1, 1) as permit:
            assert permit.may_pass

    tell(story)

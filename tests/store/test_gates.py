"""Gates: what is counted, what fills again, what closes them, and who may say so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from dragoman.core.errors import DataRefused
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import Gate, closing_of
from dragoman.core.ids import uuid7
from dragoman.core.job import Mode, State
from dragoman.store import batches, gates, workers
from dragoman.store.database import Cell
from dragoman.store.gates import GateNow, Permit
from dragoman.work.gate import room
from tests import stand
from tests.eventually import eventually_async
from tests.store.attack import DENIED, connect, refusal
from tests.store.kernel import KEY, bring, crew_of, give_lease, new_batch

GATE = Gate("openai", "default", "gpt")
OTHER = Gate("openai", "second", "gpt")
THROTTLED = Failure(FailureClass.THROTTLED, "http_429", 429, retry_after_s=20)
QUOTA = Failure(FailureClass.ACCOUNT_BLOCKED, "insufficient_quota", 429)
AUTH = Failure(FailureClass.AUTH_DENIED, "http_401", 401)


@dataclass
class Keepers:
    """Who goes through a gate and who rules it."""

    database: str
    worker: Cell
    operator: Cell
    me: UUID = field(default_factory=uuid7)
    actor: UUID = field(default_factory=uuid7)

    async def set(self, gate: Gate = GATE, **limits: int | None) -> None:
        """The operator's limits."""
        await gates.set_limits(self.operator, self.actor, gate, **limits)

    async def take(
        self, worker: UUID | None = None, *, requests: int = 1, tokens: int = 1, gate: Gate = GATE
    ) -> Permit:
        """One permit for a worker."""
        who = worker or self.me
        return await gates.take_permit(self.worker, gate, uuid7(), who, requests, tokens)

    async def meet(self, failure: Failure, gate: Gate = GATE) -> bool:
        """A call comes back with this."""
        closing = closing_of(failure)
        assert closing
        return await gates.pause_gate(self.worker, self.me, gate, closing, failure)

    async def now(self, gate: Gate = GATE) -> GateNow:
        """The gate as it stands."""
        [found] = await gates.read_gates(self.worker, [gate.key])
        return found

    def rows(self, query: str) -> list[tuple]:
        """What the owner sees."""
        return stand.rows(self.database, query)

    def later(self, seconds: float) -> None:
        """Let time pass."""
        stand.move_clock(self.database, seconds)


@asynccontextmanager
async def keepers_of(database: str) -> AsyncGenerator[Keepers]:
    """A worker with a lease of an hour, and an operator."""
    async with (
        stand.cell_of(database) as worker,
        stand.cell_of(database, "dragoman_operator") as operator,
    ):
        keepers = Keepers(database, worker, operator)
        await give_lease(worker, keepers.me)
        yield keepers


Story = Callable[[Keepers], Coroutine[Any, Any, None]]


def tell(database: str, story: Story) -> None:
    """Run a story with everybody in place."""

    async def told() -> None:
        async with keepers_of(database) as keepers:
            await story(keepers)

    asyncio.run(told())


def test_a_gate_without_a_row_has_no_bound_and_costs_nothing(database: str) -> None:
    """Nobody has said anything: every call passes, and nothing is written."""

    async def story(keepers: Keepers) -> None:
        permits = [await keepers.take(tokens=10**9) for _ in range(20)]
        assert permits == [Permit()] * 20
        assert keepers.rows(
            "select (select count(*) from gate), (select count(*) from permit)"
        ) == [(0, 0)]

    tell(database, story)


@pytest.mark.req("R289")
def test_so_many_pass_at_one_time_and_no_more(database: str) -> None:
    """Twelve ask at once for a gate of two: two pass, and each one given back lets one in."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(max_in_flight=2)
        assert room(await keepers.now(), Mode.ASYNC) == 2
        asked = await asyncio.gather(*(keepers.take() for _ in range(12)))
        found = Counter(permit.why or "passes" for permit in asked)
        assert found == {"in_flight": 10, "passes": 2}
        assert {permit.delay_s for permit in asked} == {0.0, 1.0}
        [(held,)] = keepers.rows("select id from permit limit 1")
        assert await gates.release_permits(keepers.worker, [held]) == 1
        assert [(await keepers.take()).may_pass for _ in range(2)] == [True, False]
        assert (await keepers.take(gate=OTHER)).may_pass

    tell(database, story)


@pytest.mark.req("R289")
def test_who_counts_waits_for_whoever_counts_already_and_sees_what_it_did(database: str) -> None:
    """One is about to pass a gate of one: the next waits for its commit, and is then refused."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(max_in_flight=1)
        async with keepers.worker.transaction("take_permit") as tx:
            assert await gates._lock(tx, GATE)
            taken = {"key": GATE.key, "id": uuid7(), "worker": keepers.me}
            assert await tx.tuples("gate/take_permit", requests=1, tokens=1, **taken) == [
                (None, None)
            ]
            second = asyncio.create_task(keepers.take())
            waits = "select from pg_locks where not granted"
            await eventually_async(lambda: second.done() or bool(keepers.rows(waits)))
        assert (await second).why == "in_flight"

    tell(database, story)


def test_a_call_that_is_refused_uses_nothing_up(database: str) -> None:
    """A full gate takes nothing from its budgets."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(max_in_flight=1, requests_per_minute=60)
        assert (await keepers.take()).may_pass
        for _ in range(20):
            assert (await keepers.take()).why == "in_flight"
        assert 8.9 < ((await keepers.now()).requests_left or 0) < 10

    tell(database, story)


def test_requests_flow_evenly_and_a_short_rest_saves_some_up(database: str) -> None:
    """Sixty a minute: ten at once after a rest, then one a second, and the refusal says when."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(requests_per_minute=60)
        assert [(await keepers.take()).may_pass for _ in range(10)] == [True] * 10
        refused = await keepers.take()
        assert refused.why == "requests_per_minute"
        assert 0 < refused.delay_s <= 1
        keepers.later(3)
        passed = [(await keepers.take()).may_pass for _ in range(5)]
        assert passed[:3] == [True] * 3
        assert not all(passed)
        keepers.later(3600)
        assert 9 < ((await keepers.now()).requests_left or 0) <= 10

    tell(database, story)


def test_a_call_larger_than_the_budget_of_tokens_passes_and_the_next_ones_wait_for_it(
    database: str,
) -> None:
    """6,000 a minute and a call of 5,000: it passes a full gate, then forty seconds nobody does."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(tokens_per_minute=6000)
        assert (await keepers.take(tokens=5000)).may_pass
        refused = await keepers.take(tokens=100)
        assert refused.why == "tokens_per_minute"
        assert 38 < refused.delay_s <= 41
        keepers.later(refused.delay_s + 0.1)
        assert (await keepers.take(tokens=100)).may_pass
        assert not (await keepers.take(tokens=1000)).may_pass

    tell(database, story)


def test_the_longer_of_two_waits_counts(database: str) -> None:
    """Both budgets are empty: the refusal names the time at which both will do."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(requests_per_minute=6, tokens_per_minute=6000)
        assert (await keepers.take(tokens=4000)).may_pass
        refused = await keepers.take(tokens=1000)
        assert 38 < refused.delay_s <= 40.1
        keepers.later(refused.delay_s)
        assert (await keepers.take(tokens=1000)).may_pass

    tell(database, story)


def test_the_slots_of_a_worker_that_is_gone_are_free_again(database: str) -> None:
    """Killed: its permits count until its lease is over; stopped: not for a moment longer."""

    async def story(keepers: Keepers) -> None:
        killed, stopped = uuid7(), uuid7()
        await give_lease(keepers.worker, killed, lease_s=30)
        await give_lease(keepers.worker, stopped, lease_s=30)
        await keepers.set(max_in_flight=2)
        assert (await keepers.take(killed)).may_pass
        assert (await keepers.take(stopped)).may_pass
        assert (await keepers.take()).why == "in_flight"
        async with keepers.worker.pool.connection() as connection:
            await workers.stop_worker(connection, stopped)
        assert (await keepers.take()).may_pass
        assert (await keepers.take()).why == "in_flight"
        keepers.later(29)
        assert (await keepers.take()).why == "in_flight"
        keepers.later(2)
        assert (await keepers.take()).may_pass
        assert await gates.drop_permits(keepers.worker) == 2
        assert (await keepers.now()).in_flight == 2
        assert keepers.rows("select count(*) from permit") == [(2,)]

    tell(database, story)


def test_a_429_closes_the_gate_for_as_long_as_it_says(database: str) -> None:
    """Retry-After 20: nobody passes for twenty seconds, then everybody; nobody is alarmed."""

    async def story(keepers: Keepers) -> None:
        assert await keepers.meet(THROTTLED)
        refused = await keepers.take()
        assert (refused.why, refused.is_counted) == ("throttled", False)
        assert 19 < refused.delay_s <= 20
        assert (await keepers.take(gate=OTHER)).may_pass
        keepers.later(19)
        assert (await keepers.take()).why == "throttled"
        keepers.later(2)
        assert (await keepers.take()).may_pass
        assert keepers.rows("select kind from alert") == []

    tell(database, story)


def test_many_calls_that_fail_for_one_reason_are_one_pause(database: str) -> None:
    """Eight calls meet the same wall: one change, one alert; the next pause is another."""

    async def story(keepers: Keepers) -> None:
        told = await asyncio.gather(*(keepers.meet(QUOTA) for _ in range(8)))
        assert sorted(told) == [False] * 7 + [True]
        alert = "select kind, subject, severity, times, facts ->> 'code' from alert"
        once = ("gate_paused", "openai/default/gpt", "act", 1, "insufficient_quota")
        assert keepers.rows(alert) == [once]
        assert keepers.rows("select verb, subject from change") == [
            ("pause", "gate openai/default/gpt")
        ]
        keepers.later(901)
        assert (await keepers.take()).may_pass
        assert await keepers.meet(QUOTA)
        assert keepers.rows(alert) == [(*once[:3], 2, once[4])]
        assert (await keepers.take()).why == "quota"

    tell(database, story)


def test_the_longer_pause_stands(database: str) -> None:
    """A 429 shortens no pause for want of quota, and its own is made longer by a later one."""

    async def story(keepers: Keepers) -> None:
        assert await keepers.meet(THROTTLED)
        keepers.later(10)
        assert not await keepers.meet(THROTTLED)
        assert 19 < (await keepers.take()).delay_s <= 20
        assert await keepers.meet(QUOTA)
        assert not await keepers.meet(THROTTLED)
        assert (await keepers.now()).pause_reason == "quota"
        verbs = "select convert_from(facts, 'UTF8')::jsonb ->> 'reason' from change order by seq"
        assert keepers.rows(verbs) == [("throttled",), ("quota",)]

    tell(database, story)


def test_an_operators_pause_ends_only_by_opening(database: str) -> None:
    """No failure ends it and no time; opening says why it was closed, and is written down."""

    async def story(keepers: Keepers) -> None:
        assert await gates.hold_gate(keepers.operator, keepers.actor, GATE, "invoice 17")
        assert not await gates.hold_gate(keepers.operator, keepers.actor, GATE, "again")
        assert not await keepers.meet(QUOTA)
        keepers.later(10_000_000)
        refused = await keepers.take()
        assert (refused.why, refused.delay_s) == ("operator", 300)
        now = await keepers.now()
        assert (now.pause_reason, now.pause_note, now.paused_until) == (
            "operator",
            "invoice 17",
            None,
        )
        assert await gates.open_gate(keepers.operator, keepers.actor, GATE) == "operator"
        assert await gates.open_gate(keepers.operator, keepers.actor, GATE) is None
        assert (await keepers.take()).may_pass
        assert keepers.rows("select verb from change order by seq") == [("pause",), ("open",)]

    tell(database, story)


def test_opening_closes_the_alert(database: str) -> None:
    """The operator has topped up: the gate is open at once, and nothing needs anybody."""

    async def story(keepers: Keepers) -> None:
        await keepers.meet(AUTH)
        assert await gates.open_gate(keepers.operator, keepers.actor, GATE) == "auth"
        assert keepers.rows("select count(*) from alert where closed_at is null") == [(0,)]
        assert (await keepers.take()).may_pass

    tell(database, story)


def test_an_alert_is_closed_once_nothing_renewed_the_pause(database: str) -> None:
    """Fifteen minutes after the pause ended the alert goes by itself, and not before."""

    async def story(keepers: Keepers) -> None:
        await keepers.meet(QUOTA)
        await keepers.meet(QUOTA, OTHER)
        keepers.later(901)
        await keepers.meet(QUOTA, OTHER)
        assert await gates.calm_gates(keepers.worker, 900) == 0
        keepers.later(901)
        assert await gates.calm_gates(keepers.worker, 900) == 1
        assert keepers.rows("select subject from alert where closed_at is null") == [(OTHER.name,)]

    tell(database, story)


def test_limits_that_are_not_named_stay(database: str) -> None:
    """One is set, one is lifted, the others stay; each change is written with all four."""

    async def story(keepers: Keepers) -> None:
        await keepers.set(max_in_flight=4, requests_per_minute=60)
        await keepers.set(tokens_per_minute=1000, max_in_flight=None)
        now = await keepers.now()
        assert now.limits == gates.Limits(None, 60, 1000, None)
        told = "select convert_from(facts, 'UTF8')::jsonb ->> 'requests_per_minute' from change"
        assert keepers.rows(told) == [("60",), ("60",)]
        with pytest.raises(DataRefused) as caught:
            await keepers.set(max_in_flight=0)
        assert caught.value.sqlstate == "23514"

    tell(database, story)


def test_tokens_in_open_batches_are_bounded_even_by_two_submitters_at_once(database: str) -> None:
    """Room for one of two: one is recorded; when it has ended at its provider the other may go."""

    async def story() -> None:
        async with crew_of(database) as crew, keepers_of(database) as keepers:
            gate = Gate("p", "default", "m")
            await keepers.set(gate, batch_tokens=1000)
            held = [await bring(crew, State.PROCESSING, KEY + n) for n in range(2)]

            async def record(n: int) -> set[int] | None:
                item = batches.Item(held[n].id, held[n].token, 0, 0, str(held[n].id))
                return await batches.record_batch(
                    crew.worker, crew.actor, new_batch(), [item], 3000
                )

            made = await asyncio.gather(record(0), record(1))
            assert sorted(made, key=str) == [None, {0}]
            assert (await keepers.now(gate)).tokens_in_batches == 750
            with stand.owner(database) as connection:
                connection.execute("update batch set ended_at = clock()")
            assert await record(made.index(None)) == {0}

    asyncio.run(story())


def test_a_batch_larger_than_the_gate_passes_alone(database: str) -> None:
    """Or it would wait for ever."""

    async def story() -> None:
        async with crew_of(database) as crew, keepers_of(database) as keepers:
            await keepers.set(Gate("p", "default", "m"), batch_tokens=10)
            held = await bring(crew, State.PROCESSING, KEY)
            item = batches.Item(held.id, held.token, 0, 0, str(held.id))
            made = await batches.record_batch(crew.worker, crew.actor, new_batch(), [item], 9000)
            assert made == {0}

    asyncio.run(story())


WRITES = {
    "set": "update gate set max_in_flight = 1",
    "pause": "update gate set paused_until = 'infinity', pause_reason = 'operator'",
    "take": "delete from permit",
    "limit": "insert into gate (key, provider, account, model, max_in_flight, created_at)"
    " values (1, 'a', 'b', 'c', 4, clock())",
}
MAY = {
    "dragoman_worker": {"pause", "take"},
    "dragoman_operator": {"set", "pause", "limit"},
    "dragoman_orchestrator": set(),
    "dragoman_frontend": set(),
    "dragoman_auditor": set(),
    "dragoman_eraser": set(),
}


@pytest.mark.parametrize("role", MAY)
def test_a_worker_takes_and_pauses_and_the_operator_rules(shared: str, role: str) -> None:
    """A worker cannot give itself more room; whoever is neither can do nothing at all."""
    with connect(shared, role) as connection:
        allowed = {name for name, write in WRITES.items() if refusal(connection, write) is None}
        assert allowed == MAY[role]
        for name in WRITES.keys() - allowed:
            assert refusal(connection, WRITES[name]) == DENIED


def test_every_gate_that_work_goes_through_is_known(database: str) -> None:
    """By its queue, by a route, or by a row of its own."""

    async def story() -> None:
        async with crew_of(database) as crew, keepers_of(database) as keepers:
            await bring(crew, State.QUEUED, KEY)
            await stand.add_routes(database, model_light="light", model_full="full")
            await keepers.set(OTHER, max_in_flight=1)
            known = {gate.name for gate in await gates.known_names(keepers.operator)}
            assert {f"p{KEY}/default/m", "sandbox/default/light", OTHER.name} <= known
            assert [each.gate for each in await gates.list_gates(keepers.operator)] == [OTHER]

    asyncio.run(story())

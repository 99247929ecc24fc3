"""Three worker processes before one gate: a bound that holds, a 429 that stops all, a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NoReturn

import pytest

from dragoman.core.gate import Gate
from dragoman.core.ids import uuid7
from dragoman.core.profile import Profile
from dragoman.sandbox.server import Sandbox
from dragoman.store import gates
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.crash import rig
from tests.eventually import eventually

LEASE_S = 5.0
_CHILD_S = 60
PATIENT = replace(stand.TEST_PROFILE, lease_s=600, idle_s=0.05, answer_deadline_s=60)
SHORT = replace(PATIENT, lease_s=LEASE_S)
SLOW = {"on": "response", "do": "delay", "times": None}
GATE = Gate("sandbox", "default", "one")


def ready_database(jobs: int) -> str:
    """So many rewrites that wait for a worker, all behind one gate; another sandbox classified."""
    database = stand.new_database()

    async def fill(sandbox: Sandbox) -> None:
        await stand.add_routes(database, "async", model_light="one", model_full="one")
        async with (
            rig.providers_of(sandbox) as providers,
            stand.orchestrator_of(database, providers) as orchestrator,
        ):
            await stand.submit(orchestrator, [("en", "en")] * jobs)

    with Sandbox() as classifies:
        asyncio.run(fill(classifies))
    return database


@contextmanager
def behind_a_gate(jobs: int, in_flight: int | None) -> Generator[tuple[str, Sandbox]]:
    """A database with waiting rewrites, a gate that holds so many calls, and a sandbox."""
    database = ready_database(jobs)
    try:
        if in_flight is not None:
            asyncio.run(hold(database, in_flight))
        with Sandbox() as sandbox:
            yield database, sandbox
    finally:
        postgres.drop(database)


async def hold(database: str, in_flight: int) -> None:
    """The operator says what the gate holds."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        await gates.set_limits(cell, uuid7(), GATE, max_in_flight=in_flight)


@contextmanager
def workers(
    database: str, sandbox: Sandbox, count: int, profile: Profile = PATIENT
) -> Generator[list[int]]:
    """So many worker processes; each is killed by its own number in the end."""
    children = [fork(database, sandbox, profile) for _ in range(count)]
    try:
        yield children
    finally:
        for child in children:
            end(child)


def fork(database: str, sandbox: Sandbox, profile: Profile) -> int:
    """One worker process that works until it is killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the sandbox's thread stays here
        child = os.fork()
    if child == 0:
        live(database, sandbox, profile)
    return child


def live(database: str, sandbox: Sandbox, profile: Profile) -> NoReturn:
    """A worker's whole life."""

    async def work() -> None:
        async with (
            rig.providers_of(sandbox) as providers,
            stand.station_of(database, profile=profile) as station,
        ):
            await Worker(station, providers).run(asyncio.Event())

    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_CHILD_S)
        asyncio.run(work())
    finally:
        os._exit(1)


def end(child: int) -> None:
    """Kill -9, once."""
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def calls(sandbox: Sandbox) -> int:
    """How many calls have reached the provider, those that it refused too."""
    return sandbox.traffic()["requests"].get("response", 0)  # type: ignore[union-attr,return-value]  # a counter


def most_at_once(sandbox: Sandbox) -> int:
    """How many calls the provider had at one time."""
    return int(sandbox.traffic()["most_in_flight"])  # type: ignore[arg-type]  # a number


def states(database: str) -> Counter[str]:
    """How many jobs stand in each state."""
    return Counter(dict(stand.rows(database, "select state, count(*) from standing group by 1")))


def seconds_pass(seconds: float) -> None:
    """Let real time pass."""
    ends = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= ends, timeout=seconds + 5)


def claimed_by(database: str) -> int:
    """How many workers hold a job."""
    query = "select count(distinct actor) from event where kind = 2"
    return int(stand.rows(database, query)[0][0])


@pytest.mark.req("R289")
def test_a_gate_of_four_never_shows_five() -> None:
    """Three processes that could make twelve calls at once: the provider sees four, and all end."""
    with behind_a_gate(12, 4) as (database, sandbox):
        sandbox.fault({**SLOW, "seconds": 1})
        with workers(database, sandbox, 3):
            eventually(lambda: states(database) == {"completed": 12}, timeout=50)
        assert most_at_once(sandbox) == 4
        assert calls(sandbox) == 12
        assert claimed_by(database) == 3
        assert set(rig.counted(rig.standings(database))) == {("completed", 0, 0)}


def test_one_429_stops_three_processes_for_as_long_as_it_says() -> None:
    """Retry-After 20: a second later no call comes, for twenty seconds; then the work goes on."""
    with behind_a_gate(60, None) as (database, sandbox):
        sandbox.fault({**SLOW, "seconds": 0.2})
        with workers(database, sandbox, 3):
            eventually(lambda: calls(sandbox) > 10, timeout=30)
            refusal = {"on": "response", "do": "status", "status": 429, "retry_after": 20}
            sandbox.fault(refusal)
            eventually(lambda: reasons(database) == ["throttled"], timeout=10)
            seconds_pass(1)
            seen = calls(sandbox)
            assert seen < 50
            stand.move_clock(database, 17)
            seconds_pass(1)
            assert (calls(sandbox), reasons(database)) == (seen, ["throttled"])
            stand.move_clock(database, 3)
            eventually(lambda: states(database)["completed"] == 59, timeout=40)
        assert max(row[:3] for row in rig.standings(database)) == ("queued", 1, 0)
        assert alerts(database) == []


def test_a_killed_workers_slots_are_back_within_a_lease() -> None:
    """It held the whole gate; its lease ends, and the next worker calls, with nobody's help."""
    with behind_a_gate(8, 2) as (database, sandbox):
        sandbox.fault({**SLOW, "seconds": 30})
        with workers(database, sandbox, 1, SHORT) as (first,):
            eventually(lambda: calls(sandbox) == 2, timeout=20)
            with workers(database, sandbox, 1, SHORT):
                eventually(lambda: leases(database) == 2, timeout=20)
                seconds_pass(0.5)
                assert calls(sandbox) == 2
                end(first)
                killed_at = time.monotonic()
                eventually(lambda: calls(sandbox) == 4, timeout=LEASE_S + 3)
                assert time.monotonic() - killed_at < LEASE_S + 1.5
                assert stand.rows(database, "select in_flight from gate_now") == [(2,)]


def reasons(database: str) -> Sequence[str]:
    """Why gates are closed."""
    query = "select pause_reason from gate_now where pause_reason is not null"
    return [row[0] for row in stand.rows(database, query)]


def alerts(database: str) -> list[str]:
    """What was raised."""
    return rig.alerts(database)


def leases(database: str) -> int:
    """How many workers have a lease."""
    query = "select count(*) from worker where stopped_at is null and expires_at > clock()"
    return int(stand.rows(database, query)[0][0])

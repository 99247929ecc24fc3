"""The base of everything that runs: when it sleeps, what stops it, and what it says of errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from dragoman.core import ports
from dragoman.core.errors import BadInput, DatabaseDown, LeaseLost
from dragoman.core.ids import uuid7
from dragoman.store import workers
from dragoman.work import loop
from dragoman.work.line import Line
from dragoman.work.loop import Loop, Station
from tests.eventually import eventually_async
from tests.stand import TEST_PROFILE

FOR_EVER_S = 3600.0
WORDS = "somebody's words"


def a_station() -> Station:
    """A station whose lease was renewed just now, with no database behind it."""
    line = Line(cast("Any", None), uuid7(), lease_s=30, acknowledged=time.monotonic())
    return Station(cast("Any", None), line, {}, TEST_PROFILE)


class Role(Loop):
    """A role that does what the test says: numbers are work, errors are raised."""

    role = "test"

    def __init__(self, *steps: int | Exception, every_s: float = FOR_EVER_S) -> None:
        super().__init__(a_station())
        self.steps, self.runs, self._every_s = list(steps), 0, every_s
        self.stop = asyncio.Event()

    @property
    def every_s(self) -> float:
        """Long enough that no test sees it end, unless it says so."""
        return self._every_s

    async def run_once(self) -> int:
        """The next step; after the last one, told to stop."""
        self.runs += 1
        step = self.steps.pop(0)
        if not self.steps:
            self.stop.set()
        if isinstance(step, Exception):
            raise step
        return step


def run(role: Role) -> None:
    """Run it to its end; hanging is a failure."""
    asyncio.run(asyncio.wait_for(role.run(role.stop), 10))


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The alerts that were raised."""
    raised: list[tuple] = []

    async def raise_alert(cell: object, *alert: object) -> None:
        raised.append(alert)

    monkeypatch.setattr(workers, "raise_alert", raise_alert)
    return raised


def test_it_goes_on_while_there_is_work_and_sleeps_only_on_nothing() -> None:
    """Three runs with work follow one another without a pause of an hour."""
    role = Role(3, 1, 2, 0)
    run(role)
    assert role.runs == 4


def test_sleep_ends_by_itself() -> None:
    """A role that found nothing looks again after its sleep."""
    role = Role(0, 0, 0, every_s=0.01)
    run(role)
    assert role.runs == 3


@pytest.mark.parametrize("signal", ["stop", "wake", "lost"])
def test_sleep_ends_at_once_when_something_happens(signal: str) -> None:
    """Told to stop, woken, or without its lease: nobody waits for the end of the hour."""

    async def story() -> None:
        role = Role(0, 0, 0)
        events = {"stop": role.stop, "wake": role.wake, "lost": role.station.line.lost}
        running = asyncio.create_task(role.run(role.stop))
        await eventually_async(lambda: role.runs == 1)
        events[signal].set()
        if signal == "stop":
            await asyncio.wait_for(running, 10)
            assert role.runs == 1
            return
        await eventually_async(lambda: role.runs == 2)
        assert not role.wake.is_set()
        role.stop.set()
        if signal == "lost":
            with pytest.raises(LeaseLost):
                await asyncio.wait_for(running, 10)
        else:
            await asyncio.wait_for(running, 10)

    asyncio.run(story())


def test_a_lost_lease_ends_the_loop() -> None:
    """The run is over, the lease is gone: the process stops instead of working on."""
    role = Role(1, 1)
    role.station.line.lost.set()
    with pytest.raises(LeaseLost):
        run(role)
    assert role.runs == 1


def test_an_error_ends_one_run_and_not_the_loop(paged: list[tuple]) -> None:
    """One job lost, our own refusal: logged, and the next run comes."""
    role = Role(LeaseLost(), BadInput(WORDS), 1, every_s=0.01)
    run(role)
    assert (role.runs, paged) == (3, [])


def test_a_process_that_may_still_hold_something_gives_up_its_lease(paged: list[tuple]) -> None:
    """The database went away in the middle of a run: others take back what it cannot let go of."""
    role = Role(DatabaseDown("57P01"), 1, every_s=0.01)
    with pytest.raises(LeaseLost):
        run(role)
    assert (role.runs, paged) == (1, [])


def test_an_unknown_error_pages_somebody_without_a_word_of_its_message(
    paged: list[tuple], capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug is told by type and place, in the alert and in the log; the process gives up."""
    role = Role(KeyError(WORDS), 1, every_s=0.01)
    with pytest.raises(LeaseLost):
        run(role)
    [(kind, subject, severity, facts)] = paged
    assert (kind, subject, severity) == ("runtime_bug", "test:KeyError", "page")
    assert any("test_loop.py Role.run_once" in line for line in facts["frames"])
    told = capsys.readouterr()
    assert "KeyError" in told.out
    assert WORDS not in f"{facts}{told.out}{told.err}"
    assert role.runs == 1


def test_sleep_is_jittered_around_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between three and five quarters, so that workers started together drift apart."""
    slept: list[float] = []

    async def wait(tasks: Any, **how: Any) -> None:
        slept.append(how["timeout"])

    monkeypatch.setattr(loop.asyncio, "wait", wait)
    for draw in (0.0, 1.0):
        monkeypatch.setattr(loop.random, "random", lambda draw=draw: draw)
        run(Role(0, 0, every_s=8))
    assert slept == [6, 6, 10, 10]


# The fence that every role asks.


@pytest.fixture
def clock() -> Iterator[list[float]]:
    """The process's own clock."""
    moved = [0.0]
    ports.install_clock(lambda: moved[0])
    yield moved
    ports.install_clock(None)


def test_a_line_is_fenced_two_thirds_into_a_lease_that_nobody_renewed(clock: list[float]) -> None:
    """Up to 20 of 30 seconds it may act; after that never again, even if the clock went back."""
    line = replace(a_station().line, acknowledged=0.0)
    clock[0] = 20.0
    line.fence()
    clock[0] = 20.1
    with pytest.raises(LeaseLost):
        line.fence()
    clock[0] = 0.0
    with pytest.raises(LeaseLost):
        line.fence()

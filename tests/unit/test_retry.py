"""When to try again: the table is exact, the jitter is full, and Retry-After has a ceiling."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.retry import MAX_FREE_REQUEUES, RETRY_AFTER_CEILING_S, FullJitter, Table

SECONDS = st.floats(0.001, 1e6)
ATTEMPTS = st.integers(1, 200)


@pytest.mark.req("R254", "R269", "R270")
@given(st.lists(SECONDS, min_size=1, max_size=6), ATTEMPTS)
def test_the_table_is_read_as_it_is_written(seconds: list[float], attempt: int) -> None:
    """Attempt n waits for entry n, every later one for the last entry, without chance."""
    table = Table(tuple(seconds))
    expected = seconds[attempt - 1] if attempt <= len(seconds) else seconds[-1]
    assert [table.delay_s(attempt) for _ in range(3)] == [expected] * 3


@pytest.mark.req("R269")
def test_the_defaults_of_the_contract() -> None:
    """The first failure waits 15 minutes, each later one two hours."""
    assert [Table((900, 7200)).delay_s(attempt) for attempt in (1, 2, 3, 9)] == [
        900,
        7200,
        7200,
        7200,
    ]


@pytest.mark.req("R079", "R168")
@given(st.lists(SECONDS, min_size=1, max_size=6))
def test_a_rising_table_never_waits_less(seconds: list[float]) -> None:
    """With a table that rises the delays rise with the attempts."""
    table = Table(tuple(sorted(seconds)))
    delays = [table.delay_s(attempt) for attempt in range(1, 10)]
    assert delays == sorted(delays)


@pytest.mark.req("R316", "R317", "R318", "R315")
def test_the_bound_doubles_from_one_second_to_a_minute() -> None:
    """1, 2, 4, … and never more than 60 s, at whatever attempt."""
    policy = FullJitter()
    assert [policy.bound_s(n) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (policy.bound_s(50), policy.bound_s(100_000)) == (60, 60)


@pytest.mark.req("R299", "R319")
@given(ATTEMPTS, st.floats(0, 1))
def test_the_jitter_is_full(attempt: int, luck: float) -> None:
    """The delay lies anywhere between nothing and the bound, in proportion to the draw."""
    policy = FullJitter(rng=lambda: luck)
    assert policy.delay_s(attempt) == luck * policy.bound_s(attempt)
    assert 0 <= policy.delay_s(attempt) <= policy.bound_s(attempt)


@pytest.mark.req("R319")
def test_the_draws_are_uniform() -> None:
    """A tenth of many draws falls into each tenth of the range."""
    policy = FullJitter(rng=random.Random(7).random)  # noqa: S311 - a fixed seed
    draws = [policy.delay_s(5) / 16 for _ in range(4000)]
    tenths = [sum(n / 10 <= draw < (n + 1) / 10 for draw in draws) for n in range(10)]
    assert all(320 < count < 480 for count in tenths)


@pytest.mark.req("R320")
def test_each_attempt_draws_anew() -> None:
    """One draw per delay: no schedule is made beforehand, and none is kept."""
    draws = iter([0.1, 0.9, 0.5])
    policy = FullJitter(rng=lambda: next(draws))
    assert [policy.delay_s(3) for _ in range(3)] == pytest.approx([0.4, 3.6, 2.0])
    assert next(draws, None) is None


@pytest.mark.req("R301", "R321", "R322")
@given(ATTEMPTS, st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_the_longer_wait_wins_up_to_five_minutes(
    attempt: int, luck: float, retry_after_s: float | None
) -> None:
    """Retry-After lifts the delay, never above 300 s and never below our own backoff."""
    asked = min(retry_after_s or 0, 300)
    jitter = FullJitter(rng=lambda: luck)
    assert jitter.delay_s(attempt, retry_after_s) == max(jitter.delay_s(attempt), asked)
    table = Table((10, 900))
    assert table.delay_s(attempt, retry_after_s) == max(table.delay_s(attempt), asked)


@pytest.mark.req("R321", "R322", "R301")
def test_retry_after_by_example() -> None:
    """4 s beat a backoff of 0; 1,000 s are cut to 300; 30 s are kept."""
    policy = FullJitter(rng=lambda: 0.0)
    assert [policy.delay_s(1, asked) for asked in (4, 1000, 30, None)] == [4, 300, 30, 0]


def test_the_bounds_of_the_contract() -> None:
    """Five minutes of Retry-After, three free requeues."""
    assert (RETRY_AFTER_CEILING_S, MAX_FREE_REQUEUES) == (300, 3)

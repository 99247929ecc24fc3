"""The paces of the contract, and configurations that could never work."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dragoman.core.errors import BadSetting
from dragoman.core.profile import DEFAULT, PROFILES, Profile


@pytest.mark.req("R243")
def test_the_default_cadence() -> None:
    """The submitter every 15 minutes, the collector every 30."""
    assert (DEFAULT.submitter_every_s, DEFAULT.collector_every_s) == (900, 1800)


@pytest.mark.parametrize(
    ("name", "every", "jobs", "runtime", "backoff", "timeout"),
    [
        pytest.param("dev", 7200, 5, 120, (120, 600), 300, marks=pytest.mark.req("R293")),
        pytest.param("stage", 1800, 30, 180, (300, 1800), 900, marks=pytest.mark.req("R294")),
        pytest.param("prod", 3600, 200, 240, (3600, 21600), 3600, marks=pytest.mark.req("R295")),
    ],
)
def test_the_profiles_of_the_contract(
    name: str, every: int, jobs: int, runtime: int, backoff: tuple[int, ...], timeout: int
) -> None:
    """dev, stage and prod have the figures that the contract gives them."""
    pace = PROFILES[name]
    assert (pace.name, pace.submitter_every_s, pace.max_jobs_per_run) == (name, every, jobs)
    assert (pace.max_runtime_s, pace.retry_backoff_s, pace.claim_timeout_s) == (
        runtime,
        backoff,
        timeout,
    )


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_work(name: str) -> None:
    """What we ship passes our own check, and is known under its own name."""
    assert PROFILES[name].check() is PROFILES[name]
    assert PROFILES[name].name == name


NO_NUMBERS = {"name", "retry_backoff_s", "respect_not_before_at"}
NUMBERS = [name for name in Profile.__dataclass_fields__ if name not in NO_NUMBERS]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, 1e12])
def test_a_pace_without_an_end_or_a_beginning_is_refused(name: str, value: float) -> None:
    """Nothing is zero, negative, endless or no number; the error names the setting."""
    with pytest.raises(BadSetting) as refused:
        replace(DEFAULT, **{name: value}).check()
    assert name in str(refused.value)


@pytest.mark.parametrize("table", [(), (0,), (900, -1), (900, math.inf)])
def test_a_backoff_needs_waits(table: tuple[float, ...]) -> None:
    """An empty table, or one that does not wait, is refused."""
    with pytest.raises(BadSetting) as refused:
        replace(DEFAULT, retry_backoff_s=table).check()
    assert "retry_backoff_s" in str(refused.value)


@pytest.mark.parametrize(("timeout", "works"), [(299, False), (300, False), (301, True)])
def test_a_run_ends_before_its_claims_go_stale(timeout: float, works: bool) -> None:
    """A run and one create must fit into the claim's time-out, strictly."""
    pace = replace(DEFAULT, max_runtime_s=240, create_deadline_s=60, claim_timeout_s=timeout)
    if works:
        assert pace.check() is pace
    else:
        with pytest.raises(BadSetting):
            pace.check()

"""Where each outcome sends a job: the one place that counts attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.canonical import canonical
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import BatchId, HomeId, JobId, Token
from dragoman.core.job import (
    EDGES,
    Bury,
    Defer,
    Done,
    Held,
    Kind,
    Mode,
    Outcome,
    Reason,
    Retry,
    State,
    outcome_of,
)
from dragoman.core.retry import MAX_FREE_REQUEUES, FullJitter, RetryPolicy, Table
from dragoman.store.database import Cell, Tx
from dragoman.work.finish import Exit, Finished, exit_of
from dragoman.work.pipeline import Pipeline, Stored

FC = FailureClass
FREE = (FC.NOT_EXECUTED, FC.ACCOUNT_BLOCKED)


@dataclass
class Stage:
    """A stage that is never run here."""

    name: str
    retry: RetryPolicy

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Never."""
        raise NotImplementedError

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Never."""
        raise NotImplementedError


LUCK = 0.5
STAGES = (
    Stage("fetch", FullJitter(rng=lambda: LUCK)),
    Stage("llm", FullJitter(rng=lambda: LUCK)),
    Stage("notify", FullJitter(rng=lambda: LUCK)),
)
PIPELINES = {
    "review": Pipeline(2, "review", STAGES, 600),
    "rewrite": Pipeline(1, "rewrite", (Stage("generate", Table((900, 7200))),), 600),
}


def held(**changed: object) -> Held:
    """A job in somebody's hands."""
    columns: dict[str, object] = {
        "id": JobId(UUID(int=1)),
        "token": Token(UUID(int=2)),
        "state": State.PROCESSING,
        "pipeline": "rewrite",
        "stage": 0,
        "home_id": HomeId(UUID(int=3)),
        "unit": "request:recipient",
        "unit_lock": 1,
        "queue_key": 7,
        "stage_attempts": 0,
        "max_attempts": 2,
        "free_requeues": 0,
        "account": "default",
        "mode": Mode.BATCH,
        "group_key": "g",
        "routing": {"provider": "p", "model": "m"},
    }
    return Held(**{**columns, **changed})  # type: ignore[arg-type]  # by name


FAILURES = st.builds(
    Failure,
    st.sampled_from(FailureClass),
    st.from_regex(r"[a-z_0-9]{1,20}", fullmatch=True),
    st.none() | st.integers(400, 599),
    st.none(),
    st.none() | st.floats(0, 1000),
)
OUTCOMES = st.one_of(
    st.builds(Done, st.none(), st.binary(max_size=4)),
    st.builds(Retry, FAILURES),
    st.builds(Bury, FAILURES, st.lists(st.just("a.py:1 in f"), max_size=2).map(tuple)),
    st.builds(Defer, st.sampled_from(Reason), st.none(), st.none() | st.floats(-5, 1000)),
)
JOBS = st.builds(
    lambda pipeline, stage, failed, most, free, state: held(
        pipeline=pipeline,
        stage=stage if pipeline == "review" else 0,
        stage_attempts=min(failed, most - 1),
        max_attempts=most,
        free_requeues=free,
        state=state,
    ),
    st.sampled_from(["rewrite", "review"]),
    st.integers(0, 2),
    st.integers(0, 5),
    st.integers(1, 6),
    st.integers(0, MAX_FREE_REQUEUES),
    st.sampled_from([State.PROCESSING, State.BATCH_SUBMITTED]),
)


def way_out(job: Held, outcome: Outcome, batch: BatchId | None = None) -> Exit:
    """The decision."""
    return exit_of(PIPELINES, Finished(job, outcome, batch))


@given(JOBS, OUTCOMES)
def test_every_outcome_has_one_way_out(job: Held, outcome: Outcome) -> None:
    """Total: the move is the holder's own, along an edge, and it never takes the job backwards."""
    out = way_out(job, outcome)
    move = out.move
    assert (job.state, move.became) in EDGES
    assert move.attempt_add + move.free_add <= 1
    assert move.ready == (move.became is State.QUEUED and move.delay_s is None)
    assert move.delay_s is None or (move.became is State.QUEUED and move.delay_s > 0)


@given(JOBS, OUTCOMES)
def test_a_dead_letter_and_a_failed_job_are_one(job: Held, outcome: Outcome) -> None:
    """Whoever fails is buried and nobody else, with the job's stage, attempts and a stack."""
    out = way_out(job, outcome)
    assert (out.burial is not None) == (out.move.became is State.FAILED)
    if out.burial:
        assert (out.burial.id, out.burial.stage, out.burial.attempts) == (
            job.id,
            job.stage,
            job.attempt,
        )
        assert out.burial.last_stack
        assert out.burial.error_class in set(FailureClass)
        assert out.burial.context["unit_sha256"] == f"{job.unit_lock:016x}"
        assert job.unit not in str(out.burial.context)


@given(JOBS, OUTCOMES)
def test_only_a_failure_is_written_down_as_one(job: Held, outcome: Outcome) -> None:
    """Done and Defer leave attempts and the last failure alone."""
    move = way_out(job, outcome).move
    if isinstance(outcome, Done | Defer):
        assert (move.attempt_add, move.free_add, move.failure) == (0, 0, None)
    else:
        assert move.failure == canonical(outcome.failure.facts()).decode()
        assert move.code == outcome.failure.code


@given(JOBS, st.binary(min_size=1, max_size=4))
def test_done_completes_or_hands_on(job: Held, digest: bytes) -> None:
    """The last stage completes the job; any other puts it into the next stage's queue, ready."""
    move = way_out(job, Done(None, digest)).move
    stages = PIPELINES[job.pipeline].stages
    if job.stage + 1 == len(stages):
        assert (move.became, move.kind) == (State.COMPLETED, Kind.COMPLETED)
    else:
        assert (move.became, move.kind, move.reason) == (
            State.QUEUED,
            Kind.ADVANCED,
            Reason.NEXT_STAGE,
        )
        assert move.ready


@pytest.mark.req("R297")
@given(JOBS, st.sampled_from(FailureClass))
def test_what_cannot_be_helped_fails_at_once(job: Held, error_class: FailureClass) -> None:
    """A failure that is not retryable is final at its first attempt."""
    outcome = outcome_of(Failure(error_class, "code"))
    if isinstance(outcome, Bury):
        out = way_out(job, outcome)
        assert (out.move.became, out.move.reason) == (State.FAILED, Reason.NOT_RETRYABLE)
        assert out.burial is not None
        assert (out.burial.reason, out.burial.error_class) == ("not_retryable", error_class)


@pytest.mark.req("R267", "R268", "R271")
@given(JOBS, FAILURES)
def test_a_failed_attempt_counts_one_until_there_are_none(job: Held, failure: Failure) -> None:
    """+1 for each failure; the one that reaches max_attempts is the last."""
    is_free = failure.error_class in FREE and job.free_requeues < MAX_FREE_REQUEUES
    out = way_out(job, Retry(failure))
    if is_free:
        assert (out.move.became, out.move.attempt_add, out.move.free_add) == (State.QUEUED, 0, 1)
        assert out.move.reason is Reason.FREE_REQUEUE
    elif job.stage_attempts + 1 >= job.max_attempts:
        assert (out.move.became, out.move.attempt_add) == (State.FAILED, 1)
        assert out.burial is not None
        assert out.burial.reason == "exhausted"
    else:
        assert (out.move.became, out.move.attempt_add, out.move.free_add) == (State.QUEUED, 1, 0)


@pytest.mark.req("R269", "R270", "R254")
@pytest.mark.parametrize(("attempt", "delay"), [(1, 900), (2, 7200), (3, 7200), (4, 7200)])
def test_a_rewrite_waits_by_its_table(attempt: int, delay: float) -> None:
    """After attempt 1 it waits 900 s, after every later one 7,200, always the same."""
    job = held(stage_attempts=attempt - 1, max_attempts=9)
    failure = Failure(FC.UPSTREAM_ERROR, "http_500")
    assert {way_out(job, Retry(failure)).move.delay_s for _ in range(3)} == {delay}


@pytest.mark.req("R301", "R322")
@pytest.mark.parametrize(("asked", "delay"), [(None, 0.5), (0.1, 0.5), (30.0, 30), (1000.0, 300)])
def test_a_review_waits_by_jitter_or_as_it_was_asked(asked: float | None, delay: float) -> None:
    """Half of a second by this draw; Retry-After if that is longer, up to five minutes."""
    job = held(pipeline="review", max_attempts=5)
    failure = Failure(FC.THROTTLED, "http_429", 429, None, asked)
    assert way_out(job, Retry(failure)).move.delay_s == delay


@pytest.mark.req("R264", "R265", "R266")
def test_a_stale_claim_is_an_attempt_and_waits_for_nothing() -> None:
    """It burns one attempt and is ready at once; at max_attempts the job fails, exhausted."""
    stale = Retry(Failure(FC.STALE_CLAIM, "stale_claim_requeued"))
    move = way_out(held(), stale).move
    assert (move.kind, move.reason, move.attempt_add, move.ready) == (
        Kind.STALE_REQUEUED,
        Reason.STALE_CLAIM,
        1,
        True,
    )
    out = way_out(held(stage_attempts=1), stale)
    assert (out.move.kind, out.move.reason) == (Kind.FAILED, Reason.STALE_CLAIM)
    assert out.burial is not None
    assert (out.burial.reason, out.burial.code) == ("exhausted", "stale_claim_requeued")


def walk(job: Held, failures: Sequence[Failure]) -> tuple[list[Exit], Held]:
    """Meet one failure after another, as the rows would count them, until the job is final."""
    exits = []
    for failure in failures:
        out = way_out(job, outcome_of(failure))
        exits.append(out)
        job = replace(
            job,
            stage_attempts=job.stage_attempts + out.move.attempt_add,
            free_requeues=job.free_requeues + out.move.free_add,
        )
        if out.move.became is State.FAILED:
            break
    return exits, job


@pytest.mark.req("R219")
@given(st.integers(1, 6), st.lists(FAILURES, min_size=20, max_size=20))
def test_no_job_is_tried_for_ever(most: int, failures: list[Failure]) -> None:
    """Whatever goes wrong, the job fails within max_attempts tries and three free requeues."""
    exits, job = walk(held(max_attempts=most), failures)
    assert exits[-1].move.became is State.FAILED
    assert len(exits) <= most + MAX_FREE_REQUEUES
    assert job.stage_attempts <= most
    assert job.free_requeues <= MAX_FREE_REQUEUES


@pytest.mark.parametrize("error_class", FREE)
def test_what_never_ran_is_free_three_times(error_class: FailureClass) -> None:
    """Three requeues without an attempt; after them each one counts, and then the job fails."""
    exits, _ = walk(held(max_attempts=2), [Failure(error_class, "batch_expired")] * 9)
    adds = [(one.move.free_add, one.move.attempt_add) for one in exits]
    assert adds == [(1, 0), (1, 0), (1, 0), (0, 1), (0, 1)]
    assert exits[-1].move.became is State.FAILED


def test_what_never_ran_in_a_batch_is_ready_at_once() -> None:
    """A released item waits for the next tick, or as long as the provider asks."""
    job, batch = held(), BatchId(UUID(int=5))
    ran = Failure(FC.NOT_EXECUTED, "batch_expired")
    assert way_out(job, Retry(ran), batch).move.ready
    assert way_out(job, Retry(ran), batch).move.kind is Kind.RELEASED
    asked = replace(ran, retry_after_s=40.0)
    assert way_out(job, Retry(asked), batch).move.delay_s == 40
    assert way_out(job, Retry(ran)).move.delay_s == 900


@pytest.mark.req("R323")
def test_a_failure_of_another_class_ends_it_at_once() -> None:
    """503, 503, 403: dead after the third, with two attempts to spare."""
    failures = [
        Failure(FC.NETWORK_TIMEOUT, "http_503", 503),
        Failure(FC.NETWORK_TIMEOUT, "http_503", 503),
        Failure(FC.AUTH_DENIED, "http_403", 403),
        Failure(FC.NETWORK_TIMEOUT, "http_503", 503),
    ]
    exits, _ = walk(held(pipeline="review", max_attempts=5), failures)
    assert [one.move.became for one in exits] == [State.QUEUED, State.QUEUED, State.FAILED]
    assert exits[-1].burial is not None
    assert (exits[-1].burial.reason, exits[-1].burial.attempts) == ("not_retryable", 3)


@pytest.mark.req("R302", "R326", "R328")
@pytest.mark.parametrize(("stage", "name"), list(enumerate(["fetch", "llm", "notify"])))
def test_the_fifth_failure_of_a_stage_is_its_last(stage: int, name: str) -> None:
    """Five tries, the first included; the dead letter names the stage, the count and why."""
    failures = [Failure(FC.UPSTREAM_ERROR, "http_500", 500)] * 9
    exits, _ = walk(held(pipeline="review", stage=stage, max_attempts=5), failures)
    assert len(exits) == 5
    burial = exits[-1].burial
    assert burial is not None
    assert (burial.stage_name, burial.attempts, burial.reason) == (name, 5, "exhausted")
    assert burial.context["stage"] == name


@given(st.floats(-100, 100))
def test_a_deferral_until_a_moment_is_a_delay(seconds: float) -> None:
    """A moment that has passed is no wait at all."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    move = way_out(held(), Defer(Reason.GATE_CLOSED, until)).move
    assert (move.kind, move.reason) == (Kind.DEFERRED, Reason.GATE_CLOSED)
    assert (move.delay_s or 0) <= max(seconds, 0)
    assert move.ready or seconds > 0


@pytest.mark.parametrize("error_class", [FC.OUTPUT_REJECTED, FC.SCHEMA_INVALID])
@pytest.mark.req("R075", "R076")
@pytest.mark.req("R166")
def test_a_bad_output_or_a_bad_question_is_not_asked_again(error_class: FailureClass) -> None:
    """Schema, lexicon and prompt errors fail at attempt 1."""
    out = way_out(held(max_attempts=9), outcome_of(Failure(error_class, "code")))
    assert (out.move.became, out.move.attempt_add) == (State.FAILED, 1)

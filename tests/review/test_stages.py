"""Budgets of a review's stages, and the dead letters of those that end there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dragoman.core.failure import RETRYABLE, Failure, FailureClass, classify_http
from dragoman.core.job import Bury, Held, Outcome, Retry, outcome_of
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.review import stages
from dragoman.review.git import SourceFailed
from dragoman.store.database import Cell, Tx
from dragoman.work.pipeline import Pipeline, Stored
from tests import reviews, stand
from tests.leaks import leaks
from tests.reviews import ANN, AT_ONCE, LATEST, TOKEN, Desk, tell

SECRETS = (TOKEN, "hunter2", "ann@team.example", "bob@team.example", "test-key", "def total")
REQUIRED = ("job_id", "stage", "attempts", "code", "http_status", "unit_sha256")


def answer(desk: Desk, *statuses: int, **more: Any) -> None:
    """What the model's service says to the next calls."""
    desk.sandbox.fault(
        *(
            {"on": "response", "do": "status", "status": status, "nth": nth, **more}
            for nth, status in enumerate(statuses, start=1)
        )
    )


def verdict(letter: dict[str, Any]) -> tuple:
    """Class, reason, stage and attempts of a dead letter."""
    names = ("error_class", "reason", "stage_name", "attempts")
    return tuple(letter[name] for name in names)


@pytest.mark.req("R302", "R326", "R328", "R332", "R335")
def test_the_fifth_failure_exhausts_a_stage_even_when_its_history_is_gone() -> None:
    """500 five times: four are repeated, the fifth is buried with the numbers of its stage."""

    async def story(desk: Desk) -> None:
        answer(desk, 500, 500, 500, 500, 500)
        job = (await desk.enqueue()).job_id
        await desk.work(2)
        [(first,)] = desk.rows("select first_failure_at from standing")
        desk.later(100)
        await desk.work(3)
        assert (desk.state(job), desk.letters()) == ("queued", [])
        reviews.drop_history(desk.database)
        await desk.work()
        [letter] = desk.letters()
        assert verdict(letter) == ("UPSTREAM_ERROR", "exhausted", "llm", 5)
        assert (letter["first_failure_at"], letter["stage"]) == (first, 1)
        assert (letter["last_failure_at"] - first).total_seconds() > 99
        context = letter["sanitized_context"]
        assert (context["attempts"], context["http_status"]) == (5, 500)
        assert set(REQUIRED) <= context.keys()
        await desk.work(2)
        assert (desk.state(job), len(desk.letters())) == ("failed", 1)

    tell(story)


@pytest.mark.req("R324", "R327")
def test_failures_of_one_stage_cost_another_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four failed fetches and four failed calls: still running, and then it succeeds."""
    fetched, failed = stages.fetch, iter(range(4))

    async def flaky(*given: Any) -> Any:
        if next(failed, None) is not None:
            raise SourceFailed(Failure(FailureClass.NETWORK_TIMEOUT, "git_timeout"))
        return await fetched(*given)

    monkeypatch.setattr(stages, "fetch", flaky)
    look = "select state, stage, stage_attempts, attempt_count from standing"

    async def story(desk: Desk) -> None:
        answer(desk, 503, 503, 503, 503)
        await desk.enqueue()
        await desk.work(4)
        assert desk.rows(look) == [("queued", 0, 4, 4)]
        await desk.work()
        assert desk.rows(look) == [("queued", 1, 0, 4)]
        await desk.work(4)
        assert desk.rows(look) == [("queued", 1, 4, 8)]
        reviews.drop_history(desk.database)
        await desk.work()
        await desk.relay.run_once()
        await desk.work()
        assert desk.rows(look) == [("completed", 2, 0, 8)]

    tell(story)


def test_what_an_earlier_stage_has_done_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that fails and is repeated works on the diff that was fetched once."""
    fetched, calls = stages.fetch, []

    async def counted(*given: Any) -> Any:
        calls.append(given)
        return await fetched(*given)

    monkeypatch.setattr(stages, "fetch", counted)

    async def story(desk: Desk) -> None:
        answer(desk, 503, 503)
        job = (await desk.enqueue()).job_id
        await desk.work(4)
        await desk.relay.run_once()
        await desk.work()
        assert (desk.state(job), len(calls)) == ("completed", 1)

    tell(story)


@pytest.mark.req("R297", "R305", "R307", "R309")
def test_what_no_repetition_can_cure_is_buried_at_the_first_try() -> None:
    """A definite no is not asked twice."""
    answers = {
        400: "SCHEMA_INVALID",
        401: "AUTH_DENIED",
        403: "AUTH_DENIED",
        404: "NOT_FOUND",
        422: "SCHEMA_INVALID",
    }

    async def story(desk: Desk) -> None:
        for version, (status, error_class) in enumerate(answers.items(), start=1):
            desk.sandbox.clear_faults()
            desk.open_gates()
            answer(desk, status, status)
            letter = await buried(desk, version)
            assert verdict(letter) == (error_class, "not_retryable", "llm", 1)
        assert desk.rows("select count(*) from history where kind = 'calling'") == [(5,)]

    tell(story)


@pytest.mark.req("R305", "R311")
def test_an_answer_that_is_none_is_buried_at_once() -> None:
    """Malformed JSON, missing fields and a moderator's no wait for a person, and store nothing."""
    spoilt = {
        "fenced": "SCHEMA_INVALID",
        "bad_schema": "SCHEMA_INVALID",
        "refusal": "POLICY_REJECTED",
    }

    async def story(desk: Desk) -> None:
        for version, (do, error_class) in enumerate(spoilt.items(), start=1):
            desk.sandbox.clear_faults()
            desk.sandbox.fault({"on": "item", "do": do})
            letter = await buried(desk, version)
            assert verdict(letter) == (error_class, "not_retryable", "llm", 1)
            assert letter["state"] == "open"
        assert desk.rows("select count(*) from finding") == [(0,)]

    tell(story)


async def buried(desk: Desk, version: int) -> dict[str, Any]:
    """The dead letter of a review that two steps have ended; a third would find nothing."""
    job = (await desk.enqueue(f"push-{version}", version, is_rerun=True)).job_id
    await desk.work(3)
    letters = desk.letters()
    assert (len(letters), letters[-1]["job_id"]) == (version, job)
    return letters[-1]


@pytest.mark.req("R323")
def test_a_failure_that_turns_out_to_be_final_ends_the_retries() -> None:
    """503, 503, 403: buried after the third, with no try more."""

    async def story(desk: Desk) -> None:
        answer(desk, 503, 503, 403)
        await desk.enqueue()
        await desk.work(6)
        [letter] = desk.letters()
        assert verdict(letter) == ("AUTH_DENIED", "not_retryable", "llm", 3)
        assert desk.rows("select count(*) from history where kind = 'calling'") == [(3,)]

    tell(story)


@pytest.mark.req("R298", "R300")
def test_what_may_pass_is_tried_again() -> None:
    """Gateways, resets, time-outs and throttling cost an attempt, and the next one succeeds."""
    faults: list[tuple[dict[str, Any], str]] = [
        ({"do": "status", "status": 502}, "NETWORK_TIMEOUT"),
        ({"do": "status", "status": 503}, "NETWORK_TIMEOUT"),
        ({"do": "status", "status": 504}, "NETWORK_TIMEOUT"),
        ({"do": "drop_before"}, "NETWORK_TIMEOUT"),
        ({"do": "delay", "seconds": 1.0}, "NETWORK_TIMEOUT"),
        ({"do": "status", "status": 429}, "THROTTLED"),
        ({"do": "status", "status": 429, "code": "rate_limit_exceeded"}, "THROTTLED"),
    ]
    look = (
        "select state, stage, stage_attempts, last_failure ->> 'class' from standing where id = %s"
    )

    async def story(desk: Desk) -> None:
        for version, (fault, error_class) in enumerate(faults, start=1):
            desk.sandbox.fault({"on": "response", **fault})
            job = (await desk.enqueue(f"push-{version}", version, is_rerun=True)).job_id
            await desk.work(2)
            assert desk.rows(look, job) == [("queued", 1, 1, error_class)], fault
            desk.open_gates()
            await desk.work()
            assert desk.rows(look, job)[0][:2] == ("queued", 2), fault
            await desk.relay.run_once()
            await desk.work()

    tell(story, profile=replace(reviews.PATIENT, answer_deadline_s=0.5))


@pytest.mark.req("R301")
@pytest.mark.parametrize(
    ("asked", "waits"), [("30", (30, 31)), ("1000", (300, 301)), ("0.2", (0.9, 1.1))]
)
def test_a_service_that_names_its_time_is_given_it(asked: str, waits: tuple[float, float]) -> None:
    """At least what Retry-After says, at most five minutes, and never less than our own backoff."""

    async def story(desk: Desk) -> None:
        answer(desk, 429, retry_after=asked)
        await desk.enqueue()
        await desk.work(2)
        query = "select extract(epoch from not_before_at - last_failure_at)::float8 from standing"
        [(wait,)] = desk.rows(query)
        assert waits[0] <= wait <= waits[1]

    tell(story, retry=LATEST)


@dataclass(frozen=True, slots=True)
class Broken:
    """A first stage with a bug in it."""

    name: str = "fetch"
    retry: RetryPolicy = AT_ONCE

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Fail as a program fails, with somebody's words in the message."""
        raise KeyError("hunter2") from ValueError(f"{ANN} said hunter2 to {TOKEN}")

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Never reached."""


def with_a_bug() -> Pipeline:
    """The review pipeline with a broken first stage."""
    whole = reviews.pipeline_of({}, AT_ONCE)
    return replace(whole, stages=(Broken(), *whole.stages[1:]))


@pytest.mark.req("R312", "R314", "R331", "R334")
def test_a_bug_is_buried_with_its_place_and_pages_somebody() -> None:
    """A KeyError: no second try, a page, the frames of both errors and not a word of theirs."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        await desk.work(3)
        [letter] = desk.letters()
        assert verdict(letter) == ("RUNTIME_BUG", "not_retryable", "fetch", 1)
        assert [line for line in letter["last_stack"] if not line.startswith(" ")] == [
            "KeyError",
            "ValueError",
        ]
        assert any("test_stages.py Broken.run" in line for line in letter["last_stack"])
        assert desk.alerts() == [("runtime_bug", "page")]
        facts = desk.rows("select facts::text from alert")[0][0]
        assert not [word for word in SECRETS if word in facts + str(letter)]

    tell(story, pipeline=with_a_bug())


@pytest.mark.req("R330", "R331", "R332", "R333")
@pytest.mark.parametrize("code", ["invalid_api_key", f"no {ANN} hunter2", TOKEN])
def test_a_dead_letter_says_what_is_needed_and_nothing_that_is_secret(code: str) -> None:
    """Ids, stage, attempts, code and hashes; no key, address, code or prompt, whoever said it."""

    async def story(desk: Desk) -> None:
        answer(desk, 403, code=code)
        job = (await desk.enqueue()).job_id
        await desk.work(2)
        [letter] = desk.letters()
        context = letter["sanitized_context"]
        assert set(REQUIRED) <= context.keys()
        assert (context["job_id"], context["stage"]) == (str(job), "llm")
        assert letter["error_class"] in set(FailureClass)
        assert letter["last_stack"] == [f"AUTH_DENIED: {letter['code']} at review/llm"]
        assert not [word for word in SECRETS if word in json.dumps(letter, default=str)]
        with stand.owner(desk.database) as connection:
            assert leaks(connection, ["hunter2", "test-key", TOKEN, "def total"]) == []
        assert desk.faults_found() == []

    tell(story)


@pytest.mark.req("R296")
def test_every_failure_is_either_repeated_or_buried() -> None:
    """Each class and each status has one of two outcomes; what nobody has foreseen is buried."""
    kinds = {each: type(outcome_of(Failure(each, "any"))) for each in FailureClass}
    assert set(kinds.values()) == {Retry, Bury}
    assert {each for each, kind in kinds.items() if kind is Retry} == RETRYABLE
    for status in range(600):
        assert isinstance(outcome_of(classify_http(status)), Retry | Bury)


@pytest.mark.req("R299")
def test_the_wait_after_a_failure_is_drawn_anew_below_a_bound_that_doubles() -> None:
    """The standing waits for what the random number said, between nothing and 1, 2, 4 and 8 s."""
    draws = iter((1.0, 0.5, 0.25, 1.0))

    async def story(desk: Desk) -> None:
        answer(desk, 503, 503, 503, 503)
        await desk.enqueue()
        waits = []
        await desk.work()
        for _ in range(4):
            await desk.work()
            query = (
                "select extract(epoch from not_before_at - last_failure_at)::float8 from standing"
            )
            waits += desk.rows(query)[0]
            desk.later(10)
        assert waits == pytest.approx([1.0, 1.0, 1.0, 8.0], abs=0.01)
        assert list(draws) == []

    tell(story, retry=FullJitter(rng=lambda: next(draws)))

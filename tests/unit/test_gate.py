"""What closes a gate, what a call may cost, and how much of a queue may be claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman.core.call import Answered, Call, Unanswered, Usage
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import Gate, closing_of, failure_of_batch, failures_of, tokens_of
from dragoman.core.job import Mode
from dragoman.store.gates import GateNow
from dragoman.work.gate import UNBOUNDED, claims, closed, room

QUOTA = Failure(FailureClass.ACCOUNT_BLOCKED, "insufficient_quota", 429)
AUTH = Failure(FailureClass.AUTH_DENIED, "http_401", 401)
OPEN = GateNow(1, "p", "a", "m", None, None, None, None, None, None, None, 0, None, None, 0)


@pytest.mark.parametrize(
    ("failure", "reason", "seconds"),
    [
        (Failure(FailureClass.THROTTLED, "http_429"), "throttled", 5),
        (Failure(FailureClass.THROTTLED, "slow_down", retry_after_s=1e9), "throttled", 300),
        (QUOTA, "quota", 900),
        (Failure(FailureClass.THROTTLED, "token_limit_exceeded", 429), "quota", 900),
        (Failure(FailureClass.ACCOUNT_BLOCKED, "credit_balance_exhausted"), "credit", 900),
        (Failure(FailureClass.ACCOUNT_BLOCKED, "http_402", 402), "credit", 900),
        (AUTH, "auth", 900),
    ],
)
def test_what_a_failure_closes_and_for_how_long(
    failure: Failure, reason: str, seconds: int
) -> None:
    """A 429 is capped at five minutes; what the account lacks is tried again in fifteen."""
    closing = closing_of(failure)
    assert closing
    assert (closing.why, closing.seconds) == (reason, seconds)


@pytest.mark.parametrize(
    "error_class",
    sorted(
        set(FailureClass)
        - {FailureClass.THROTTLED, FailureClass.ACCOUNT_BLOCKED, FailureClass.AUTH_DENIED}
    ),
)
def test_no_other_failure_closes_a_gate(error_class: FailureClass) -> None:
    """What one item or one request did wrong is not its neighbours' business."""
    assert closing_of(Failure(error_class, "any")) is None


def test_a_gates_key_is_the_same_everywhere() -> None:
    """It is made of the names alone, so that processes and cells agree without asking."""
    assert Gate("openai", "default", "gpt").key == -683_361_645
    names = [
        ("openai", "second", "gpt"),
        ("openai", "default", "gpt2"),
        ("openaid", "efault", "gpt"),
    ]
    assert len({Gate(*each).key for each in names}) == 3


def test_of_many_replies_the_worst_of_each_kind_is_learnt() -> None:
    """Three 429 and one account without quota: two things to learn, the longest wait first."""
    waits = [Failure(FailureClass.THROTTLED, "http_429", retry_after_s=s) for s in (3, 20, 7)]
    replies = [Answered("", Usage(), "m"), *map(Unanswered, [*waits, QUOTA, AUTH, AUTH])]
    assert failures_of(replies) == [waits[1], QUOTA, AUTH]
    assert failures_of([Unanswered(Failure(FailureClass.UPSTREAM_ERROR, "http_500"))]) == []


def test_a_batch_refused_for_its_account_closes_the_gate_and_for_a_line_does_not() -> None:
    """A full token queue is the account's; a line that is wrong is that line's."""
    refused = failure_of_batch(["duplicate_custom_id", "token_limit_exceeded"])
    assert refused
    assert closing_of(refused) == closing_of(QUOTA)
    assert failure_of_batch(["duplicate_custom_id"]) is None


def test_a_call_may_cost_what_is_sent_and_the_longest_answer() -> None:
    """Four bytes to a token, counted in bytes and not in letters."""
    call = Call("id", "abcd", "ä" * 8, "reply", {}, max_output_tokens=100)
    assert tokens_of([call]) == 105
    assert tokens_of([call, call]) == 210


@pytest.mark.parametrize(
    ("changes", "free"),
    [
        ({}, UNBOUNDED),
        ({"pause_reason": "quota"}, 0),
        ({"max_in_flight": 4, "in_flight": 1}, 3),
        ({"max_in_flight": 4, "in_flight": 6}, 0),
        ({"requests_left": 2.9}, 2),
        ({"max_in_flight": 4, "requests_left": 0.9}, 0),
        ({"tokens_left": -3.0, "max_in_flight": 4}, 0),
        ({"tokens_left": 3.0, "max_in_flight": 4}, 4),
        ({"batch_tokens": 10, "tokens_in_batches": 10}, UNBOUNDED),
    ],
)
def test_no_more_is_claimed_than_may_be_called(changes: dict[str, object], free: int) -> None:
    """A worker claims what its gate has room for; what is out in batches is no concern of it."""
    assert room(replace(OPEN, **changes), Mode.ASYNC) == free


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({"max_in_flight": 1, "in_flight": 1, "requests_left": 0.0}, True),
        ({"batch_tokens": 10, "tokens_in_batches": 9}, True),
        ({"batch_tokens": 10, "tokens_in_batches": 10}, False),
        ({"pause_reason": "operator"}, False),
    ],
)
def test_a_batch_asks_only_for_its_own_budget(changes: dict[str, object], is_open: bool) -> None:
    """Calls in flight do not hold a batch up; a pause or full batches do, and it is said."""
    now = replace(OPEN, **changes)
    assert bool(room(now, Mode.BATCH)) is is_open
    words = "is paused (operator)" if now.pause_reason else "is full"
    assert closed(now) == f"gate p/a/m {words}"


def test_scarce_gates_are_claimed_from_one_by_one() -> None:
    """What holds less than is wanted gets a claim of its own, so that none takes too many."""
    assert claims({1: UNBOUNDED, 2: 2, 3: UNBOUNDED, 4: 1}, 4) == [([2], 2), ([4], 1), ([1, 3], 4)]
    assert claims({}, 4) == []

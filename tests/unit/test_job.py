"""States, edges, the frozen numbers of the chain, and queues that need no sequence."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import HomeId, JobId, Token
from dragoman.core.job import (
    EDGES,
    TERMINAL,
    Bury,
    Held,
    Kind,
    Mode,
    Queue,
    Reason,
    Retry,
    State,
    outcome_of,
    read_state,
)

KERNEL = (
    resources.files("dragoman.store")
    .joinpath("sql", "migrations", "0001_kernel.sql")
    .read_text("utf-8")
)

KINDS = """
    1 enqueued 2 claimed 3 calling 4 submitted 5 completed 6 failed 7 retried 8 deferred 9 released
    10 advanced 11 canceled 12 cancel_refused 13 stale_requeued 14 late_result 15 sending 16 sent
    17 send_unknown 18 send_retried 19 send_failed 20 submitting 21 submit_unknown 22 replayed
    23 triaged 24 remediated 25 resolved 26 escalated 27 erased 28 reconciled
"""
REASONS = """
    0 none 1 failure 2 exhausted 3 not_retryable 4 free_requeue 5 stale_claim 6 overflow
    7 runtime_limit 8 shutdown 9 next_stage 10 awaiting_deliveries 11 never_started
    12 provably_absent 13 adopted 14 gate_closed 15 asked_by_operator 16 already_final 17 lost_lease
    18 not_yet_due
"""


def numbered(words: str) -> dict[str, int]:
    """Names and numbers of a list above."""
    parts = words.split()
    return dict(zip(parts[1::2], map(int, parts[::2]), strict=True))


@pytest.mark.parametrize(("kinds", "words"), [(Kind, KINDS), (Reason, REASONS)])
def test_a_number_of_the_chain_never_changes(kinds: type[Kind | Reason], words: str) -> None:
    """Each name keeps its number; a new one gets a new number and is added here."""
    frozen = numbered(words)
    found = {each.name.lower(): each.value for each in kinds}
    assert {name: found.get(name) for name in frozen} == frozen
    assert len(set(found.values())) == len(found)
    assert all(0 <= value < 2**15 for value in found.values())


def pairs(text: str) -> set[tuple[State, State]]:
    """Pairs of states in a piece of SQL."""
    return {
        (State(was), State(became)) for was, became in re.findall(r"\('(\w+)', '(\w+)'\)", text)
    }


@pytest.mark.req("R035", "R038", "R110")
@pytest.mark.req("R109")
def test_code_and_guard_know_the_same_states_and_edges() -> None:
    """The trigger's list is EDGES, and the type's values are State, in the same order."""
    guard = re.search(r"create trigger known_edge.*?execute function", KERNEL, re.DOTALL)
    states = re.search(r"create type state as enum \((.*?)\);", KERNEL, re.DOTALL)
    assert guard is not None
    assert states is not None
    assert pairs(guard[0]) == EDGES
    assert re.findall(r"^\s+'(\w+)'", states[1], re.MULTILINE) == [state.value for state in State]


def test_the_guard_and_the_code_know_the_same_final_states() -> None:
    """final_is_final speaks of exactly the states that nothing leaves."""
    guard = re.search(r"create trigger final_is_final.*?\)", KERNEL, re.DOTALL)
    assert guard is not None
    assert set(re.findall(r"'(\w+)'", guard[0])) == set(TERMINAL)


@pytest.mark.req("R038", "R110")
@given(st.lists(st.sampled_from(sorted(EDGES))))
def test_what_is_final_absorbs(walk: list[tuple[State, State]]) -> None:
    """Whatever path is tried, once a final state is reached no edge leads out of it."""
    at = State.QUEUED
    for was, became in walk:
        if was is at:
            assert not at.is_terminal
            at = became


def test_every_state_can_be_reached_and_left_or_is_final() -> None:
    """The machine has no island and no trap."""
    assert {became for _, became in EDGES} == set(State)
    assert {was for was, _ in EDGES} == set(State) - TERMINAL
    assert {was for was, became in EDGES if became is State.CANCELED} == set(State) - TERMINAL


@pytest.mark.req("R111", "R229")
@pytest.mark.parametrize(
    ("word", "state"),
    [("running", State.PROCESSING), ("succeeded", State.COMPLETED), *((s.value, s) for s in State)],
)
def test_older_names_are_read_as_the_new_ones(word: str, state: State) -> None:
    """`running` and `succeeded` are taken in and never given out."""
    assert read_state(word) is state


@pytest.mark.parametrize("word", ["", "done", "RUNNING", "in_progress"])
def test_no_other_word_is_a_state(word: str) -> None:
    """What is not a state is not guessed at."""
    with pytest.raises(ValueError, match="not a valid State"):
        read_state(word)


QUEUE = Queue("rewrite", "generate", Mode.BATCH, "openai", "default", "gpt")


def test_a_queues_key_is_the_same_everywhere() -> None:
    """The number is written into rows: it may not change with a release."""
    assert (QUEUE.key, Queue("review", "fetch", Mode.ASYNC).key) == (-1678279513, -2041998671)


@given(st.lists(st.text(max_size=4), min_size=6, max_size=6), st.integers(0, 5))
def test_a_queues_parts_do_not_run_into_each_other(parts: list[str], at: int) -> None:
    """Moving a letter from one part to the next is another queue."""
    parts[at] += "x"
    moved = list(parts)
    moved[at] = moved[at][:-1]
    moved[(at + 1) % 6] += "x"
    if moved != parts:
        assert Queue(*parts).key != Queue(*moved).key  # type: ignore[arg-type]  # any mode


HELD = Held(
    JobId(UUID(int=1)), Token(UUID(int=2)), State.PROCESSING, "plain", 0, HomeId(UUID(int=3)),
    "u", 1, 1, 0, 2, 0, "default", Mode.BATCH, None, {},
)  # fmt: skip


@pytest.mark.parametrize("failed", [0, 1, 4])
def test_the_first_try_is_number_one(failed: int) -> None:
    """The try that is going on is one more than those that failed."""
    assert replace(HELD, stage_attempts=failed).attempt == failed + 1


@pytest.mark.req("R296")
@pytest.mark.parametrize("error_class", FailureClass)
def test_every_failure_is_retried_or_buried(error_class: FailureClass) -> None:
    """There is no third way, and the class alone decides."""
    failure = Failure(error_class, "code")
    outcome = outcome_of(failure, ("a.py:1 in f",))
    assert isinstance(outcome, Retry) == failure.is_retryable
    if isinstance(outcome, Bury):
        assert outcome.frames == ("a.py:1 in f",)

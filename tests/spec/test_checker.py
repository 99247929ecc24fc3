"""The model checker itself: it finds what is broken, lost or stuck, by the shortest way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from spec.checker import Model, Step, check

Ways = dict[str, list[str]]


def graph(ways: Ways, *, faults: frozenset[str] = frozenset()) -> Model[str]:
    """A step to a state in `faults` is a fault; "x" is broken, "z" is the end."""

    def steps(state: str) -> Iterator[Step[str]]:
        for after in ways.get(state, []):
            yield Step(f"{state}{after}", after, after in faults)

    return Model("a", steps, {"broken": lambda state: state == "x"}, lambda state: state == "z")


def test_a_sound_model_holds_and_all_its_states_are_counted() -> None:
    """Every reachable state is visited once, loops or not."""
    verdict = check(graph({"a": ["b", "c"], "b": ["a", "z"], "c": ["b"], "d": ["x"]}))
    assert verdict.holds
    assert (verdict.states, verdict.trace) == (4, ())


def test_a_broken_state_is_reached_by_the_shortest_trace() -> None:
    """Of two ways to harm the shorter one is shown."""
    verdict = check(graph({"a": ["b", "c"], "b": ["d"], "c": ["x"], "d": ["x"], "x": ["z"]}))
    assert (verdict.broken, verdict.trace) == ("broken", ("ac", "cx"))


def test_a_broken_state_behind_a_fault_is_found() -> None:
    """Safety holds whatever strikes."""
    verdict = check(graph({"a": ["z", "f"], "f": ["x"]}, faults=frozenset("f")))
    assert verdict.broken == "broken"


@pytest.mark.parametrize(
    ("ways", "broken", "trace"),
    [
        ({"a": ["b", "z"]}, "stuck", ("ab",)),
        ({"a": ["b", "z"], "b": ["c"], "c": ["b"]}, "lost", ("ab",)),
        ({"a": ["z", "f"], "f": ["b"], "b": ["f"]}, "lost", ("af",)),
    ],
)
def test_a_state_that_cannot_settle_is_found(
    ways: Ways, broken: str, trace: tuple[str, ...]
) -> None:
    """Without a way on it is stuck; going round for ever it is lost."""
    verdict = check(graph(ways, faults=frozenset("f")))
    assert (verdict.broken, verdict.trace) == (broken, trace)


def test_nobody_may_count_on_a_fault() -> None:
    """A state that only a fault could free is stuck."""
    verdict = check(graph({"a": ["b", "z"], "b": ["f"], "f": ["z"]}, faults=frozenset("f")))
    assert verdict.broken == "stuck"

"""An explicit-state model checker: visits every reachable state and shows the shortest way to harm.

A model is a start, a function from a state to the steps that can come next, and properties. The
checker goes breadth first, so the trace to a broken state is as short as any. When no state is
broken, it asks of each one whether the model's own steps, without one more fault, can still
bring it to a settled state. If they always can, then every run that is fair ends there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)


class Step(NamedTuple, Generic[S]):
    """One thing that can happen. A fault may strike, but nobody may count on it."""

    label: str
    state: S
    is_fault: bool = False


@dataclass(frozen=True, slots=True)
class Model(Generic[S]):
    """A protocol and the world around it."""

    start: S
    steps: Callable[[S], Iterable[Step[S]]]
    never: Mapping[str, Callable[[S], bool]]  # what must hold in no state, by name
    is_settled: Callable[[S], bool]  # where a fair run may end


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found: the number of states, and the first broken property with its trace."""

    states: int
    broken: str | None
    trace: tuple[str, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every property holds in every state."""
        return self.broken is None


def check(model: Model[S]) -> Verdict:
    """Visit every reachable state, or stop at the first one that breaks a property.

    >>> def steps(n: int) -> list[Step[int]]:
    ...     return [Step("more", n + 1)] if n < 3 else []
    >>> found = check(Model(0, steps, {"two": lambda n: n == 2}, lambda n: n == 3))
    >>> found.broken, found.trace
    ('two', ('more', 'more'))
    """
    began = perf_counter()
    walk = _Walk(model)
    broken = walk.visit_all() or walk.find_lost()
    name, at = broken or (None, None)
    trace = () if at is None else walk.trace(at)
    return Verdict(len(walk.came_from), name, trace, perf_counter() - began)


class _Walk(Generic[S]):
    def __init__(self, model: Model[S]) -> None:
        self.model = model
        self.came_from: dict[S, tuple[S, str] | None] = {model.start: None}
        self.before: dict[S, list[S]] = {}  # over the model's own steps only

    def visit_all(self) -> tuple[str, S] | None:
        waiting = deque([self.model.start])
        while waiting:
            state = waiting.popleft()
            for name, is_broken in self.model.never.items():
                if is_broken(state):
                    return name, state
            waiting.extend(self._new_after(state))
        return None

    def _new_after(self, state: S) -> Iterable[S]:
        for label, after, is_fault in self.model.steps(state):
            if not is_fault:
                self.before.setdefault(after, []).append(state)
            if after not in self.came_from:
                self.came_from[after] = state, label
                yield after

    def find_lost(self) -> tuple[str, S] | None:
        safe = {state for state in self.came_from if self.model.is_settled(state)}
        waiting = list(safe)
        while waiting:
            earlier = [state for state in self.before.get(waiting.pop(), ()) if state not in safe]
            safe.update(earlier)
            waiting.extend(earlier)
        lost = next((state for state in self.came_from if state not in safe), None)
        if lost is None:
            return None
        moves = any(not step.is_fault for step in self.model.steps(lost))
        return ("lost" if moves else "stuck"), lost

    def trace(self, state: S) -> tuple[str, ...]:
        labels = list[str]()
        while (way := self.came_from[state]) is not None:
            state, label = way
            labels.append(label)
        return tuple(reversed(labels))

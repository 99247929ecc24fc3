"""When to try again: a fixed table for a rewrite's job, full jitter for a review's stage."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

RETRY_AFTER_CEILING_S = 300.0
MAX_FREE_REQUEUES = 3


@dataclass(frozen=True, slots=True)
class Table:
    """The wait after the n-th failed attempt, read from a table; the last entry repeats.

    >>> Table((900, 7200)).delay_s(1), Table((900, 7200)).delay_s(5)
    (900.0, 7200.0)
    """

    seconds: tuple[float, ...]

    def delay_s(self, attempt: int, retry_after_s: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt`, at least what was asked for."""
        step = self.seconds[min(attempt, len(self.seconds)) - 1]
        return max(float(step), _capped(retry_after_s))


@dataclass(frozen=True, slots=True)
class FullJitter:
    """A random wait below a bound that doubles: random(0, min(max, initial * multiplier^(n-1))).

    >>> FullJitter(rng=lambda: 1.0).delay_s(3)
    4.0
    """

    initial_s: float = 1.0
    multiplier: float = 2.0
    max_s: float = 60.0
    rng: Callable[[], float] = random.random

    def bound_s(self, attempt: int) -> float:
        """The longest wait after failed attempt number `attempt`."""
        steps = min(attempt - 1, 64)
        return min(self.max_s, self.initial_s * self.multiplier**steps)

    def delay_s(self, attempt: int, retry_after_s: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt`; drawn anew for each attempt."""
        return max(self.rng() * self.bound_s(attempt), _capped(retry_after_s))


RetryPolicy: TypeAlias = Table | FullJitter


def _capped(retry_after_s: float | None) -> float:
    return min(retry_after_s or 0.0, RETRY_AFTER_CEILING_S)

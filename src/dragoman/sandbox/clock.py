"""The sandbox's own time: real time, times a factor, plus what a test adds."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """What a clock showed, when that was in real time, and how fast it ran."""

    now: float
    taken_at: float
    speed: float


class Clock:
    """Unix seconds that run `speed` times as fast as they should.

    >>> clock = Clock()
    >>> before = clock.now()
    >>> clock.advance(3600)
    >>> clock.now() - before >= 3600
    True
    """

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._started = time.time()
        self._origin = time.monotonic()
        self.added = 0.0

    def now(self) -> float:
        """The time here."""
        return self._started + (time.monotonic() - self._origin) * self._speed + self.added

    def advance(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self.added += seconds

    def reading(self) -> Reading:
        """Enough to go on from here in another process."""
        return Reading(self.now(), time.time(), self._speed)

    def resume(self, last: Reading) -> None:
        """Go on after a restart: the time while it was down counts, at the speed that it had."""
        away_s = max(0.0, time.time() - last.taken_at)
        self._started = last.now + away_s * last.speed
        self._origin = time.monotonic()
        self.added = 0.0

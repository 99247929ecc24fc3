"""The sandbox's own time: real time, times a factor, plus what a test adds."""

from __future__ import annotations

import time


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
        self._added = 0.0

    def now(self) -> float:
        """The time here."""
        return self._started + (time.monotonic() - self._origin) * self._speed + self._added

    def advance(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._added += seconds

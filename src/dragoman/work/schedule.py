"""Scheduled roles: they run once per tick, and whoever takes a tick in the database has it."""

from __future__ import annotations

from abc import abstractmethod

from dragoman.store import schedules
from dragoman.work.loop import Loop, Station


class Scheduled(Loop):
    """A role with a tick. What a run leaves over waits for the next one, and that is normal."""

    is_scheduled = True

    def __init__(self, station: Station) -> None:
        super().__init__(station)
        self._is_known = False

    @property
    @abstractmethod
    def tick_s(self) -> float:
        """The profile's pace, which holds until an operator sets another."""

    @property
    def every_s(self) -> float:
        """How often it looks whether its tick has come, or a run was asked for."""
        return self.station.profile.idle_s

    async def turn(self) -> int:
        """Run if this process takes the tick; 0 in any case, so that it looks again later."""
        cell = self.station.cell
        self.station.line.fence()  # a process that must not act leaves the tick to another
        if not self._is_known:
            await schedules.know_schedule(cell, self.role, self.tick_s)
            self._is_known = True
        if await schedules.take_tick(cell, self.role):
            await self.run_once()
        return 0

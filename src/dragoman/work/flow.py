"""Jobs on their way through one process: claimed, run a few at a time, finished together.

While one batch is finished the next is already claimed, and neither waits for a slow neighbour.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dragoman.core import ports
from dragoman.core.job import Defer, Held, Outcome, Reason
from dragoman.work.finish import Finished

_QUICK_S, _SLOW_S = 0.5, 2.0
_TURN_S = 0.02
Task: TypeAlias = asyncio.Task[Any]  # Any: what is waited for has no value of interest


@dataclass(slots=True)
class Flow:
    """What one process does with the jobs of one kind.

    `slots` jobs run at once; where they are quick, more are held: a moment's work, at most `most`.
    """

    claim: Callable[[int], Awaitable[Sequence[Held]]]
    run: Callable[[Held], Awaitable[Outcome | None]]
    finish: Callable[[Sequence[Finished]], Awaitable[object]]
    slots: int
    most: int
    again_s: float = float("inf")  # when a queue that was empty is looked at again
    size: int = field(init=False)
    todo: deque[Held] = field(default_factory=deque[Held])
    done: list[Finished] = field(default_factory=list[Finished])
    runners: set[Task] = field(default_factory=set[Task])
    claiming: Task | None = None
    finishing: Task | None = None
    asked_at: float = float("-inf")
    is_empty: bool = False
    has_brought: bool = False  # whether the last claim found anything
    count: int = 0

    def __post_init__(self) -> None:
        self.size = self.slots

    def step(self, *, is_stopping: bool) -> set[Task]:
        """Start what can be started; what is going on comes back, and nothing when all is done."""
        self._reap()
        if is_stopping:
            self.done += [Finished(job, Defer(Reason.SHUTDOWN)) for job in self.todo]
            self.todo.clear()
        for _ in range(min(self.slots - len(self.runners), len(self.todo))):
            self.runners.add(asyncio.create_task(self._run()))
        self._start_finish()
        if not is_stopping and self.claiming is None and (room := self._room()):
            self.claiming = asyncio.create_task(self._claim(room))
        return self.going_on

    @property
    def goes_on(self) -> bool:
        """Whether an empty queue is looked at again at all."""
        return self.again_s < float("inf")

    @property
    def going_on(self) -> set[Task]:
        """What somebody may wait for."""
        return {*self.runners, *(each for each in (self.claiming, self.finishing) if each)}

    def look_again(self) -> None:
        """Somebody says that there is work."""
        self.is_empty = False

    def interrupt(self) -> None:
        """Let nothing run any longer."""
        for runner in self.runners:
            runner.cancel()

    def _reap(self) -> None:
        """Errors of what has ended come out here."""
        for runner in [each for each in self.runners if each.done()]:
            self.runners.discard(runner)
            if self.has_brought and self.goes_on:
                self.is_empty = False  # a gate may have been full, and have room again
            if not runner.cancelled():  # cut between two jobs, it has handed over what it did
                runner.result()
        if self.finishing and self.finishing.done():
            self.finishing, ended = None, self.finishing
            ended.result()
        if self.claiming and self.claiming.done():
            self.claiming, ended = None, self.claiming
            self.todo.extend(ended.result())

    def _room(self) -> int:
        """How many jobs to claim now: none rather than a few, as long as there is enough to do."""
        if self.is_empty and ports.monotonic() - self.asked_at < self.again_s:
            return 0
        if len(self.done) > 2 * self.size:
            return 0
        # Runners that have just been started have not yet taken theirs: that is less than nothing.
        room = max(self.size - len(self.todo) - len(self.runners), 0)
        return room if self.size <= self.slots or room * 2 > self.size else 0

    async def _claim(self, room: int) -> Sequence[Held]:
        now = ports.monotonic()
        since, self.asked_at = now - self.asked_at, now
        held = await self.claim(room)
        self.is_empty, self.has_brought = len(held) < room, bool(held)
        if since < _QUICK_S and not self.is_empty:
            self.size = min(self.size * 8, self.most)
        elif since > _SLOW_S:
            self.size = max(self.size // 2, self.slots)
        return held

    async def _run(self) -> None:
        """One of the few that run jobs, one after the other; others get a turn between two."""
        since = ports.monotonic()
        while self.todo:
            job = self.todo.popleft()
            outcome = await self.run(job)
            self.count += 1
            if outcome is not None:
                self.done.append(Finished(job, outcome))
            if ports.monotonic() - since > _TURN_S:
                self._start_finish()
                await asyncio.sleep(0)  # noqa: TID251 - a turn, not a wait
                since = ports.monotonic()

    def _start_finish(self) -> None:
        if self.done and self.finishing is None:
            self.finishing = asyncio.create_task(self._finish())

    async def _finish(self) -> None:
        finished, self.done = self.done[: self.most], self.done[self.most :]
        await self.finish(finished)

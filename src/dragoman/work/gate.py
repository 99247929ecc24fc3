"""Gates at work: how much may be claimed, whether a call may pass, and what failures teach."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from dragoman.core.call import Reply
from dragoman.core.errors import DatabaseError, TryAgain
from dragoman.core.failure import Failure
from dragoman.core.gate import Gate, Pause, closing_of, failures_of
from dragoman.core.ids import uuid7
from dragoman.core.job import Held, Mode
from dragoman.store import gates
from dragoman.store.database import Cell, OpenQueue
from dragoman.store.gates import GateNow, Permit

UNBOUNDED = 1_000_000
_BUSY_S = 1.0


class Gates:
    """The gates as one worker process sees them; what is shared stands in the database.

    >>> gates = Gates(cell, worker)  # doctest: +SKIP
    >>> async with gates.permit(gate, requests=1, tokens=2_000) as permit:  # doctest: +SKIP
    ...     reply = await call() if permit.may_pass else None
    """

    def __init__(self, cell: Cell, worker: UUID) -> None:
        self.cell = cell
        self.worker = worker
        self._over: set[UUID] = set()

    async def look(self, queues: Sequence[OpenQueue]) -> dict[int, GateNow]:
        """The gates of these queues by the queue's key; one without a row has no bound."""
        keys = {queue.key: gate_of_queue(queue).key for queue in queues if queue.provider}
        if not keys:
            return {}
        found = await gates.read_gates(self.cell, sorted(set(keys.values())))
        now = {each.key: each for each in found}
        return {queue: now[gate] for queue, gate in keys.items() if gate in now}

    async def at(self, gate: Gate) -> GateNow | None:
        """One gate as it stands now."""
        return next(iter(await gates.read_gates(self.cell, [gate.key])), None)

    async def rooms(self, queues: Sequence[OpenQueue]) -> dict[int, int]:
        """How many jobs of each queue may be claimed now; what is closed or full is not there."""
        await self._give_back()
        now = await self.look(queues)
        rooms = {queue.key: room(now.get(queue.key), Mode(queue.mode)) for queue in queues}
        return {key: most for key, most in rooms.items() if most > 0}

    @asynccontextmanager
    async def permit(self, gate: Gate, requests: int, tokens: int) -> AsyncGenerator[Permit]:
        """Hold a place in a gate for as long as the block runs; ask the permit before the call."""
        taken, is_counted = uuid7(), True  # until it is known that nothing was taken
        try:
            permit = await self._take(gate, taken, requests, tokens)
            is_counted = permit.is_counted
            yield permit
        finally:
            if is_counted:
                self._over.add(taken)
                await self._give_back()

    async def learn(self, gate: Gate, failure: Failure) -> Counter[str]:
        """Close the gate if the failure asks for it; counts it if a limit was met."""
        closing = closing_of(failure)
        if closing is None:
            return Counter()
        with suppress(TryAgain):  # a paid reply is worth more than a lesson
            await gates.pause_gate(self.cell, self.worker, gate, closing, failure)
        return Counter(rate_limited=1) if closing.is_limit else Counter()

    async def learn_from(self, gate: Gate, replies: Sequence[Reply]) -> bool:
        """The same of the failures in replies, each reason once; whether there were any."""
        failures = failures_of(replies)
        for failure in failures:
            await self.learn(gate, failure)
        return bool(failures)

    async def throttled(self, of: Sequence[Gate]) -> set[Gate]:
        """Those of these gates that are closed because the provider said: not so fast."""
        now = await gates.read_gates(self.cell, sorted({gate.key for gate in of}))
        return {each.gate for each in now if each.pause_reason == Pause.THROTTLED}

    async def _take(self, gate: Gate, permit: UUID, requests: int, tokens: int) -> Permit:
        try:
            return await gates.take_permit(self.cell, gate, permit, self.worker, requests, tokens)
        except TryAgain:  # everybody wants this gate: that is no reason to lose a lease
            return Permit("busy", _BUSY_S)

    async def _give_back(self) -> None:
        """Best effort: what cannot be given back now is tried again before the next claim."""
        over = list(self._over)
        if over:
            with suppress(DatabaseError):
                await gates.release_permits(self.cell, over)
                self._over.difference_update(over)


def gate_of_queue(queue: OpenQueue) -> Gate:
    """The gate behind a queue."""
    return Gate(queue.provider, queue.account, queue.model)


def gate_of(job: Held) -> Gate:
    """The gate that a job's calls go through."""
    return Gate(str(job.routing["provider"]), job.account, str(job.routing["model"]))


def room(now: GateNow | None, mode: Mode) -> int:
    """How many jobs a gate lets be claimed: in batch mode as many as there are, while it is open.

    >>> room(None, Mode.ASYNC) == UNBOUNDED
    True
    """
    if now is None:
        return UNBOUNDED
    if now.pause_reason is not None:
        return 0
    if mode is Mode.BATCH:
        is_full = now.batch_tokens is not None and now.tokens_in_batches >= now.batch_tokens
        return 0 if is_full else UNBOUNDED
    if now.tokens_left is not None and now.tokens_left <= 0:
        return 0
    free = UNBOUNDED if now.max_in_flight is None else now.max_in_flight - now.in_flight
    return max(0, min(free, UNBOUNDED if now.requests_left is None else int(now.requests_left)))


def claims(rooms: Mapping[int, int], most: int) -> list[tuple[list[int], int]]:
    """Which queues to claim from together, and how many: scarce gates first, one by one.

    >>> claims({1: 9, 2: 2, 3: 9}, 4)
    [([2], 2), ([1, 3], 4)]
    """
    scarce = [([key], free) for key, free in rooms.items() if free < most]
    wide = [key for key, free in rooms.items() if free >= most]
    return [*scarce, (wide, most)] if wide else scarce


def closed(now: GateNow) -> str:
    """A gate that lets nothing pass, in a few words."""
    if now.pause_reason is not None:
        return f"gate {now.gate.name} is paused ({now.pause_reason})"
    return f"gate {now.gate.name} is full"

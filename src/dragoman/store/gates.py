"""Gates and the calls in flight through them: one function per statement.

A gate is counted under its own lock. The lock is a statement by itself: what the next one counts
includes everything that was committed while it waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import canonical
from dragoman.core.errors import Invariant
from dragoman.core.failure import Failure
from dragoman.core.gate import Closing, Gate, Pause
from dragoman.core.ids import uuid7
from dragoman.store.changes import record_change
from dragoman.store.database import Cell, Tx

ALERT = "gate_paused"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a gate holds; None is no bound."""

    max_in_flight: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    batch_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class GateNow:
    """A gate as it stands. Closed without a time means: until somebody opens it."""

    key: int
    provider: str
    account: str
    model: str
    max_in_flight: int | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    batch_tokens: int | None
    pause_reason: str | None
    pause_note: str | None
    paused_until: datetime | None
    in_flight: int
    requests_left: float | None
    tokens_left: float | None
    tokens_in_batches: int

    @property
    def gate(self) -> Gate:
        """Its name."""
        return Gate(self.provider, self.account, self.model)

    @property
    def limits(self) -> Limits:
        """What it holds."""
        return Limits(
            self.max_in_flight, self.requests_per_minute, self.tokens_per_minute, self.batch_tokens
        )


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a call may be made now; if not, why, and after how many seconds to ask again."""

    why: str | None = None
    delay_s: float = 0.0
    is_counted: bool = False

    @property
    def may_pass(self) -> bool:
        """Whether it may."""
        return self.why is None


async def take_permit(
    cell: Cell, gate: Gate, permit: UUID, worker: UUID, requests: int, tokens: int
) -> Permit:
    """Take a permit, or learn why not. A gate without a row lets everybody pass, uncounted."""
    async with cell.transaction("take_permit") as tx:
        if not await _lock(tx, gate):
            return Permit()
        [(why, delay_s)] = await tx.tuples(
            "gate/take_permit",
            key=gate.key,
            id=permit,
            worker=worker,
            requests=requests,
            tokens=tokens,
        )
        return Permit(why, delay_s) if why else Permit(is_counted=True)


async def release_permits(cell: Cell, permits: Sequence[UUID]) -> int:
    """Give permits back; how many there were."""
    async with cell.at_once("release_permits") as tx:
        return await tx.count("gate/release_permits", ids=list(permits))


async def drop_permits(cell: Cell) -> int:
    """Forget the permits of workers that are gone."""
    async with cell.at_once("drop_permits") as tx:
        return await tx.count("gate/drop_permits")


async def pause_gate(
    cell: Cell, actor: UUID, gate: Gate, closing: Closing, failure: Failure
) -> bool:
    """Close a gate for a while because of what a call met; one change and one alert per pause."""
    async with cell.transaction("pause_gate") as tx:
        await _know(tx, gate)
        if not await _pause(tx, gate, closing.why, closing.seconds):
            return False
        facts = {"reason": closing.why.value, "seconds": int(closing.seconds), **failure.facts()}
        await record_change(tx, actor, "pause", f"gate {gate.name}", {**facts})
        if closing.needs_somebody:
            await tx.run(
                "alert/raise_alert",
                id=uuid7(),
                kind=ALERT,
                subject=gate.name,
                severity="act",
                facts=canonical({**facts}).decode(),
            )
        return True


async def hold_gate(cell: Cell, actor: UUID, gate: Gate, note: str) -> bool:
    """Close a gate until somebody opens it; False if it was closed like that already."""
    async with cell.transaction("hold_gate") as tx:
        await _know(tx, gate)
        is_new = await _pause(tx, gate, Pause.OPERATOR, None, note)
        if is_new:
            facts = {"reason": Pause.OPERATOR.value, "note": note}
            await record_change(tx, actor, "pause", f"gate {gate.name}", {**facts})
        return is_new


async def open_gate(cell: Cell, actor: UUID, gate: Gate) -> str | None:
    """Open a gate and close its alert; why it was closed, or None if it was open."""
    async with cell.transaction("open_gate") as tx:
        if not await _lock(tx, gate):
            return None
        rows = await tx.tuples("gate/open_gate", key=gate.key)
        await tx.run("alert/close_alert", kind=ALERT, subject=gate.name)
        if not rows:
            return None
        await record_change(tx, actor, "open", f"gate {gate.name}", {"reason": rows[0][0]})
        return str(rows[0][0])


async def set_limits(cell: Cell, actor: UUID, gate: Gate, **changed: int | None) -> Limits:
    """Say what a gate holds; what is not named stays as it is."""
    async with cell.transaction("set_limits") as tx:
        await _know(tx, gate)
        [now] = await tx.fetch(GateNow, "gate/read_gates", keys=[gate.key])
        limits = replace(now.limits, **changed)
        await tx.run("gate/set_limits", key=gate.key, **asdict(limits))
        await record_change(tx, actor, "set", f"gate {gate.name}", {**asdict(limits)})
        return limits


async def has_batch_room(tx: Tx, gate: Gate, size: int) -> bool:
    """Whether a batch of so many bytes may go out; the gate stays locked until the caller commits.

    A batch that is larger than the gate passes alone, or it would never pass.
    """
    if not await _lock(tx, gate):
        return True
    [now] = await tx.fetch(GateNow, "gate/read_gates", keys=[gate.key])
    if now.batch_tokens is None or not now.tokens_in_batches:
        return True
    return now.tokens_in_batches + size // 4 <= now.batch_tokens


async def read_gates(cell: Cell, keys: Sequence[int]) -> list[GateNow]:
    """Of these gates, those that have a row."""
    return await cell.fetch(GateNow, "gate/read_gates", keys=list(keys))


async def list_gates(cell: Cell) -> list[GateNow]:
    """Every gate that has a row, by name."""
    return await cell.fetch(GateNow, "gate/list_gates")


async def known_names(cell: Cell) -> list[Gate]:
    """Every gate that work has gone through or will go through."""
    return await cell.fetch(Gate, "gate/known_names")


async def calm_gates(cell: Cell, calm_s: float) -> int:
    """Close the alerts of gates that have been open for a while since their pause ended."""
    async with cell.at_once("calm_gates") as tx:
        return await tx.count("gate/calm_gates", kind=ALERT, calm_s=calm_s)


async def _lock(tx: Tx, gate: Gate) -> bool:
    return bool(await tx.tuples("gate/lock_gate", key=gate.key, **asdict(gate)))


async def _know(tx: Tx, gate: Gate) -> None:
    """Make a gate known, and lock it."""
    await tx.run("gate/know_gate", key=gate.key, **asdict(gate))
    if not await _lock(tx, gate):
        raise Invariant("two gates share a key")


async def _pause(
    tx: Tx, gate: Gate, why: Pause, pause_s: float | None, note: str | None = None
) -> bool:
    rows = await tx.tuples(
        "gate/pause_gate", key=gate.key, reason=why.value, pause_s=pause_s, note=note
    )
    return bool(rows and rows[0][0])

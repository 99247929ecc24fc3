"""An operator with nothing but the operator's role, and reviews that failed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dragoman.core.gate import Gate
from dragoman.core.remedy import needed
from dragoman.store import dead_letters, workers
from dragoman.store.database import Cell
from dragoman.store.dead_letters import Letter
from dragoman.store.gates import open_gate
from dragoman.work.replay import Replayed, replay
from tests import stand
from tests.reviews import Desk, tell

FIXED = {
    "correction": "mailbox made",
    "rotated": "a key",
    "recovery": "the status page is green",
    "capacity": "40 of 100",
    "release": "1.2.3",
    "staging": "run 7",
    "metadata": "the new path",
}
NO_SUCH_PERSON = {
    "at": "rcpt",
    "do": "reply",
    "code": 550,
    "recipient": "ann@team.example",
}


@dataclass
class Operator:
    """Somebody with the operator's role, and no other."""

    cell: Cell
    id: UUID

    async def ready(self, job: UUID, category: str, sign_off: str | None = None) -> Letter:
        """A letter with everything that a replay needs."""
        letter = await dead_letters.triage(self.cell, self.id, job, category, sign_off)
        fields = needed(letter.failure_class, category)[:-1]  # type: ignore[arg-type]  # a word
        told = {name: FIXED[name] for name in fields}
        return await dead_letters.remediate(self.cell, self.id, job, "OPS-7", told)

    async def replay(self, job: UUID, **how: Any) -> Replayed:
        """Its replay."""
        return await replay(self.cell, self.id, job, **{"is_safe_twice": True, **how})

    async def resolve(self, job: UUID, notes: str = "fixed") -> Letter:
        """Its end."""
        return await dead_letters.resolve(self.cell, self.id, job, notes)

    async def escalate(self, job: UUID) -> Letter:
        """It is engineering's now."""
        return await dead_letters.escalate(self.cell, self.id, job, "beyond us")


@asynccontextmanager
async def operator_of(database: str) -> AsyncGenerator[Operator]:
    """A connection of the operator's own."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "operator", "test")
        yield Operator(cell, actor)


Act = Callable[[Desk, Operator], Awaitable[None]]


def play(act: Act, **how: Any) -> None:
    """Run a story with a desk and an operator."""

    async def story(desk: Desk) -> None:
        async with operator_of(desk.database) as operator:
            await act(desk, operator)
        assert desk.faults_found() == []

    tell(story, **how)


async def unreachable(desk: Desk) -> UUID:
    """A review that failed at notify: Bob was told, Ann has no mailbox yet."""
    desk.mail.fault(NO_SUCH_PERSON)
    job = await desk.outbox()
    await desk.relay.run_once()
    await desk.work()
    assert desk.state(job) == "failed"
    return job


async def failed_at_llm(desk: Desk, status: int = 403) -> UUID:
    """A review whose diff is there, and whose model said no."""
    job = (await desk.enqueue()).job_id
    await desk.work()
    desk.sandbox.fault({"on": "response", "do": "status", "status": status})
    await desk.work()
    assert desk.state(job) == "failed"
    return job


async def mend(desk: Desk, operator: Operator) -> None:
    """The provider takes our key again, and the gate is open."""
    desk.sandbox.clear_faults()
    await open_gate(operator.cell, operator.id, Gate("sandbox", "default", "sandbox-large"))


def mails(desk: Desk) -> list[str]:
    """Who got mail."""
    return [str(row["recipient"]) for row in desk.mail.ledger()]

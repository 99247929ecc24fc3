"""Messages of which nobody knows whether they arrived, as the operator sees and settles them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import canonical
from dragoman.core.ids import DeliveryId, HomeId, JobId, Token, uuid7
from dragoman.core.job import Kind, Reason
from dragoman.store.changes import record_change
from dragoman.store.database import Cell
from dragoman.store.deliveries import FAILED, UNKNOWN, VIOLATED
from dragoman.store.jobs import facts, wake_jobs


@dataclass(frozen=True, slots=True)
class Doubt:
    """A message in doubt, without its recipient and its words."""

    id: DeliveryId
    token: Token | None
    job_id: JobId
    home_id: HomeId
    state: str
    review_version: int
    channel: str
    guarantee: str
    key: str
    attempt_count: int
    doubted_at: datetime
    asked_at: datetime | None
    code: str | None
    may_arrive: bool  # a send of it is still on its way
    needs_a_person: bool  # its target can neither be trusted with its key nor told us


async def list_doubts(cell: Cell, most: int = 100) -> list[Doubt]:
    """The messages in doubt, the longest in doubt first."""
    return await cell.fetch(Doubt, "delivery/list_doubts", most=most)


async def read_doubt(cell: Cell, id_: UUID) -> Doubt | None:
    """One of them; None when there is no doubt about it."""
    found = await cell.fetch(Doubt, "delivery/read_doubt", id=id_)
    return found[0] if found else None


async def resolve_doubt(
    cell: Cell, actor: UUID, one: Doubt, evidence: str, *, has_arrived: bool
) -> bool:
    """Write down what a person found out: it arrived, or it may be sent once more.

    The word and its evidence enter the job's chain under the person's name, the alerts about the
    message are closed, and the job that waits for it looks again. False when it was settled
    meanwhile.
    """
    verdict = "sent" if has_arrived else "not_sent"
    async with cell.transaction("resolve_doubt") as tx:
        rows = await tx.tuples(
            "delivery/resolve_doubt",
            id=one.id,
            token=one.token,
            fresh=uuid7(),
            has_arrived=has_arrived,
            evidence_id=evidence,
            evidence=canonical({"told_by": "operator"}).decode(),
            kind=Kind.RECONCILED,
            reason=Reason.ASKED_BY_OPERATOR,
            actor=actor,
            facts=facts(
                key=one.key[:32],
                version=one.review_version,
                attempt=one.attempt_count,
                verdict=verdict,
                evidence=evidence,
            ),
        )
        if rows:
            await tx.run("alert/close_about", subject=str(one.id), kinds=[UNKNOWN, VIOLATED])
            await wake_jobs(tx, [JobId(row[0]) for row in rows], Reason.AWAITING_DELIVERIES)
        return bool(rows)


async def close_seen(cell: Cell, actor: UUID, id_: UUID) -> bool:
    """Close the alerts about a message that say what has happened, and write down who saw them.

    An alert that asks a person to find something out stays until somebody has.
    """
    async with cell.transaction("close_seen") as tx:
        rows = await tx.tuples("alert/close_about", subject=str(id_), kinds=[FAILED, VIOLATED])
        if rows:
            await record_change(tx, actor, "seen", f"delivery {id_}")
        return bool(rows)

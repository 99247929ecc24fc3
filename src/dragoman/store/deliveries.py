"""The outbox: one function per statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import DeliveryId, HomeId, JobId, Token, uuid7
from dragoman.core.job import Kind, Reason
from dragoman.store.database import Cell, Tx
from dragoman.store.jobs import facts, wake_jobs

FAILED = "delivery_failed"  # it will not arrive
UNKNOWN = "delivery_unknown"  # a person must find out whether it arrived
VIOLATED = "delivery_order_violated"  # something else than a send has marked it


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as its sender knows it."""

    id: DeliveryId
    token: Token
    job_id: JobId
    home_id: HomeId
    state: str
    changelist_id: str
    recipient: str
    review_version: int
    channel: str
    guarantee: str
    key: str
    payload: bytes
    payload_sha256: bytes
    attempt_count: int
    max_attempts: int
    notification_id: str | None
    notified_at: datetime | None
    first_started_at: datetime | None
    doubted_at: datetime | None
    asked_at: datetime | None
    may_repeat: bool  # the target still knows the key, if it ever honoured one

    def facts(self, **more: object) -> bytes:
        """What an event says about it: the tuple's hash and numbers, never the address."""
        return facts(
            key=self.key[:32], version=self.review_version, attempt=self.attempt_count, **more
        )


@dataclass(frozen=True, slots=True)
class StateCount:
    """How many messages of a version stand in one state."""

    state: str
    n: int
    told: int


async def claim_deliveries(
    cell: Cell, worker: UUID, channels: Sequence[str], most: int
) -> list[Delivery]:
    """Take messages that are due and held by nobody alive."""
    async with cell.transaction("claim_deliveries") as tx:
        return await tx.fetch(
            Delivery,
            "delivery/claim_deliveries",
            worker=worker,
            token=uuid7(),
            channels=list(channels),
            most=most,
        )


async def start_sending(
    cell: Cell, actor: UUID, one: Delivery, deadline_s: float, key_window_s: float | None = None
) -> bool:
    """Commit that the message may arrive from now on; False when it was told already or lost.

    The first start decides until when a repeat may start: early enough to arrive while the target
    still knows the key.
    """
    async with cell.transaction("start_sending") as tx:
        rows = await tx.tuples(
            "delivery/start_sending",
            id=one.id,
            token=one.token,
            deadline_s=deadline_s,
            repeat_s=None if key_window_s is None else key_window_s - deadline_s,
            kind=Kind.SENDING,
            actor=actor,
            facts=facts(
                key=one.key[:32], version=one.review_version, attempt=one.attempt_count + 1
            ),
        )
        return bool(rows)


async def record_sent(
    cell: Cell,
    actor: UUID,
    one: Delivery,
    evidence_id: str,
    evidence: JSONObject,
    reason: Reason = Reason.NONE,
) -> bool:
    """Mark with the evidence, in one write, and wake the job that waits for it.

    Whoever was asked to look at a doubt need not look any more.
    """
    is_reconciled = one.state == "reconciling"
    async with cell.transaction("record_sent") as tx:
        rows = await tx.tuples(
            "delivery/record_sent",
            id=one.id,
            token=one.token,
            evidence_id=evidence_id,
            evidence=canonical(evidence).decode(),
            is_reconciled=is_reconciled,
            kind=Kind.RECONCILED if is_reconciled else Kind.SENT,
            reason=reason,
            actor=actor,
            facts=one.facts(),
        )
        if any(was_doubtful for _, was_doubtful in rows):
            await tx.run("alert/close_about", subject=str(one.id), kinds=[UNKNOWN])
        await wake_jobs(tx, [JobId(row[0]) for row in rows], Reason.AWAITING_DELIVERIES)
        return bool(rows)


async def record_unsent(
    cell: Cell,
    actor: UUID,
    one: Delivery,
    failure: Failure,
    *,
    delay_s: float | None,
    reason: Reason = Reason.FAILURE,
) -> bool:
    """A message that did not arrive waits for its next try, or has failed without a `delay_s`.

    Only proof that it never arrived ends a doubt; the same key again does not.
    """
    became, kind = (
        ("queued", Kind.SEND_RETRIED) if delay_s is not None else ("failed", Kind.SEND_FAILED)
    )
    async with cell.transaction("record_unsent") as tx:
        rows = await tx.tuples(
            "delivery/record_unsent",
            id=one.id,
            token=one.token,
            became=became,
            delay_s=delay_s,
            is_proof=reason is Reason.PROVABLY_ABSENT,
            failure=canonical(failure.facts()).decode(),
            kind=kind,
            reason=reason,
            actor=actor,
            facts=one.facts(**failure.facts()),
        )
        if rows and became == "failed":
            await _alert(tx, one, FAILED, failure.code)
            await wake_jobs(tx, [JobId(row[0]) for row in rows], Reason.AWAITING_DELIVERIES)
        if rows and reason is Reason.PROVABLY_ABSENT:
            await tx.run("alert/close_about", subject=str(one.id), kinds=[UNKNOWN])
        return bool(rows)


async def record_doubt(cell: Cell, actor: UUID, one: Delivery, failure: Failure) -> bool:
    """Nobody knows whether the message arrived; a person is told if nothing else can find out."""
    async with cell.transaction("record_delivery_doubt") as tx:
        rows = await tx.tuples(
            "delivery/record_doubt",
            id=one.id,
            token=one.token,
            failure=canonical(failure.facts()).decode(),
            kind=Kind.SEND_UNKNOWN,
            reason=Reason.FAILURE,
            actor=actor,
            facts=one.facts(**failure.facts()),
        )
        if rows and one.guarantee == "neither":
            await _alert(tx, one, UNKNOWN, failure.code)
        return bool(rows)


async def find_unproved(cell: Cell, most: int = 100) -> list[Delivery]:
    """Messages that nobody may send before somebody has looked."""
    return await cell.fetch(Delivery, "delivery/find_unproved", most=most)


async def start_reconciling(cell: Cell, actor: UUID, one: Delivery) -> bool:
    """Stop such a message until its target or a person has told; a person is told at once.

    Send first, then mark, in one write: a mark without proof and half a mark come from elsewhere.
    """
    kind, code = VIOLATED, "marked_without_evidence"
    if one.notified_at is None:
        code = "evidence_without_mark"
    if one.notified_at is None and one.notification_id is None:
        kind, code = UNKNOWN, "key_has_ended"
    failure = Failure(FailureClass.NOT_EXECUTED, code)
    async with cell.transaction("start_reconciling") as tx:
        rows = await tx.tuples(
            "delivery/start_reconciling",
            id=one.id,
            token=one.token,
            fresh=uuid7(),
            state=one.state,
            notified_at=one.notified_at,
            failure=canonical(failure.facts()).decode(),
            kind=Kind.SEND_UNKNOWN,
            reason=Reason.FAILURE,
            actor=actor,
            facts=one.facts(**failure.facts()),
        )
        if rows:
            await _alert(tx, one, kind, code)
        return bool(rows)


async def find_restored(cell: Cell, most: int = 100) -> list[Delivery]:
    """Messages that a restore calls unsent and that may have been sent since the backup."""
    return await cell.fetch(Delivery, "delivery/find_restored", most=most)


async def doubt_restored(cell: Cell, actor: UUID, one: Delivery) -> bool:
    """Put such a message in doubt: a target that can be asked is asked, a person decides else."""
    failure = Failure(FailureClass.NOT_EXECUTED, "restored")
    async with cell.transaction("doubt_restored_delivery") as tx:
        rows = await tx.tuples(
            "delivery/doubt_restored",
            id=one.id,
            token=one.token,
            fresh=uuid7(),
            state=one.state,
            failure=canonical(failure.facts()).decode(),
            kind=Kind.SEND_UNKNOWN,
            reason=Reason.FAILURE,
            actor=actor,
            facts=one.facts(**failure.facts()),
        )
        if rows and one.guarantee != "lookup":
            await _alert(tx, one, UNKNOWN, failure.code)
        return bool(rows)


async def _alert(tx: Tx, one: Delivery, kind: str, code: str) -> None:
    """Raised in the transaction of what it tells of: a crash leaves both or neither."""
    await tx.run(
        "alert/raise_alert",
        id=uuid7(),
        kind=kind,
        subject=str(one.id),
        severity="act",
        facts=facts(delivery_id=str(one.id), code=code).decode(),
    )


async def record_asked(cell: Cell, one: Delivery, *, needs_a_person: bool = False) -> bool:
    """The target was asked and could not tell, or there is none to be asked."""
    async with cell.transaction("record_delivery_asked") as tx:
        rows = await tx.tuples("delivery/record_asked", id=one.id, token=one.token)
        if rows and needs_a_person and one.asked_at is None:
            await _alert(tx, one, UNKNOWN, "nobody_to_ask")
        return bool(rows)


async def find_overdue(cell: Cell, slack_s: float, most: int = 100) -> list[Delivery]:
    """Messages on their way whose answer can no longer come."""
    return await cell.fetch(Delivery, "delivery/find_overdue", slack_s=slack_s, most=most)


async def find_doubtful(cell: Cell, settle_s: float, most: int = 100) -> list[Delivery]:
    """Doubtful messages that can be settled without a person."""
    return await cell.fetch(Delivery, "delivery/find_doubtful", settle_s=settle_s, most=most)


async def tell_states(cell: Cell, changelist_id: str, version: int) -> list[StateCount]:
    """How the messages of a version stand."""
    return await cell.fetch(
        StateCount, "delivery/tell_states", changelist_id=changelist_id, review_version=version
    )

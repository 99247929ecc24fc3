"""Dead letters, step by step: triaged, remediated, replayed, resolved, or escalated on the way.

Each step locks the letter, compares the state that it expects, and writes an event with its actor
on the chain of the job that failed. What a step needs is refused here in words, and once more by
the schema.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.errors import Conflict, NotFound, Refused
from dragoman.core.failure import FailureClass
from dragoman.core.ids import HomeId, JobId, uuid7
from dragoman.core.job import Kind, Reason
from dragoman.core.remedy import TICKET, Category, check_category, check_evidence, check_line
from dragoman.store.database import Cell, Tx
from dragoman.store.jobs import Note, facts, note_events

_REWRITE, _REVIEW = "rewrite", "review"
_ALERT = "dead_letter_escalated"


@dataclass(frozen=True, slots=True)
class Burial:
    """What an operator needs of a job that failed, in the order of the type burial."""

    id: JobId
    dead_letter_id: UUID
    stage: int
    stage_name: str
    attempts: int
    error_class: str
    code: str
    reason: str
    last_stack: str
    context: JSONObject


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as it stands; `replay_id` is its last replay."""

    id: UUID
    job_id: JobId
    home_id: HomeId
    pipeline: str
    stage: int
    stage_name: str
    error_class: str
    code: str
    reason: str
    attempts: int
    state: str
    category: str | None
    evidence: dict[str, str] | None
    sign_off: str | None
    notes: str | None
    sanitized_context: JSONObject
    created_at: datetime
    closed_at: datetime | None
    replay_id: JobId | None

    @property
    def failure_class(self) -> FailureClass:
        """Its error class."""
        return FailureClass(self.error_class)


async def bury_jobs(tx: Tx, burials: Sequence[Burial]) -> None:
    """Keep what an operator needs of jobs that have just failed; what is escalated pages."""
    found = await tx.tuples("dead_letter/bury_jobs", burials=tx.cell.values("burial", burials))
    for letter, job_id, state in found:
        if state == "escalated":
            await _page(tx, letter, job_id)


async def list_letters(cell: Cell, most: int, *, closed_too: bool = False) -> list[Letter]:
    """Dead letters, the oldest first."""
    return await cell.fetch(Letter, "dead_letter/list_letters", closed_too=closed_too, most=most)


async def read_letter(cell: Cell, id: UUID) -> Letter:  # noqa: A002 - a letter's, or its job's
    """One dead letter, by its own id or its job's."""
    async with cell.transaction("read") as tx:
        return await _read(tx, id)


async def triage(
    cell: Cell,
    actor: UUID,
    id: UUID,  # noqa: A002 - a letter's, or its job's
    category: str,
    sign_off: str | None = None,
) -> Letter:
    """Put a failure down to something; an escalated one needs engineering's sign-off.

    >>> await triage(cell, actor, letter.id, "defect")  # doctest: +SKIP
    """
    async with _moving(cell, "triage", id) as (tx, letter):
        check_state(letter, "open", "triaged", "remediated", "escalated")
        known = check_category(letter.failure_class, category)
        if letter.state == "escalated":
            check_line("sign-off", sign_off or "")
        given = {"category": known.value, "sign_off": sign_off}
        await move(tx, "dead_letter/triage_letter", letter, **given)
        told = {
            **given,
            "error_class": letter.error_class,
            "stage": letter.stage_name,
            "reason": letter.reason,
            "attempts": letter.attempts,
        }
        await record(tx, actor, letter, Kind.TRIAGED, **told)
    return await read_letter(cell, id)


async def remediate(
    cell: Cell,
    actor: UUID,
    id: UUID,  # noqa: A002 - a letter's, or its job's
    ticket: str,
    evidence: Mapping[str, str],
) -> Letter:
    """Record what was done about the cause, and in which ticket it stands."""
    async with _moving(cell, "remediate", id) as (tx, letter):
        check_state(letter, "triaged")
        told = {**evidence, TICKET: ticket}
        check_evidence(letter.failure_class, Category(letter.category or ""), told)
        await move(
            tx, "dead_letter/remediate_letter", letter, evidence=canonical({**told}).decode()
        )
        await record(tx, actor, letter, Kind.REMEDIATED, category=letter.category, evidence=told)
    return await read_letter(cell, id)


async def resolve(cell: Cell, actor: UUID, id: UUID, notes: str) -> Letter:  # noqa: A002 - as above
    """Close a letter; after a replay only when that has completed and everybody was told."""
    async with _moving(cell, "resolve", id) as (tx, letter):
        check_state(letter, "open", "triaged", "remediated", "replayed", "escalated")
        check_line("notes", notes)
        if letter.state == "replayed":
            await _check_settled(tx, letter)
        await move(tx, "dead_letter/resolve_letter", letter, notes=notes)
        await record(tx, actor, letter, Kind.RESOLVED, was=letter.state, notes=notes)
    return await read_letter(cell, id)


async def escalate(cell: Cell, actor: UUID, id: UUID, why: str) -> Letter:  # noqa: A002 - as above
    """Ask engineering; the letter is triaged again only with their sign-off."""
    async with _moving(cell, "escalate", id) as (tx, letter):
        check_state(letter, "open", "triaged", "remediated", "replayed")
        check_line("why", why)
        await move(tx, "dead_letter/escalate_letter", letter)
        await _page(tx, letter.id, letter.job_id)
        await record(tx, actor, letter, Kind.ESCALATED, was=letter.state, why=why)
    return await read_letter(cell, id)


async def lock_letter(tx: Tx, id: UUID) -> Letter:  # noqa: A002 - as above
    """A letter that nobody else moves until this transaction ends."""
    await tx.run("dead_letter/lock_letter", id=id)
    return await _read(tx, id)


def check_state(letter: Letter, *expected: str) -> None:
    """Refuse a step that is not this letter's next one."""
    if letter.state not in expected:
        raise Refused(f"the dead letter is {letter.state}; this needs it {' or '.join(expected)}")


def check_replayable(letter: Letter) -> None:
    """Refuse to replay anything but a review."""
    if letter.pipeline == _REWRITE:
        raise Refused("a rewrite is not replayed; its sender writes a new message")
    if letter.pipeline != _REVIEW:
        raise Refused("only reviews are replayed; enqueue this one anew")


async def move(tx: Tx, statement: str, letter: Letter, **given: Any) -> None:  # noqa: ANN401 - columns
    """Take a letter from the state in which it was read."""
    rows = await tx.tuples(statement, id=letter.id, was=letter.state, **given)
    if not rows:
        raise Conflict("somebody else moved this dead letter just now; look again")
    if letter.state == "escalated":
        await tx.run("alert/close_alert", kind=_ALERT, subject=str(letter.job_id))


async def record(tx: Tx, actor: UUID, letter: Letter, kind: Kind, **told: object) -> None:
    """Write a step into the history of the job that failed."""
    about = facts(dead_letter_id=str(letter.id), **told)
    note = Note(letter.job_id, None, kind, Reason.ASKED_BY_OPERATOR, about)
    await note_events(tx, actor, [note])


@asynccontextmanager
async def _moving(cell: Cell, tag: str, id: UUID) -> AsyncGenerator[tuple[Tx, Letter]]:  # noqa: A002
    async with cell.transaction(tag) as tx:
        yield tx, await lock_letter(tx, id)


async def _read(tx: Tx, id: UUID) -> Letter:  # noqa: A002 - as above
    found = await tx.fetch(Letter, "dead_letter/read_letter", id=id)
    if not found:
        raise NotFound("there is no dead letter with this id")
    return found[0]


async def _page(tx: Tx, letter: UUID, job_id: UUID) -> None:
    about = canonical({"dead_letter_id": str(letter)}).decode()
    await tx.run(
        "alert/raise_alert",
        id=uuid7(),
        kind=_ALERT,
        subject=str(job_id),
        severity="page",
        facts=about,
    )


async def _check_settled(tx: Tx, letter: Letter) -> None:
    [(is_settled,)] = await tx.tuples("dead_letter/is_settled", job_id=letter.job_id)
    if not is_settled:
        raise Refused("its replay has not completed yet, or somebody was not told; nothing changed")

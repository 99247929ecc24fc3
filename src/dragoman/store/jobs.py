"""Jobs and their standings: one function per statement.

A job's row is written once and never again; its standing moves. Each moving statement names the
token and the state it expects, moves the row, writes the event with the chained hash, and counts
the move, all in one statement: a crash leaves either the whole move or none of it. Zero rows mean
that the job moved on without the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from dragoman.core.canonical import JSONObject, canonical, read_object
from dragoman.core.ids import HomeId, JobId, Token, uuid7_numbers, uuid7s
from dragoman.core.job import Held, Kind, Mode, Reason, State
from dragoman.store.database import Cell, OpenQueue, Tx, statement
from dragoman.store.intake import places, read_intake
from dragoman.store.pack import Longs, Row, Rows, Uuids

_NO_INTENT: Row = ("", "", None, {})

_BULK = 1_000


@dataclass(frozen=True, slots=True)
class NewJob:
    """An intent about to be written down, in the order of the type new_job."""

    id: JobId
    pipeline: int
    unit: str
    home_id: HomeId
    mode: Mode
    account: str
    lane: str | None
    source_locale: str | None
    target_locale: str | None
    group_key: str | None
    routing: JSONObject
    max_attempts: int
    request_id: UUID | None
    recipient_id: UUID | None
    changelist_id: str | None
    review_version: int | None
    input_hash: bytes | None
    replay_of: UUID | None
    stage: int
    queue_key: int
    queue_keys: Sequence[int] | None  # of every stage; None when there is but one
    unit_lock: int
    priority: int = 0
    delay_s: float | None = None
    facts: bytes | None = None
    sort_at: datetime | None = None  # its place in the order; None: when it was created


@dataclass(frozen=True, slots=True)
class Move:
    """How jobs leave their holder; those that go the same way go together."""

    became: State
    kind: Kind
    reason: Reason
    ready: bool = False
    delay_s: float | None = None
    attempt_add: int = 0
    free_add: int = 0
    failure: str | None = None  # its facts, as canonical JSON

    @property
    def code(self) -> str | None:
        """The failure's code."""
        return str(read_object(self.failure.encode())["code"]) if self.failure else None


@dataclass(frozen=True, slots=True)
class Note:
    """An event that moves nothing but the chain's head, in the order of the type note."""

    id: JobId
    token: Token | None
    kind: Kind
    reason: Reason = Reason.NONE
    facts: bytes | None = None


@dataclass(frozen=True, slots=True)
class StageDone:
    """What a finished stage left behind, in the order of the type stage_done."""

    job_id: JobId
    stage: int
    reference: str
    sha256: bytes


def facts(**values: object) -> bytes:
    """An event's facts as the bytes that enter the chain; metadata only, None left out."""
    return canonical({name: value for name, value in values.items() if value is not None})


async def enqueue_jobs(tx: Tx, actor: UUID, jobs: Sequence[NewJob]) -> set[JobId]:
    """Write intents; the ids that are new come back, a unit that exists is left alone."""
    fair_every_s = (await read_intake(tx)).fair_every_s
    if fair_every_s is not None:
        found = await places(tx, [job.home_id for job in jobs], fair_every_s)
        jobs = [replace(job, sort_at=at) for job, at in zip(jobs, found, strict=True)]
    made: set[JobId] = set()
    for start in range(0, len(jobs), _BULK):  # more at once no longer fit the server's memory
        rows = tx.cell.values("new_job", jobs[start : start + _BULK])
        new = await tx.tuples("job/enqueue_jobs", jobs=rows, actor=actor, kind=Kind.ENQUEUED)
        made.update(JobId(row[0]) for row in new)
    return made


@dataclass(frozen=True, slots=True)
class Unit:
    """The job that stands for a unit which was asked for, and whether it was asked otherwise."""

    asked_id: JobId
    id: JobId
    differs: bool


async def read_units(tx: Tx, jobs: Sequence[NewJob]) -> list[Unit]:
    """The jobs that stand for the units of these intents."""
    return await tx.fetch(Unit, "job/read_units", jobs=tx.cell.values("new_job", jobs))


async def claim_jobs(
    cell: Cell, worker: UUID, keys: Sequence[int], most: int, *, share: int | None = None
) -> list[Held]:
    """Take up to `most` ready jobs of these queues; each gets a token of its own.

    What has become due is made ready when nothing else is left to take; while a backlog lasts, the
    sweeper does it.
    """
    rows = await _claim(cell, worker, keys, most, share or most)
    if len(rows) < most and await promote_due(cell):
        rows += await _claim(cell, worker, keys, most - len(rows), share or most)
    if not rows:
        return []
    async with cell.transaction("read") as tx:
        return await _held_by_claim(tx, rows)


async def _claim(cell: Cell, worker: UUID, keys: Sequence[int], most: int, share: int) -> list[Row]:
    """Rows of jobs taken. A unit that is busy elsewhere is passed over, and the claim goes on."""
    seen: list[UUID] = []
    taken: list[Row] = []
    while len(taken) < most:
        left = most - len(taken)
        async with cell.at_once("claim") as tx:
            found = await tx.tuples(
                "job/claim_jobs",
                keys=list(keys),
                share=share,
                most=left,
                tokens=Uuids(uuid7_numbers(left)),
                seen=seen,
                worker=worker,
                kind=Kind.CLAIMED,
            )
        busy = [row[0] for row in found if row[1] is None]
        taken += [row for row in found if row[1] is not None] if busy else found
        seen += busy
        if not busy:
            break
    return taken


async def promote_due(cell: Cell, most: int = 1000, *, is_respected: bool = True) -> int:
    """Make ready what has become due, a bounded number; how many.

    If `not_before_at` is not respected, everything that waits for its time has become due.
    """
    async with cell.at_once("promote") as tx:
        return await tx.count("job/promote_due", most=most, is_respected=is_respected)


async def _held_by_claim(tx: Tx, rows: Sequence[Row]) -> list[Held]:
    """Holdings from what a claim returns; only a model's stage needs to read the intents too."""
    queues = await _queues(tx, {row[5] for row in rows})
    asking = [row[0] for row in rows if queues[row[5]].provider]
    if not asking:
        return [_holding(row, queues[row[5]]) for row in rows]
    intents = {row[0]: row[1:] for row in await tx.tuples("job/read_intents", ids=asking)}
    return [_holding(row, queues[row[5]], intents.get(row[0], _NO_INTENT)) for row in rows]


def _holding(row: Row, queue: OpenQueue, intent: Row = _NO_INTENT) -> Held:
    job_id, token, home_id, stage, lock, key, attempts, most, free = row
    unit, account, group_key, routing = intent
    return Held(
        job_id,
        token,
        State.PROCESSING,
        queue.pipeline,
        stage,
        home_id,
        unit,
        lock,
        key,
        attempts,
        most,
        free,
        account,
        Mode.BATCH if queue.mode == "batch" else Mode.ASYNC,
        group_key,
        routing,
    )


async def _queues(tx: Tx, keys: set[int]) -> dict[int, OpenQueue]:
    """The names behind keys; a queue never changes its name, so a cell reads it once."""
    known: dict[int, OpenQueue] = tx.cell.queues
    if not keys <= known.keys():
        found = await tx.fetch(OpenQueue, "queue/read_queues", keys=list(keys - known.keys()))
        known.update({queue.key: queue for queue in found})
    return known


async def find_stale(cell: Cell, timeouts: Mapping[str, float], most: int) -> list[Held]:
    """Claims whose holder is gone."""
    async with cell.transaction("read") as tx:
        return await _held(
            tx, "job/find_stale", timeouts=canonical(dict(timeouts)).decode(), most=most
        )


async def count_claims(cell: Cell, before: datetime) -> int:
    """How many claims are older than this and not part of a batch."""
    async with cell.transaction("read") as tx:
        return int((await tx.tuples("job/count_claims", before=before))[0][0])


async def read_waiting(cell: Cell, ids: Sequence[JobId]) -> list[Held]:
    """Jobs that wait, each with a token that a claim may give it."""
    tickets = list(zip(ids, map(Token, uuid7s(len(ids))), strict=True))
    async with cell.transaction("read") as tx:
        return await _held(tx, "job/read_waiting", tickets=cell.rows("ticket", tickets))


async def claim_found(tx: Tx, worker: UUID, held: Sequence[Held]) -> set[JobId]:
    """Claim jobs of which a provider has the calls already; those that still waited come back."""
    rows = await tx.tuples(
        "job/claim_found",
        tickets=tx.cell.rows("ticket", [(job.id, job.token) for job in held]),
        worker=worker,
        kind=Kind.CLAIMED,
        reason=Reason.ADOPTED,
    )
    return {JobId(row[0]) for row in rows}


async def lock_units(tx: Tx, locks: Sequence[int]) -> None:
    """Take the units' locks in one order; they fall with the transaction."""
    await tx.run("job/lock_units", locks=Longs(sorted(set(locks))))


async def lock_standings(tx: Tx, ids: Sequence[JobId]) -> None:
    """Take rows in one order, for whoever moves them in more than one statement."""
    await tx.run("job/lock_standings", ids=list(ids))


async def move_jobs(
    tx: Tx, actor: UUID, was: State, move: Move, held: Sequence[Held]
) -> dict[JobId, datetime]:
    """Let go of jobs; those whose token still held come back, each with its own time."""
    rows = await tx.tuples(
        "job/move_jobs",
        holdings=_holdings(tx, held),
        actor=actor,
        was=was,
        became=move.became,
        ready=move.ready,
        delay_s=move.delay_s,
        attempt_add=move.attempt_add,
        free_add=move.free_add,
        kind=move.kind,
        reason=move.reason,
        failure=move.failure,
        facts=move.failure.encode() if move.failure else None,
    )
    return {JobId(row[0]): row[1] for row in rows}


async def advance_jobs(
    tx: Tx, actor: UUID, was: State, held: Sequence[Held]
) -> dict[JobId, datetime]:
    """Take jobs to their next stage; those whose token still held come back."""
    rows = await tx.tuples(
        "job/advance_jobs",
        holdings=_holdings(tx, held),
        actor=actor,
        was=was,
        kind=Kind.ADVANCED,
        reason=Reason.NEXT_STAGE,
    )
    return {JobId(row[0]): row[1] for row in rows}


def _holdings(tx: Tx, held: Sequence[Held]) -> Rows:
    return tx.cell.rows("holding", [(job.id, job.token, job.attempt) for job in held])


async def store_stage_results(tx: Tx, done: Sequence[StageDone]) -> None:
    """Write down what finished stages left behind."""
    await tx.run("job/store_stage_results", done=tx.cell.values("stage_done", done))


async def note_events(tx: Tx, actor: UUID, notes: Sequence[Note]) -> int:
    """Append events to chains that move nothing else; how many chains there were."""
    noted = await _note(tx, actor, notes)
    # Whoever waited for an erasure sees the tombstone only in a second statement.
    missed = [note for note in notes if note.id not in noted]
    return len(noted) + (len(await _note(tx, actor, missed)) if missed else 0)


async def _note(tx: Tx, actor: UUID, notes: Sequence[Note]) -> set[JobId]:
    rows = tx.cell.values("note", notes)
    found = await tx.tuples("job/note_events", notes=rows, actor=actor)
    return {JobId(row[0]) for row in found}


async def begin_calls(cell: Cell, actor: UUID, notes: Sequence[Note]) -> set[JobId]:
    """Commit that a model is about to be called; only those still held may call."""
    async with cell.transaction("calling") as tx:
        rows = cell.values("note", notes)
        return {
            JobId(row[0]) for row in await tx.tuples("job/begin_calls", notes=rows, actor=actor)
        }


async def record_verdicts(tx: Tx, actor: UUID, notes: Sequence[Note]) -> None:
    """Write down what was judged, on the chains of those that are still held."""
    await tx.run("job/record_verdicts", notes=tx.cell.values("note", notes), actor=actor)


async def find_settled(tx: Tx, tickets: Sequence[tuple[JobId, Token]]) -> set[JobId]:
    """Jobs that their holder has already let go of, under the same token."""
    rows = await tx.tuples("job/find_settled", tickets=tx.cell.rows("ticket", list(tickets)))
    return {JobId(row[0]) for row in rows}


async def cancel_jobs(cell: Cell, actor: UUID, ids: Sequence[JobId]) -> set[JobId]:
    """Cancel what is not final; a refusal is an event too. Cancel wins over a result in flight."""
    async with cell.transaction("cancel") as tx:
        found = await tx.tuples(
            "job/cancel_jobs",
            ids=list(ids),
            actor=actor,
            kind=Kind.CANCELED,
            reason=Reason.ASKED_BY_OPERATOR,
        )
        canceled = {JobId(row[0]) for row in found}
        refused = [
            Note(job_id, None, Kind.CANCEL_REFUSED, Reason.ALREADY_FINAL)
            for job_id in ids
            if job_id not in canceled
        ]
        if refused:
            await note_events(tx, actor, refused)
        return canceled


async def wake_jobs(tx: Tx, ids: Sequence[JobId], reason: Reason) -> int:
    """Make jobs ready that wait for something which has happened."""
    return await tx.count("job/wake_jobs", ids=list(ids), reason=reason)


async def _held(tx: Tx, name: str, **params: object) -> list[Held]:
    async with tx.connection.cursor(row_factory=kwargs_row(read_held), binary=True) as cursor:
        await cursor.execute(statement(name), params)
        return await cursor.fetchall()


def read_held(**columns: Any) -> Held:  # noqa: ANN401 - a database row
    """A holding from its columns."""
    columns["state"] = State(columns["state"])
    columns["mode"] = Mode(columns["mode"])
    return Held(**columns)

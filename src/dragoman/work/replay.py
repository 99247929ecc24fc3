"""The replay of a dead letter: a new job that goes on where the old one failed.

The job that failed stays as it is. The new one has its own key, its own budget, the same changelist
and version, and works on what the finished stages left behind; it sends the same messages, to
those who were not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from dragoman.core.canonical import JSONObject
from dragoman.core.errors import Conflict, Refused
from dragoman.core.ids import HomeId, JobId, uuid7
from dragoman.core.job import Kind, Mode
from dragoman.store import dead_letters
from dragoman.store.database import Cell, Tx
from dragoman.store.dead_letters import Letter
from dragoman.store.jobs import NewJob, enqueue_jobs, facts
from dragoman.store.queues import hint_ready

_SENDS = 5
_STAGES = ("fetch", "llm", "notify")
_NOTIFY = 2


@dataclass(frozen=True, slots=True)
class Original:
    """The job that failed; `root` is the first of its line, which has the payload."""

    pipeline: int
    home_id: HomeId
    mode: str
    account: str
    lane: str | None
    source_locale: str | None
    target_locale: str | None
    group_key: str | None
    routing: JSONObject
    queue_keys: list[int]
    max_attempts: int
    changelist_id: str | None
    review_version: int | None
    input_hash: bytes | None
    unit_lock: int
    replays: int
    root: JobId


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay will do: where it starts, on which payload, and what is known of the failure.

    Ids and the sanitized context only: an operator reads no text.
    """

    letter: Letter
    original: Original
    stage: int
    key: str

    @property
    def stage_name(self) -> str:
        """Where it starts."""
        return _STAGES[self.stage]

    @property
    def payload_ref(self) -> JobId:
        """Whose input and finished work it takes."""
        return self.original.root

    @property
    def context(self) -> JSONObject:
        """What the dead letter says."""
        return self.letter.sanitized_context


@dataclass(frozen=True, slots=True)
class Replayed:
    """The new job, and the finished work that it goes on from."""

    job_id: JobId
    plan: Plan
    references: Sequence[str]


async def plan_replay(cell: Cell, id: UUID, *, full_restart: bool = False) -> Plan:  # noqa: A002 - a letter's, or its job's
    """What a replay would do, while it changes nothing."""
    letter = await dead_letters.read_letter(cell, id)
    async with cell.transaction("read") as tx:
        return await _plan(tx, letter, full_restart=full_restart)


async def replay(
    cell: Cell,
    actor: UUID,
    id: UUID,  # noqa: A002 - a letter's, or its job's
    *,
    is_safe_twice: bool,
    full_restart: bool = False,
) -> Replayed:
    """Enqueue the replay of a remediated letter, in one transaction with the letter's own step.

    >>> await replay(cell, actor, letter.id, is_safe_twice=True)  # doctest: +SKIP
    """
    async with cell.transaction("replay") as tx:
        letter = await dead_letters.lock_letter(tx, id)
        dead_letters.check_replayable(letter)
        dead_letters.check_state(letter, "remediated")
        if not is_safe_twice:
            raise Refused("say first that its effects may happen twice, or cannot")
        plan = await _plan(tx, letter, full_restart=full_restart)
        made = await _enqueue(tx, actor, plan)
        await dead_letters.move(tx, "dead_letter/mark_replayed", letter)
        told = {"replay_id": str(made.job_id), "restart_stage": plan.stage, "is_safe_twice": True}
        await dead_letters.record(tx, actor, letter, Kind.REPLAYED, **told)
    await hint_ready(cell)
    return made


async def _plan(tx: Tx, letter: Letter, *, full_restart: bool) -> Plan:
    dead_letters.check_replayable(letter)
    [original] = await tx.fetch(Original, "replay/read_original", id=letter.job_id)
    stage = 0 if full_restart else letter.stage
    [(can_start,)] = await tx.tuples("replay/can_start", id=letter.job_id, stage=stage)
    if not can_start:
        raise Refused(
            f"what {letter.stage_name} works on is not kept any more; ask for a full restart"
        )
    return Plan(letter, original, stage, f"replay:{letter.id}:{original.replays + 1}")


async def _enqueue(tx: Tx, actor: UUID, plan: Plan) -> Replayed:
    job = _job(plan)
    if not await enqueue_jobs(tx, actor, [job]):
        raise Conflict("this replay exists already")
    original, stage = plan.letter.job_id, plan.stage
    if not await tx.tuples("replay/take_charge", replay=job.id, original=original):
        raise Refused(
            "another job or a higher version answers for this changelist now; resolve the letter"
        )
    found = await tx.tuples("replay/refer_results", replay=job.id, original=original, stage=stage)
    if stage == _NOTIFY:
        await tx.run("replay/take_deliveries", replay=job.id, sends=_SENDS)
    return Replayed(job.id, plan, [row[0] for row in found])


def _job(plan: Plan) -> NewJob:
    was, letter = plan.original, plan.letter
    return NewJob(
        id=JobId(uuid7()),
        pipeline=was.pipeline,
        unit=plan.key,
        home_id=was.home_id,
        mode=Mode(was.mode),
        account=was.account,
        lane=was.lane,
        source_locale=was.source_locale,
        target_locale=was.target_locale,
        group_key=was.group_key,
        routing=was.routing,
        max_attempts=was.max_attempts,
        request_id=None,
        recipient_id=None,
        changelist_id=was.changelist_id,
        review_version=was.review_version,
        input_hash=was.input_hash,
        replay_of=letter.job_id,
        stage=plan.stage,
        queue_key=was.queue_keys[plan.stage],
        queue_keys=was.queue_keys,
        unit_lock=was.unit_lock,
        facts=facts(
            home_id=str(was.home_id),
            replay_of=str(letter.job_id),
            dead_letter_id=str(letter.id),
            payload_ref=str(plan.payload_ref),
            review_version=was.review_version,
        ),
    )

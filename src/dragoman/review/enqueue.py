"""The way in for a review: a key makes one job, and a version has one job in charge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical, sha256
from dragoman.core.errors import BadInput, Conflict, Refused
from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7
from dragoman.core.job import TERMINAL, Mode, Queue, State
from dragoman.review import store
from dragoman.review.render import check_recipients
from dragoman.review.source import Changelist
from dragoman.store.database import Cell, Tx
from dragoman.store.intake import check_room
from dragoman.store.jobs import NewJob, enqueue_jobs, facts
from dragoman.store.queues import hint_ready, name_queue
from dragoman.work.pipeline import Pipeline

MAX_ATTEMPTS_PER_STAGE = 5
_MAX_KEY = 200
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for. The key is theirs, and belongs to their home."""

    home_id: UUID
    idempotency_key: str
    changelist: Changelist
    version: int
    recipients: Sequence[str]
    is_rerun: bool = False


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The review's job. `is_new` is False when it was there before, and nothing was written."""

    job_id: JobId
    state: str
    version: int
    is_new: bool


async def enqueue_review(
    cell: Cell, actor: UUID, pipeline: Pipeline, wanted: Wanted, routing: JSONObject, account: str
) -> Enqueued:
    """Create the job of a review, or return the one that answers for it already.

    >>> await enqueue_review(cell, actor, review, wanted, routing, "default")  # doctest: +SKIP
    Enqueued(job_id=..., state='queued', version=1, is_new=True)
    """
    wanted = replace(wanted, recipients=check_recipients(wanted.recipients))
    made = partial(_enqueue, actor=actor, pipeline=pipeline, routing=routing, account=account)
    for _ in range(_TRIES):
        with suppress(_Overtaken):
            async with cell.transaction("enqueue_review") as tx:
                enqueued = await made(tx, wanted)
            if enqueued.is_new:
                await hint_ready(cell)
            return enqueued
    raise Conflict("this version is being enqueued right now; ask again")


class _Overtaken(Exception):
    """Somebody else wrote the key or the version since we looked: look again."""


async def _enqueue(
    tx: Tx, wanted: Wanted, *, actor: UUID, pipeline: Pipeline, routing: JSONObject, account: str
) -> Enqueued:
    made = await store.find_by_key(tx, _unit(wanted))
    if made is not None:
        return _same(made, _input_hash(wanted))
    known = await store.versions(tx, wanted.changelist.id)
    settled = _decide(wanted, known)
    if settled is not None:
        return settled
    await check_room(tx, [wanted.home_id])
    job = await _new_job(tx, pipeline, wanted, routing, account)
    if not await enqueue_jobs(tx, actor, [job]):
        raise _Overtaken
    failed = next((one.id for one in known if one.version == wanted.version), None)
    change, version = wanted.changelist.id, wanted.version
    if not await store.take_charge(tx, change, version, wanted.home_id, job.id, failed):
        raise _Overtaken
    await store.write_input(tx, job.id, wanted.home_id, change, version, wanted.recipients)
    return Enqueued(job.id, State.QUEUED, wanted.version, is_new=True)


def _unit(wanted: Wanted) -> str:
    key = wanted.idempotency_key
    if not key.strip() or len(key) > _MAX_KEY or not key.isprintable():
        raise BadInput(f"idempotency_key must be 1 to {_MAX_KEY} printable characters")
    if wanted.version < 1:
        raise BadInput("review_version starts at 1")
    return f"{wanted.home_id}:{key}"


def _input_hash(wanted: Wanted) -> bytes:
    return sha256(canonical([wanted.changelist.id, wanted.version, sorted(wanted.recipients)]))


def _same(made: store.Made, digest: bytes) -> Enqueued:
    if made.input_hash != digest:
        raise Conflict(
            "this idempotency_key was used for another changelist, version or recipients; "
            "nothing was written"
        )
    return Enqueued(made.id, made.state, made.review_version, is_new=False)


def _decide(wanted: Wanted, known: Sequence[store.Version]) -> Enqueued | None:
    """An earlier job that answers for this version, a refusal, or None: a new one may be made."""
    if not known:
        return None
    if any(one.home_id != wanted.home_id for one in known):
        raise Refused("this changelist belongs to another home; nothing was written")
    for one in known:
        if one.version != wanted.version:
            continue
        state = State(one.state)
        if state is State.COMPLETED or state not in TERMINAL:
            return Enqueued(one.id, one.state, one.version, is_new=False)
        return None if one.version == known[0].version else _stale(known[0].version)
    if wanted.version < known[0].version:
        return _stale(known[0].version)
    if not wanted.is_rerun:
        raise Refused(
            f"version {known[0].version} of this changelist exists; "
            "ask for a rerun to make a higher one"
        )
    return None


def _stale(highest: int) -> Enqueued:
    raise Conflict(f"version {highest} of this changelist exists; a lower one is stale")


async def _new_job(
    tx: Tx,
    pipeline: Pipeline,
    wanted: Wanted,
    routing: JSONObject,
    account: str,
) -> NewJob:
    mode = Mode(str(routing["execution_mode"]))
    keys = [
        await name_queue(tx, queue, stage)
        for stage, queue in enumerate(_queues(pipeline, mode, routing, account))
    ]
    return NewJob(
        id=JobId(uuid7()),
        pipeline=pipeline.id,
        unit=_unit(wanted),
        home_id=HomeId(wanted.home_id),
        mode=mode,
        account=account,
        lane=None,
        source_locale=None,
        target_locale=None,
        group_key="|".join([str(routing["provider"]), str(routing["model"]), "review", mode]),
        routing=routing,
        max_attempts=MAX_ATTEMPTS_PER_STAGE,
        request_id=None,
        recipient_id=None,
        changelist_id=wanted.changelist.id,
        review_version=wanted.version,
        input_hash=_input_hash(wanted),
        replay_of=None,
        stage=0,
        queue_key=keys[0],
        queue_keys=keys,
        unit_lock=unit_lock(pipeline.name, f"{wanted.changelist.id}:{wanted.version}"),
        facts=facts(
            home_id=str(wanted.home_id),
            changelist_sha256=sha256(wanted.changelist.id.encode()).hex()[:32],
            review_version=wanted.version,
            recipients=len(wanted.recipients),
            provider=routing["provider"],
            model=routing["model"],
            execution_mode=mode.value,
        ),
    )


def _queues(pipeline: Pipeline, mode: Mode, routing: JSONObject, account: str) -> list[Queue]:
    provider, model = str(routing["provider"]), str(routing["model"])
    return [
        pipeline.queue(stage, mode=mode, provider=provider, account=account, model=model)
        for stage in range(len(pipeline.stages))
    ]

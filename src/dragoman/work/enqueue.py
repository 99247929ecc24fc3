"""The way in for a pipeline of your own: one unit of work or many, in your own transaction.

A rewrite and a review have ways in of their own, for they are more than their job.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from dragoman.core.canonical import JSON, JSONObject, canonical, read_object
from dragoman.core.errors import BadInput, BadJSON, Conflict, NotFound, QueueFull, Refused
from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7
from dragoman.core.job import Mode
from dragoman.store import jobs, queues
from dragoman.store.database import Tx
from dragoman.store.guest import guest
from dragoman.store.intake import check_room
from dragoman.store.workers import know_actor
from dragoman.work.pipeline import LLMStage, Pipeline

MAX_AT_ONCE = 10_000
_MAX_NAME = 200
_MAX_ROUTING = 8_192
_MAX_DELAY_S = 366 * 86_400.0
_OWN_WAY_IN = {1: "rewrite", 2: "review"}


@dataclass(frozen=True, slots=True)
class Work:
    """One unit of work: what is done once, however often it is asked for. No text stands in it.

    `routing` says by whose model it is made: provider, adapter_kind and model, if the pipeline has
    a stage that asks one. Where the input lies is for the pipeline to know, by the job's id or by
    the unit; `input_sha256` keeps the same unit from standing for another input.
    """

    unit: str
    home_id: UUID
    routing: Mapping[str, JSON] = field(default_factory=dict[str, "JSON"])
    account: str = "default"
    mode: Mode = Mode.ASYNC
    max_attempts: int = 5
    priority: int = 0
    delay_s: float | None = None
    input_sha256: bytes | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job of a unit. `is_new` is False when it was there before, and nothing was written."""

    job_id: JobId
    is_new: bool


async def enqueue(
    where: AsyncConnection[Any] | Tx, pipeline: Pipeline, work: Work, *, by: str
) -> Enqueued:
    """Enqueue one unit of work in your own transaction; `by` is who you are.

    Your rows and the job are committed together, by you, or not at all.

    >>> async with connection.transaction():  # doctest: +SKIP
    ...     await connection.execute("insert into orders ...")
    ...     await enqueue(connection, summaries, Work("order-1", home), by="shop")
    Enqueued(job_id=..., is_new=True)
    """
    (made,) = await enqueue_many(where, pipeline, [work], by=by)
    return made


async def enqueue_many(
    where: AsyncConnection[Any] | Tx, pipeline: Pipeline, works: Sequence[Work], *, by: str
) -> list[Enqueued]:
    """Enqueue many units by one statement; what became of each, in their order.

    One that is not acceptable, or stands for something else already, refuses them all: nothing is
    written, and your transaction goes on as it was.

    >>> await enqueue_many(tx, summaries, [Work("a", home), Work("b", home)], by="shop")
    ... # doctest: +SKIP
    [Enqueued(job_id=..., is_new=True), Enqueued(job_id=..., is_new=False)]
    """
    checked = _checked(pipeline, works, by)
    if not checked:
        return []
    async with _inside(where) as tx:
        await _check_known(tx, pipeline)
        actor = await know_actor(tx, "orchestrator", by)
        new = await _new_jobs(tx, pipeline, checked)
        await _check_room(tx, new)
        made = await jobs.enqueue_jobs(tx, actor, new)
        known = {} if len(made) == len(new) else await _known(tx, new)
        return [Enqueued(known.get(job.id, job.id), job.id in made) for job in new]


@asynccontextmanager
async def _inside(where: AsyncConnection[Any] | Tx) -> AsyncGenerator[Tx]:
    if isinstance(where, Tx):
        await where.tuples("guest/read_path")  # so that what follows is a savepoint
        async with where.connection.transaction():
            yield where
    else:
        async with guest(where) as tx:
            yield tx


async def _check_known(tx: Tx, pipeline: Pipeline) -> None:
    found = await tx.tuples("pipeline/find_pipeline", name=pipeline.name)
    if not found:
        raise NotFound("this database does not know the pipeline; its owner has to add it first")
    if found != [(pipeline.id, [stage.name for stage in pipeline.stages])]:
        raise BadInput("the pipeline has another number or other stages in this database")


async def _new_jobs(tx: Tx, pipeline: Pipeline, works: Sequence[Work]) -> list[jobs.NewJob]:
    """Intents, whose queues are known by name; a queue is named once for all that share it."""
    named: dict[tuple[Mode, str, str, str], list[int]] = {}
    new: list[jobs.NewJob] = []
    for work in works:
        provider, model = (str(work.routing.get(name, "")) for name in ("provider", "model"))
        gate = (work.mode, provider, work.account, model)
        if gate not in named:
            named[gate] = [
                await queues.name_queue(
                    tx,
                    pipeline.queue(
                        stage, mode=work.mode, provider=provider, account=work.account, model=model
                    ),
                    stage,
                )
                for stage in range(len(pipeline.stages))
            ]
        group = f"{provider}|{model}|{pipeline.name}|{work.mode}"
        new.append(_new_job(pipeline, work, named[gate], group))
    return new


def _new_job(pipeline: Pipeline, work: Work, keys: Sequence[int], group: str) -> jobs.NewJob:
    return jobs.NewJob(
        id=JobId(uuid7()),
        pipeline=pipeline.id,
        unit=work.unit,
        home_id=HomeId(work.home_id),
        mode=work.mode,
        account=work.account,
        lane=None,
        source_locale=None,
        target_locale=None,
        group_key=group,
        routing=dict(work.routing),
        max_attempts=work.max_attempts,
        request_id=None,
        recipient_id=None,
        changelist_id=None,
        review_version=None,
        input_hash=work.input_sha256,
        replay_of=None,
        stage=0,
        queue_key=keys[0],
        queue_keys=keys,
        unit_lock=unit_lock(pipeline.name, work.unit),
        priority=work.priority,
        delay_s=work.delay_s,
        facts=jobs.facts(
            home_id=str(work.home_id),
            provider=work.routing.get("provider"),
            model=work.routing.get("model"),
            execution_mode=work.mode.value,
        ),
    )


async def _check_room(tx: Tx, new: Sequence[jobs.NewJob]) -> None:
    """A full home takes nothing new; what it has already is still answered."""
    try:
        await check_room(tx, [job.home_id for job in new])
    except QueueFull:
        known = await _known(tx, new)
        await check_room(tx, [job.home_id for job in new if job.id not in known])


async def _known(tx: Tx, new: Sequence[jobs.NewJob]) -> dict[JobId, JobId]:
    """The jobs that stand for these units; a conflict, if one was asked for otherwise."""
    found = await jobs.read_units(tx, new)
    differing = {each.asked_id for each in found if each.differs}
    for position, job in enumerate(new):
        if job.id in differing:
            raise Conflict(
                f"the unit of work {position} stands for something else already; "
                "nothing was written"
            )
    return {each.asked_id: each.id for each in found}


def _checked(pipeline: Pipeline, works: Sequence[Work], by: str) -> list[Work]:
    """What will be written, or BadInput; nothing has been asked of the database yet."""
    own = _OWN_WAY_IN.get(pipeline.id)
    if own or pipeline.name in _OWN_WAY_IN.values():
        raise Refused(f"a {own or pipeline.name} has a way in of its own; nothing was written")
    if not _is_name(by):
        raise BadInput("by must say who you are, in 1 to 200 printable characters")
    if len(works) > MAX_AT_ONCE:
        raise BadInput(f"at most {MAX_AT_ONCE} units of work go in one call")
    asks = any(isinstance(stage, LLMStage) for stage in pipeline.stages)
    return [_check(work, position, asks=asks) for position, work in enumerate(works)]


def _check(work: Work, position: int, *, asks: bool) -> Work:
    for name, is_right, wanted in (
        ("unit", _is_name(work.unit), "1 to 200 printable characters"),
        ("home_id", _is(UUID, work.home_id), "a UUID"),
        ("account", _is_name(work.account), "1 to 200 printable characters"),
        ("mode", _is(Mode, work.mode), "a Mode"),
        ("max_attempts", _is_between(1, work.max_attempts, 100), "1 to 100"),
        ("priority", _is_between(-32_768, work.priority, 32_767), "-32768 to 32767"),
        ("delay_s", _is_delay(work.delay_s), "seconds, at most a year"),
        ("input_sha256", _is_digest(work.input_sha256), "32 bytes"),
    ):
        if not is_right:
            raise BadInput(f"{name} of work {position} must be {wanted}; nothing was written")
    routing = _routing(work.routing, position)
    needed = ("provider", "adapter_kind", "model") if asks else ()
    if missing := [name for name in needed if not _is_name(routing.get(name))]:
        raise BadInput(
            f"routing of work {position} must name its {missing[0]}, for a stage asks it"
        )
    return replace(work, routing=routing)


def _routing(given: object, position: int) -> JSONObject:
    """The routing as it will be read again: strict JSON of some size."""
    try:
        data = canonical(given)
        routing = read_object(data)
    except (BadJSON, TypeError, ValueError, RecursionError):
        raise BadInput(
            f"routing of work {position} must be a JSON object; nothing was written"
        ) from None
    if len(data) > _MAX_ROUTING:
        raise BadInput(f"routing of work {position} is larger than {_MAX_ROUTING} bytes")
    return routing


def _is(kind: type, value: object) -> bool:
    """Whether a value is what its annotation says: callers need not check their types."""
    return isinstance(value, kind)


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_NAME
        and value.isprintable()
        and not value.isspace()
    )


def _is_between(least: int, value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_delay(value: object) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 0 <= value <= _MAX_DELAY_S
    return value is None


def _is_digest(value: object) -> bool:
    return value is None or (isinstance(value, bytes) and len(value) == 32)

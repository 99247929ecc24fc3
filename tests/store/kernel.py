"""Jobs of a pipeline that stores nothing, brought to any state by the statements themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import namedtuple_row

from dragoman.core.ids import BatchId, HomeId, JobId, Token, unit_lock, uuid7
from dragoman.core.job import Done, Held, Kind, Mode, Outcome, Reason, State
from dragoman.core.retry import RetryPolicy, Table
from dragoman.store import batches, jobs, workers
from dragoman.store.batches import Item, NewBatch, Sending
from dragoman.store.database import Cell, Tx
from dragoman.work.pipeline import Pipeline, Pipelines, Stored
from tests import stand
from tests.invariants import link

PIPELINE, KEY = 9, 77
A_CLAIM_IS_STALE_S = 600


def build_plain(owner_dsn: str) -> None:
    """The schema, the movable clock, and a pipeline of two stages that store nothing."""
    stand.build(owner_dsn)
    with psycopg.connect(owner_dsn, autocommit=True) as connection:
        connection.execute("insert into dragoman.pipeline values (9, 'plain', '{one,two}')")


_BACKOFF = Table((900, 7200))


@dataclass
class Plain:
    """A stage that has nothing to store."""

    name: str
    retry: RetryPolicy = _BACKOFF

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Be done."""
        return Done(None)

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Nothing."""


PIPELINES: Pipelines = {
    "plain": Pipeline(PIPELINE, "plain", (Plain("one"), Plain("two")), A_CLAIM_IS_STALE_S)
}


@dataclass
class Crew:
    """The three roles that move jobs, and a worker with a lease."""

    database: str
    orchestrator: Cell
    worker: Cell
    operator: Cell
    actor: UUID = field(default_factory=uuid7)


@asynccontextmanager
async def crew_of(database: str) -> AsyncGenerator[Crew]:
    """Everybody whom a job meets."""
    async with (
        stand.cell_of(database, "dragoman_orchestrator") as orchestrator,
        stand.cell_of(database) as worker,
        stand.cell_of(database, "dragoman_operator") as operator,
    ):
        crew = Crew(database, orchestrator, worker, operator)
        await give_lease(worker, crew.actor)
        yield crew


async def give_lease(cell: Cell, worker: UUID, lease_s: float = 3600) -> None:
    """Register a worker on a connection of the pool."""
    async with cell.pool.connection() as connection:
        await workers.register_worker(connection, worker, "test", "worker", lease_s)


def new_job(**changed: Any) -> jobs.NewJob:
    """A job of the plain pipeline, ready at its first stage."""
    unit = changed.pop("unit", str(uuid4()))
    job = jobs.NewJob(
        id=JobId(uuid7()),
        pipeline=PIPELINE,
        unit=unit,
        home_id=HomeId(uuid4()),
        mode=Mode.BATCH,
        account="default",
        lane=None,
        source_locale=None,
        target_locale=None,
        group_key="g",
        routing={"provider": "p", "adapter_kind": "a", "model": "m"},
        max_attempts=2,
        request_id=None,
        recipient_id=None,
        changelist_id=None,
        review_version=None,
        input_hash=None,
        replay_of=None,
        stage=0,
        queue_key=KEY,
        queue_keys=None,
        unit_lock=unit_lock("plain", unit),
    )
    made = replace(job, **changed)
    return replace(made, queue_keys=made.queue_keys or [made.queue_key, made.queue_key + 50_000])


QUEUE = (
    "insert into queue (key, pipeline, stage, mode, provider, account, model)"
    " values (%s, %s, 0, %s, %s, 'default', 'm') on conflict do nothing"
)


async def enqueue(crew: Crew, *new: jobs.NewJob) -> set[JobId]:
    """Write intents as the orchestrator."""
    async with crew.orchestrator.transaction("enqueue") as tx:
        for job in new:
            for key in job.queue_keys or [job.queue_key]:
                await tx.connection.execute(QUEUE, (key, job.pipeline, job.mode, f"p{key}"))
        return await jobs.enqueue_jobs(tx, crew.actor, new)


async def claim(crew: Crew, key: int, most: int = 1, worker: UUID | None = None) -> list[Held]:
    """Claim as the crew's worker or another one."""
    return await jobs.claim_jobs(crew.worker, worker or crew.actor, [key], most)


def move(held: Held, became: State, kind: Kind, **changed: Any) -> tuple[Held, jobs.Move]:
    """A move of this holder."""
    made = jobs.Move(became=became, kind=kind, reason=Reason.NONE, ready=became is State.QUEUED)
    return held, replace(made, **changed)


async def apply(crew: Crew, *moves: tuple[Held, jobs.Move]) -> dict[JobId, datetime]:
    """Run moves in a transaction of their own, those that are alike together."""
    alike: dict[tuple[State, jobs.Move], list[Held]] = {}
    for held, move in moves:
        alike.setdefault((held.state, move), []).append(held)
    moved: dict[JobId, datetime] = {}
    async with crew.worker.transaction("move") as tx:
        for (was, move), held in alike.items():
            moved |= await jobs.move_jobs(tx, crew.actor, was, move, held)
    return moved


async def advance(crew: Crew, *held: Held) -> dict[JobId, datetime]:
    """Take jobs to their next stage."""
    async with crew.worker.transaction("move") as tx:
        return await jobs.advance_jobs(tx, crew.actor, held[0].state, held)


def new_batch() -> NewBatch:
    """A submission that nobody has made before."""
    new = uuid7()
    return NewBatch(
        BatchId(new), new.hex, "p", "a", None, "default", "m", "g", token=Token(uuid7())
    )


async def recorded(crew: Crew, *held: Held) -> NewBatch:
    """A batch of these jobs, its intent committed."""
    batch = new_batch()
    items = [Item(one.id, one.token, n, 0, str(one.id)) for n, one in enumerate(held)]
    taken = await batches.record_batch(crew.worker, crew.actor, batch, items)
    assert taken == set(range(len(held)))
    return batch


async def started(crew: Crew, *held: Held, deadline_s: float = 60) -> NewBatch:
    """A batch that may exist at the provider."""
    batch = await recorded(crew, *held)
    assert await begin(crew, batch, deadline_s)
    return batch


async def begin(crew: Crew, batch: NewBatch, deadline_s: float = 60) -> bool:
    """Commit that a batch may exist from now on."""
    return await batches.start_submission(
        crew.worker,
        batch.id,
        batch.token,
        file="file",
        sha256=bytes(32),
        size=1,
        deadline_s=deadline_s,
    )


async def mark(crew: Crew, batch: NewBatch, *held: Held, theirs: str | None = None) -> bool:
    """Write the provider's id on a batch and these jobs."""
    going = [Sending(one.id, one.token, b"{}") for one in held]
    name = theirs or f"theirs-{batch.nonce}"
    return await batches.record_submitted(
        crew.worker,
        crew.actor,
        batch,
        going,
        theirs=name,
        status="validating",
        reason=Reason.NONE,
    )


async def submitted(crew: Crew, *held: Held) -> NewBatch:
    """A batch that the provider has."""
    batch = await started(crew, *held)
    assert await mark(crew, batch, *held)
    return batch


async def bring(crew: Crew, state: State, key: int, worker: UUID | None = None) -> Held:
    """A new job in this state, as its last holder knew it: what is queued was held before."""
    await enqueue(crew, new_job(queue_key=key))
    (held,) = await claim(crew, key, worker=worker)
    match state:
        case State.QUEUED:
            await apply(crew, move(held, state, Kind.DEFERRED))
        case State.COMPLETED:
            await apply(crew, move(held, state, Kind.COMPLETED))
        case State.FAILED:
            await apply(crew, move(held, state, Kind.FAILED, attempt_add=1))
        case State.BATCH_SUBMITTED:
            await submitted(crew, held)
        case State.CANCELED:
            await jobs.cancel_jobs(crew.operator, crew.actor, [held.id])
        case State.PROCESSING:
            pass
    return replace(held, state=state)


@dataclass(frozen=True)
class Seen:
    """A job's rows as they stand."""

    standing: Mapping[str, Any]
    events: tuple[Any, ...]  # rows

    @property
    def kinds(self) -> list[Kind]:
        """What happened, in order."""
        return [Kind(event.kind) for event in self.events]

    @property
    def state(self) -> State:
        """Where it stands."""
        return State(self.standing["state"])


def look(database: str, job: UUID) -> Seen:
    """The standing and the events of a job."""
    with stand.owner(database) as connection:
        row = connection.execute("select to_jsonb(s) from standing s where id = %s", (job,))
        ((standing,),) = row.fetchall()
        with connection.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute("select * from event where job_id = %s order by seq", (job,))
            return Seen(standing, tuple(cursor.fetchall()))


def _all(connection: psycopg.Connection, query: str) -> list[Any]:
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(query.encode()).fetchall()


def check_books(database: str) -> None:
    """Every chain can be computed again from its events, and the sums are what a count gives."""
    heads: dict[UUID, bytes] = {}
    lengths: Counter[UUID] = Counter()
    with stand.owner(database) as connection:
        events: list[Any] = _all(connection, "select * from event order by job_id, seq")
        for event in events:
            heads[event.job_id] = link(heads.get(event.job_id, b""), event)
            lengths[event.job_id] += 1
            assert (event.seq, event.hash) == (lengths[event.job_id], heads[event.job_id])
        standings = connection.execute("select job_id, head, seq from chain_head").fetchall()
        sums = connection.execute(
            "select queue_key, state, sum(n)::int from (select queue_key, state, n from queue_delta"
            " union all select queue_key, state, n from queue_sum) d"
            " group by 1, 2 having sum(n) <> 0"
        ).fetchall()
        counts = connection.execute(
            "select queue_key, state, count(*)::int from standing group by 1, 2"
        ).fetchall()
    assert {row[0]: (row[1], row[2]) for row in standings} == {
        job: (heads[job], lengths[job]) for job in heads
    }
    assert sorted(sums) == sorted(counts)


def freeze(database: str, at: datetime) -> None:
    """Let the database's clock stand still."""
    with stand.owner(database) as connection:
        connection.execute(
            "create or replace function clock() returns timestamptz language sql stable as"
            f" 'select timestamptz ''{at.isoformat()}'''".encode()
        )


def force(database: str, change: str, *params: Any) -> None:
    """Set columns as no statement may: the owner lifts the guards and puts them back."""
    with stand.owner(database) as connection, connection.transaction():
        connection.execute("alter table standing disable trigger user")
        connection.execute(f"update standing set {change}".encode(), params)
        connection.execute("alter table standing enable trigger user")

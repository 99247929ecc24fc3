"""The two pipelines that are measured: one stores nothing, one stores a text under guards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from dragoman.core.canonical import JSONObject
from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7, uuid7s
from dragoman.core.job import Done, Held, Mode, Outcome, Queue
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.store import jobs, queues
from dragoman.store.database import Cell, Tx
from dragoman.work.pipeline import Pipeline, Pipelines, Stored

if TYPE_CHECKING:
    from bench.place import Place

TEXT = "A calm sentence of some forty letters. " * 105  # about 4 KB
CHUNK = 5_000
ROUTING: JSONObject = {}

# What the rewrite pipeline has: a table for texts, and one trigger on each side of the promise.
SCHEMA = """
insert into pipeline values (8, 'text', '{run}'), (9, 'noop', '{run}');
create table text_output (
  job_id uuid primary key, home_id uuid not null, body text not null,
  completed_at timestamptz not null
);
alter table text_output alter body set storage external;
create type new_text as (job_id uuid, home_id uuid, body text, completed_at timestamptz);
create trigger write_once before update on text_output for each row
  execute function refuse('output_is_write_once');
create function text_is_stored() returns trigger language plpgsql as $$
begin
  if not exists (select from text_output where job_id = new.id) then
    raise exception using errcode = 'DR001', message = 'completed_without_output';
  end if;
  return null;
end $$;
create constraint trigger text_completed after update on standing deferrable initially deferred
  for each row when (new.pipeline = 8 and new.state = 'completed' and old.state <> 'completed')
  execute function text_is_stored();
create function text_is_completed() returns trigger language plpgsql as $$
begin
  if not exists (select from standing where id = new.job_id and state = 'completed') then
    raise exception using errcode = 'DR001', message = 'output_without_completed';
  end if;
  return null;
end $$;
create constraint trigger text_stored after insert on text_output deferrable initially deferred
  for each row execute function text_is_completed();
grant select, insert on text_output to dragoman_worker;
create table written (id uuid primary key, at timestamptz not null);
grant insert on written to dragoman_orchestrator;
"""


@dataclass(frozen=True, slots=True)
class NewText:
    """A result, in the order of the type new_text."""

    job_id: JobId
    home_id: HomeId
    body: str
    completed_at: datetime


class Stage:
    """A stage that is done as soon as it begins."""

    name = "run"
    retry: RetryPolicy = FullJitter()

    def __init__(self, done: Done) -> None:
        self.done = done

    async def run(self, cell: Cell, job: Held) -> Outcome:  # noqa: ARG002 - the protocol's
        """Nothing to do."""
        return self.done

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """One statement for all texts."""
        rows = [
            NewText(one.job.id, one.job.home_id, str(one.done.result), one.at) for one in finished
        ]
        await tx.run("output/store_texts", "bench", texts=tx.cell.values("new_text", rows))


NOOP, WITH_TEXT = Done(None), Done(TEXT, bytes(32))
PIPELINES: Pipelines = {
    "noop": Pipeline(9, "noop", (Stage(NOOP),), 30, is_guarded=False),
    "text": Pipeline(8, "text", (Stage(WITH_TEXT),), 30),
}


def queue_of(pipeline: str) -> Queue:
    """Where jobs of a pipeline wait."""
    return Queue(pipeline, "run", Mode.ASYNC)


def new_jobs(pipeline: str, home: HomeId, units: Sequence[str]) -> list[jobs.NewJob]:
    """Jobs that are ready at once."""
    number, key = PIPELINES[pipeline].id, queue_of(pipeline).key
    return [
        jobs.NewJob(
            id=JobId(new),
            pipeline=number,
            unit=unit,
            home_id=home,
            mode=Mode.ASYNC,
            account="",
            lane=None,
            source_locale=None,
            target_locale=None,
            group_key=None,
            routing=ROUTING,
            max_attempts=5,
            request_id=None,
            recipient_id=None,
            changelist_id=None,
            review_version=None,
            input_hash=None,
            replay_of=None,
            stage=0,
            queue_key=key,
            queue_keys=None,
            unit_lock=unit_lock(pipeline, unit),
        )
        for new, unit in zip(uuid7s(len(units)), units, strict=True)
    ]


def prepare(place: Place) -> None:
    """A fresh database that knows both pipelines."""
    place.fresh()
    with place.owner() as connection:
        connection.execute(SCHEMA)


async def name_queues(cell: Cell) -> None:
    """Both queues, so that workers look at them."""
    async with cell.transaction("name") as tx:
        for pipeline in PIPELINES:
            await queues.name_queue(tx, queue_of(pipeline), 0)


async def enqueue(
    cell: Cell, actor: UUID, pipeline: str, units: Sequence[str], chunk: int = CHUNK
) -> None:
    """Jobs for these units, made as the orchestrator would make them."""
    home = HomeId(uuid7())
    for start in range(0, len(units), chunk):
        new = new_jobs(pipeline, home, units[start : start + chunk])
        async with cell.transaction("enqueue") as tx:
            made = await jobs.enqueue_jobs(tx, actor, new)
        if len(made) != len(new):
            raise RuntimeError("a unit was taken")


def units(name: str, count: int) -> list[str]:
    """Names of units."""
    return [f"{name}-{n}" for n in range(count)]

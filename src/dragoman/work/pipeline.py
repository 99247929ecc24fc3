"""What a pipeline is to the engine: a name, a number, and stages that make outcomes of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from dragoman.core.call import Call, Reply
from dragoman.core.failure import Failure
from dragoman.core.ids import JobId
from dragoman.core.job import Done, Held, Mode, Outcome, Queue
from dragoman.core.retry import RetryPolicy
from dragoman.store.database import Cell, Tx


@dataclass(frozen=True, slots=True)
class Stored:
    """A finished job on its way into its pipeline's own tables, in the same transaction."""

    job: Held
    at: datetime
    done: Done


class Stage(Protocol):
    """What both kinds of stage have."""

    @property
    def name(self) -> str:
        """Its name in its pipeline."""
        ...

    @property
    def retry(self) -> RetryPolicy:
        """When to try again."""
        ...

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Store the results of exactly these jobs, whose token held; the caller commits."""
        ...


@runtime_checkable
class PlainStage(Stage, Protocol):
    """A stage that does its work itself."""

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Do it once. An exception that is not a typed failure is a bug and pages somebody."""
        ...


@runtime_checkable
class LLMStage(Stage, Protocol):
    """Two pure halves around a call that the mode makes: now by a worker, or later by a batch."""

    async def load(self, cell: Cell, jobs: Sequence[Held]) -> Mapping[JobId, object]:
        """Read what the halves need, for many jobs at once."""
        ...

    def prepare(self, job: Held, given: object) -> Sequence[Call] | Failure:
        """The calls of this job; call 0 carries the job's id, call k the id and `-k`."""
        ...

    def absorb(self, job: Held, given: object, replies: Sequence[Reply]) -> Outcome:
        """Judge the replies to all calls, in order. Never raises for what a model said."""
        ...


AnyStage: TypeAlias = PlainStage | LLMStage


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A package's stages under one name."""

    id: int
    name: str
    stages: tuple[AnyStage, ...]
    claim_timeout_s: float
    is_guarded: bool = True  # the schema checks at the end of a transaction what it has stored

    def queue(self, stage: int, *, mode: Mode, provider: str, account: str, model: str) -> Queue:
        """Where jobs of a stage wait: only a model's stage has a mode and a gate."""
        name = self.stages[stage].name
        if isinstance(self.stages[stage], LLMStage):
            return Queue(self.name, name, mode, provider, account, model)
        return Queue(self.name, name, Mode.ASYNC)


Pipelines: TypeAlias = Mapping[str, Pipeline]


def stage_of(pipelines: Pipelines, job: Held) -> AnyStage:
    """The stage a job is at."""
    return pipelines[job.pipeline].stages[job.stage]


def custom_id(job: Held, call: int) -> str:
    """The id a call carries at the provider: the job's, and `-k` from the second call on."""
    return str(job.id) if call == 0 else f"{job.id}-{call}"

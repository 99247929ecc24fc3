"""Pipelines of somebody's own: one that works by itself, and one that asks a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from dragoman.core.call import Call, Reply
from dragoman.core.failure import Failure
from dragoman.core.ids import JobId
from dragoman.core.job import Bury, Held, Outcome
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.store.database import Cell, Tx
from dragoman.work.pipeline import Pipeline, Stored
from tests.store.kernel import PIPELINES

PLAIN = PIPELINES["plain"]
HOME = UUID(int=7)


@dataclass
class Asking:
    """A stage that asks a model; nobody here comes so far."""

    name: str = "ask"
    retry: RetryPolicy = field(default_factory=FullJitter)

    async def load(self, cell: Cell, jobs: Sequence[Held]) -> Mapping[JobId, object]:
        """Nothing."""
        return {}

    def prepare(self, job: Held, given: object) -> Sequence[Call] | Failure:
        """Nothing."""
        return []

    def absorb(self, job: Held, given: object, replies: Sequence[Reply]) -> Outcome:
        """Nothing."""
        return Bury(Failure(cast("Any", "X"), "x"))

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Nothing."""


SUMMARIES = Pipeline(10, "summaries", (Asking(),), 600)
ROUTING = {"provider": "acme", "adapter_kind": "openai_responses", "model": "m-1"}

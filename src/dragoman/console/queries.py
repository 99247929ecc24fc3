"""What the pages read: one function per statement, all as a role that can read no text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dragoman.store.database import Tx

_HERE = "dragoman.console"


@dataclass(frozen=True, slots=True)
class CellRow:
    """Where and when a page was read."""

    name: str
    now: datetime
    server: str
    workers: int


@dataclass(frozen=True, slots=True)
class Sum:
    """What the counters say of a state."""

    state: str
    n: int


@dataclass(frozen=True, slots=True)
class Checked:
    """What the counters and a count say of a state."""

    state: str
    told: int
    counted: int


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that was raised and is open."""

    kind: str
    subject: str
    severity: str
    first_at: datetime
    last_at: datetime
    times: int
    total: int


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate that lets nothing pass; without a time, until somebody opens it."""

    provider: str
    account: str
    model: str
    pause_reason: str
    pause_note: str | None
    paused_until: datetime | None

    @property
    def name(self) -> str:
        """How its alert calls it."""
        return f"{self.provider}/{self.account}/{self.model}"


@dataclass(frozen=True, slots=True)
class Letters:
    """Dead letters of one kind."""

    pipeline: str
    stage_name: str
    error_class: str
    code: str
    state: str
    n: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class DoubtfulDelivery:
    """A message of which nobody knows whether it arrived."""

    id: UUID
    job_id: UUID
    channel: str
    guarantee: str
    state: str
    started_at: datetime | None
    deadline_at: datetime | None
    asked_at: datetime | None
    total: int


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch that is not closed."""

    id: UUID
    state: str
    provider: str
    account: str
    model: str
    provider_batch_id: str | None
    provider_status: str | None
    items: int
    created_at: datetime
    started_at: datetime | None
    submitted_at: datetime | None
    polled_at: datetime | None
    deadline_at: datetime | None
    asked_at: datetime | None
    absences: int
    settled: int
    total: int
    doubtful: int
    held: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Queued jobs that wait for the same thing."""

    pipeline: str
    mode: str
    reason: str
    is_ready: bool
    n: int
    oldest: datetime
    first_due: datetime | None
    last_due: datetime | None


@dataclass(frozen=True, slots=True)
class PairCount:
    """Jobs of a lane and a pair in one state."""

    lane: str
    source: str | None
    target: str | None
    state: str
    n: int


@dataclass(frozen=True, slots=True)
class Minute:
    """What one minute brought."""

    minute: datetime
    accepted: int
    completed: int
    failed: int
    canceled: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as a list shows it."""

    job_id: UUID
    pipeline: str
    state: str
    stage: str
    mode: str
    reason: str | None
    ready: bool
    not_before_at: datetime | None
    lane: str | None
    source: str | None
    target: str | None
    provider: str | None
    model: str | None
    attempt_count: int
    max_attempts: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    batch_id: UUID | None
    batch_state: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a scheduled role, or its last skip."""

    id: UUID
    role: str
    started_at: datetime
    finished_at: datetime | None
    max_jobs_per_run: int | None
    counts: dict[str, int]
    skipped: str | None


@dataclass(slots=True)
class Reading:
    """One page's transaction; it counts its statements."""

    tx: Tx
    queries: int = 0

    async def cell(self) -> CellRow:
        """Where and when."""
        return (await self._rows(CellRow, "cell/read_cell"))[0]

    async def sums(self) -> list[Sum]:
        """The counters."""
        return await self._rows(Sum, "tally/sum_states")

    async def check(self) -> list[Checked]:
        """The counters beside a count."""
        return await self._rows(Checked, "tally/check_states")

    async def alerts(self, most: int) -> list[Alert]:
        """Open alerts, the gravest first."""
        return await self._rows(Alert, "alert/list_open", most=most)

    async def closed_gates(self) -> list[ClosedGate]:
        """Gates that let nothing pass."""
        return await self._rows(ClosedGate, "gate/list_closed")

    async def letters(self) -> list[Letters]:
        """Dead letters that are not resolved."""
        return await self._rows(Letters, "dead_letter/count_open")

    async def deliveries(self) -> list[Sum]:
        """How many deliveries stand in each state."""
        return await self._rows(Sum, "delivery/count_states")

    async def doubtful_deliveries(self, most: int) -> list[DoubtfulDelivery]:
        """Messages in doubt; those that only a person can decide stand first."""
        return await self._rows(DoubtfulDelivery, "delivery/list_doubts", most=most)

    async def open_batches(self, most: int) -> list[OpenBatch]:
        """Batches that are not closed; those in doubt stand first."""
        return await self._rows(OpenBatch, "batch/list_open", most=most)

    async def waits(self) -> list[Wait]:
        """What is queued, by why."""
        return await self._rows(Wait, "job/sum_waits")

    async def pairs(self) -> list[PairCount]:
        """A day's jobs by lane, pair and state."""
        return await self._rows(PairCount, "job/count_pairs")

    async def minutes(self) -> list[Minute]:
        """The last hour, minute by minute."""
        return await self._rows(Minute, "job/count_minutes")

    async def finished(self, most: int) -> list[JobRow]:
        """What became final last."""
        return await self._rows(JobRow, "job/list_finished", most=most)

    async def jobs(self, most: int, **filters: object) -> list[JobRow]:
        """One page of jobs."""
        return await self._rows(JobRow, "job/list_jobs", most=most, **filters)

    async def runs(self, roles: list[str], most: int) -> list[Run]:
        """The last runs of these roles."""
        return await self._rows(Run, "run/list_recent", roles=roles, most=most)

    async def find(self, id: UUID) -> UUID | None:  # noqa: A002 - what everybody calls it
        """The job of a job's or a request's id."""
        self.queries += 1
        rows = await self.tx.tuples("job/find_job", _HERE, id=id)
        return rows[0][0] if rows else None

    async def dicts(self, name: str, id: UUID) -> list[dict[str, Any]]:  # noqa: A002 - as above
        """Rows of a statement about one job, for its page alone. Any: a database row."""
        self.queries += 1
        return await self.tx.dicts(name, _HERE, id=id)

    async def _rows(self, kind: type[Any], name: str, **params: object) -> list[Any]:
        self.queries += 1
        return await self.tx.fetch(kind, name, _HERE, **params)

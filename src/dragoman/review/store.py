"""Reviews, their inputs and what they found: one function per statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import JSON, JSONObject, canonical
from dragoman.core.ids import DeliveryId, HomeId, JobId
from dragoman.store.database import Cell, Tx

_HERE = "dragoman.review"


@dataclass(frozen=True, slots=True)
class Made:
    """A review that a key has made before."""

    id: JobId
    changelist_id: str
    review_version: int
    input_hash: bytes
    state: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a changelist and the job in charge of it."""

    version: int
    id: JobId
    home_id: HomeId
    state: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the stages of a review work on. It holds code: never log it."""

    job_id: JobId
    changelist_id: str
    review_version: int
    recipients: list[str]
    diff: str | None
    changed_files: list[str] | None
    not_reviewed: list[list[str]] | None

    def __repr__(self) -> str:
        """Without the code."""
        return f"Loaded(job_id={self.job_id})"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a review stands."""

    id: JobId
    changelist_id: str
    review_version: int
    stage: str
    state: str
    stage_attempts: int
    last_error: str | None
    dead_letter: str | None
    summary: str | None
    findings: int

    @property
    def status(self) -> str:
        """The words that a review's users know, over the one machine."""
        match self.state:
            case "completed":
                return "succeeded"
            case "failed":
                return "failed" if self.dead_letter in (None, "resolved") else "retryable_failed"
            case "queued" if self.stage == "fetch" and self.stage_attempts == 0:
                return "queued"
            case "canceled":
                return "canceled"
            case _:
                return "in_progress"


@dataclass(frozen=True, slots=True)
class NewDiff:
    """A redacted diff, in the order of the type new_diff."""

    job_id: JobId
    home_id: HomeId
    diff: str
    changed_files: Sequence[str]
    not_reviewed: Sequence[Sequence[str]]
    redaction: JSONObject
    at: datetime


@dataclass(frozen=True, slots=True)
class NewReview:
    """What a review found as a whole, in the order of the type new_review."""

    job_id: JobId
    home_id: HomeId
    changelist_id: str
    review_version: int
    schema_version: str
    prompt_version: str
    provider: str
    model: str
    summary: str | None
    diagnostics: Sequence[JSON]
    at: datetime


@dataclass(frozen=True, slots=True)
class NewFinding:
    """One finding, in the order of the type new_finding."""

    job_id: JobId
    position: int
    home_id: HomeId
    severity: str
    category: str
    title: str
    file: str
    line: int
    end_line: int | None
    message: str
    suggestion: str | None
    confidence: str | None
    rule_id: str | None


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A message to one recipient, in the order of the type new_delivery."""

    id: DeliveryId
    changelist_id: str
    recipient: str
    review_version: int
    home_id: HomeId
    job_id: JobId
    channel: str
    guarantee: str
    key: str
    payload: bytes
    payload_sha256: bytes
    max_attempts: int
    at: datetime


async def find_by_key(tx: Tx, unit: str) -> Made | None:
    """The review that a key has made before."""
    found = await tx.fetch(Made, "review/find_by_key", _HERE, unit=unit)
    return found[0] if found else None


async def versions(tx: Tx, changelist_id: str) -> list[Version]:
    """The versions of a changelist, the highest first."""
    return await tx.fetch(Version, "review/versions", _HERE, changelist_id=changelist_id)


async def take_charge(
    tx: Tx,
    changelist_id: str,
    version: int,
    home_id: UUID,
    job_id: JobId,
    instead_of: JobId | None,
) -> bool:
    """Put a job in charge of a version; False when another one is."""
    rows = await tx.tuples(
        "review/take_charge",
        _HERE,
        changelist_id=changelist_id,
        version=version,
        home_id=home_id,
        job_id=job_id,
        instead_of=instead_of,
    )
    return bool(rows)


async def write_input(
    tx: Tx,
    job_id: JobId,
    home_id: UUID,
    changelist_id: str,
    version: int,
    recipients: Sequence[str],
) -> None:
    """What a review is about and whom it will tell."""
    await tx.run(
        "review/write_input",
        _HERE,
        job_id=job_id,
        home_id=home_id,
        changelist_id=changelist_id,
        version=version,
        source=canonical({"kind": "git"}).decode(),
        recipients=list(recipients),
    )


async def load_inputs(cell: Cell, ids: Sequence[JobId]) -> list[Loaded]:
    """What the stages of these reviews work on."""
    return await cell.fetch(Loaded, "review/load_inputs", _HERE, ids=list(ids))


async def show_review(cell: Cell, job_id: JobId) -> Shown | None:
    """How a review stands."""
    found = await cell.fetch(Shown, "review/show_review", _HERE, id=job_id)
    return found[0] if found else None


async def store_diffs(tx: Tx, diffs: Sequence[NewDiff]) -> None:
    """Keep redacted diffs for the stages that follow."""
    rows = tx.cell.values("new_diff", diffs)
    await tx.run("result/store_diffs", _HERE, diffs=rows)


async def store_results(tx: Tx, reviews: Sequence[NewReview]) -> None:
    """Store what reviews found."""
    rows = tx.cell.values("new_review", reviews)
    await tx.run("result/store_results", _HERE, reviews=rows)


async def store_findings(tx: Tx, findings: Sequence[NewFinding]) -> None:
    """Store findings, before anybody is told."""
    rows = tx.cell.values("new_finding", findings)
    await tx.run("result/store_findings", _HERE, findings=rows)


async def queue_deliveries(tx: Tx, deliveries: Sequence[NewDelivery]) -> None:
    """One outbox row for each recipient of a version."""
    rows = tx.cell.values("new_delivery", deliveries)
    await tx.run("result/queue_deliveries", _HERE, deliveries=rows)

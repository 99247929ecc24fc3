"""Requests, snapshots and outputs: one function per statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.ids import HomeId, JobId
from dragoman.store.database import Cell, Tx

_HERE = "dragoman.rewrite"


@dataclass(frozen=True, slots=True)
class Known:
    """A request as the orchestrator goes on with it. It holds the text: never log it."""

    id: UUID
    home_id: HomeId
    sender_user_id: UUID
    recipient_user_id: UUID
    surface: str
    original_text: str
    text_sha256: bytes
    created_at: datetime
    recipient_snapshot_id: UUID
    preference_snapshot_id: UUID
    preferences: dict[str, str]
    sender_role: str
    recipient_role: str
    sender_locale: str | None
    recipient_locale: str | None
    routed_at: datetime | None
    failed_at: datetime | None
    job_id: JobId | None
    state: str | None

    def __repr__(self) -> str:
        """Without the text."""
        return f"Known(id={self.id})"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A request as the generate stage reads it. It holds the text: never log it."""

    job_id: JobId
    rewrite_request: JSONObject
    original_text: str

    def __repr__(self) -> str:
        """Without the text."""
        return f"Loaded(job_id={self.job_id})"


@dataclass(frozen=True, slots=True)
class NewOutput:
    """An output that passed, in the order of the type new_output."""

    request_id: UUID
    recipient_user_id: UUID
    home_id: HomeId
    job_id: JobId
    rewritten_text: str
    output_language: str
    target_locale: str
    provider: str
    model: str
    prompt_version: str
    policy_version: str
    lexicon_version: str
    eval_result: JSONObject
    completed_at: datetime

    def __repr__(self) -> str:
        """Without the text."""
        return f"NewOutput(job_id={self.job_id})"


@dataclass(frozen=True, slots=True)
class Output:
    """The rewritten text as its reader gets it."""

    rewritten_text: str
    output_language: str
    provider: str
    model: str
    eval_result: JSONObject
    completed_at: datetime

    def __repr__(self) -> str:
        """Without the text."""
        return f"Output(output_language={self.output_language})"


@dataclass(frozen=True, slots=True)
class RouteRow:
    """One row of the routing table."""

    account: str
    decision: JSONObject
    surface: str
    lane: str
    rewrite_strength: str
    priority: int
    active: bool
    created_at: datetime


async def persist_request(tx: Tx, **columns: object) -> bool:
    """Make a message durable with its snapshots; False if the id exists or one is no member."""
    return bool(await tx.tuples("request/persist_request", _HERE, **columns))


async def read_request(cell: Cell, request_id: UUID) -> Known | None:
    """A request with its snapshots and its job."""
    found = await cell.fetch(Known, "request/read_request", _HERE, id=request_id)
    return found[0] if found else None


async def route_request(tx: Tx, **columns: object) -> bool:
    """Write down what was decided, once; False when it was decided or failed before."""
    return bool(await tx.tuples("request/route_request", _HERE, **columns))


async def fail_request(cell: Cell, request_id: UUID, code: str) -> bool:
    """A request that never got its job has failed."""
    async with cell.transaction("fail_request") as tx:
        return bool(await tx.tuples("request/fail_request", _HERE, id=request_id, code=code))


async def fail_waiting(cell: Cell, older_s: float) -> int:
    """Requests that have waited too long for their job have failed."""
    async with cell.transaction("fail_waiting") as tx:
        return len(await tx.tuples("request/fail_waiting", _HERE, older_s=older_s))


async def load_requests(cell: Cell, ids: Sequence[JobId]) -> list[Loaded]:
    """What the generate stage needs of these jobs."""
    return await cell.fetch(Loaded, "request/load_requests", _HERE, ids=list(ids))


async def store_outputs(tx: Tx, outputs: Sequence[NewOutput]) -> None:
    """Store what passed, each text in its own row."""
    rows = tx.cell.values("new_output", outputs)
    await tx.run("output/store_outputs", _HERE, outputs=rows)


async def read_output(cell: Cell, request_id: UUID) -> Output | None:
    """The one output of a request."""
    found = await cell.fetch(Output, "output/read_output", _HERE, id=request_id)
    return found[0] if found else None


async def write_member(
    tx: Tx,
    home_id: UUID,
    user_id: UUID,
    role: str,
    locale: str | None,
    preferences: Mapping[str, str],
) -> None:
    """Who lives where, and what they have answered."""
    await tx.run(
        "member/write_member", _HERE, home_id=home_id, user_id=user_id, role=role, locale=locale
    )
    await tx.run(
        "member/write_preferences",
        _HERE,
        home_id=home_id,
        user_id=user_id,
        names=list(preferences),
        answers=canonical(dict(preferences)).decode(),
    )


async def active_routes(cell: Cell) -> list[RouteRow]:
    """The routes there are."""
    return await cell.fetch(RouteRow, "route/active_routes", _HERE)


async def write_route(tx: Tx, **columns: object) -> None:
    """Add a route, or change the one with this id."""
    await tx.run("route/write_route", _HERE, **columns)

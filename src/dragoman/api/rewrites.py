"""Rewrites: taken from a product's backend, told by four words, handed out as text to it alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel

from dragoman.api.bodies import MemberBody, RewriteBody, read_body, schema_of
from dragoman.api.cells import Cells, patience
from dragoman.api.guard import Gate
from dragoman.api.problems import RewriteFailed
from dragoman.core.errors import NotFound
from dragoman.rewrite import store
from dragoman.rewrite.orchestrator import Classify, Complaint, Orchestrator
from dragoman.store.database import Cell
from dragoman.store.workers import know_actor

_HERE = "dragoman.api"


class Accepted(BaseModel):
    """A message that was taken on; its rewrite comes later."""

    rewrite_request_id: UUID
    job_id: UUID
    status: Literal["queued", "delivered", "revealed", "failed"]


class Status(BaseModel):
    """All that a product's users may know: no text, no reason, no time that has not come."""

    rewrite_request_id: UUID
    status: Literal["queued", "delivered", "revealed", "failed"]
    created_at: datetime
    rewrite_completed_at: datetime | None


class Text(BaseModel):
    """The rewritten message, for the backend that delivers it."""

    rewritten_text: str
    output_language: str
    completed_at: datetime


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The one row of the status view, in its columns."""

    rewrite_request_id: UUID
    status: Literal["queued", "delivered", "revealed", "failed"]
    created_at: datetime
    rewrite_completed_at: datetime | None


@dataclass(slots=True)
class Rewrites:
    """The routes of the rewrite pipeline."""

    cells: Cells
    gate: Gate
    classify: Classify
    actor: UUID | None = None

    def router(self) -> APIRouter:
        """Each route with the key it asks for."""
        routes = APIRouter(prefix="/v1", tags=["rewrites"])
        backend, either = [Depends(self.gate.orchestrator)], [Depends(self.gate.anybody)]
        routes.add_api_route(
            "/rewrites",
            self.create,
            methods=["POST"],
            status_code=202,
            dependencies=backend,
            openapi_extra=schema_of(RewriteBody),
        )
        routes.add_api_route("/rewrites/{request_id}", self.status, dependencies=either)
        routes.add_api_route("/rewrites/{request_id}/text", self.text, dependencies=backend)
        routes.add_api_route(
            "/homes/{home_id}/members/{user_id}",
            self.put_member,
            methods=["PUT"],
            status_code=204,
            dependencies=backend,
            openapi_extra=schema_of(MemberBody),
        )
        return routes

    async def create(self, request: Request) -> Accepted:
        """Take a message. The same id again gives the same answer and stores nothing."""
        body = await read_body(request, RewriteBody)
        orchestrator = await self._orchestrator()
        accepted = await orchestrator.create(Complaint(**dict(body)))
        if accepted.job_id is None:
            raise RewriteFailed
        if accepted.status == "queued":
            return Accepted(
                rewrite_request_id=accepted.rewrite_request_id,
                job_id=accepted.job_id,
                status="queued",
            )
        shown = await self.status(accepted.rewrite_request_id)
        return Accepted(
            rewrite_request_id=accepted.rewrite_request_id,
            job_id=accepted.job_id,
            status=shown.status,
        )

    async def status(self, request_id: UUID) -> Status:
        """How a rewrite stands: a read of one view, for a service that may see every home's."""
        async with patience():
            cell = await self.cells.of("orchestrator")
            rows = await cell.fetch(StatusRow, "rewrite/read_status", _HERE, id=request_id)
        if not rows:
            raise NotFound
        return Status.model_validate(rows[0], from_attributes=True)

    async def text(self, request_id: UUID) -> Text:
        """The rewritten message; 404 while there is none."""
        async with patience():
            cell = await self.cells.of("orchestrator")
            output = await store.read_output(cell, request_id)
        if output is None:
            raise NotFound("there is no text for this rewrite, or not yet")
        return Text(
            rewritten_text=output.rewritten_text,
            output_language=output.output_language,
            completed_at=output.completed_at,
        )

    async def put_member(self, home_id: UUID, user_id: UUID, request: Request) -> None:
        """Say who lives in a home; what is sent replaces what was there."""
        body = await read_body(request, MemberBody)
        cell = await self.cells.of("orchestrator")
        async with cell.transaction("write_member") as tx:
            await store.write_member(tx, home_id, user_id, body.role, body.locale, body.preferences)

    async def _orchestrator(self) -> Orchestrator:
        cell = await self.cells.of("orchestrator")
        return Orchestrator(cell, self.actor or await self._known(cell), self.classify)

    async def _known(self, cell: Cell) -> UUID:
        async with cell.transaction("know_actor") as tx:
            self.actor = await know_actor(tx, "orchestrator", "api")
        return self.actor

"""Reviews: handed in under the caller's key, told by the words that a review's users know."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel

from dragoman.api.bodies import ReviewBody, read_body, schema_of
from dragoman.api.cells import Cells, patience
from dragoman.api.guard import Gate
from dragoman.compose import pipelines_of, review_routing
from dragoman.core.errors import NotFound, Refused
from dragoman.core.ids import JobId
from dragoman.review import store
from dragoman.review.enqueue import Wanted, enqueue_review
from dragoman.review.paths import AllowList, PathDenied
from dragoman.review.source import Changelist
from dragoman.settings import Settings
from dragoman.store.database import Cell
from dragoman.store.workers import know_actor


class Enqueued(BaseModel):
    """The job that answers for the key; `is_new` is false when it was there before."""

    job_id: UUID
    status: str
    review_version: int
    is_new: bool


class ReviewStatus(BaseModel):
    """How a review stands: no code and no finding, only how many there are."""

    job_id: UUID
    changelist_id: str
    review_version: int
    status: str
    stage: str
    last_error: str | None
    findings: int


@dataclass(slots=True)
class Reviews:
    """The routes of the review pipeline."""

    cells: Cells
    gate: Gate
    settings: Settings
    actor: UUID | None = None

    def router(self) -> APIRouter:
        """Each route with the key it asks for."""
        routes = APIRouter(prefix="/v1", tags=["reviews"])
        routes.add_api_route(
            "/reviews",
            self.create,
            methods=["POST"],
            status_code=202,
            dependencies=[Depends(self.gate.orchestrator)],
            openapi_extra=schema_of(ReviewBody),
        )
        either = [Depends(self.gate.anybody)]
        routes.add_api_route("/reviews/{job_id}", self.status, dependencies=either)
        return routes

    async def create(self, request: Request) -> Enqueued:
        """Hand in a changelist. The same key again gives the same job."""
        body = await read_body(request, ReviewBody)
        wanted = Wanted(
            home_id=body.home_id,
            idempotency_key=body.idempotency_key,
            changelist=self._allowed(Changelist.parse(body.changelist_id)),
            version=body.review_version,
            recipients=body.recipients,
            is_rerun=body.rerun,
        )
        cell = await self.cells.of("orchestrator")
        made = await enqueue_review(
            cell,
            self.actor or await self._known(cell),
            pipelines_of(self.settings)["review"],
            wanted,
            review_routing(self.settings),
            self.settings.provider.account,
        )
        shown = await self.status(made.job_id)
        return Enqueued(
            job_id=made.job_id,
            status=shown.status,
            review_version=made.version,
            is_new=made.is_new,
        )

    async def status(self, job_id: UUID) -> ReviewStatus:
        """How a review stands."""
        async with patience():
            cell = await self.cells.of("orchestrator")
            shown = await store.show_review(cell, JobId(job_id))
        if shown is None:
            raise NotFound("there is no review with this id")
        return ReviewStatus(
            job_id=shown.id,
            changelist_id=shown.changelist_id,
            review_version=shown.review_version,
            status=shown.status,
            stage=shown.stage,
            last_error=shown.last_error,
            findings=shown.findings,
        )

    def _allowed(self, changelist: Changelist) -> Changelist:
        """Only what the settings allow is looked at; the answer does not repeat the path."""
        allow = self.settings.review.allow
        try:
            if allow and AllowList.read(allow).check(changelist.repository):
                return changelist
        except PathDenied:
            pass  # refused below, without the path
        raise Refused("review.allow does not allow this repository; nothing was stored")

    async def _known(self, cell: Cell) -> UUID:
        async with cell.transaction("know_actor") as tx:
            self.actor = await know_actor(tx, "orchestrator", "api")
        return self.actor

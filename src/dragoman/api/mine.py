"""What a product's own user may ask: how the rewrites stand that this user sent or received."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from dragoman.api.cells import Cells, patience
from dragoman.api.claims import Verifier
from dragoman.api.guard import bearer
from dragoman.api.rewrites import Status, StatusRow
from dragoman.core.errors import NotFound
from dragoman.store.database import Tx

_HERE = "dragoman.api"
_MOST = 100


class Mine(BaseModel):
    """The newest rewrites of a user, the newest first."""

    rewrites: list[Status]


@dataclass(frozen=True, slots=True)
class OwnRewrites:
    """The routes of a product's users; each needs a token, and a service key opens none."""

    cells: Cells
    verifier: Verifier

    def router(self) -> APIRouter:
        """Both routes read one view, as the role that sees no more than its claims allow."""
        routes = APIRouter(prefix="/v1/me", tags=["users"], dependencies=[Depends(_keep_nowhere)])
        routes.add_api_route("/rewrites", self.rewrites)
        routes.add_api_route("/rewrites/{request_id}", self.status)
        return routes

    async def rewrites(self, request: Request) -> Mine:
        """How the newest of them stand; what was sent to the user shows once it is delivered."""
        async with self._stated(request) as tx:
            rows = await tx.fetch(StatusRow, "rewrite/list_mine", _HERE, most=_MOST)
        return Mine(rewrites=[Status.model_validate(row, from_attributes=True) for row in rows])

    async def status(self, request_id: UUID, request: Request) -> Status:
        """How one of them stands; of anybody else's it is not even said that there is one."""
        async with self._stated(request) as tx:
            rows = await tx.fetch(StatusRow, "rewrite/read_mine", _HERE, id=request_id)
        if not rows:
            raise NotFound
        return Status.model_validate(rows[0], from_attributes=True)

    @asynccontextmanager
    async def _stated(self, request: Request) -> AsyncGenerator[Tx]:
        """One transaction in which the database knows who asks; it forgets it with the end."""
        claims = self.verifier.verify(bearer(request))
        async with patience():
            cell = await self.cells.of("frontend")
            async with cell.transaction("read") as tx:
                await tx.run("claim/state_claims", _HERE, home=claims.home, user=claims.user)
                yield tx


def _keep_nowhere(response: Response) -> None:
    """A browser that several people use keeps none of it."""
    response.headers["Cache-Control"] = "no-store"

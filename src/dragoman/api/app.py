"""The application: every route with the key it asks for and the role it runs as."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Lifespan

import dragoman
from dragoman.api import problems
from dragoman.api.cells import Cells, DSNOf, patience
from dragoman.api.claims import read_verifier
from dragoman.api.guard import Gate, Guard, NeedsLogin, is_loopback
from dragoman.api.keys import read_keys
from dragoman.api.login import Login
from dragoman.api.mine import OwnRewrites
from dragoman.api.reviews import Reviews
from dragoman.api.rewrites import Rewrites
from dragoman.console.pages import Pages
from dragoman.console.routes import Console
from dragoman.rewrite.orchestrator import Classify
from dragoman.settings import Settings


def build_app(settings: Settings, dsn_of: DSNOf, classify: Classify) -> FastAPI:
    """The whole door. It asks for nothing outside until the first request does.

    >>> build_app(settings, server.dsn, advisor.classify)  # doctest: +SKIP
    """
    keys = read_keys(settings.home)
    gate = Gate(keys, is_open=is_loopback(settings.door.host))
    cells = Cells(settings.cell, dsn_of)
    pages = Pages(settings.cell)
    console = Console(lambda: cells.of("operator"), pages, settings.pace)
    app = FastAPI(
        title="Dragoman",
        version=dragoman.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan(cells, console),
    )
    problems.install(app)
    app.add_exception_handler(NeedsLogin, _to_login)
    app.include_router(Rewrites(cells, gate, classify).router())
    verifier = read_verifier(settings.cell, settings.door.user_keys)
    app.include_router(OwnRewrites(cells, verifier).router())
    app.include_router(Reviews(cells, gate, settings).router())
    app.add_api_route("/healthz", Health(cells).check, dependencies=[Depends(gate.health)])
    operator = [Depends(gate.console)]
    app.include_router(console.router(), dependencies=operator)
    app.add_api_route(
        "/openapi.json", _Described(app).tell, dependencies=operator, include_in_schema=False
    )
    app.include_router(Login(keys, pages).router())
    app.mount("/static", pages.static())
    app.add_middleware(Guard, door=settings.door)
    app.state.console = console
    return app


def _lifespan(cells: Cells, console: Console) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        console.close()
        await cells.close()

    return lifespan


class Health:
    """Whether the database answers."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    async def check(self) -> dict[str, str]:
        """`ok`, or 503."""
        async with patience():
            cell = await self._cells.of("frontend")
            async with cell.transaction("read") as tx:
                await tx.connection.execute("select 1")
        return {"status": "ok"}


class _Described:
    """The API's own description."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def tell(self) -> dict[str, Any]:  # Any: an OpenAPI document
        return self._app.openapi()


async def _to_login(request: Request, _: Exception) -> Response:
    """A browser is shown the form; anything else is told."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/login", 303)
    return problems.answer(problems.problem_of(NeedsLogin()), problems.detail_of(NeedsLogin()))

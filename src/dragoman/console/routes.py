"""The console's addresses: three pages and one stream, all of them reads."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from dragoman.console.job import read_job_page
from dragoman.console.lanes import lane_rows
from dragoman.console.live import CellOf, Watch, reading
from dragoman.console.pages import Pages
from dragoman.console.queries import Reading
from dragoman.console.words import capital, counted
from dragoman.core import ports
from dragoman.core.errors import BadInput, CommitUnknown, DatabaseDown, NotFound, TryAgain
from dragoman.core.job import State
from dragoman.core.profile import Profile

TICK_S = 1.0
PAGE = 40

# What the page shows as the database being away; anything else of it is a bug of ours.
AWAY = (DatabaseDown, TryAgain, CommitUnknown)

Fragments: TypeAlias = Callable[[], Awaitable[dict[str, str]]]

_ENDING = re.compile(r"[0-9a-f]{4,32}")
_TAG = re.compile(r"[A-Za-z-]{2,16}")
_NAME = re.compile(r"[a-z_]{1,32}")


class Console:
    """Pages that read as the operator, who cannot read text."""

    def __init__(self, cell_of: CellOf, pages: Pages, pace: Profile) -> None:
        self.pages = pages
        self.watch = Watch(cell_of, pace)
        self._cell_of = cell_of
        self._closing = asyncio.Event()
        self.listeners = 0

    def router(self) -> APIRouter:
        """The addresses."""
        routes = APIRouter(include_in_schema=False)
        routes.add_api_route("/", self.overview)
        routes.add_api_route("/jobs", self.jobs)
        routes.add_api_route("/jobs/{job_id}", self.job)
        routes.add_api_route("/stream", self.stream)
        return routes

    def close(self) -> None:
        """End every stream, so that the door can stop."""
        self._closing.set()

    async def overview(self, theme: str = "") -> Response:
        """How everything stands."""
        try:
            figures = await self.watch.overview()
        except AWAY:
            return _html(
                self.pages.overview(self.watch.last, theme=_theme(theme), is_away=True), 503
            )
        return _html(self.pages.overview(figures, theme=_theme(theme), is_away=False))

    async def jobs(
        self,
        q: str = "",
        state: str = "",
        lane: str = "",
        pair: str = "",
        before: str = "",
        theme: str = "",
    ) -> Response:
        """One page of jobs, the newest first; an id leads to its job at once."""
        asked = q.strip().lower()
        filters = _filters(asked, state, lane, pair, before)
        try:
            async with reading(self._cell_of) as page:
                if (id := _uuid(asked)) is not None and (found := await page.find(id)):  # noqa: A001 - a job's id
                    return RedirectResponse(f"/jobs/{found}", 303)
                shown = await self._list(page, filters, asked)
        except AWAY:
            return _html(self.pages.no_jobs(self.watch.last, theme=_theme(theme)), 503)
        return _html(self.pages.jobs(shown, theme=_theme(theme)))

    async def job(self, job_id: UUID, theme: str = "") -> Response:
        """One job, explained."""
        try:
            async with reading(self._cell_of) as page:
                found = await read_job_page(page, job_id)
                tally = await self.watch.tally(page)
        except AWAY:
            return _html(self.pages.no_job(theme=_theme(theme)), 503)
        if found is None:
            raise NotFound("there is no job with this id")
        return _html(self.pages.job(found, tally, theme=_theme(theme)))

    async def stream(self, page: str = "overview", job: UUID | None = None) -> Response:
        """Changed fragments about once a second, for as long as somebody listens."""
        sources: dict[str, Fragments] = {"overview": self._overview_parts, "jobs": self._jobs_parts}
        if job is not None:
            sources["job"] = lambda: self._job_parts(job)
        if page not in sources:
            raise BadInput("page is overview, jobs, or job with its id")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._changes(sources[page]), 200, headers, "text/event-stream")

    async def _changes(self, fragments: Fragments) -> AsyncGenerator[str]:
        sent: dict[str, str] = {}
        self.listeners += 1
        try:
            while not self._closing.is_set():
                found = await self._found(fragments)
                changed = {name: html for name, html in found.items() if sent.get(name) != html}
                sent |= changed
                yield _event(changed)
                await self._pause()
        finally:
            self.listeners -= 1

    async def _found(self, fragments: Fragments) -> dict[str, str]:
        try:
            return await fragments()
        except AWAY:
            return self.pages.away_parts(self.watch.last.now if self.watch.last else None)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(TICK_S):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _overview_parts(self) -> dict[str, str]:
        return self.pages.overview_parts(await self.watch.overview())

    async def _jobs_parts(self) -> dict[str, str]:
        async with reading(self._cell_of) as page:
            return self.pages.tally_parts(await self.watch.tally(page), (await page.cell()).now)

    async def _job_parts(self, id: UUID) -> dict[str, str]:  # noqa: A002 - a job's id
        async with reading(self._cell_of) as page:
            found = await read_job_page(page, id)
            return self.pages.job_parts(found, await self.watch.tally(page)) if found else {}

    async def _list(
        self, page: Reading, filters: dict[str, str | UUID | None], asked: str
    ) -> dict[str, object]:
        began = ports.monotonic()
        rows = await page.jobs(PAGE, **filters)
        tally, now = await self.watch.tally(page), (await page.cell()).now
        lanes = [row for row in lane_rows(await page.pairs()) if row.href]
        link = _link(filters)
        return {
            "shown": rows,
            "t": tally,
            "now": now,
            "lanes": lanes,
            "filters": filters,
            "here": link,
            "older": f"{link}{'&' if '?' in link else '?'}before={rows[-1].job_id}"
            if len(rows) == PAGE
            else "",
            "said": _said(tally.open, tally.accepted),
            "asked": asked,
            "queries": page.queries,
            "took_ms": (ports.monotonic() - began) * 1000,
        }


def _event(changed: dict[str, str]) -> str:
    """One server-sent event; when nothing changed, a comment keeps the line open."""
    return f"event: swap\ndata: {json.dumps(changed)}\n\n" if changed else ": nothing new\n\n"


def _said(still: int, accepted: int) -> str:
    if not accepted:
        return "None has been accepted yet."
    if not still:
        return "All of them are final; nothing moves."
    return capital(f"{counted(still, 'job')} still to be finished, each with its reason.")


def _filters(
    asked: str, state: str, lane: str, pair: str, before: str
) -> dict[str, str | UUID | None]:
    """What was asked for, or nothing where it is no value of its kind."""
    source, _, target = pair.partition(".")
    ending = asked.replace("-", "")
    return {
        "state": state if state in set(State) else None,
        "lane": lane if _NAME.fullmatch(lane) else None,
        "source": source if _TAG.fullmatch(source) else None,
        "target": target if _TAG.fullmatch(target) else None,
        "ending": (ending if _ENDING.fullmatch(ending) else "none") if asked else None,
        "before": _uuid(before),
    }


def _link(filters: dict[str, str | UUID | None]) -> str:
    """The address of this list's first page."""
    parts = [f"{name}={filters[name]}" for name in ("state", "lane") if filters[name]]
    if filters["source"] and filters["target"]:
        parts.append(f"pair={filters['source']}.{filters['target']}")
    return f"/jobs?{'&'.join(parts)}" if parts else "/jobs"


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None


def _theme(name: str) -> str:
    return name if name in ("light", "dark") else ""


def _html(page: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(
        page,
        status,
        {"Cache-Control": "no-store"} | ({"Retry-After": "5"} if status == 503 else {}),
    )

"""The form at which an operator shows the key, where the console is not on this machine alone."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dragoman.api.guard import COOKIE
from dragoman.api.keys import SESSION_S, Keys
from dragoman.api.problems import TooLarge
from dragoman.console.pages import Pages

_MAX_FORM = 4096


@dataclass(frozen=True, slots=True)
class Login:
    """Shows the form and gives out sessions."""

    keys: Keys
    pages: Pages

    def router(self) -> APIRouter:
        """Both routes need no key: here it is shown."""
        routes = APIRouter(include_in_schema=False)
        routes.add_api_route("/login", self.form)
        routes.add_api_route("/login", self.enter, methods=["POST"])
        return routes

    async def form(self) -> Response:
        """The empty form."""
        return HTMLResponse(self.pages.login(is_wrong=False), headers={"Cache-Control": "no-store"})

    async def enter(self, request: Request) -> Response:
        """A session for the operator's key, the form again for anything else."""
        fields = parse_qs((await _read_form(request)).decode("ascii", "replace"))
        if self.keys.holder(fields.get("key", [""])[0]) != "operator":
            return HTMLResponse(self.pages.login(is_wrong=True), 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            COOKIE, self.keys.session(), max_age=SESSION_S, httponly=True, samesite="strict"
        )
        return response


async def _read_form(request: Request) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > _MAX_FORM:
            raise TooLarge
    return bytes(parts)

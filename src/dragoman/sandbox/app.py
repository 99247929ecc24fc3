"""The sandbox as an ASGI application: OpenAI's routes, each behind the fault script."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeAlias, cast

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox import openai
from dragoman.sandbox.faults import BadFault, Fault
from dragoman.sandbox.openai import ApiError
from dragoman.sandbox.responses import error_body
from dragoman.sandbox.workspace import Workspace

_HTML: Final = "<html><body><h1>Bad Gateway</h1></body></html>"
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Dropped(Response):
    """No answer at all: the connection is cut."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Cut it, and wait until the server has noticed."""
        del send  # nothing is sent: that is the fault
        _line(scope).abort()
        while (await receive())["type"] != "http.disconnect":
            pass


class Cut(Response):
    """An answer whose body ends before the length that was declared."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers and half of the body, then cut."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        half = bytes(self.body[: len(self.body) // 2])
        await send({"type": "http.response.body", "body": half, "more_body": True})
        _line(scope).close()
        while (await receive())["type"] != "http.disconnect":
            pass


def build_app(space: Workspace, keys: Collection[str], save: Callable[[], None]) -> Starlette:
    """The application around one workspace; without keys any bearer token will do.

    `save` is called after the work and before the answer, also before one that a fault cuts off.
    """
    wire = [(route.method, route.path, _handler(space, route, keys)) for route in openai.ROUTES]
    routes = [
        Route(path, _saved(handler, save), methods=[method])
        for method, path, handler in (*wire, *_control(space))
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_route})


def _saved(handler: Handler, save: Callable[[], None]) -> Handler:
    async def handle(request: Request) -> Response:
        response = await handler(request)
        save()
        return response

    return handle


def _handler(space: Workspace, route: openai.Route, keys: Collection[str]) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            _authorize(request, keys)
            space.settle()
            with space.traffic.passing(route.on):
                response = await _with_faults(space, route, request)
        except ApiError as error:
            response = JSONResponse(error.body, error.status)
        response.headers["x-request-id"] = f"req_{uuid.uuid4().hex}"
        response.headers["openai-processing-ms"] = "1"
        return response

    return handle


async def _with_faults(space: Workspace, route: openai.Route, request: Request) -> Response:
    """Do the work between what goes wrong before it and what goes wrong after it."""
    faults = space.script.take(route.on)
    for fault in faults:
        if fault.do == "delay":
            await asyncio.sleep(fault.number("seconds", 1.0))  # noqa: TID251 - the fault itself
        elif fault.do == "drop_before":
            return Dropped()
        elif fault.do == "status":
            return _refusal(fault)
    response = await route.endpoint(space, request, faults)
    return _after(response, faults)


def _after(response: Response, faults: Sequence[Fault]) -> Response:
    for fault in faults:
        if fault.do == "drop_after":
            return Dropped()
        if fault.do == "status_after":
            return Response(_HTML, int(fault.number("status", 502)), media_type="text/html")
        if fault.do == "truncate":
            return Cut(bytes(response.body), media_type="application/octet-stream")
    return response


def _refusal(fault: Fault) -> Response:
    status = int(fault.number("status", 500))
    after = fault.more.get("retry_after")
    headers = {} if after is None else {"retry-after": str(after)}
    if fault.more.get("html"):
        return Response(_HTML, status, headers, media_type="text/html")
    body = error_body(status, fault.text("code"), "Scripted.", kind=fault.text("type"))
    return JSONResponse(body, status, headers)


def _authorize(request: Request, keys: Collection[str]) -> None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "bearer" or not key or (keys and key not in keys):
        raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")


def _line(scope: Scope) -> asyncio.Transport:
    """The connection itself, which the server put beside the request."""
    return cast("asyncio.Transport", scope["state"]["line"])


async def _no_route(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse(error_body(status, None, "Invalid URL."), status)


def _control(space: Workspace) -> list[tuple[str, str, Handler]]:
    """The routes by which a test moves the clock, scripts faults and reads the ledger."""

    async def advance(request: Request) -> Response:
        entry = await _read(request)
        seconds = entry.get("seconds") if isinstance(entry, dict) else None
        if not isinstance(seconds, (int, float)):
            return JSONResponse({"error": "`seconds` is a number"}, 400)
        space.clock.advance(seconds)
        space.settle()
        return JSONResponse({"now": space.clock.now()})

    async def arm(request: Request) -> Response:
        entries = await _read(request)
        try:
            for entry in entries if isinstance(entries, list) else [entries]:
                space.script.arm(_entry(entry))
        except BadFault as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"armed": len(space.script.faults)})

    async def clear(_request: Request) -> Response:
        space.script.clear()
        return JSONResponse({"armed": 0})

    async def ledger(_request: Request) -> Response:
        space.settle()
        return JSONResponse(space.ledger_json())

    async def traffic(_request: Request) -> Response:
        return JSONResponse(space.traffic.as_json())

    return [
        ("POST", "/_sandbox/advance", advance),
        ("POST", "/_sandbox/faults", arm),
        ("DELETE", "/_sandbox/faults", clear),
        ("GET", "/_sandbox/ledger", ledger),
        ("GET", "/_sandbox/traffic", traffic),
    ]


async def _read(request: Request) -> JSON:
    try:
        return cast("JSON", orjson.loads(await request.body()))
    except orjson.JSONDecodeError:
        return None


def _entry(value: JSON) -> JSONObject:
    if not isinstance(value, dict):
        raise BadFault("a fault is an object")
    return value

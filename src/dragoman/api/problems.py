"""Errors as RFC 9457 problems, in words of ours: never a value, a text or a foreign error."""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from dragoman.core.errors import (
    BadInput,
    BadJSON,
    CommitUnknown,
    Conflict,
    DatabaseDown,
    DatabaseError,
    DragomanError,
    NotFound,
    Refused,
    TryAgain,
)
from dragoman.core.frames import frames

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of answer that is not a success."""

    status: int
    code: str
    title: str
    retry_after_s: int | None = None


class Denied(DragomanError):
    """A key is needed: send it as Authorization: Bearer."""


class BadToken(Denied):
    """This token is not valid here, or not any more."""


class NotYours(Refused):
    """This key may not do that."""


class TooLarge(BadInput):
    """The body is larger than 64 KiB; nothing was stored."""


class WrongMediaType(BadInput):
    """The body must be application/json; nothing was stored."""


class RewriteFailed(DragomanError):
    """The message could not be taken on. Send it again under a new rewrite_request_id."""


BUG = Problem(500, "internal", "Something is wrong on our side")

# The first class that fits decides, so the narrower ones stand first.
PROBLEMS: tuple[tuple[type[DragomanError], Problem], ...] = (
    (Denied, Problem(401, "key_needed", "A key is needed")),
    (NotYours, Problem(403, "not_yours", "This key may not do that")),
    (TooLarge, Problem(413, "too_large", "The body is too large")),
    (WrongMediaType, Problem(415, "wrong_media_type", "The body must be JSON")),
    (BadJSON, Problem(400, "bad_json", "The body is not strict JSON")),
    (BadInput, Problem(422, "bad_input", "The input is not acceptable")),
    (Conflict, Problem(409, "conflict", "The key was used for something else")),
    (Refused, Problem(403, "refused", "The state or the role does not allow this")),
    (NotFound, Problem(404, "not_found", "There is no such thing")),
    (RewriteFailed, Problem(500, "rewrite_failed", "The rewrite failed")),
    (TryAgain, Problem(503, "try_again", "The database is busy", 1)),
    (CommitUnknown, Problem(503, "commit_unknown", "Nobody knows whether it was stored", 1)),
    (DatabaseDown, Problem(503, "database_down", "The database does not answer", 5)),
    (DragomanError, BUG),
)

_HTTP = {
    404: Problem(404, "not_found", "There is no such thing"),
    405: Problem(405, "wrong_method", "This address does not take that method"),
}


def problem_of(error: DragomanError) -> Problem:
    """How an error of ours is told.

    >>> problem_of(Conflict()).status
    409
    """
    return next(problem for kind, problem in PROBLEMS if isinstance(error, kind))


def detail_of(error: DragomanError) -> str:
    """What may be said of it: our own words, and of a database's error only the class's."""
    if isinstance(error, DatabaseError) or problem_of(error) is BUG:
        return (type(error).__doc__ or "").strip()
    return str(error)


def answer(problem: Problem, detail: str) -> JSONResponse:
    """A problem as a response."""
    body = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        "code": problem.code,
    }
    headers = {"Cache-Control": "no-store"}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(problem.retry_after_s)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(body, problem.status, headers, MEDIA_TYPE)


def bug(error: Exception) -> JSONResponse:
    """An unknown error: type and places go to the log, nothing of it to the caller."""
    known = str(error) if isinstance(error, DatabaseError) else type(error).__name__
    log.error("bug", role="door", error=known, frames=frames(error))
    return answer(BUG, "It was written down. Nothing of it is told here.")


def explain(code: str) -> Response:
    """The page behind a problem's type."""
    for kind, problem in PROBLEMS:
        if problem.code == code:
            words = (kind.__doc__ or "").strip()
            return PlainTextResponse(f"{problem.status} {problem.title}\n\n{words}\n")
    raise NotFound


def install(app: FastAPI) -> None:
    """Tell every error of ours, and the framework's own, as a problem."""
    app.add_exception_handler(DragomanError, _ours)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_api_route("/problems/{code}", explain, include_in_schema=False)


async def _ours(_: Request, error: Exception) -> Response:
    if not isinstance(error, DragomanError) or problem_of(error) is BUG:
        return bug(error)
    return answer(problem_of(error), detail_of(error))


async def _malformed(_: Request, error: Exception) -> Response:
    """An address or a query that the framework could not read; its errors quote the value."""
    del error
    return answer(problem_of(BadInput()), "an id in the address is not a UUID")


async def _http(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    problem = _HTTP.get(status, Problem(status, "http", "The request cannot be answered"))
    return answer(problem, f"{problem.title}.")

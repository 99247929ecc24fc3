"""The routes of OpenAI's wire: files, batches, responses, models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, cast

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.batches import Batch
from dragoman.sandbox.faults import Fault
from dragoman.sandbox.responses import error_body
from dragoman.sandbox.spoil import spoil
from dragoman.sandbox.validation import ENDPOINT
from dragoman.sandbox.workspace import StoredFile, Workspace

MAX_FILE_BYTES: Final = 200_000_000
MODELS: Final = ("sandbox-small", "sandbox-large")
Endpoint: TypeAlias = Callable[[Workspace, Request, Sequence[Fault]], Awaitable[Response]]
T = TypeVar("T", Batch, StoredFile)


@dataclass(frozen=True, slots=True)
class Route:
    """One verb at one path, and the name by which the fault script knows it."""

    method: str
    path: str
    on: str
    endpoint: Endpoint


class ApiError(Exception):
    """An answer that is an error in OpenAI's shape."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, code, message, param=param)


class InMemory(MultiPartParser):
    """A multipart parser that never spools a file to the disk."""

    spool_max_size = MAX_FILE_BYTES * 2


async def upload(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """POST /v1/files: the lines are not looked at."""
    try:
        form = await InMemory(request.headers, request.stream()).parse()
    except (MultiPartException, KeyError):
        raise ApiError(400, "The body is not multipart/form-data.") from None
    try:
        filename, data = await _batch_file(form)
    finally:
        await form.close()
    return JSONResponse(space.upload(data, filename).as_json())


async def _batch_file(form: FormData) -> tuple[str, bytes]:
    """The name and the bytes of the file, if it may be a batch's input."""
    file = form.get("file")
    if form.get("purpose") != "batch":
        raise ApiError(400, "'purpose' must be 'batch'.", param="purpose")
    if not isinstance(file, UploadFile):
        raise _missing("file")
    filename = file.filename or ""
    if not filename.endswith(".jsonl"):
        raise ApiError(400, "Invalid file format for Batch API. Must be .jsonl")
    data = await file.read()
    if len(data) > MAX_FILE_BYTES:
        raise ApiError(400, "File is too large.")
    return filename, data


async def list_files(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """GET /v1/files."""
    purpose = request.query_params.get("purpose")
    found = [file for file in space.files.values() if purpose in (None, file.purpose)]
    return _page(request, found)


async def get_file(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """GET /v1/files/{id}."""
    return JSONResponse(_found(space.files, request, "File").as_json())


async def content(space: Workspace, request: Request, faults: Sequence[Fault]) -> Response:
    """GET /v1/files/{id}/content."""
    data = spoil(_found(space.files, request, "File").data, faults)
    return Response(data, media_type="application/octet-stream")


async def delete_file(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """DELETE /v1/files/{id}."""
    file = _found(space.files, request, "File")
    space.delete(file.id)
    return JSONResponse({"id": file.id, "object": "file", "deleted": True})


async def create(space: Workspace, request: Request, faults: Sequence[Fault]) -> Response:
    """POST /v1/batches: only the parameters are checked; two equal calls make two batches."""
    body = await _object(request)
    for name in ("input_file_id", "endpoint", "completion_window"):
        if name not in body:
            raise _missing(name)
    if body["endpoint"] != ENDPOINT or body["completion_window"] != "24h":
        raise ApiError(400, "Invalid value.", code="invalid_value")
    file = space.files.get(str(body["input_file_id"]))
    if file is None:
        raise ApiError(400, "No such File object.", param="input_file_id")
    hidden_s = sum(fault.number("seconds", 60.0) for fault in faults if fault.do == "hide")
    batch = space.create(file, _metadata(body.get("metadata")), hidden_s)
    return JSONResponse(batch.as_json())


async def list_batches(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """GET /v1/batches, newest first; a hidden batch is not shown yet."""
    now = space.clock.now()
    return _page(request, [batch for batch in space.batches.values() if batch.hidden_until <= now])


async def get_batch(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """GET /v1/batches/{id}."""
    return JSONResponse(_found(space.batches, request, "Batch").as_json())


async def cancel(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """POST /v1/batches/{id}/cancel."""
    batch = _found(space.batches, request, "Batch")
    if not batch.cancel(space.clock.now()):
        raise ApiError(400, f"Cannot cancel a batch with status '{batch.status}'.")
    return JSONResponse(batch.as_json())


async def respond(space: Workspace, request: Request, _faults: Sequence[Fault]) -> Response:
    """POST /v1/responses."""
    body = await _object(request)
    if not isinstance(body.get("model"), str):
        raise _missing("model")
    done = space.respond(body, request.headers.get("x-client-request-id", ""))
    return JSONResponse(done.body, done.status)


async def list_models(space: Workspace, _request: Request, _faults: Sequence[Fault]) -> Response:
    """GET /v1/models; any other name is served as well."""
    made = int(space.clock.now())
    data = [
        {"id": name, "object": "model", "created": made, "owned_by": "sandbox"} for name in MODELS
    ]
    return JSONResponse({"object": "list", "data": data})


ROUTES: Final = (
    Route("POST", "/v1/files", "upload", upload),
    Route("GET", "/v1/files", "files", list_files),
    Route("GET", "/v1/files/{id}", "files", get_file),
    Route("GET", "/v1/files/{id}/content", "content", content),
    Route("DELETE", "/v1/files/{id}", "delete", delete_file),
    Route("POST", "/v1/batches", "create", create),
    Route("GET", "/v1/batches", "list", list_batches),
    Route("GET", "/v1/batches/{id}", "poll", get_batch),
    Route("POST", "/v1/batches/{id}/cancel", "cancel", cancel),
    Route("POST", "/v1/responses", "response", respond),
    Route("GET", "/v1/models", "models", list_models),
)


def _missing(name: str) -> ApiError:
    message = f"Missing required parameter: '{name}'."
    return ApiError(400, message, code="missing_required_parameter", param=name)


def _found(things: dict[str, T], request: Request, noun: str) -> T:
    found = things.get(request.path_params["id"])
    if found is None:
        raise ApiError(404, f"No such {noun} object.", param="id")
    return found


async def _object(request: Request) -> JSONObject:
    try:
        body = cast("JSON", orjson.loads(await request.body()))
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise ApiError(400, "We could not parse the JSON body of your request.")
    return body


def _metadata(value: JSON) -> JSONObject:
    """At most 16 pairs, keys of 64 and values of 512 characters."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > 16:
        raise ApiError(400, "Invalid 'metadata': at most 16 pairs.", param="metadata")
    for name, text in value.items():
        if len(name) > 64 or not isinstance(text, str) or len(text) > 512:
            raise ApiError(400, "Invalid 'metadata': a pair is too long.", param="metadata")
    return value


def _page(request: Request, things: Sequence[Batch] | Sequence[StoredFile]) -> Response:
    """One page, newest first, after the cursor."""
    limit, after = request.query_params.get("limit", "20"), request.query_params.get("after")
    if not limit.isdecimal() or not 1 <= int(limit) <= 100:
        raise ApiError(400, "Invalid 'limit': 1 to 100.", param="limit")
    newest = list(reversed(things))
    if after:
        ids = [thing.id for thing in newest]
        if after not in ids:
            raise ApiError(400, "Invalid 'after'.", param="after")
        newest = newest[ids.index(after) + 1 :]
    shown = newest[: int(limit)]
    return JSONResponse(
        {
            "object": "list",
            "data": [thing.as_json() for thing in shown],
            "first_id": shown[0].id if shown else None,
            "last_id": shown[-1].id if shown else None,
            "has_more": len(newest) > len(shown),
        }
    )

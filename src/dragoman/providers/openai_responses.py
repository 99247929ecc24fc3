"""The adapter for OpenAI's Responses API: batches through files, and single calls."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Final

from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.call import Call, Reply, Unanswered
from dragoman.core.canonical import JSON, JSONObject, canonical, read_json
from dragoman.core.errors import BadJSON
from dragoman.core.failure import Failure, FailureClass
from dragoman.providers.base import Account, BatchView, Limits, Line, ProviderFailed
from dragoman.providers.lines import split_lines
from dragoman.providers.openai_decode import (
    decode_batch,
    decode_body,
    decode_line,
    failure_of,
    identifier,
)
from dragoman.providers.transport import NotSent, Request, Response, Transport, retry_after_s

ENDPOINT: Final = "/v1/responses"
# OpenAI takes 50,000 lines and 200 MB; ours are smaller, so that one lost file costs little.
OWN_LIMITS: Final = Limits(max_items=50_000, max_bytes=5_000_000, max_line_bytes=100_000)
LOOK_BACK_S: Final = 3 * 86_400
PAGE: Final = 100
MAX_PAGES: Final = 5_000
_LINES_PER_CHUNK: Final = 64
_OK: Final = 200
_GONE: Final = 404
_NOT_DEFINITE: Final = frozenset({408, 409, 425})
_KEY: Final = re.compile(r"[!-~]{1,1000}")


class OpenAIResponses:
    """One wire for OpenAI and for the sandbox; `cell` marks every batch as ours."""

    def __init__(
        self,
        transport: Transport,
        cell: str,
        *,
        kind: str = "openai_responses",
        limits: Limits = OWN_LIMITS,
    ) -> None:
        self.kind = kind
        self.limits = limits
        self._transport = transport
        self._cell = cell

    def encode_line(self, call: Call, model: str) -> bytes:
        """One line of a batch file, with its newline. Equal calls give equal bytes."""
        line = {
            "custom_id": call.custom_id,
            "method": "POST",
            "url": ENDPOINT,
            "body": _body(call, model),
        }
        return canonical(line) + b"\n"

    def decode_line(self, line: bytes) -> Line:
        """Total: whatever the line is, it becomes a Line and never an exception."""
        return decode_line(line)

    async def upload(self, account: Account, name: str, lines: Sequence[bytes]) -> str:
        """Stream the lines as the file `<name>.jsonl`; returns the file's id."""
        boundary = uuid.uuid4().hex
        head, tail = _multipart(boundary, f"{name}.jsonl")
        request = Request(
            "POST",
            _url(account, "/files"),
            _headers(account) | {"Content-Type": f"multipart/form-data; boundary={boundary}"},
            _stream(head, lines, tail),
            length=len(head) + sum(map(len, lines)) + len(tail),
        )
        file_id = identifier(_entry(_body_of(await self._transport.send(request)), "id"))
        if file_id is None:
            raise _unreadable()
        return file_id

    async def create(self, account: Account, file_id: str, nonce: str, deadline_s: float) -> Answer:
        """Exactly one POST, and only what is proved about it."""
        body: JSONObject = {
            "completion_window": "24h",
            "endpoint": ENDPOINT,
            "input_file_id": file_id,
            "metadata": {"dragoman_nonce": nonce, "dragoman_cell": self._cell},
        }
        try:
            request = _post(account, "/batches", body, deadline_s)
            response = await self._transport.send(request)
        except NotSent as proof:
            return NothingHappened(proof.failure)
        except ProviderFailed as lost:
            return Doubt(lost.failure)
        return _judge_create(response)

    async def find(
        self, account: Account, nonce: str, *, created_after: int | None = None
    ) -> list[BatchView]:
        """The batches that carry this nonce, oldest first."""
        oldest = int(time.time()) - LOOK_BACK_S if created_after is None else created_after
        return [view for view in await self._since(account, oldest) if view.nonce == nonce]

    async def list_batches(self, account: Account, *, created_after: int) -> list[BatchView]:
        """Our cell's batches, oldest first."""
        found = await self._since(account, created_after)
        return [view for view in found if view.cell == self._cell]

    async def _since(self, account: Account, oldest: int) -> list[BatchView]:
        """Every batch back to a time, oldest first; pages may shift while we read them."""
        seen: dict[str, BatchView] = {}
        after = ""
        for _ in range(MAX_PAGES):
            page, has_more = await self._list(account, after)
            fresh = [view for view in page if view.provider_batch_id not in seen]
            seen |= {view.provider_batch_id: view for view in fresh}
            if not has_more or any(view.created_at < oldest for view in page):
                return sorted(
                    seen.values(), key=lambda view: (view.created_at, view.provider_batch_id)
                )
            if not fresh:
                break
            after = f"&after={page[-1].provider_batch_id}"
        raise ProviderFailed(Failure(FailureClass.UPSTREAM_ERROR, "list_without_end"))

    async def poll(self, account: Account, provider_batch_id: str) -> BatchView:
        """How the batch stands."""
        path = f"/batches/{_checked(provider_batch_id)}"
        view = decode_batch(await self._get(account, path))
        if view is None or view.provider_batch_id != provider_batch_id:
            raise _unreadable()
        return view

    async def download(self, account: Account, file_id: str) -> AsyncIterator[bytes]:
        """The lines of a result file, split at newline bytes only.

        A line beyond the cap arrives as its first bytes, which no reader takes for JSON: its
        item is lost, its siblings are not. A body that ends early raises ProviderFailed.
        """
        path = f"/files/{_checked(file_id)}/content"
        request = Request("GET", _url(account, path), _headers(account))
        async with self._transport.open(request) as incoming:
            if incoming.status != _OK:
                body = b"".join([chunk async for chunk in incoming.chunks])
                raise ProviderFailed(_failure(Response(incoming.status, incoming.headers, body)))
            async for line in split_lines(incoming.chunks):
                yield line

    async def delete_file(self, account: Account, file_id: str) -> None:
        """Delete a file of ours; one that is already gone is a success."""
        request = Request("DELETE", _url(account, f"/files/{_checked(file_id)}"), _headers(account))
        response = await self._transport.send(request)
        if not response.is_success and response.status != _GONE:
            raise ProviderFailed(_failure(response))

    async def answer(self, account: Account, call: Call, model: str, deadline_s: float) -> Reply:
        """One call, answered now; it is paid each time it reaches the provider."""
        headers = {"X-Client-Request-Id": call.custom_id}
        try:
            request = _post(account, "/responses", _body(call, model), deadline_s, headers)
            response = await self._transport.send(request)
        except ProviderFailed as failed:
            return Unanswered(failed.failure)
        if not response.is_success:
            return Unanswered(_failure(response))
        body, request_id = _read(response.body), _request_id(response)
        if body is None:  # a page of some gateway, not an answer of the model
            failure = Failure(FailureClass.UPSTREAM_ERROR, "bad_body", response.status, request_id)
            return Unanswered(failure)
        return decode_body(body, request_id)

    async def _list(self, account: Account, after: str) -> tuple[list[BatchView], bool]:
        page = await self._get(account, f"/batches?limit={PAGE}{after}")
        entries, has_more = _entry(page, "data"), _entry(page, "has_more")
        if not isinstance(entries, list) or not isinstance(has_more, bool):
            raise _unreadable()
        views = [view for view in map(decode_batch, entries) if view]
        if len(views) != len(entries):
            raise _unreadable()  # what cannot be read could be the batch that we look for
        return views, has_more

    async def _get(self, account: Account, path: str) -> JSON:
        request = Request("GET", _url(account, path), _headers(account))
        return _body_of(await self._transport.send(request))


def _body(call: Call, model: str) -> JSONObject:
    """What is asked, equal in both modes."""
    form: JSONObject = {
        "type": "json_schema",
        "name": call.schema_name,
        "schema": call.schema,
        "strict": True,
    }
    return {
        "model": model,
        "instructions": call.instructions,
        "input": call.input,
        "text": {"format": form},
        "max_output_tokens": call.max_output_tokens,
        "store": False,  # else OpenAI keeps question and answer
    }


def _judge_create(response: Response) -> Answer:
    """A 2xx with an id happened; a 4xx in the provider's own words did not; the rest is doubt."""
    body = _read(response.body)
    if response.is_success:
        view = decode_batch(body)
        if view is None:
            return Doubt(Failure(FailureClass.UPSTREAM_ERROR, "bad_body", response.status))
        facts: JSONObject = {"status": view.raw_status, "created_at": view.created_at}
        return Happened(view.provider_batch_id, facts | {"request_id": _request_id(response)})
    failure = _failure(response)
    is_client_error = 400 <= response.status < 500 and response.status not in _NOT_DEFINITE
    if is_client_error and isinstance(_entry(body, "error"), dict):
        return NothingHappened(failure)
    return Doubt(failure)


def _post(
    account: Account,
    path: str,
    body: JSONObject,
    deadline_s: float,
    headers: dict[str, str] | None = None,
) -> Request:
    every = _headers(account) | {"Content-Type": "application/json"} | (headers or {})
    return Request("POST", _url(account, path), every, canonical(body), total_s=deadline_s)


def _url(account: Account, path: str) -> str:
    return account.base_url.rstrip("/") + path


def _headers(account: Account) -> dict[str, str]:
    if not _KEY.fullmatch(account.api_key):
        raise NotSent(Failure(FailureClass.AUTH_DENIED, "bad_api_key"))
    return {"Authorization": f"Bearer {account.api_key}"}


def _checked(provider_id: str) -> str:
    """An id that cannot lead a URL astray."""
    if identifier(provider_id) is None:
        raise NotSent(Failure(FailureClass.SCHEMA_INVALID, "bad_id"))
    return provider_id


def _multipart(boundary: str, filename: str) -> tuple[bytes, bytes]:
    """What stands before and after the file's bytes."""
    head = (
        f"--{boundary}\r\n"
        'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return head.encode(), f"\r\n--{boundary}--\r\n".encode()


async def _stream(head: bytes, lines: Sequence[bytes], tail: bytes) -> AsyncIterator[bytes]:
    yield head
    left = iter(lines)
    while chunk := b"".join(islice(left, _LINES_PER_CHUNK)):
        yield chunk
    yield tail


def _body_of(response: Response) -> JSON:
    """The JSON of a success; anything else is raised."""
    if not response.is_success:
        raise ProviderFailed(_failure(response))
    return _read(response.body)


def _read(data: bytes) -> JSON:
    try:
        return read_json(data)
    except BadJSON:
        return None


def _entry(body: JSON, name: str) -> JSON:
    return body.get(name) if isinstance(body, dict) else None


def _failure(response: Response) -> Failure:
    return failure_of(
        response.status,
        _read(response.body),
        _request_id(response),
        retry_after_s(response.headers),
    )


def _request_id(response: Response) -> str | None:
    return identifier(response.headers.get("x-request-id"))


def _unreadable() -> ProviderFailed:
    return ProviderFailed(Failure(FailureClass.UPSTREAM_ERROR, "bad_body"))

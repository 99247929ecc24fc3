"""A create happens once or is doubt, and what was lost in doubt is found again by its nonce."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.canonical import JSONObject
from dragoman.core.failure import FailureClass
from dragoman.providers.base import (
    Account,
    ProviderFailed,
)
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.providers.transport import Timeouts
from dragoman.sandbox.server import Sandbox
from tests.providers.calls import (
    MODEL,
    account,
    call,
    rows,
    start,
    with_adapter,
)
from tests.providers.raw import answering


def _create(who: Account, timeouts: Timeouts | None = None, deadline_s: float = 10.0) -> Answer:
    """Upload at the same account, if that works, and create once."""

    async def use(adapter: OpenAIResponses) -> Answer:
        line = adapter.encode_line(call(), MODEL)
        try:
            file_id = await adapter.upload(who, "n1", [line])
        except ProviderFailed:
            file_id = "file-unknown"
        return await adapter.create(who, file_id, "n1", deadline_s)

    return with_adapter(use, timeouts=timeouts)


@pytest.mark.parametrize(
    ("fault", "made", "code"),
    [
        ({"do": "drop_after"}, 1, "dropped"),
        ({"do": "drop_before"}, 0, "dropped"),
        ({"do": "status_after"}, 1, "http_502"),
        ({"do": "status_after", "status": 200}, 1, "bad_body"),
        ({"do": "status_after", "status": 404}, 1, "http_404"),
        ({"do": "status_after", "status": 302}, 1, "http_302"),
        ({"do": "status", "status": 500}, 0, "server_error"),
        ({"do": "status", "status": 502, "html": True}, 0, "http_502"),
        ({"do": "status", "status": 503, "code": "server_is_overloaded"}, 0, None),
        ({"do": "status", "status": 408}, 0, "invalid_request_error"),
        ({"do": "status", "status": 409}, 0, "invalid_request_error"),
        ({"do": "delay", "seconds": 1.5}, None, "timeout"),
    ],
)
def test_a_create_without_a_clear_answer_is_doubt_and_is_sent_once(
    sandbox: Sandbox, who: Account, fault: JSONObject, made: int | None, code: str | None
) -> None:
    """Dropped, late, or answered by a gateway: doubt, after exactly one request.

    The fault stays, so a client that repeats the create would be seen to do it.
    """
    sandbox.fault({"on": "create", "times": None, **fault})
    answer = _create(who, deadline_s=0.5)
    assert isinstance(answer, Doubt)
    # A dropped line ends by a FIN or, if bytes were still on their way, by a reset.
    codes = {"dropped": {"protocol_error", "connection_lost"}}
    assert answer.failure.code in codes.get(code or "", {code or "server_is_overloaded"})
    if made is not None:
        assert len(rows(sandbox, "creates")) == made


def test_a_create_that_is_answered_happened(sandbox: Sandbox, who: Account) -> None:
    """The evidence is the provider's batch id, with what it said about it."""
    answer = _create(who)
    assert isinstance(answer, Happened)
    (made,) = rows(sandbox, "creates")
    assert isinstance(made, dict)
    assert answer.evidence_id == made["batch_id"]
    assert answer.facts["status"] == "validating"


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        ({"status": 400, "code": "invalid_value"}, FailureClass.SCHEMA_INVALID),
        ({"status": 401, "code": "invalid_api_key"}, FailureClass.AUTH_DENIED),
        ({"status": 404}, FailureClass.NOT_FOUND),
        ({"status": 429, "code": "slow_down"}, FailureClass.THROTTLED),
        ({"status": 429, "code": "insufficient_quota"}, FailureClass.ACCOUNT_BLOCKED),
    ],
)
def test_a_definite_refusal_proves_that_nothing_happened(
    sandbox: Sandbox, who: Account, fault: JSONObject, error_class: FailureClass
) -> None:
    """A 4xx in the provider's own words, with its wait."""
    sandbox.fault({"on": "create", "do": "status", "retry_after": 7, **fault})
    answer = _create(who)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is error_class
    assert answer.failure.retry_after_s == 7.0
    assert answer.failure.provider_request_id
    assert rows(sandbox, "creates") == []


def test_a_create_that_could_not_be_sent_proves_that_nothing_happened() -> None:
    """Nobody listens, the host is not ours to call, the key cannot be a header."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert isinstance(_create(account(f"http://127.0.0.1:{port}/v1")), NothingHappened)
    assert isinstance(_create(account("https://evil.example/v1")), NothingHappened)
    spoilt = Account("main", f"http://127.0.0.1:{port}/v1", "sk\nX-Evil: 1")
    refused = _create(spoilt)
    assert isinstance(refused, NothingHappened)
    assert refused.failure.code == "bad_api_key"


def test_a_lost_create_is_found_again_by_its_nonce(sandbox: Sandbox, who: Account) -> None:
    """After doubt the list tells; other batches do not confuse it, and pages are walked."""
    sandbox.fault({"on": "create", "do": "drop_after"})
    assert isinstance(_create(who), Doubt)

    async def use(adapter: OpenAIResponses) -> None:
        file_id = await adapter.upload(who, "x", [adapter.encode_line(call(), MODEL)])
        for number in range(120):
            made = await adapter.create(who, file_id, f"other-{number}", 10.0)
            assert isinstance(made, Happened)
        (found,) = await adapter.find(who, "n1")
        assert found.nonce == "n1"
        assert await adapter.find(who, "nobody") == []

    with_adapter(use)
    (lost, *_) = rows(sandbox, "creates")
    assert isinstance(lost, dict)
    assert lost["metadata"] == {"dragoman_nonce": "n1", "dragoman_cell": "cell-a"}


def test_two_batches_of_one_nonce_come_oldest_first(sandbox: Sandbox, who: Account) -> None:
    """Whoever adopts takes the older one."""

    async def use(adapter: OpenAIResponses) -> None:
        first = await start(adapter, who, 1)
        await asyncio.to_thread(sandbox.advance, 5)
        second = await start(adapter, who, 1)
        found = await adapter.find(who, "n1")
        assert [view.provider_batch_id for view in found] == [first, second]

    with_adapter(use)


def test_a_hidden_batch_is_not_found_until_the_list_shows_it(
    sandbox: Sandbox, who: Account
) -> None:
    """It says what the list says; to wait is its caller's part."""
    sandbox.fault({"on": "create", "do": "hide", "seconds": 60})

    async def use(adapter: OpenAIResponses) -> None:
        batch_id = await start(adapter, who, 1)
        assert await adapter.find(who, "n1") == []
        await asyncio.to_thread(sandbox.advance, 61)
        assert [view.provider_batch_id for view in await adapter.find(who, "n1")] == [batch_id]

    with_adapter(use)


def test_find_looks_no_further_back_than_it_is_told(sandbox: Sandbox, who: Account) -> None:
    """The list is left when it reaches batches older than the bound: one page, not five."""

    async def use(adapter: OpenAIResponses) -> list[str | None]:
        for number in range(101):
            await start(adapter, who, 1, f"n{number}")
        later = 2**39
        bounded = await adapter.find(who, "n0", created_after=later)
        whole = await adapter.find(who, "n0", created_after=0)
        return [view.nonce for view in [*bounded, *whole]]

    assert with_adapter(use) == ["n0"]


_BATCH = b'{"id":"batch_1","created_at":99999999999,"metadata":{}}'


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"data":null,"has_more":false}',
        b'{"data":[]}',
        b'{"data":[{"id":"../x","created_at":1}],"has_more":false}',
        b'{"data":[7],"has_more":false}',
        b'{"data":[' + _BATCH + b'],"has_more":true}',
        b'{"data":[],"has_more":true}',
    ],
)
def test_a_list_that_cannot_be_read_proves_no_absence(body: bytes) -> None:
    """An unreadable or endless list is a failure, never "there is no such batch"."""
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"

    async def use(adapter: OpenAIResponses) -> None:
        async with answering(head.encode() + body) as server:
            await adapter.find(account(server.url), "n1")

    with pytest.raises(ProviderFailed):
        with_adapter(use)

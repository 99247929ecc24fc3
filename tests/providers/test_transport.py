"""One request is one request, within its limits, and a failure says whether anything was sent."""

from __future__ import annotations

import asyncio
import socket
import time
from email.utils import formatdate

import pytest

from dragoman.core.failure import FailureClass
from dragoman.providers.base import Account, ProviderFailed
from dragoman.providers.transport import (
    NotSent,
    Request,
    Response,
    Timeouts,
    Transport,
    retry_after_s,
)
from tests.providers.raw import answering

CANARY = "Zitronenfalter"
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def _send(*pieces: bytes, hold: bool = False, max_bytes: int = 1_000) -> tuple[Response, int]:
    """What the transport makes of such an answer, and how many requests it sent."""

    async def run() -> tuple[Response, int]:
        transport = Transport({"127.0.0.1"}, timeouts=Timeouts(read_s=0.2))
        async with answering(*pieces, hold=hold) as server:
            try:
                request = Request("POST", f"{server.url}/x", {"X-Secret": CANARY}, b"{}")
                response = await transport.send(request, max_bytes=max_bytes)
            except ProviderFailed as failed:
                failed.add_note(f"{len(server.requests)}")
                raise
            finally:
                await transport.aclose()
            return response, len(server.requests)

    return asyncio.run(run())


def _fail(address: str, allowed: set[str] | None = None) -> ProviderFailed:
    """How the transport refuses to reach this address."""

    async def run() -> None:
        transport = Transport(allowed or {"127.0.0.1", "localhost", "dragoman.invalid"})
        try:
            await transport.send(Request("POST", address, {}, b"{}"))
        finally:
            await transport.aclose()

    with pytest.raises(ProviderFailed) as failed:
        asyncio.run(run())
    return failed.value


def test_an_answer_comes_with_status_headers_and_body() -> None:
    """Header names are compared without regard to case."""
    response, sent = _send(_OK)
    assert (response.status, response.body, sent) == (200, b"ok", 1)
    assert response.headers["content-length"] == "2"
    assert response.is_success


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    """A key sent to one host never travels to another, and a POST is never sent again."""
    head = f"HTTP/1.1 {status} Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    response, sent = _send(head.encode())
    assert (response.status, response.is_success, sent) == (status, False, 1)


@pytest.mark.parametrize(
    ("pieces", "hold", "error_class", "code"),
    [
        ((b"",), False, FailureClass.NETWORK_TIMEOUT, "protocol_error"),
        ((b"",), True, FailureClass.NETWORK_TIMEOUT, "timeout"),
        ((b"SSH-2.0-x\r\n",), False, FailureClass.NETWORK_TIMEOUT, "protocol_error"),
        ((_OK[:-1],), False, FailureClass.NETWORK_TIMEOUT, "protocol_error"),
        ((_OK[:-1],), True, FailureClass.NETWORK_TIMEOUT, "timeout"),
        (
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",),
            False,
            FailureClass.NETWORK_TIMEOUT,
            "protocol_error",
        ),
        ((b"HTTP/1.1 200 OK\r\n\r\nok",), False, FailureClass.UPSTREAM_ERROR, "body_unframed"),
        (
            (b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n",),
            False,
            FailureClass.UPSTREAM_ERROR,
            "body_too_large",
        ),
        (
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n", b"x" * 2_000),
            True,
            FailureClass.UPSTREAM_ERROR,
            "body_too_large",
        ),
        (
            (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",),
            False,
            FailureClass.UPSTREAM_ERROR,
            "body_encoded",
        ),
    ],
)
def test_a_broken_answer_is_doubt_after_exactly_one_request(
    pieces: tuple[bytes, ...], hold: bool, error_class: FailureClass, code: str
) -> None:
    """Silence, resets, nonsense, short and endless bodies: never NotSent, never a second try."""
    with pytest.raises(ProviderFailed) as failed:
        _send(*pieces, hold=hold)
    assert not isinstance(failed.value, NotSent)
    assert (failed.value.failure.error_class, failed.value.failure.code) == (error_class, code)
    assert failed.value.__notes__ == ["1"]
    assert CANARY not in repr(failed.value)
    assert failed.value.__cause__ is None


def test_a_deadline_ends_an_answer_that_drips() -> None:
    """total_s bounds the whole exchange, though each byte comes in time."""

    async def run() -> None:
        transport = Transport({"127.0.0.1"})
        async with answering(_OK[:-1], hold=True) as server:
            try:
                await transport.send(Request("GET", server.url, {}, total_s=0.1))
            finally:
                await transport.aclose()

    began = time.monotonic()
    with pytest.raises(ProviderFailed):
        asyncio.run(run())
    assert time.monotonic() - began < 5


def test_a_refused_connection_is_proof_that_nothing_was_sent() -> None:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failed = _fail(f"http://127.0.0.1:{port}/v1")
    assert isinstance(failed, NotSent)
    assert failed.failure.code == "connect_failed"


def test_a_failed_handshake_is_proof_that_nothing_was_sent() -> None:
    """A server that speaks no TLS never sees the request."""

    async def run() -> list[bytes]:
        transport = Transport({"127.0.0.1"})
        hello = b"\x16"  # the first byte of a TLS handshake
        async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n", until=hello) as server:
            address = server.url.replace("http://", "https://")
            try:
                with pytest.raises(NotSent):
                    await transport.send(Request("POST", address, {"X-Secret": CANARY}, b"{}"))
            finally:
                await transport.aclose()
            return server.requests

    assert not any(CANARY.encode() in request for request in asyncio.run(run()))


def test_a_name_without_an_address_is_proof_that_nothing_was_sent() -> None:
    """DNS has no answer for a reserved name."""
    assert isinstance(_fail("https://dragoman.invalid/v1"), NotSent)


@pytest.mark.req("R055")
@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("https://evil.example/v1", "host_not_allowed"),
        ("https://api.openai.com.evil.example/v1", "host_not_allowed"),
        ("https://api.openai.com@evil.example/v1", "host_not_allowed"),
        ("https://evil@api.openai.com/v1", "host_not_allowed"),
        ("https://api.openai.com./v1", "host_not_allowed"),
        ("http://api.openai.com/v1", "scheme_not_allowed"),
        ("http://169.254.169.254/latest", "host_not_allowed"),
        ("http://127.0.0.1:1/v1", "host_not_allowed"),
        ("ftp://api.openai.com/v1", "scheme_not_allowed"),
        ("/v1", "host_not_allowed"),
        ("https://[::1/v1", "url_invalid"),
    ],
)
@pytest.mark.req("R135")
def test_only_listed_hosts_are_called_and_only_by_https(address: str, code: str) -> None:
    """A base_url out of a table cannot lead the key elsewhere."""
    failed = _fail(address, {"api.openai.com"})
    assert isinstance(failed, NotSent)
    assert failed.failure.error_class is FailureClass.POLICY_REJECTED
    assert failed.failure.code == code


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would read every text that is sent."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert _send(_OK)[0].status == 200


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "1e9"}, 300.0),
        ({"retry-after": "9" * 5_000}, 300.0),
        ({"retry-after": "inf"}, 300.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 300.0),
        ({"retry-after": "Fri, 99 Dec 9999 23:59:59 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], wait: float | None) -> None:
    """Milliseconds, seconds or a date; the absurd is cut to 300 s, garbage says nothing."""
    assert retry_after_s(headers) == wait


def test_retry_after_as_a_date_counts_from_now() -> None:
    """An HTTP date one minute ahead is a wait of about a minute."""
    wait = retry_after_s({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert wait is not None
    assert 50 < wait <= 60


def test_a_key_is_not_shown_by_any_repr() -> None:
    """Neither the account nor a request tells the key to whoever prints it."""
    assert CANARY not in repr(Account("main", "https://api.openai.com/v1", CANARY))
    assert CANARY not in repr(Request("GET", "https://x", {"Authorization": CANARY}, b""))

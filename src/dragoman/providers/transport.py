"""HTTP to a provider: one request is one request, within time, byte and host limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

from dragoman import __version__
from dragoman.core.failure import Failure, FailureClass
from dragoman.providers.base import ProviderFailed

MAX_RETRY_AFTER_S: Final = 300.0
MAX_BODY_BYTES: Final = 8_000_000
MAX_FILE_BYTES: Final = 400_000_000
MAX_FILE_S: Final = 3_600.0
# Idle connections go early: one that the server closes under a create would leave it in doubt.
_POOL: Final = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class NotSent(ProviderFailed):
    """Proof that not one byte of the request left: repeating it cannot do anything twice."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for one step of an exchange; `total_s` of a request ends all of them."""

    connect_s: float = 5.0
    read_s: float = 60.0
    write_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. A streamed body needs its exact length."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | AsyncIterator[bytes] = field(default=b"", repr=False)
    length: int | None = None
    total_s: float | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer, read within the byte cap."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Incoming:
    """An answer whose body is still on its way."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    chunks: AsyncIterator[bytes] = field(repr=False)


class Transport:
    """One connection pool of one process. It never retries, redirects, or reads proxy settings.

    >>> transport = Transport({"api.openai.com"})  # doctest: +SKIP
    >>> answer = await transport.send(Request("GET", url, headers))  # doctest: +SKIP
    """

    def __init__(self, allowed_hosts: Collection[str], *, timeouts: Timeouts | None = None) -> None:
        self._allowed_hosts = frozenset(allowed_hosts)
        self._timeouts = timeouts or Timeouts()
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(retries=0, trust_env=False, limits=_POOL),
            follow_redirects=False,
            trust_env=False,
            headers={"User-Agent": f"dragoman/{__version__}", "Accept-Encoding": "identity"},
        )

    async def send(self, request: Request, *, max_bytes: int = MAX_BODY_BYTES) -> Response:
        """Send once and read the whole answer, or raise ProviderFailed or its NotSent."""
        async with self.open(request, max_bytes=max_bytes) as incoming:
            body = b"".join([chunk async for chunk in incoming.chunks])
            return Response(incoming.status, incoming.headers, body)

    @asynccontextmanager
    async def open(
        self, request: Request, *, max_bytes: int = MAX_FILE_BYTES
    ) -> AsyncGenerator[Incoming]:
        """Send once and hand out the answer while it arrives, in an hour at most."""
        self._check_host(request.url)
        with _mapped_errors():
            async with asyncio.timeout(request.total_s):
                response = await self._client.send(self._build(request), stream=True)
                try:
                    chunks = _read_capped(response, max_bytes)
                    yield Incoming(response.status_code, response.headers, chunks)
                finally:
                    await response.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    def _check_host(self, address: str) -> None:
        try:
            url = httpx2.URL(address)
        except httpx2.InvalidURL:
            raise _refused("url_invalid") from None
        if url.host not in self._allowed_hosts or url.userinfo:
            raise _refused("host_not_allowed")
        if url.scheme != "https" and not (url.scheme == "http" and url.host in _LOOPBACK):
            raise _refused("scheme_not_allowed")

    def _build(self, request: Request) -> httpx2.Request:
        headers = dict(request.headers)
        if request.length is not None:
            headers["Content-Length"] = str(request.length)
        limits = self._timeouts
        return self._client.build_request(
            request.method,
            request.url,
            headers=headers,
            content=request.body,
            timeout=httpx2.Timeout(
                connect=limits.connect_s,
                read=request.total_s or limits.read_s,
                write=limits.write_s,
                pool=limits.connect_s,
            ),
        )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long the provider asks us to wait: milliseconds first, then seconds or an HTTP date.

    >>> retry_after_s({"retry-after": "1e9"})
    300.0
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is not None:
        wait /= 1000
    else:
        wait = _number(headers.get("retry-after"))
    if wait is None:
        wait = _until(headers.get("retry-after"))
    return None if wait is None else min(wait, MAX_RETRY_AFTER_S)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def _until(text: str | None) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(text or "").timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _refused(code: str) -> NotSent:
    return NotSent(Failure(FailureClass.POLICY_REJECTED, code))


@contextmanager
def _mapped_errors() -> Generator[None]:
    """Name the failure by its type; the foreign message and cause go no further."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        raise NotSent(Failure(FailureClass.NETWORK_TIMEOUT, "connect_failed")) from None
    except (httpx2.TimeoutException, TimeoutError):
        raise _lost("timeout") from None
    except httpx2.ProtocolError:
        raise _lost("protocol_error") from None
    except (httpx2.HTTPError, OSError):
        raise _lost("connection_lost") from None


def _lost(code: str) -> ProviderFailed:
    return ProviderFailed(Failure(FailureClass.NETWORK_TIMEOUT, code))


def _bad_body(code: str) -> ProviderFailed:
    return ProviderFailed(Failure(FailureClass.UPSTREAM_ERROR, code))


async def _read_capped(response: httpx2.Response, max_bytes: int) -> AsyncIterator[bytes]:
    if response.status_code not in (204, 304):
        _check_framing(response.headers, max_bytes)
    seen, ends_at = 0, time.monotonic() + MAX_FILE_S
    with _mapped_errors():
        async for chunk in response.aiter_raw():
            seen += len(chunk)
            if seen > max_bytes:
                raise _bad_body("body_too_large")
            if time.monotonic() > ends_at:
                raise _lost("timeout")
            yield chunk


def _check_framing(headers: Mapping[str, str], max_bytes: int) -> None:
    """Refuse a body whose end could not be told from a broken connection, or that unpacks."""
    declared = headers.get("content-length")
    if declared is not None and int(declared) > max_bytes:
        raise _bad_body("body_too_large")
    if headers.get("content-encoding", "identity") != "identity":
        raise _bad_body("body_encoded")
    if declared is None and "transfer-encoding" not in headers:
        raise _bad_body("body_unframed")

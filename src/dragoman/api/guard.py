"""What every request passes: the host it names, the headers it leaves with, the key it brings."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api.keys import Holder, Keys
from dragoman.api.problems import Denied, NotYours, Problem, answer, bug
from dragoman.settings import DoorSettings

COOKIE = "dragoman_session"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_WRONG_HOST = Problem(421, "wrong_host", "This door has another name")


class NeedsLogin(Denied):
    """The console needs the operator's key."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header, without its port.

    >>> host_of("[::1]:8420"), host_of("door.example:80")
    ('::1', 'door.example')
    """
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


class Guard:
    """Refuses a host that is not ours (a rebound DNS name), and lets no foreign error out."""

    def __init__(self, app: ASGIApp, door: DoorSettings) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if its Host is one of ours."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reply = _Reply(send)
        if not self._is_ours(Headers(scope=scope)):
            refusal = answer(
                _WRONG_HOST, "The Host header names neither this machine nor door.host."
            )
            await refusal(scope, receive, reply.send)
            return
        try:
            await self.app(scope, receive, reply.send)
        except Exception as error:  # noqa: BLE001 - becomes a generic answer and a log line without its message
            response = bug(error)
            if not reply.is_begun:
                await response(scope, receive, reply.send)

    def _is_ours(self, headers: Headers) -> bool:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return False
        name = host_of(hosts[0])
        return is_loopback(name) or name == self.door.host.lower()


@dataclass(slots=True)
class _Reply:
    """The way out: adds our headers and knows whether anything has been sent."""

    out: Send
    is_begun: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self.out(message)


@dataclass(frozen=True, slots=True)
class Gate:
    """Asks for keys. On a loopback address the console, which only reads, needs none."""

    keys: Keys
    is_open: bool

    def orchestrator(self, request: Request) -> None:
        """The product's backend alone."""
        if self._holder(request) != "orchestrator":
            raise NotYours

    def anybody(self, request: Request) -> None:
        """Either key."""
        self._holder(request)

    def health(self, request: Request) -> None:
        """Nobody's key here, either key elsewhere."""
        if not self.is_open:
            self._holder(request)

    def console(self, request: Request) -> None:
        """The operator, by header or by session; on a loopback address everybody."""
        if self.is_open or self.keys.is_session(session_of(request)):
            return
        if "authorization" not in request.headers:
            raise NeedsLogin
        if self._holder(request) != "operator":
            raise NotYours

    def _holder(self, request: Request) -> Holder:
        holder = self.keys.holder(bearer(request))
        if holder is None:
            raise Denied
        return holder


def bearer(request: Request) -> str:
    """What a request shows as its key or token, or Denied when it shows none."""
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Denied
    return shown.strip()


def session_of(request: Request) -> str:
    """The session a browser sends, or nothing."""
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found and found.value.isascii() else ""

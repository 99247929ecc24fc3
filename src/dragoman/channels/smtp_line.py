"""One SMTP conversation on one connection, and how far it came when it ended."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.canonical import JSON
from dragoman.core.failure import Failure, FailureClass

MAX_REPLY = 16_384
MAX_LINES = 100
PARTING_S = 1.0
MAX_USER_TIMEOUT_S = 86_400.0
MAX_EVIDENCE = 200
_REPLY_LINE = re.compile(rb"([2-5][0-9]{2})([ -]?)([^\r\n]*)\r?\n")
_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}(?= |$)")
_LOGIN_REFUSED = frozenset({530, 534, 535, 538})
_SERVER_DOWN = frozenset({421, 451, 454})
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_FLUSH_ON_CLOSE = struct.pack("ii", 0, 0)


class Phase(StrEnum):
    """What was last asked. Up to DATA nothing can have happened; after the dot it may have."""

    CONNECT = "connect"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    DOT = "dot"


@dataclass(frozen=True, slots=True)
class Server:
    """Where to connect and how."""

    host: str
    port: int
    own_name: str
    tls: ssl.SSLContext | None = None
    is_tls_from_the_start: bool = False
    login: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One mail to one address."""

    sender: str
    address: str
    message_id: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Reply:
    code: int
    text: str

    @property
    def enhanced(self) -> str:
        found = _ENHANCED.match(self.text)
        return found[0] if found else ""


class _Refused(Exception):
    """The server's definite no."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class _Garbage(Exception):
    """The server said something that is no SMTP, or spoke out of turn."""


async def transact(server: Server, envelope: Envelope, deadline_s: float) -> Answer:
    """Send one mail, and say what is proved about it."""
    line = _Line(server, asyncio.get_running_loop().time() + deadline_s)
    try:
        async with asyncio.timeout_at(line.deadline):
            reply = await _deliver(line, server, envelope)
        line.part()
    except _Refused as no:
        return NothingHappened(no.failure)
    except (OSError, EOFError, UnicodeError, _Garbage) as error:
        failure = _failure_of(line.phase, error)
        return Doubt(failure) if line.phase is Phase.DOT else NothingHappened(failure)
    finally:
        await line.close()
    facts: dict[str, JSON] = {"message_id": envelope.message_id, "smtp_code": reply.code}
    return Happened(_evidence(reply.text) or envelope.message_id, facts)


async def _deliver(line: _Line, server: Server, envelope: Envelope) -> _Reply:
    await line.open()
    offers = await line.hello()
    if server.tls is not None and not server.is_tls_from_the_start:
        await line.start_tls(server.tls)
        offers = await line.hello()
    if server.login is not None:
        await line.log_in(*server.login)
    size = f" SIZE={len(envelope.content)}" if "SIZE" in offers else ""
    await line.ask(Phase.MAIL, f"MAIL FROM:<{envelope.sender}>{size}")
    await line.ask(Phase.RCPT, f"RCPT TO:<{envelope.address}>")
    await line.ask(Phase.DATA, "DATA", wanted=3)
    await line.write(_stuffed(envelope.content))
    return await line.finish()


class _Line:
    """The connection. Closing it resets it, so that nothing unsent arrives after we have gone."""

    def __init__(self, server: Server, deadline: float) -> None:
        self.phase = Phase.CONNECT
        self.deadline = deadline
        self._server = server
        self._unread = bytearray()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        tls = self._server.tls if self._server.is_tls_from_the_start else None
        self._reader, self._writer = await asyncio.open_connection(
            self._server.host, self._server.port, ssl=tls
        )
        self._linger(_RESET_ON_CLOSE)
        self._stop_resending_at_the_deadline()
        self._check(await self._reply(), wanted=2)

    async def hello(self) -> frozenset[str]:
        reply = await self.ask(Phase.EHLO, f"EHLO {self._server.own_name}")
        return frozenset(said.partition(" ")[0].upper() for said in reply.text.splitlines())

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self.ask(Phase.STARTTLS, "STARTTLS")
        if self._unread:  # said before the handshake, by nobody knows whom
            raise _Garbage
        await self._out().start_tls(context, server_hostname=self._server.host)

    async def log_in(self, username: str, password: str) -> None:
        token = base64.b64encode(f"\0{username}\0{password}".encode()).decode("ascii")
        await self.ask(Phase.AUTH, f"AUTH PLAIN {token}")

    async def ask(self, phase: Phase, command: str, wanted: int = 2) -> _Reply:
        if self._unread:
            raise _Garbage
        self.phase = phase
        await self.write(command.encode() + b"\r\n")
        return self._check(await self._reply(), wanted)

    async def finish(self) -> _Reply:
        # A process that was stopped and goes on must not write the dot before its timer fires.
        if asyncio.get_running_loop().time() >= self.deadline:
            raise TimeoutError
        return await self.ask(Phase.DOT, ".")

    async def write(self, data: bytes) -> None:
        self._out().write(data)
        await self._out().drain()

    def part(self) -> None:
        """Leave politely, now that the mail is theirs."""
        with suppress(OSError):
            self._linger(_FLUSH_ON_CLOSE)
            self._out().write(b"QUIT\r\n")
            self._out().close()

    async def close(self) -> None:
        if self._writer is None:
            return
        if not self._writer.is_closing():
            self._writer.transport.abort()
        try:
            async with asyncio.timeout(PARTING_S):
                await self._writer.wait_closed()
        except OSError:
            self._writer.transport.abort()

    async def _reply(self) -> _Reply:
        code, said = b"", list[str]()
        while len(said) < MAX_LINES:
            found = _REPLY_LINE.fullmatch(await self._read_line())
            if found is None or code not in (b"", found[1]):
                raise _Garbage
            code = found[1]
            said.append(found[3].decode("ascii", "replace"))
            if found[2] != b"-":
                return _Reply(int(code), "\n".join(said))
        raise _Garbage

    async def _read_line(self) -> bytes:
        while b"\n" not in self._unread:
            if self._reader is None or len(self._unread) > MAX_REPLY:
                raise _Garbage
            chunk = await self._reader.read(MAX_REPLY)
            if not chunk:
                raise EOFError
            self._unread += chunk
        end = self._unread.index(b"\n") + 1
        line = bytes(self._unread[:end])
        del self._unread[:end]
        return line

    def _check(self, reply: _Reply, wanted: int) -> _Reply:
        if reply.code // 100 == wanted:
            return reply
        if reply.code >= 400:
            _refuse(self.phase, reply)
        raise _Garbage

    def _linger(self, how: bytes) -> None:
        self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, how)

    def _stop_resending_at_the_deadline(self) -> None:
        # Should this process be stopped, its kernel would go on delivering what it had buffered.
        if sys.platform == "linux":
            left_s = min(self.deadline - asyncio.get_running_loop().time(), MAX_USER_TIMEOUT_S)
            left_ms = max(1, int(1_000 * left_s))
            self._socket().setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, left_ms)

    def _socket(self) -> socket.socket:
        return self._out().get_extra_info("socket")

    def _out(self) -> asyncio.StreamWriter:
        if self._writer is None:
            raise _Garbage
        return self._writer


def _refuse(phase: Phase, reply: _Reply) -> NoReturn:
    raise _Refused(Failure(_class_of(phase, reply), f"smtp_{phase}_{reply.code}"))


def _class_of(phase: Phase, reply: _Reply) -> FailureClass:
    is_final = reply.code >= 500
    if reply.code in _LOGIN_REFUSED or (is_final and phase in (Phase.AUTH, Phase.STARTTLS)):
        return FailureClass.AUTH_DENIED
    if reply.code in _SERVER_DOWN:
        return FailureClass.NETWORK_TIMEOUT
    if not is_final:
        return FailureClass.THROTTLED
    if phase is Phase.RCPT:
        return FailureClass.DELIVERY_REJECTED
    if phase in (Phase.DATA, Phase.DOT) and not reply.enhanced.startswith("5.7."):
        return FailureClass.DELIVERY_REJECTED
    return FailureClass.POLICY_REJECTED


def _failure_of(phase: Phase, error: Exception) -> Failure:
    match error:
        case _Garbage():
            return Failure(FailureClass.UPSTREAM_ERROR, f"smtp_{phase}_garbage")
        case ssl.SSLCertVerificationError():
            return Failure(FailureClass.AUTH_DENIED, "smtp_certificate")
        case ssl.SSLError():
            what = "tls"
        case TimeoutError():
            what = "timeout"
        case socket.gaierror() | UnicodeError():
            what = "dns"
        case ConnectionRefusedError():
            what = "refused"
        case _:
            what = "lost"
    return Failure(FailureClass.NETWORK_TIMEOUT, f"smtp_{phase}_{what}")


def _stuffed(content: bytes) -> bytes:
    inner = content.replace(b"\r\n.", b"\r\n..")
    return b"." + inner if inner.startswith(b".") else inner


def _evidence(text: str) -> str:
    clean = "".join(letter if "!" <= letter <= "~" else " " for letter in text)
    return " ".join(clean.split())[:MAX_EVIDENCE]

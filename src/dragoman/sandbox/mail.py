"""A mail server over real sockets that keeps a ledger and fails when it is told to.

`python -m dragoman.sandbox.mail --port 0 --ready-file PATH` runs it in a process of its own;
`with MailSandbox() as mail:` runs it in a thread. Mails are kept in memory, and with a state file
in that, encrypted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.mailbox import Fault, Mail, Mailbox, Moment
from dragoman.sandbox.process import end_well_when_told, write_whole
from dragoman.sandbox.sealed import BadState

MAX_SIZE = 10_485_760
MAX_LINE = 65_536
LOOPBACK = "127.0.0.1"
_PATH = re.compile(r"(FROM|TO):\s*<([^<>\s]*)>((?: [^\s]+)*)", re.IGNORECASE)
_GOES_ON = "250 2.0.0 Ok"


class _Gone(Exception):
    """This connection ends here."""


class _Session:
    """One SMTP connection, from its greeting to QUIT."""

    def __init__(
        self, box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._box, self._reader, self._writer = box, reader, writer
        self._is_greeted = False
        self._reset()

    async def run(self) -> None:
        if not await self._may("connect"):
            return
        await self._say("220 sandbox.invalid ESMTP")
        while True:
            verb, _, rest = (await self._line()).decode("utf-8", "replace").partition(" ")
            await self._obey(verb.upper(), rest.strip())

    async def _obey(self, verb: str, rest: str) -> None:
        match verb:
            case "EHLO" | "HELO":
                self._is_greeted = True
                self._reset()
                size = f"250-sandbox.invalid\r\n250 SIZE {MAX_SIZE}"
                await self._say(size if verb == "EHLO" else "250 sandbox.invalid")
            case "MAIL":
                await self._mail(rest)
            case "RCPT":
                await self._rcpt(rest)
            case "DATA":
                await self._data()
            case "RSET" | "NOOP":
                if verb == "RSET":
                    self._reset()
                await self._say(_GOES_ON)
            case "QUIT":
                await self._say("221 2.0.0 Bye")
                raise _Gone
            case _:
                await self._say("502 5.5.2 Not known here")

    async def _mail(self, rest: str) -> None:
        path = _PATH.fullmatch(rest)
        if not self._is_greeted or self._sender is not None:
            await self._say("503 5.5.1 Not now")
        elif path is None or path[1].upper() != "FROM":
            await self._say("501 5.5.4 Expected MAIL FROM:<address>")
        elif _declared_size(path[3]) > MAX_SIZE:
            await self._say("552 5.3.4 Too large")
        elif await self._may("mail"):
            self._sender = path[2]
            await self._say(_GOES_ON)

    async def _rcpt(self, rest: str) -> None:
        path = _PATH.fullmatch(rest)
        if self._sender is None:
            await self._say("503 5.5.1 Not now")
        elif path is None or path[1].upper() != "TO" or not path[2]:
            await self._say("501 5.5.4 Expected RCPT TO:<address>")
        elif await self._may("rcpt", path[2]):
            self._recipients.append(path[2])
            await self._say(_GOES_ON)

    async def _data(self) -> None:
        if not self._recipients:
            await self._say("503 5.5.1 Not now")
            return
        recipients = self._recipients
        if not await self._may("data", recipients[0]):
            return
        await self._say("354 End with a dot on a line of its own")
        content = await self._content()
        self._reset()
        if content is None:
            await self._say("552 5.3.4 Too large")
            return
        await self._decide(recipients, content)

    async def _decide(self, recipients: list[str], content: bytes) -> None:
        fault = self._box.strike("after_data", recipients[0])
        if not await self._survives(fault):
            return
        queue_id = self._box.accept(recipients, content)
        if fault is not None and fault.do == "drop_after_data":
            raise _Gone
        await self._say(f"250 2.0.0 Ok: queued as {queue_id}")

    async def _content(self) -> bytes | None:
        kept, size = list[bytes](), 0
        while (line := await self._line()) != b".":
            plain = line.removeprefix(b".") + b"\r\n"
            size += len(plain)
            if size <= MAX_SIZE:
                kept.append(plain)
        return b"".join(kept) if size <= MAX_SIZE else None

    async def _may(self, at: Moment, recipient: str | None = None) -> bool:
        return await self._survives(self._box.strike(at, recipient))

    async def _survives(self, fault: Fault | None) -> bool:
        """Act a fault out, and say whether the session goes on as if nothing were wrong."""
        if fault is None:
            return True
        await asyncio.sleep(fault.delay_s)  # noqa: TID251 - the delay is the fault
        if fault.do == "drop":
            raise _Gone
        if fault.do == "reply":
            await self._say(f"{fault.code} {fault.text}")
        return fault.do != "reply"

    async def _line(self) -> bytes:
        # Only CRLF ends a line: a bare newline is a character of the mail.
        return (await self._reader.readuntil(b"\r\n"))[:-2]

    async def _say(self, text: str) -> None:
        self._writer.write(text.encode() + b"\r\n")
        await self._writer.drain()

    def _reset(self) -> None:
        self._sender: str | None = None
        self._recipients: list[str] = []


def _declared_size(parameters: str) -> int:
    found = re.search(r"\bSIZE=([0-9]{1,20})\b", parameters, re.IGNORECASE)
    return int(found[1]) if found else 0


async def _serve_mail(
    box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    box.connections += 1
    # It is cancelled only when the server stops, which Python 3.11 would report as an error.
    with suppress(_Gone, OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
        await _Session(box, reader, writer).run()
    writer.close()


async def _serve_control(
    box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        sent = re.search(r"\r\ncontent-length:\s*([0-9]{1,6})\r\n", head, re.IGNORECASE)
        body = await reader.readexactly(int(sent[1])) if sent else b""
        method, path = head.split(" ", 2)[:2]
        status, answer = _control(box, method, path, body)
        data = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(data)
        await writer.drain()
    writer.close()


def _control(box: Mailbox, method: str, path: str, body: bytes) -> tuple[str, JSON]:
    match method, path:
        case "GET", "/ledger":
            return "200 OK", list[JSON](box.rows)
        case "GET", "/messages":
            return "200 OK", [mail.summary() for mail in list(box.mails)]
        case "POST", "/faults":
            try:
                box.script(Fault.model_validate_json(body))
            except ValidationError as error:
                wrong = [".".join(map(str, found["loc"])) or "fault" for found in error.errors()]
                return "422 Unprocessable Content", {"error": "not a fault", "wrong": [*wrong]}
            return "201 Created", {}
        case "DELETE", "/faults":
            box.clear()
            return "200 OK", {}
        case _:
            return "404 Not Found", {"error": "GET /ledger, GET /messages, POST or DELETE /faults"}


async def _serve(
    box: Mailbox, ports: tuple[int, int], ready: Callable[[int, int], None], stop: asyncio.Event
) -> None:
    mail = await asyncio.start_server(partial(_serve_mail, box), LOOPBACK, ports[0], limit=MAX_LINE)
    control = await asyncio.start_server(partial(_serve_control, box), LOOPBACK, ports[1])
    try:
        ready(*(server.sockets[0].getsockname()[1] for server in (mail, control)))
        await stop.wait()
    finally:
        mail.close()
        control.close()


class MailSandbox:
    """The server in a thread of this process, for a test.

    >>> with MailSandbox() as mail:  # doctest: +SKIP
    ...     mail.fault({"at": "after_data", "do": "drop_after_data", "times": 1})
    """

    host = LOOPBACK

    def __init__(self, state: Path | None = None) -> None:
        self.box = Mailbox(state)
        self.port = self.control_port = 0
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="mail sandbox", daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()
        self.box.close()

    def ledger(self) -> list[JSONObject]:
        """One row for each accepted mail and recipient, oldest first."""
        return list(self.box.rows)

    def mails(self) -> list[Mail]:
        """The last thousand accepted mails, text and all."""
        return list(self.box.mails)

    def fault(self, fault: JSONObject) -> None:
        """Let this go wrong from now on."""
        self.box.script(Fault.model_validate(fault))

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        self.box.clear()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self._stop = partial(loop.call_soon_threadsafe, stop.set)
        await _serve(self.box, (0, 0), self._tell, stop)

    def _tell(self, port: int, control_port: int) -> None:
        self.port, self.control_port = port, control_port
        self._ready.set()


async def _serve_until_told(
    box: Mailbox, ports: tuple[int, int], ready: Callable[[int, int], None]
) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await _serve(box, ports, ready, stop)


def _write_ready(path: Path | None, port: int, control_port: int) -> None:
    if path:
        where = {"host": LOOPBACK, "port": port, "control_port": control_port}
        write_whole(path, json.dumps(where))


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    end_well_when_told()
    parser = argparse.ArgumentParser(prog="python -m dragoman.sandbox.mail", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--control-port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="where to write host and ports as JSON")
    parser.add_argument("--state", type=Path, help="remember everything in this encrypted file")
    told = parser.parse_args()
    try:
        box = Mailbox(told.state)
    except BadState as error:
        sys.exit(str(error))
    ready = partial(_write_ready, told.ready_file)
    asyncio.run(_serve_until_told(box, (told.port, told.control_port), ready))


if __name__ == "__main__":
    main()

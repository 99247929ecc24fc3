"""What the channel tests share: a mail server, a mail, and a peer that says what a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from dragoman.channels.base import Message
from dragoman.channels.smtp import SMTP, SMTPSettings
from dragoman.sandbox.mail import MailSandbox

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailSandbox]:
    with MailSandbox() as server:
        yield server


@pytest.fixture
def mail(mail_server: MailSandbox) -> Iterator[MailSandbox]:
    mail_server.clear_faults()
    mail_server.box.rows.clear()
    mail_server.box.mails.clear()
    yield mail_server
    mail_server.clear_faults()


@pytest.fixture
def smtp(mail: MailSandbox) -> SMTP:
    return SMTP(SMTPSettings(mail.host, mail.port, "dragoman@example.org"))


@pytest.fixture
def message() -> Message:
    return Message(
        key="review:example:42:v3:ann",
        recipient="mailto:ann@example.org",
        subject="Review of change 42: grüße, 日本",
        body="Dear Ann,\n.one dot\n..two dots\n.\nMit Grüßen  \n",
        created_at=datetime(2026, 11, 18, 9, 30, 12, 345678, tzinfo=UTC),
    )


@pytest.fixture
def peer():
    """A server on loopback that runs one script for each connection; gives its port."""

    @asynccontextmanager
    async def run(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await script(reader, writer)
            except (OSError, EOFError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    return run

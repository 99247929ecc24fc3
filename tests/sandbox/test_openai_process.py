"""The stand-ins as processes of their own, and the connections that they take."""

from __future__ import annotations

import asyncio
import signal
import smtplib
import socket
from pathlib import Path

import pytest

from dragoman.sandbox import mail
from dragoman.sandbox.mailbox import Mailbox
from dragoman.sandbox.sealed import SealedFile
from dragoman.sandbox.server import Line, Sandbox
from tests.eventually import eventually
from tests.sandbox.processes import python, run_provider

TOLD = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("told", TOLD)
def test_the_process_says_where_it_listens_and_ends_well_when_told(
    tmp_path: Path, told: signal.Signals
) -> None:
    """The ready file holds the base URL once it serves; SIGTERM and Ctrl-C end it with status 0."""
    with run_provider(tmp_path, "--key", "k1") as (process, base_url, sdk):
        assert sdk.models.list().data
        assert process.stdout is not None
        assert process.stdout.readline().strip() == base_url
        process.send_signal(told)
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("kind", ["provider", "mail"])
def test_a_start_that_waits_for_its_state_ends_well_when_told(
    tmp_path: Path, kind: str, told: signal.Signals
) -> None:
    """Whoever is told to end before it serves ends too, at once and with status 0."""
    module = "dragoman.sandbox" if kind == "provider" else "dragoman.sandbox.mail"
    held = SealedFile(tmp_path / "state", kind)
    with python("-m", module, "--state", str(tmp_path / "state")) as process:
        eventually(lambda: _listens_to(process.pid), timeout=30)
        process.send_signal(told)
        assert process.wait(timeout=5) == 0
    held.close()


def test_no_answer_waits_for_an_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection has TCP_NODELAY: without it an answer in two pieces takes 40 ms."""
    options: list[int] = []
    made, serve = Line.connection_made, mail._serve_mail

    def connection_made(self: Line, transport: asyncio.Transport) -> None:
        options.append(_nodelay(transport.get_extra_info("socket")))
        made(self, transport)

    async def serve_mail(
        box: Mailbox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        options.append(_nodelay(writer.get_extra_info("socket")))
        await serve(box, reader, writer)

    monkeypatch.setattr(Line, "connection_made", connection_made)
    monkeypatch.setattr(mail, "_serve_mail", serve_mail)
    with Sandbox() as sandbox, mail.MailSandbox() as server:
        sandbox.ledger()
        smtplib.SMTP(server.host, server.port, timeout=10).quit()
    assert options == [1, 1]


def _nodelay(line: socket.socket) -> int:
    return line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def _listens_to(pid: int) -> bool:
    """Whether the process has handlers of its own for both signals; Python starts with one."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = next(int(row.split()[1], 16) for row in status.splitlines() if row[:6] == "SigCgt")
    return all(caught >> (number - 1) & 1 for number in TOLD)

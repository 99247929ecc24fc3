"""The mail sandbox: a real mail server with a ledger, and faults where they were scripted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import smtplib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.sandbox.mail import MAX_SIZE, MailSandbox
from tests.eventually import eventually

MAIL = (
    b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMessage-ID: <1@example.org>\r\n\r\n.a\r\n..\r\nb\r\n"
)


@pytest.fixture
def mail() -> Iterator[MailSandbox]:
    with MailSandbox() as running:
        yield running


@pytest.fixture
def client(mail: MailSandbox) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP(mail.host, mail.port, timeout=10) as connected:
        yield connected


def test_the_ledger_has_one_row_for_each_accepted_mail(
    mail: MailSandbox, client: smtplib.SMTP
) -> None:
    """Message-ID, recipient, the hash of the exact bytes, and the queue id that was given."""
    client.ehlo()
    client.mail("a@example.org")
    client.rcpt("ann@example.org")
    said = client.data(MAIL)
    (row,) = mail.ledger()
    assert row["message_id"] == "<1@example.org>"
    assert row["recipient"] == "ann@example.org"
    assert row["sha256"] == hashlib.sha256(MAIL).hexdigest()
    assert said == (250, f"2.0.0 Ok: queued as {row['queue_id']}".encode())
    assert mail.mails()[0].content == MAIL


def test_a_mail_for_two_has_two_rows(mail: MailSandbox, client: smtplib.SMTP) -> None:
    """Each recipient of a transaction is counted."""
    client.sendmail("a@example.org", ["ann@example.org", "bob@example.org"], MAIL)
    assert [row["recipient"] for row in mail.ledger()] == ["ann@example.org", "bob@example.org"]


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        (["MAIL FROM:<a@example.org>"], 503),
        (["EHLO x", "RCPT TO:<a@example.org>"], 503),
        (["EHLO x", "MAIL FROM:<a@example.org>", "DATA"], 503),
        (["EHLO x", "MAIL FROM:<a@example.org>", "MAIL FROM:<a@example.org>"], 503),
        (["EHLO x", "MAIL FROM:<>"], 250),
        (["EHLO x", "MAIL FROM:<>", "RSET", "RCPT TO:<a@example.org>"], 503),
        (["EHLO x", "MAIL a@example.org"], 501),
        (["EHLO x", "MAIL TO:<a@example.org>"], 501),
        (["EHLO x", "MAIL FROM:<>", "RCPT TO:<>"], 501),
        (["EHLO x", f"MAIL FROM:<a@example.org> SIZE={MAX_SIZE + 1}"], 552),
        (["HELO x"], 250),
        (["noop"], 250),
        (["EXPN x"], 502),
        (["QUIT"], 221),
    ],
)
def test_the_order_of_commands_is_kept(
    client: smtplib.SMTP, commands: list[str], code: int
) -> None:
    """A command out of order, malformed or unknown is answered as the protocol says."""
    assert [client.docmd(command)[0] for command in commands][-1] == code


def test_a_mail_that_is_too_large_is_refused(mail: MailSandbox, client: smtplib.SMTP) -> None:
    """Also when nobody announced its size; the session goes on."""
    client.ehlo()
    for content, code in ((b"x: y\r\n\r\n" + b"z" * 78 + b"\r\n", 250), (BIG, 552), (MAIL, 250)):
        client.mail("a@example.org")
        client.rcpt("ann@example.org")
        assert client.data(content)[0] == code
    assert len(mail.ledger()) == 2


def test_a_bare_newline_ends_nothing(mail: MailSandbox) -> None:
    """Only CRLF, dot, CRLF ends a mail: a smuggled ending stays part of the text."""
    content = b"Subject: s\r\n\r\none\n.\nMAIL FROM:<eve@example.org>\r\n"

    async def send() -> None:
        reader, writer = await asyncio.open_connection(mail.host, mail.port)
        head = b"EHLO x\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.org>\r\nDATA\r\n"
        writer.write(head + content + b".\r\nQUIT\r\n")
        await reader.read()
        writer.close()

    asyncio.run(send())
    assert [kept.content for kept in mail.mails()] == [content]


def test_a_fault_strikes_where_when_and_whom_it_should(mail: MailSandbox) -> None:
    """By recipient, at the n-th occasion, and so many times."""
    mail.fault({"at": "rcpt", "do": "reply", "code": 550, "recipient": "gone@example.org"})
    mail.fault({"at": "after_data", "do": "reply", "code": 452, "nth": 2})
    mail.fault({"at": "mail", "do": "reply", "code": 451, "times": 1})
    codes = [_codes(mail, "ann@example.org") for _ in range(4)]
    assert codes == [[451], [250, 250, 250], [250, 250, 452], [250, 250, 250]]
    assert _codes(mail, "gone@example.org") == [250, 550]
    mail.clear_faults()
    assert _codes(mail, "gone@example.org") == [250, 250, 250]


@pytest.mark.parametrize(("do", "taken"), [("drop", 0), ("drop_after_data", 1)])
def test_a_connection_is_dropped_before_or_after_the_mail_is_taken(
    mail: MailSandbox, do: str, taken: int
) -> None:
    """The client cannot tell the two apart; the ledger can."""
    mail.fault({"at": "after_data", "do": do})
    with pytest.raises(smtplib.SMTPServerDisconnected):
        _codes(mail, "ann@example.org")
    assert len(mail.ledger()) == taken


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"at": "rcpt"},
        {"at": "rcpt", "do": "explode"},
        {"at": "rcpt", "do": "drop_after_data"},
        {"at": "connect", "do": "drop", "recipient": "ann@example.org"},
        {"at": "rcpt", "do": "reply", "code": 250},
        {"at": "rcpt", "do": "reply", "text": "a\r\nb"},
        {"at": "rcpt", "do": "drop", "nth": 0},
        {"at": "rcpt", "do": "drop", "delay": 1},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(mail: MailSandbox, fault: dict[str, Any]) -> None:
    """A typing error in a script is not a test that passes; the control port says what is wrong."""
    with pytest.raises(ValidationError):
        mail.fault(fault)
    status, answer = _control(mail.control_port, "POST", "/faults", fault)
    assert (status, answer["error"]) == (422, "not a fault")


def test_the_control_port_shows_mails_without_their_text(mail: MailSandbox) -> None:
    """Ledger and mailbox can be read over HTTP; no text leaves by it."""
    _codes(mail, "ann@example.org")
    assert _control(mail.control_port, "GET", "/ledger") == (200, mail.ledger())
    _, (row,) = _control(mail.control_port, "GET", "/messages")
    assert row.pop("at").startswith("20")
    assert row == {
        "subject": "Grüße",
        "recipient": "ann@example.org",
        "message_id": "<1@example.org>",
    }
    assert _control(mail.control_port, "GET", "/else")[0] == 404


def test_it_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The ready file says where it listens; faults are set over HTTP; SIGTERM ends it."""
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "dragoman.sandbox.mail", "--port", "0", "--ready-file", ready]
    source = str(Path(__file__).parents[2] / "src")
    running = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source})
    try:
        where = json.loads(eventually(lambda: _text(ready)))
        port = where["control_port"]
        fault = {"at": "rcpt", "do": "reply", "code": 550}
        assert _control(port, "POST", "/faults", fault) == (201, {})
        assert _codes(where, "ann@example.org") == [250, 550]
        assert _control(port, "DELETE", "/faults") == (200, {})
        assert _codes(where, "ann@example.org") == [250, 250, 250]
        assert len(_control(port, "GET", "/ledger")[1]) == 1
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 0
    finally:
        running.kill()
        running.wait()


BIG = b"x: y\r\n\r\n" + (b"z" * 78 + b"\r\n") * (MAX_SIZE // 80 + 1)


def _codes(where: MailSandbox | dict[str, Any], recipient: str) -> list[int]:
    """Try to send one mail; the reply codes up to the first refusal."""
    at = where if isinstance(where, dict) else {"host": where.host, "port": where.port}
    with smtplib.SMTP(at["host"], at["port"], timeout=10) as client:
        client.ehlo()
        steps = [lambda: client.mail("a@example.org"), lambda: client.rcpt(recipient)]
        found = list[int]()
        for step in (*steps, lambda: client.data(MAIL)):
            found.append(step()[0])
            if found[-1] >= 400:
                break
        return found


def _control(port: int, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def _text(path: Path) -> str:
    assert path.exists()
    return path.read_text(encoding="ascii")

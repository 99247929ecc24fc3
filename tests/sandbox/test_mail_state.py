"""The mail sandbox remembers what it accepted, so that a mail sent twice shows across restarts."""

from __future__ import annotations

import signal
import smtplib
from pathlib import Path

import pytest

from dragoman.sandbox.mail import MailSandbox
from dragoman.sandbox.mailbox import KEPT_MAILS, Mailbox
from dragoman.sandbox.sealed import BadState, SealedFile
from tests.sandbox.processes import python, run_mail

MAIL = b"Subject: Zitronenfalter\r\nMessage-ID: <1@example.org>\r\n\r\n\xe4\xff laut\r\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mail.state"


def _send(port: int, *recipients: str) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        client.sendmail("a@example.org", recipients, MAIL)


def test_ledger_and_mails_survive_a_restart(path: Path) -> None:
    """Rows, contents and times are the same, and the next queue id is a new one."""
    with MailSandbox(path) as first:
        _send(first.port, "ann@example.org", "bob@example.org")
        rows, mails = first.ledger(), first.mails()
    with MailSandbox(path) as second:
        assert (second.ledger(), second.mails()) == (rows, mails)
        assert [mail.content for mail in mails] == [MAIL, MAIL]
        _send(second.port, "ann@example.org")
        assert [row["queue_id"] for row in second.ledger()] == [
            "SBX00000001",
            "SBX00000001",
            "SBX00000002",
        ]


def test_a_mail_whose_answer_was_lost_is_in_the_ledger_after_a_restart(path: Path) -> None:
    """What was accepted is durable before the answer; what was refused is not there."""
    with MailSandbox(path) as first:
        for fault in ({"do": "drop_after_data"}, {"do": "drop"}):
            first.clear_faults()
            first.fault({"at": "after_data", **fault})
            with pytest.raises(smtplib.SMTPServerDisconnected):
                _send(first.port, "ann@example.org")
    with MailSandbox(path) as second:
        assert len(second.ledger()) == 1


def test_killed_it_forgets_no_mail_that_it_accepted(path: Path) -> None:
    """After each kill -9 every accepted mail is known, and no file shows a word or an address."""
    for count in (1, 2):
        with run_mail(path.parent, "--state", str(path)) as (process, where):
            _send(where["port"], "ann@example.org")
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=30)
        assert len(_mailbox_rows(path)) == count
    assert not any(b"Zitronen" in file.read_bytes() for file in path.parent.iterdir())
    assert not any(b"ann@" in file.read_bytes() for file in path.parent.iterdir())


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_process_ends_well_when_told(tmp_path: Path, told: signal.Signals) -> None:
    """SIGTERM and Ctrl-C end it with status 0."""
    with run_mail(tmp_path) as (process, _):
        process.send_signal(told)
        assert process.wait(timeout=30) == 0


def test_the_ledger_outlives_the_mails(path: Path) -> None:
    """The last thousand mails are kept, and a row for every one."""
    box = Mailbox(path)
    box.accept([f"{number}@example.org" for number in range(KEPT_MAILS + 1)], MAIL)
    box.close()
    again = Mailbox(path)
    assert (len(again.mails), len(again.rows)) == (KEPT_MAILS, KEPT_MAILS + 1)
    assert again.mails[0].recipient == "1@example.org"
    again.close()


def test_a_header_that_is_no_text_is_accepted_and_remembered(path: Path) -> None:
    """Bytes, and encoded words that hold half a character, cost neither the mail nor the state."""
    box = Mailbox(path)
    for value in (b"\xff\xed\xa0\x80", b"=?utf-8?q?=ED=A0=80?=", b"=?unicode_escape?q?=5Cud800?="):
        box.accept(["ann@example.org"], b"Message-ID: " + value + b"\r\n\r\nlaut\r\n")
    box.close()
    assert len(_mailbox_rows(path)) == len(box.mails) == 3


def test_a_state_that_is_not_a_mailbox_s_is_refused(path: Path) -> None:
    """A provider's state, or one of another shape, is an error that says to remove it."""
    for kind, data in (("provider", b"{}"), ("mail", b"{}"), ("mail", b"[]")):
        sealed = SealedFile(path, kind)
        sealed.write(data)
        sealed.close()
        with pytest.raises(BadState, match="remove it"):
            Mailbox(path)
    with python("-m", "dragoman.sandbox.mail", "--state", str(path)) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.count("\n") == 1


def _mailbox_rows(path: Path) -> list[object]:
    box = Mailbox(path)
    box.close()
    return [*box.rows]

"""What one send proves, for every phase of the conversation and every way it can go wrong."""

from __future__ import annotations

import asyncio
import hashlib
import socket

import pytest

from dragoman.channels import smtp_line
from dragoman.channels.base import Guarantee, Message
from dragoman.channels.smtp import SMTP, SMTPSettings
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.failure import FailureClass as Class
from dragoman.sandbox.mail import MailSandbox
from tests.eventually import eventually


def send(smtp: SMTP, message: Message, deadline_s: float = 10.0) -> Answer:
    rendered = smtp.render(message)
    return asyncio.run(smtp.send(message.recipient, message.key, rendered, deadline_s))


@pytest.mark.req("R358")
def test_the_evidence_is_the_queue_id_of_the_server(
    mail: MailSandbox, smtp: SMTP, message: Message
) -> None:
    """A mail that was taken gives the queue id that the server said with its last 250."""
    answer = send(smtp, message)
    (row,) = mail.ledger()
    assert answer == Happened(
        f"2.0.0 Ok: queued as {row['queue_id']}",
        {"message_id": smtp.message_id(message.key), "smtp_code": 250},
    )


@pytest.mark.req("R357")
def test_a_second_send_is_the_first_one_byte_for_byte(
    mail: MailSandbox, smtp: SMTP, message: Message
) -> None:
    """What the server received is exactly what was rendered, with the same Message-ID each time."""
    send(smtp, message)
    send(smtp, message)
    digest = hashlib.sha256(smtp.render(message)).hexdigest()
    assert [row["sha256"] for row in mail.ledger()] == [digest, digest]
    assert [row["message_id"] for row in mail.ledger()] == [smtp.message_id(message.key)] * 2


@pytest.mark.parametrize(
    ("at", "code", "text", "error_class", "failure_code"),
    [
        ("connect", 421, "4.3.2 busy", Class.NETWORK_TIMEOUT, "smtp_connect_421"),
        ("connect", 554, "5.7.1 not you", Class.POLICY_REJECTED, "smtp_connect_554"),
        ("mail", 451, "4.3.0 later", Class.NETWORK_TIMEOUT, "smtp_mail_451"),
        ("mail", 530, "5.7.0 log in", Class.AUTH_DENIED, "smtp_mail_530"),
        ("mail", 553, "5.1.8 sender", Class.POLICY_REJECTED, "smtp_mail_553"),
        ("rcpt", 450, "4.7.1 greylisted", Class.THROTTLED, "smtp_rcpt_450"),
        ("rcpt", 452, "4.2.2 full", Class.THROTTLED, "smtp_rcpt_452"),
        ("rcpt", 550, "5.1.1 nobody", Class.DELIVERY_REJECTED, "smtp_rcpt_550"),
        ("rcpt", 550, "5.7.1 denied", Class.DELIVERY_REJECTED, "smtp_rcpt_550"),
        ("data", 451, "4.3.0 later", Class.NETWORK_TIMEOUT, "smtp_data_451"),
        ("data", 554, "5.5.1 no", Class.DELIVERY_REJECTED, "smtp_data_554"),
        ("after_data", 452, "4.3.1 disk", Class.THROTTLED, "smtp_dot_452"),
        ("after_data", 554, "5.6.0 content", Class.DELIVERY_REJECTED, "smtp_dot_554"),
        ("after_data", 550, "5.7.1 spam", Class.POLICY_REJECTED, "smtp_dot_550"),
    ],
)
def test_a_definite_no_proves_that_nothing_happened(
    mail: MailSandbox,
    smtp: SMTP,
    message: Message,
    at: str,
    code: int,
    text: str,
    error_class: Class,
    failure_code: str,
) -> None:
    """A 4xx or 5xx in any phase, the last one too, is a proof, and its class says what to do."""
    mail.fault({"at": at, "do": "reply", "code": code, "text": text})
    answer = send(smtp, message)
    assert isinstance(answer, NothingHappened)
    assert (answer.failure.error_class, answer.failure.code) == (error_class, failure_code)
    assert answer.failure.is_retryable == (code < 500)
    assert mail.ledger() == []


@pytest.mark.parametrize("at", ["connect", "mail", "rcpt", "data"])
def test_a_connection_lost_before_the_dot_proves_that_nothing_happened(
    mail: MailSandbox, smtp: SMTP, message: Message, at: str
) -> None:
    """Without the final dot no server takes a mail, so the send may simply be tried again."""
    mail.fault({"at": at, "do": "drop", "times": 1})
    answer = send(smtp, message)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is Class.NETWORK_TIMEOUT
    assert mail.ledger() == []
    assert isinstance(send(smtp, message), Happened)


@pytest.mark.parametrize("at", ["connect", "mail", "rcpt", "data"])
def test_a_time_out_before_the_dot_proves_that_nothing_happened(
    mail: MailSandbox, smtp: SMTP, message: Message, at: str
) -> None:
    """The deadline ends the send in any phase, and before the dot the answer is a clear no."""
    mail.fault({"at": at, "do": "delay", "delay_s": 60.0})
    answer = send(smtp, message, deadline_s=0.2)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.code.endswith("_timeout")
    assert mail.ledger() == []


@pytest.mark.parametrize(("do", "taken"), [("drop", 0), ("drop_after_data", 1)])
def test_a_connection_lost_after_the_dot_is_doubt(
    mail: MailSandbox, smtp: SMTP, message: Message, do: str, taken: int
) -> None:
    """Both servers look alike from here, the one that took the mail and the one that did not."""
    mail.fault({"at": "after_data", "do": do})
    answer = send(smtp, message)
    assert isinstance(answer, Doubt)
    assert answer.failure.code == "smtp_dot_lost"
    assert len(mail.ledger()) == taken


def test_a_time_out_after_the_dot_is_doubt_and_the_mail_may_come_late(
    mail: MailSandbox, smtp: SMTP, message: Message
) -> None:
    """A server that is merely slow takes the mail after the sender has given up."""
    mail.fault({"at": "after_data", "do": "delay", "delay_s": 0.5})
    answer = send(smtp, message, deadline_s=0.3)
    assert isinstance(answer, Doubt)
    assert answer.failure.code == "smtp_dot_timeout"
    eventually(lambda: len(mail.ledger()) == 1)


@pytest.mark.parametrize(
    ("last", "is_doubt"),
    [
        (b"hello?\r\n", True),
        (b"354 go on\r\n", True),
        (b"199 what\r\n", True),
        (b"250-first\r\n251 other\r\n", True),
        (b"2", True),
        (b"250-" + b"x" * 40_000, True),
        (b"550 5.1.1 no\r\n", False),
        (b"250-one\r\n550 two\r\n", True),
    ],
)
def test_garbage_after_the_dot_is_doubt(
    peer, message: Message, last: bytes, is_doubt: bool
) -> None:
    """Only a well-formed yes or no decides; whatever else comes after the dot leaves it open."""
    answer = asyncio.run(_talk(peer, message, [*_POLITE, last]))
    assert isinstance(answer, Doubt if is_doubt else NothingHappened)


@pytest.mark.parametrize("until", range(5))
def test_garbage_before_the_dot_proves_that_nothing_happened(
    peer, message: Message, until: int
) -> None:
    """A peer that speaks no SMTP cannot have taken a mail that was never ended."""
    answer = asyncio.run(_talk(peer, message, [*_POLITE[:until], b"\xff\xfe nonsense\r\n"]))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is Class.UPSTREAM_ERROR


def test_a_reply_out_of_turn_is_not_taken_for_an_answer(peer, message: Message) -> None:
    """A second reply in one breath would shift every later one, so the talk ends before the dot."""
    answer = asyncio.run(
        _talk(peer, message, [b"220 hi\r\n250 x\r\n", *_POLITE[1:], b"250 ok\r\n"])
    )
    assert isinstance(answer, NothingHappened)


def test_a_bare_250_is_evidenced_by_our_own_message_id(peer, message: Message) -> None:
    """A yes without a word still leaves something to find the mail by."""
    answer = asyncio.run(_talk(peer, message, [*_POLITE, b"250\r\n"]))
    assert isinstance(answer, Happened)
    assert answer.evidence_id == answer.facts["message_id"]


def test_the_evidence_is_short_plain_text(peer, message: Message) -> None:
    """Whatever a server says with its 250 is cut and cleaned before anybody stores or shows it."""
    said = b"250 ok \x1b[31m\x00\xff id=" + b"x" * 500 + b"\r\n"
    answer = asyncio.run(_talk(peer, message, [*_POLITE, said]))
    assert isinstance(answer, Happened)
    assert answer.evidence_id.startswith("ok [31m id=xxx")
    assert len(answer.evidence_id) == 200


def test_nobody_listening_proves_that_nothing_happened(message: Message) -> None:
    """A refused connection may be tried again as it is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        answer = send(SMTP(SMTPSettings("127.0.0.1", port, "d@example.org")), message)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.code == "smtp_connect_refused"


def test_a_host_without_an_address_proves_that_nothing_happened(message: Message) -> None:
    """A name that does not resolve may be tried again as it is."""
    answer = send(SMTP(SMTPSettings("nowhere.invalid", 25, "d@example.org")), message)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is Class.NETWORK_TIMEOUT


def test_what_is_unsent_at_the_deadline_never_arrives(peer, message: Message) -> None:
    """The dot that a full receiver had not yet read is taken back when the connection is closed."""
    long = Message(message.key, message.recipient, "s", "x" * 60_000, message.created_at)
    assert b"\r\n.\r\n" not in asyncio.run(_read_only_after_the_deadline(peer, long))


def test_a_process_that_was_stopped_past_the_deadline_does_not_end_the_mail(
    peer, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is read once more before the dot, for timers fire late in a stopped process."""

    async def stopped(line: smtp_line._Line, data: bytes) -> None:
        await write(line, data)
        if data.startswith(b"From:"):
            line.deadline = 0.0

    write = smtp_line._Line.write
    monkeypatch.setattr(smtp_line._Line, "write", stopped)
    answer = asyncio.run(_talk(peer, message, [*_POLITE, b"250 ok\r\n"]))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.code == "smtp_data_timeout"


@pytest.mark.parametrize(
    "rendered", [b"A: b\r\n\r\nx\n.\nQUIT\r\n", b"A: b\r\n\r\nx\r.\r\n", b"A: b"]
)
def test_bytes_that_two_servers_would_cut_differently_are_not_sent(
    mail: MailSandbox, smtp: SMTP, message: Message, rendered: bytes
) -> None:
    """A bare newline, or no newline at the end, is refused before anything is connected."""
    before = mail.box.connections
    answer = asyncio.run(smtp.send(message.recipient, message.key, rendered, 5.0))
    assert isinstance(answer, NothingHappened)
    assert mail.box.connections == before


def test_a_bad_recipient_is_rejected_before_anything_is_connected(
    mail: MailSandbox, smtp: SMTP, message: Message
) -> None:
    """An address with a line break in it never becomes a command."""
    before = mail.box.connections
    bad = "mailto:ann@example.org%3E%0D%0ARCPT%20TO:%3Ceve@example.org"
    answer = asyncio.run(smtp.send(bad, message.key, smtp.render(message), 5.0))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is Class.DELIVERY_REJECTED
    assert mail.box.connections == before


def test_a_cancelled_send_leaves_no_open_connection(
    mail: MailSandbox, smtp: SMTP, message: Message
) -> None:
    """Who cancels a send gets his cancellation back, and the server sees the connection go."""
    mail.fault({"at": "data", "do": "delay", "delay_s": 0.3})

    async def cancel() -> None:
        sending = asyncio.create_task(
            smtp.send(message.recipient, message.key, smtp.render(message), 10.0)
        )
        before = mail.box.connections
        while mail.box.connections == before:
            await asyncio.wait([sending], timeout=0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(cancel())
    assert mail.ledger() == []


def test_mail_is_a_channel_that_cannot_settle_a_doubt(smtp: SMTP) -> None:
    """SMTP has no keys and cannot be asked, and says so."""
    assert (smtp.scheme, smtp.guarantee) == ("mailto", Guarantee.NEITHER)


_POLITE = [b"220 hi\r\n", b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"]


async def _talk(peer, message: Message, replies: list[bytes]) -> Answer:
    """Send to a peer that says these replies, the sixth after the dot, and then hangs up."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(replies[0])
        for index, reply in enumerate(replies[1:], start=1):
            await reader.readuntil(b"\r\n.\r\n" if index == len(_POLITE) else b"\r\n")
            writer.write(reply)
        await writer.drain()
        if replies[-1].endswith(b"\n"):
            await reader.read()

    async with peer(script) as port:
        smtp = SMTP(SMTPSettings("127.0.0.1", port, "d@example.org"))
        return await smtp.send(message.recipient, message.key, smtp.render(message), 5.0)


async def _read_only_after_the_deadline(peer, message: Message) -> bytes:
    """Send to a peer that stops reading after DATA until the sender has given up."""
    has_given_up, has_read = asyncio.Event(), asyncio.Event()
    got = bytearray()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in _POLITE[:-1]:
            writer.write(reply)
            await reader.readuntil(b"\r\n")
        reading: asyncio.ReadTransport = writer.transport  # type: ignore[assignment]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        reading.pause_reading()
        writer.write(_POLITE[-1])
        await has_given_up.wait()
        reading.resume_reading()
        try:
            while chunk := await reader.read(65_536):
                got.extend(chunk)
        finally:
            has_read.set()

    async with peer(script) as port:
        smtp = SMTP(SMTPSettings("127.0.0.1", port, "d@example.org"))
        answer = await smtp.send(message.recipient, message.key, smtp.render(message), 0.5)
        assert isinstance(answer, Doubt)
        has_given_up.set()
        await asyncio.wait_for(has_read.wait(), 10)
    return bytes(got)

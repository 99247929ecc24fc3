"""What a mail is made of: the same bytes for the same message, and no header but our own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.channels.base import Message
from dragoman.channels.smtp import SMTP, Security, SMTPSettings, address_of
from dragoman.core.errors import BadInput, BadSetting

SMTP_CHANNEL = SMTP(SMTPSettings("127.0.0.1", 25, "dragoman@example.org"))
HEADERS = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Auto-Submitted",
]
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
PLAIN = Message("key", "mailto:ann@example.org", "subject", "body\n", NOON)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
line = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=300)
messages = st.builds(
    Message,
    key=texts,
    recipient=st.from_regex(r"mailto:[a-z0-9.+]{1,20}@[a-z]{1,10}\.org", fullmatch=True).filter(
        lambda uri: ".." not in uri and ":." not in uri and ".@" not in uri
    ),
    subject=line.filter(str.strip),
    body=texts.filter(str.strip),
    created_at=st.datetimes(
        datetime(2000, 1, 1),  # noqa: DTZ001
        datetime(2100, 1, 1),  # noqa: DTZ001
        timezones=st.timezones(),
    ),
)


def parsed(rendered: bytes) -> EmailMessage:
    return cast("EmailMessage", message_from_bytes(rendered, policy=policy.default))


@pytest.mark.req("R357")
@given(messages)
def test_equal_messages_give_equal_bytes(message: Message) -> None:
    """Whoever renders it, whenever, in whatever time zone: one message is one sequence of bytes."""
    other = SMTP(SMTPSettings("mail.example.com", 587, "dragoman@example.org"))
    elsewhere = replace(message, created_at=message.created_at.astimezone(UTC))
    assert SMTP_CHANNEL.render(message) == other.render(elsewhere)


@given(messages)
def test_a_mail_has_exactly_our_headers(message: Message) -> None:
    """No subject, body, key or recipient adds, removes or changes a header."""
    rendered = SMTP_CHANNEL.render(message)
    assert parsed(rendered).keys() == HEADERS
    head = rendered.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert len([row for row in head if not row.startswith(b" ")]) == len(HEADERS)


@given(messages)
def test_a_reader_sees_what_was_written(message: Message) -> None:
    """Subject and body come back from any mail reader, with line ends as mail has them."""
    mail = parsed(SMTP_CHANNEL.render(message))
    body = message.body.replace("\r\n", "\n").replace("\r", "\n")
    got = cast("bytes", mail.get_payload(decode=True)).decode()
    assert got.replace("\r\n", "\n") == (body if body.endswith("\n") else body + "\n")
    assert str(mail["Subject"]) == message.subject
    assert str(mail["To"]) == address_of(message.recipient)


@given(messages)
def test_a_mail_is_seven_bit_lines_that_every_server_takes(message: Message) -> None:
    """ASCII, CRLF only, and no line longer than 998 characters."""
    rendered = SMTP_CHANNEL.render(message)
    assert rendered.isascii()
    assert rendered.endswith(b"\r\n")
    rows = rendered.split(b"\r\n")
    assert not any(b"\r" in row or b"\n" in row for row in rows)
    assert max(map(len, rows)) <= 998


@given(
    st.sampled_from(["\r", "\n", "\r\n", "\0", "\x0b", "\x1b", "\x85", "\u2028", "\ud800"]), line
)
def test_a_line_break_in_a_subject_is_refused(breaker: str, rest: str) -> None:
    """A subject with a line break or control character raises a typed error that quotes nothing."""
    for subject in (f"{rest}{breaker}Bcc: eve@example.org", f"{breaker}{rest}", f"{rest}{breaker}"):
        with pytest.raises(BadInput) as caught:
            SMTP_CHANNEL.render(replace(PLAIN, subject=subject))
        assert "eve" not in str(caught.value)


@given(
    st.sampled_from(["\r\n", "%0D%0A", "%0a", "\n", " ", ",", ";", "<", ">", "\0", "%00", "\ud800"])
)
def test_a_line_break_in_a_recipient_is_refused(breaker: str) -> None:
    """An address that carries more than an address raises a typed error without quoting it."""
    for uri in (
        f"mailto:ann@example.org{breaker}Bcc:eve@example.org",
        f"mailto:ann{breaker}@example.org",
        f"mailto:{breaker}ann@example.org",
    ):
        with pytest.raises(BadInput) as caught:
            SMTP_CHANNEL.render(replace(PLAIN, recipient=uri))
        assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [
        "ann@example.org",
        "slack:ann@example.org",
        "mailto:",
        "mailto:ann",
        "mailto:@example.org",
        "mailto:ann@",
        "mailto:ann@-example.org",
        "mailto:a..n@example.org",
        "mailto:ann@exämple.org",
        "mailto:ann@example.org?subject=x",
        "mailto:ann@example.org,bob@example.org",
        f"mailto:{'a' * 65}@example.org",
        f"mailto:a@{'.'.join(['a' * 60] * 5)}",
    ],
)
def test_what_is_not_one_plain_address_is_refused(uri: str) -> None:
    """A recipient is exactly one ASCII address in a mailto: URI."""
    with pytest.raises(BadInput):
        address_of(uri)


def test_an_address_may_be_percent_encoded() -> None:
    """mailto: URIs escape characters, and the address is what they stand for."""
    assert address_of("MAILTO:ann%2Breview@Example.org") == "ann+review@Example.org"


def test_date_and_message_id_are_those_of_the_message() -> None:
    """Both are frozen with the message: the clock of the sender never shows."""
    there = timezone(timedelta(hours=5, minutes=30))
    mail = parsed(SMTP_CHANNEL.render(replace(PLAIN, created_at=NOON.astimezone(there))))
    assert mail["Date"] == "Wed, 18 Nov 2026 12:00:00 +0000"
    digest = hashlib.sha256(b"key").hexdigest()[:32]
    assert mail["Message-ID"] == f"<{digest}@example.org>" == SMTP_CHANNEL.message_id("key")


@pytest.mark.parametrize(
    "changed",
    [
        {"created_at": datetime(2026, 11, 18)},  # noqa: DTZ001
        {"subject": " "},
        {"subject": "x" * 1_001},
        {"body": ""},
        {"body": "a\0b"},
        {"body": "a\ud800"},
        {"body": "x" * 1_000_001},
        {"key": "\ud800"},
    ],
)
def test_a_message_that_cannot_be_a_mail_is_refused(changed: dict[str, object]) -> None:
    """Without a time zone, empty, too long or not text: a typed error, and no bytes."""
    with pytest.raises(BadInput):
        SMTP_CHANNEL.render(replace(PLAIN, **changed))


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "a b"},
        {"host": ""},
        {"port": 0},
        {"port": 65_536},
        {"sender": "dragoman"},
        {"sender": "a@example.org\r\nX: y"},
        {"own_name": "a b"},
        {"username": "u"},
        {"password": "p"},
        {"username": "u", "password": "p"},
    ],
)
def test_settings_that_could_never_work_are_refused(wrong: dict[str, object]) -> None:
    """Also half a login, and a password on a line that anybody can read."""
    right: dict[str, object] = {"host": "127.0.0.1", "port": 25, "sender": "d@example.org"}
    with pytest.raises(BadSetting):
        SMTPSettings(**{**right, **wrong})  # type: ignore[arg-type]


def test_a_password_is_never_shown() -> None:
    """Settings may be logged."""
    here = SMTPSettings("h", 25, "d@example.org", Security.TLS, "user", "hunter2")
    assert "hunter2" not in repr(here)

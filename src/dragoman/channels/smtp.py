"""The SMTP channel: one message, one recipient, one transaction, and what its answer proves."""

from __future__ import annotations

import quopri
import re
import ssl
import unicodedata
from dataclasses import dataclass, field
from datetime import UTC
from email.header import Header
from email.utils import format_datetime
from enum import StrEnum
from urllib.parse import unquote

from dragoman.channels import smtp_line
from dragoman.channels.base import Guarantee, Message
from dragoman.core.answer import Answer, NothingHappened
from dragoman.core.canonical import sha256
from dragoman.core.errors import BadInput, BadSetting, BadText
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.text import check_text

MAX_BODY = 1_000_000
MAX_SUBJECT = 1_000
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_LABEL}(?:\.{_LABEL})*)")
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\]")
_BARE_NEWLINE = re.compile(rb"\r(?!\n)|(?<!\r)\n")


class Security(StrEnum):
    """How the line to the mail server is protected."""

    NONE = "none"  # a server of our own on this machine
    STARTTLS = "starttls"
    TLS = "tls"


@dataclass(frozen=True, slots=True)
class SMTPSettings:
    """Which server takes our mail, and who we are there.

    >>> SMTPSettings("127.0.0.1", 25, "dragoman@example.org").security
    <Security.NONE: 'none'>
    """

    host: str
    port: int
    sender: str
    security: Security = Security.NONE
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    own_name: str | None = None  # said in EHLO; the sender's domain without it
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what could never work, or would send a password in the clear."""
        if not re.fullmatch(r"[A-Za-z0-9._:-]+", self.host):
            raise BadSetting("smtp host: expected a host name or an address")
        if not 1 <= self.port <= 65_535:
            raise BadSetting("smtp port: expected 1 to 65535")
        if not _ADDRESS.fullmatch(self.sender):
            raise BadSetting("smtp sender: expected one plain address, local@domain")
        if self.own_name is not None and not _NAME.fullmatch(self.own_name):
            raise BadSetting("smtp own_name: expected a host name or an address in brackets")
        if (self.username is None) != (self.password is None):
            raise BadSetting("smtp login: give both username and password, or neither")
        if self.username is not None and self.security is Security.NONE:
            raise BadSetting("smtp login: a password needs starttls or tls")

    @property
    def domain(self) -> str:
        """The sender's domain."""
        return self.sender.rpartition("@")[2]


class SMTP:
    """Mail through one server. The protocol has no keys and cannot be asked: a doubt stays one."""

    scheme: str = "mailto"
    guarantee: Guarantee = Guarantee.NEITHER
    key_window_s: float | None = None

    def __init__(self, settings: SMTPSettings) -> None:
        self._settings = settings

    def render(self, message: Message) -> bytes:
        """The whole mail, headers and all: equal messages give equal bytes.

        Date and Message-ID are frozen with the message, because receivers that drop duplicates
        compare both.
        """
        if message.created_at.utcoffset() is None:
            raise BadInput("the message's time has no time zone")
        body = check_text(message.body, limit=MAX_BODY)
        headers = {
            "From": self._settings.sender,
            "To": address_of(message.recipient),
            "Subject": _encoded_subject(message.subject),
            "Date": format_datetime(message.created_at.astimezone(UTC)),
            "Message-ID": self.message_id(message.key),
            "MIME-Version": "1.0",
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Transfer-Encoding": "quoted-printable",
            "Auto-Submitted": "auto-generated",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return head.encode("ascii") + b"\r\n" + _encoded_body(body)

    def message_id(self, key: str) -> str:
        """The Message-ID that every send of this key carries."""
        try:
            digest = sha256(key.encode()).hex()
        except UnicodeEncodeError:
            raise BadInput("the key is not text") from None
        return f"<{digest[:32]}@{self._settings.domain}>"

    async def send(self, recipient: str, key: str, rendered: bytes, deadline_s: float) -> Answer:
        """One transaction on a connection of its own, closed for good at the deadline.

        Who cancels it gets no answer, and has to take that for doubt.
        """
        try:
            address, message_id = address_of(recipient), self.message_id(key)
        except BadInput:
            return _nothing(FailureClass.DELIVERY_REJECTED, "smtp_bad_recipient")
        # A bare newline is where two servers may disagree about the end of a mail.
        if _BARE_NEWLINE.search(rendered) or not rendered.endswith(b"\r\n"):
            return _nothing(FailureClass.SCHEMA_INVALID, "smtp_bad_newline")
        envelope = smtp_line.Envelope(self._settings.sender, address, message_id, rendered)
        return await smtp_line.transact(self._server(), envelope, deadline_s)

    def _server(self) -> smtp_line.Server:
        here, context = self._settings, None
        if here.security is not Security.NONE:
            context = here.tls or ssl.create_default_context()
        return smtp_line.Server(
            host=here.host,
            port=here.port,
            own_name=here.own_name or here.domain,
            tls=context,
            is_tls_from_the_start=here.security is Security.TLS,
            login=(here.username, here.password) if here.username and here.password else None,
        )


def address_of(recipient: str) -> str:
    """The address in a mailto: URI, or BadInput without quoting it.

    >>> address_of("mailto:ann%2Breview@example.org")
    'ann+review@example.org'
    """
    scheme, _, rest = recipient.partition(":")
    address = unquote(rest, errors="replace")
    if scheme.lower() != "mailto":
        raise BadInput("the recipient is not a mailto: URI")
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise BadInput(
            "the recipient is not one plain ASCII address; write a domain in another script as xn--"
        )
    if len(address) > 254 or len(found["local"]) > 64:
        raise BadInput("the recipient's address is too long")
    return address


def _encoded_subject(subject: str) -> str:
    if not subject.strip() or len(subject) > MAX_SUBJECT:
        raise BadText(f"the subject needs 1 to {MAX_SUBJECT} characters")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in subject):
        raise BadText("the subject has a line break or another control character")
    if (
        subject.isascii()
        and len(subject) <= 60
        and subject == subject.strip()
        and "=?" not in subject
    ):
        return subject
    # EmailMessage loses spaces between encoded words (7 % of random subjects, Python 3.11.7).
    return Header(subject, "utf-8", header_name="Subject").encode(linesep="\r\n", maxlinelen=76)


def _encoded_body(body: str) -> bytes:
    lines = body.replace("\r\n", "\n").replace("\r", "\n")
    whole = lines if lines.endswith("\n") else lines + "\n"
    return quopri.encodestring(whole.encode()).replace(b"\n", b"\r\n")


def _nothing(error_class: FailureClass, code: str) -> NothingHappened:
    return NothingHappened(Failure(error_class, code))

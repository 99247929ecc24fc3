"""Mail over a protected line: STARTTLS, TLS from the start, a login, and who is not believed."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dragoman.channels.base import Message
from dragoman.channels.smtp import SMTP, Security, SMTPSettings
from dragoman.core.answer import Answer, Happened, NothingHappened
from dragoman.core.failure import FailureClass


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context and that of a client who trusts it."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(_certificate_and_key())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    return server, ssl.create_default_context(cafile=str(Path(path)))


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
def test_a_mail_is_sent_and_logged_in_under_tls(
    peer, message: Message, contexts, security: Security
) -> None:
    """The login and the mail cross only after the handshake."""
    said = bytearray()
    answer = asyncio.run(_send(peer, message, contexts, security, said))
    assert answer == Happened("queued as T1", {**_facts(message), "smtp_code": 250})
    clear, _, protected = said.partition(b"STARTTLS\r\n")
    if security is Security.STARTTLS:
        assert b"AUTH" not in clear
        said = bytearray(protected)
    login = base64.b64encode(b"\0user\0hunter2")
    assert b"AUTH PLAIN " + login + b"\r\n" in said


def test_a_refused_login_is_an_account_matter(peer, message: Message, contexts) -> None:
    """A wrong password is no fault of the recipient, and trying again does not help."""
    answer = asyncio.run(_send(peer, message, contexts, Security.TLS, bytearray(), b"535 5.7.8 no"))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is FailureClass.AUTH_DENIED


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.TLS])
def test_an_unknown_certificate_is_not_believed(
    peer, message: Message, contexts, security: Security
) -> None:
    """Nothing is sent to a server that cannot prove its name."""
    stranger = (contexts[0], ssl.create_default_context())
    answer = asyncio.run(_send(peer, message, stranger, security, said := bytearray()))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is FailureClass.AUTH_DENIED
    assert b"AUTH" not in said


def test_a_server_without_starttls_gets_nothing(peer, message: Message, contexts) -> None:
    """A line that was to be protected is never used in the clear."""
    said = bytearray()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in (b"220 hi", b"250 hi", b"502 no"):
            writer.write(reply + b"\r\n")
            said.extend(await reader.readuntil(b"\r\n"))
        said.extend(await reader.read())

    async def run() -> Answer:
        async with peer(script) as port:
            return await _transact(port, message, contexts[1], Security.STARTTLS)

    assert isinstance(asyncio.run(run()), NothingHappened)
    assert b"MAIL" not in said


def test_what_was_said_before_the_handshake_is_not_believed_after_it(
    peer, message: Message, contexts
) -> None:
    """A reply slipped in behind the answer to STARTTLS ends the talk."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for reply in (b"220 hi", b"250 hi", b"220 go\r\n250 slipped in"):
            writer.write(reply + b"\r\n")
            await reader.readuntil(b"\r\n")
        await reader.read()

    async def run() -> Answer:
        async with peer(script) as port:
            return await _transact(port, message, contexts[1], Security.STARTTLS)

    answer = asyncio.run(run())
    assert isinstance(answer, NothingHappened)
    assert answer.failure.code == "smtp_starttls_garbage"


async def _send(
    peer,
    message: Message,
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
    security: Security,
    said: bytearray,
    login: bytes = b"235 ok",
) -> Answer:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        while True:
            line = await reader.readuntil(b"\r\n")
            said.extend(line)
            if line == b"STARTTLS\r\n":
                writer.write(b"220 go\r\n")
                await writer.start_tls(contexts[0])
            elif line == b"DATA\r\n":
                writer.write(b"354 go\r\n")
                said.extend(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(b"250 queued as T1\r\n")
            else:
                writer.write((login if line.startswith(b"AUTH") else b"250 ok") + b"\r\n")

    tls = contexts[0] if security is Security.TLS else None
    async with peer(script, tls) as port:
        return await _transact(port, message, contexts[1], security)


async def _transact(port: int, message: Message, tls: ssl.SSLContext, security: Security) -> Answer:
    smtp = SMTP(
        SMTPSettings("127.0.0.1", port, "d@example.org", security, "user", "hunter2", tls=tls)
    )
    return await smtp.send(message.recipient, message.key, smtp.render(message), 10.0)


def _facts(message: Message) -> dict[str, str]:
    return {"message_id": SMTP(SMTPSettings("h", 1, "d@example.org")).message_id(message.key)}


def _certificate_and_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, *plain) + certificate.public_bytes(pem)

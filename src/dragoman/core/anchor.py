"""An anchor: one signed line about a time of the history, kept where the database cannot reach it.

A line says how many events had their time in [since, upto) and gives one digest over job, number,
home and hash of each. All of them stay in the history, so that the digest can be computed again for
ever: whoever rewrites an event, takes one away or adds one, with every hash made new, gives it
another digest. Each line holds the hash of the line before it, and the windows leave no gap.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dragoman.core.canonical import canonical, iso, read_object
from dragoman.core.errors import BadInput, BadJSON, BadSetting


@dataclass(frozen=True, slots=True)
class Part:
    """What is anchored of one event."""

    job_id: UUID
    seq: int
    home_id: UUID
    hash: bytes


@dataclass(frozen=True, slots=True)
class Anchor:
    """What one line says."""

    number: int
    cell: str
    incarnation: UUID
    since: datetime
    upto: datetime
    written_at: datetime
    events: int
    jobs: int
    digest: str
    changes: int
    change_head: str
    previous: str

    def line(self, key: Ed25519PrivateKey) -> bytes:
        """The line as it is written, signed, without its end."""
        told = {name: _plain(value) for name, value in asdict(self).items()}
        return canonical({**told, "signature": key.sign(canonical(told)).hex()})


def read_line(line: bytes, key: Ed25519PublicKey) -> Anchor:
    """What a line says, or BadInput if the holder of the key never wrote it."""
    try:
        told: dict[str, Any] = dict(read_object(line))  # Any: JSON
        signature = bytes.fromhex(told.pop("signature"))
        key.verify(signature, canonical(told))
        if line != canonical({**told, "signature": signature.hex()}):
            raise BadInput("the line is not in the form in which it was signed")
        return _anchor(told)
    except (BadJSON, InvalidSignature, KeyError, TypeError, ValueError, AttributeError):
        raise BadInput("the line was not written by the holder of the key") from None


def _anchor(told: dict[str, Any]) -> Anchor:  # Any: JSON
    if set(told) != {one.name for one in fields(Anchor)}:
        raise BadInput("the line has other fields than an anchor")
    for name in ("since", "upto", "written_at"):
        told[name] = datetime.fromisoformat(told[name])
    told["incarnation"] = UUID(told["incarnation"])
    return Anchor(**told)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return iso(value)
        case UUID():
            return str(value)
        case _:
            return value


def line_hash(line: bytes) -> str:
    """What the next line says of this one."""
    return hashlib.sha256(line).hexdigest()


@dataclass(slots=True)
class Digest:
    """The digest of a window, part by part in the order of jobs and numbers."""

    events: int = 0
    jobs: int = 0
    _last: UUID | None = None
    _sum: Any = field(default_factory=hashlib.sha256)  # Any: hashlib names no public type

    def take(self, part: Part) -> None:
        """Go on by one event."""
        self.events += 1
        self.jobs += part.job_id != self._last
        self._last = part.job_id
        told = part.job_id.bytes + struct.pack(">i", part.seq) + part.home_id.bytes
        self._sum.update(told + struct.pack(">i", len(part.hash)) + part.hash)

    @property
    def hex(self) -> str:
        """The digest so far."""
        return self._sum.hexdigest()


def new_key() -> tuple[str, str]:
    """A new key to sign with, and the one that everybody may check with."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode(), public_text(key.public_key())


def public_text(key: Ed25519PublicKey) -> str:
    """A public key as it is written to a file."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, form).decode()


def read_private(text: str) -> Ed25519PrivateKey:
    """A key to sign with, or BadSetting."""
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadSetting("the audit key is no Ed25519 key; make one with: dragoman audit keygen")
    return key


def read_public(text: str) -> Ed25519PublicKey:
    """A key to check with, or BadInput."""
    try:
        key = serialization.load_pem_public_key(text.encode())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput("this is no public Ed25519 key; audit keygen writes one beside the key")
    return key

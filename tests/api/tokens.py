"""A product's backend that signs tokens for its users, rightly or wrongly."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def part(value: object) -> str:
    """JSON, or bytes as they are, as base64url without padding."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Backend:
    """A key, and what is signed with it."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def pem(self) -> bytes:
        """The public half, as its file has it."""
        form = PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(Encoding.PEM, form)

    def write(self, file: Path) -> Path:
        """The file that a door is told of."""
        file.write_bytes(self.pem)
        return file

    def sign(self, header: object, claims: object) -> str:
        """A token of these two parts."""
        signed = f"{part(header)}.{part(claims)}"
        return f"{signed}.{part(self.key.sign(signed.encode()))}"

    def token(self, home: UUID, user: UUID, /, **changed: Any) -> str:
        """A good token, but for what is changed; None leaves a claim out."""
        return self.sign({"alg": "EdDSA", "typ": "JWT"}, good(home, user, **changed))


def good(home: UUID, user: UUID, /, **changed: Any) -> dict[str, Any]:
    """The claims of a token that every door of the cell main takes for five minutes."""
    claims = {
        "aud": "main",
        "exp": int(time.time()) + 300,
        "home": str(home),
        "sub": str(user),
        **changed,
    }
    return {name: value for name, value in claims.items() if value is not None}

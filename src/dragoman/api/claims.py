"""A product's users: short-lived tokens that the product's backend signs, and nothing else.

One form is taken and no other: a JWT in compact form, signed with Ed25519 (`alg` EdDSA) by a key
whose public half stands in `door.user_keys`. The key decides how a token is read, never the token:
a header that asks for another algorithm, or for anything that we do not know, is refused.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from dragoman.api.problems import BadToken
from dragoman.core.canonical import JSONObject, read_object
from dragoman.core.errors import BadJSON, BadSetting

LONGEST_S = 3600
SKEW_S = 30  # how far a backend's clock may be off
_MAX_TOKEN = 2048
_MAX_KEY_FILE = 4096
_HEADER = frozenset({"alg", "typ", "kid"})
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SIGNATURE = 64


@dataclass(frozen=True, slots=True)
class Claims:
    """Who asks: one user in one home."""

    home: UUID
    user: UUID


@dataclass(frozen=True, slots=True)
class Verifier:
    """Reads tokens for one cell; without a key it takes none."""

    cell: str
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict[str, Ed25519PublicKey])

    def verify(self, token: str, now: float | None = None) -> Claims:
        """The claims of a token that is ours in every respect, or BadToken, always the same.

        >>> Verifier("main").verify("a.b.c")
        Traceback (most recent call last):
        dragoman.api.problems.BadToken: This token is not valid here, or not any more.
        """
        try:
            return self._claims(token, time.time() if now is None else now)
        except (ValueError, BadJSON, InvalidSignature):
            raise BadToken from None

    def _claims(self, token: str, now: float) -> Claims:
        if len(token) > _MAX_TOKEN or not token.isascii():
            raise ValueError
        head, body, sealed = token.split(".")
        self._check_signature(read_object(_bytes(head)), f"{head}.{body}".encode(), _bytes(sealed))
        claims = read_object(_bytes(body))
        self._check_time(claims, now)
        if claims.get("aud") != self.cell:
            raise ValueError
        return Claims(home=_id(claims, "home"), user=_id(claims, "sub"))

    def _check_signature(self, header: JSONObject, signed: bytes, signature: bytes) -> None:
        if header.get("alg") != "EdDSA" or header.get("typ", "JWT") != "JWT":
            raise ValueError
        if header.keys() - _HEADER or len(signature) != _SIGNATURE:
            raise ValueError
        keys = [self._named(header["kid"])] if "kid" in header else self.keys.values()
        for key in keys:
            try:
                key.verify(signature, signed)
            except InvalidSignature:
                continue
            return
        raise InvalidSignature

    def _named(self, kid: object) -> Ed25519PublicKey:
        if not isinstance(kid, str) or kid not in self.keys:
            raise ValueError
        return self.keys[kid]

    def _check_time(self, claims: JSONObject, now: float) -> None:
        until = _second(claims["exp"]) if "exp" in claims else 0
        since = _second(claims["nbf"]) if "nbf" in claims else 0
        if not (since - SKEW_S <= now < until <= now + LONGEST_S + SKEW_S):
            raise ValueError


def _bytes(part: str) -> bytes:
    """Strict base64url: no padding, no other letter, one spelling for each value."""
    try:
        found = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ValueError from None
    if base64.urlsafe_b64encode(found).rstrip(b"=") != part.encode():
        raise ValueError
    return found


def _second(value: object) -> int:
    if type(value) is not int:
        raise ValueError
    return value


def _id(claims: JSONObject, name: str) -> UUID:
    value = claims.get(name)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError
    return UUID(value)


def read_verifier(cell: str, files: Sequence[Path]) -> Verifier:
    """A verifier for the keys in these files, each known by its file's name without the ending.

    >>> read_verifier("main", [Path("/etc/dragoman/product.pem")])  # doctest: +SKIP
    Verifier(cell='main', keys=...)
    """
    keys = {file.stem: _read_key(file) for file in files}
    if len(keys) != len(files):
        raise BadSetting("door.user_keys: two files have the same name without its ending")
    return Verifier(cell, keys)


def _read_key(file: Path) -> Ed25519PublicKey:
    try:
        with file.open("rb") as opened:
            key = load_pem_public_key(opened.read(_MAX_KEY_FILE))
    except OSError:
        raise BadSetting(f"door.user_keys: the file {file} cannot be read") from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise BadSetting(f"door.user_keys: the file {file} holds no public Ed25519 key in PEM")
    return key

"""Who may knock: two service keys in two files, and a session that stands for one in a browser."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from dragoman.core.errors import BadSetting
from dragoman.store.files import write_file

Holder: TypeAlias = Literal["orchestrator", "operator"]

HOLDERS: tuple[Holder, ...] = ("orchestrator", "operator")
SESSION_S = 12 * 3600
_SHORTEST = 32


@dataclass(frozen=True, slots=True)
class Keys:
    """The digests of the keys; the keys themselves are not kept."""

    digests: dict[Holder, bytes] = field(repr=False)

    def holder(self, key: str) -> Holder | None:
        """Whose key it is. Every digest is compared, each in constant time."""
        given = _digest(key)
        found: Holder | None = None
        for holder, digest in self.digests.items():
            if hmac.compare_digest(given, digest):
                found = holder
        return found

    def session(self, now: float | None = None) -> str:
        """A ticket that stands for the operator's key in a browser until it expires."""
        until = str(int((time.time() if now is None else now) + SESSION_S))
        return f"{until}.{self._seal(until)}"

    def is_session(self, ticket: str, now: float | None = None) -> bool:
        """Whether a ticket was given out here and has not expired."""
        until, _, seal = ticket.partition(".")
        if not hmac.compare_digest(seal.encode(), self._seal(until).encode()):
            return False
        return int(until) > (time.time() if now is None else now)

    def _seal(self, until: str) -> str:
        key = self.digests["operator"]
        return hmac.new(key, f"console\0{until}".encode(), hashlib.sha256).hexdigest()


def key_file(home: Path, holder: Holder) -> Path:
    """Where a key lies."""
    return home / "secrets" / f"key_{holder}"


def ensure_keys(home: Path) -> Keys:
    """Make the keys that are missing, readable by their owner alone, and read them all.

    >>> ensure_keys(Path("/srv/dragoman"))  # doctest: +SKIP
    Keys()
    """
    (home / "secrets").mkdir(mode=0o700, parents=True, exist_ok=True)
    for holder in HOLDERS:
        if not key_file(home, holder).exists():
            write_file(key_file(home, holder), secrets.token_urlsafe(32), 0o600)
    return read_keys(home)


def read_keys(home: Path) -> Keys:
    """The keys, or BadSetting that says which file is wrong and why."""
    return Keys({holder: _digest(_read(key_file(home, holder))) for holder in HOLDERS})


def _read(file: Path) -> str:
    try:
        key, mode = file.read_text(encoding="ascii").strip(), file.stat().st_mode
    except (OSError, UnicodeDecodeError):
        raise BadSetting(f"the key file {file} is missing or cannot be read") from None
    if mode & 0o077:
        raise BadSetting(f"the key file {file} can be read by others; run: chmod 600 {file}")
    if len(key) < _SHORTEST:
        raise BadSetting(f"the key in {file} is too short; {_SHORTEST} characters are needed")
    return key


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

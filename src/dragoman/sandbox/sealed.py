"""One encrypted file that is whole at any moment: what a stand-in remembers across restarts."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dragoman.core.errors import BadInput

_FORMAT: Final = 1
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class BadState(BadInput):
    """A state file cannot be used; remove it to start empty."""


class SealedFile:
    """A file that only the key beside it opens, for one process at a time.

    What `write` was given is on the disk when it returns; a kill -9 or a power cut in the middle
    leaves what was written before.

    >>> sealed = SealedFile(Path("provider.state"), "provider")  # doctest: +SKIP
    >>> sealed.write(b"all of it")  # doctest: +SKIP
    """

    def __init__(self, path: Path, kind: str, *, wait_s: float = 10.0) -> None:
        self._path = path
        self._label = f"dragoman sandbox {kind} {_FORMAT}".encode()
        self._key_file = _open_key(_beside(path, "key"))
        try:
            self._wait_for_predecessor(wait_s)
            self._cipher = AESGCM(self._key())
        except BadState:
            self.close()
            raise

    def read(self) -> bytes | None:
        """What was written last, None if nothing ever was, or BadState."""
        try:
            sealed = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unopened(self._path, error) from None
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._label)
        except (InvalidTag, ValueError):
            raise self._unreadable() from None

    def write(self, data: bytes) -> None:
        """Put this in the place of what was there."""
        nonce, part = os.urandom(_NONCE_BYTES), _beside(self._path, "part")
        with os.fdopen(_open_private(part, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(nonce + self._cipher.encrypt(nonce, data, self._label))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
        _sync_folder(self._path)

    def close(self) -> None:
        """Let another process have it."""
        self._key_file.close()

    @contextmanager
    def loading(self) -> Generator[bytes | None]:
        """What `read` gives; when it cannot be made sense of the file is closed, with BadState."""
        try:
            yield self.read()
        except BadState:
            self.close()
            raise
        except (AttributeError, KeyError, TypeError, ValueError):
            self.close()
            raise self._unreadable() from None

    def _unreadable(self) -> BadState:
        return BadState(
            f"{self._path} is not a state that this sandbox can read; remove it to start empty"
        )

    def _wait_for_predecessor(self, wait_s: float) -> None:
        # A sandbox whose supervisor was killed is told to end, yet may take a moment.
        until, pause = time.monotonic() + wait_s, threading.Event()
        while True:
            try:
                return fcntl.flock(self._key_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise BadState(f"{self._path} is in use by another sandbox") from None
            pause.wait(0.05)

    def _key(self) -> bytes:
        key = self._key_file.read(_KEY_BYTES + 1)
        if len(key) == _KEY_BYTES:
            return key
        # A first start, or one that was killed here; what another key has sealed stays unreadable.
        key = AESGCM.generate_key(_KEY_BYTES * 8)
        self._key_file.seek(0)
        self._key_file.truncate()
        self._key_file.write(key)
        os.fsync(self._key_file.fileno())
        _sync_folder(self._path)
        return key


def as_text(value: object) -> str:
    """Bytes as the characters 0 to 255, for JSON has no bytes."""
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    raise TypeError


def bytes_of(text: str) -> bytes:
    """The bytes that `as_text` wrote as text."""
    return text.encode("latin-1")


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _open_private(path: Path, flags: int) -> int:
    """Open or make a file that is its owner's alone, whatever it was before."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _open_key(path: Path) -> FileIO:
    try:
        return os.fdopen(_open_private(path, os.O_RDWR), "r+b", buffering=0)
    except OSError as error:
        raise _unopened(path, error) from None


def _unopened(path: Path, error: OSError) -> BadState:
    reason = errno.errorcode.get(error.errno or 0, "unknown")
    return BadState(f"{path} cannot be opened ({reason})")


def _sync_folder(path: Path) -> None:
    """Make a rename in the file's folder durable."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

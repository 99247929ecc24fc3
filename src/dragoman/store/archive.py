r"""A backup as a file: a header that says whose it is, sealed frames, and a digest of all of it.

    DRAGOMAN BACKUP\n | length, header (JSON) | length, frame | … | length, last frame | sha256

The header is not secret, and every frame is sealed together with it. The digest tells a cut or
changed file from a wrong key, and it needs no key. Only the key proves who made the file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, cast
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from dragoman.core.canonical import JSONObject, canonical, read_object
from dragoman.core.errors import BadInput, BadJSON, BadSetting, DragomanError
from dragoman.store.files import sync_folder

FORMAT: Final = 1
CHUNK: Final = 1 << 20
KEY_LENGTH: Final = 16
_MAGIC: Final = b"DRAGOMAN BACKUP\n"
_LENGTH: Final = struct.Struct("!I")
_LAST: Final = 1 << 31
_TAG: Final = 16
_SALT: Final = 16
_HEADER_BYTES: Final = 1 << 16


class BadBackup(BadInput):
    """The file is no backup that can be restored here; nothing was changed."""


class BackupFailed(DragomanError):
    """The backup was not made; no file was left behind."""


class RestoreFailed(DragomanError):
    """The backup could not be put in place, and nothing was changed; look for room on the disk."""


@dataclass(frozen=True, slots=True)
class About:
    """What a backup says of itself."""

    cell: str
    incarnation: UUID
    taken_at: datetime
    postgres: int
    migrations: tuple[tuple[str, str], ...]  # name and sha256
    jobs: int


@dataclass(frozen=True, slots=True)
class _Seal:
    """What closes and opens frames; without a key they lie open."""

    header: bytes
    cipher: AESGCM | None

    def close(self, number: int, data: bytes, *, is_last: bool) -> bytes:
        if self.cipher is None:
            return data
        return self.cipher.encrypt(_nonce(number, is_last=is_last), data, self.header)

    def open(self, number: int, data: bytes, *, is_last: bool) -> bytes | None:
        """The frame's bytes, or None when the key does not fit."""
        if self.cipher is None:
            return data
        try:
            return self.cipher.decrypt(_nonce(number, is_last=is_last), data, self.header)
        except InvalidTag:
            return None


@dataclass(slots=True)
class Archive:
    """An open backup file; the same one is checked and read, whatever its name means meanwhile."""

    path: Path
    file: BinaryIO
    about: About
    salt: bytes | None
    _header: bytes = field(repr=False)

    @property
    def is_sealed(self) -> bool:
        """Whether a key is needed."""
        return self.salt is not None

    def check(self, key: str) -> None:
        """Read all of it: BadBackup when it is cut, was changed, or the key does not open it."""
        seal, opens = self._seal(key), True
        for number, data, is_last in self._frames():
            opens = opens and seal.open(number, data, is_last=is_last) is not None
        if not opens:
            raise self._not_opened()

    def read(self, key: str) -> Iterator[bytes]:
        """What was put in; whoever takes it must not believe it before the end is reached."""
        seal = self._seal(key)
        for number, data, is_last in self._frames():
            opened = seal.open(number, data, is_last=is_last)
            if opened is None:
                raise self._not_opened()
            yield opened

    def _seal(self, key: str) -> _Seal:
        return _Seal(self._header, _cipher(key, self.salt) if self.salt else None)

    def _frames(self) -> Iterator[tuple[int, bytes, bool]]:
        self.file.seek(len(self._header))
        digest = hashlib.sha256(self._header)
        for number in count():
            head = self._take(_LENGTH.size)
            (length,) = _LENGTH.unpack(head)
            is_last = bool(length & _LAST)
            data = self._take(length & ~_LAST)
            digest.update(head)
            digest.update(data)
            yield number, data, is_last
            if is_last:
                break
        if self.file.read(digest.digest_size + 1) != digest.digest():
            raise self._changed()

    def _take(self, size: int) -> bytes:
        data = self.file.read(size) if size <= CHUNK + _TAG else b""
        if len(data) != size:
            raise self._changed()
        return data

    def _changed(self) -> BadBackup:
        return BadBackup(f"{self.path} is cut or was changed: its digest does not fit")

    def _not_opened(self) -> BadBackup:
        return BadBackup(f"{self.path} was sealed with another key")


@contextmanager
def open_archive(path: Path) -> Generator[Archive]:
    """Open a backup and read its header, or BadBackup."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadBackup(f"{path} cannot be read ({_code(error)})") from None
    with file:
        magic = file.read(len(_MAGIC))
        size = file.read(_LENGTH.size)
        if magic != _MAGIC or len(size) != _LENGTH.size:
            raise BadBackup(f"{path} is no backup of Dragoman")
        (length,) = _LENGTH.unpack(size)
        text = file.read(min(length, _HEADER_BYTES))
        about, salt = _read_header(path, text)
        yield Archive(path, file, about, salt, magic + size + text)


def write_archive(path: Path, about: About, key: str, chunks: Iterable[bytes]) -> None:
    """Write a backup that is whole or absent; without a key it is not sealed.

    >>> write_archive(Path("dragoman.backup"), about, key, chunks)  # doctest: +SKIP
    """
    fresh = path.with_name(f".{path.name}.part")
    try:
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            _write(file, about, key, chunks)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        sync_folder(path.parent)
    except OSError as error:
        raise BackupFailed(
            f"{path} cannot be written ({_code(error)}); no file was left behind"
        ) from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def check_key(key: str) -> None:
    """Refuse a key that could be guessed."""
    if len(key) < KEY_LENGTH:
        raise BadSetting(
            f"the key of backups has less than {KEY_LENGTH} characters: use a longer one"
        )


def _write(file: BinaryIO, about: About, key: str, chunks: Iterable[bytes]) -> None:
    salt = os.urandom(_SALT) if key else None
    text = canonical({**_as_json(about), "salt": salt.hex() if salt else None})
    header = _MAGIC + _LENGTH.pack(len(text)) + text
    seal = _Seal(header, _cipher(key, salt) if salt else None)
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    put(header)
    number = 0
    for chunk in chunks:
        data = seal.close(number, chunk, is_last=False)
        put(_LENGTH.pack(len(data)) + data)
        number += 1
    data = seal.close(number, b"", is_last=True)
    put(_LENGTH.pack(len(data) | _LAST) + data)
    file.write(digest.digest())


def _as_json(about: About) -> JSONObject:
    return {
        **cast("JSONObject", asdict(about)),
        "format": FORMAT,
        "incarnation": str(about.incarnation),
        "taken_at": about.taken_at.isoformat(),
        "migrations": [list(each) for each in about.migrations],
    }


def _read_header(path: Path, text: bytes) -> tuple[About, bytes | None]:
    """The header as we write it; anything else is cut, changed, or of a version to come."""
    try:
        told = read_object(text)
        if told["format"] != FORMAT:
            raise BadBackup(f"{path} was made by a newer version of Dragoman: use that one")
        salt = told["salt"]
        migrations = cast("list[list[str]]", told["migrations"])
        return About(
            cell=str(told["cell"]),
            incarnation=UUID(str(told["incarnation"])),
            taken_at=datetime.fromisoformat(str(told["taken_at"])),
            postgres=int(str(told["postgres"])),
            migrations=tuple((str(name), str(digest)) for name, digest in migrations),
            jobs=int(str(told["jobs"])),
        ), bytes.fromhex(str(salt)) if salt is not None else None
    except (BadJSON, KeyError, TypeError, ValueError):
        raise BadBackup(f"{path} is cut or was changed: its header cannot be read") from None


def _cipher(key: str, salt: bytes) -> AESGCM:
    """A key of this one file's own, slow to be tried out."""
    return AESGCM(Scrypt(salt=salt, length=32, n=1 << 15, r=8, p=1).derive(key.encode()))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return bytes([is_last]) + number.to_bytes(11, "big")


def _code(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "OSError")

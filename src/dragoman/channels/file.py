"""The file channel: one JSON line per message, and a file that can be asked what it holds."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import BinaryIO

from dragoman.channels.base import Absent, CannotTell, Finding, Guarantee, Message
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.canonical import JSON, canonical, read_object
from dragoman.core.errors import BadInput, BadJSON
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.text import check_text

MAX_BODY = 1_000_000
_LOCK_POLL_S = 0.005
_CLASSES = {
    errno.EACCES: FailureClass.AUTH_DENIED,
    errno.EPERM: FailureClass.AUTH_DENIED,
    errno.EROFS: FailureClass.AUTH_DENIED,
    errno.ENOENT: FailureClass.NOT_FOUND,
    errno.ENOTDIR: FailureClass.NOT_FOUND,
    errno.EISDIR: FailureClass.NOT_FOUND,
    errno.EINVAL: FailureClass.NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Where the lines go. Moving the file away takes away what it remembers."""

    path: Path


class File:
    """Appends one line per message; the recipient names a reader and never a path.

    >>> File(FileSettings(Path("reviews.jsonl"))).scheme
    'file'
    """

    scheme: str = "file"
    guarantee: Guarantee = Guarantee.LOOKUP
    key_window_s: float | None = None
    settle_s: float = 0.0

    def __init__(self, settings: FileSettings) -> None:
        self._path = settings.path

    def render(self, message: Message) -> bytes:
        """One line of canonical JSON with its newline."""
        if message.created_at.utcoffset() is None:
            raise BadInput("the message's time has no time zone")
        fields = {
            "key": message.key,
            "recipient": message.recipient,
            "subject": message.subject,
            "body": message.body,
        }
        for value in fields.values():
            check_text(value, limit=MAX_BODY)
        created_at = message.created_at.astimezone(UTC).isoformat()
        return canonical({**fields, "created_at": created_at}) + b"\n"

    async def send(self, recipient: str, key: str, rendered: bytes, deadline_s: float) -> Answer:
        """Append the line whole, on disk before it counts, or take it back."""
        if rendered.find(b"\n") != len(rendered) - 1 or not _names(rendered, recipient, key):
            return _nothing(FailureClass.SCHEMA_INVALID, "file_not_a_line_of_this_key")
        try:
            file = _open(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            return NothingHappened(_failure("open", error))
        try:
            if not await _lock(file, deadline_s):
                return _nothing(FailureClass.NETWORK_TIMEOUT, "file_locked")
            end = os.lseek(file, 0, os.SEEK_END)
            start = end if _ends_a_line(file, end) else end + 1
            # Written on the loop on purpose: a thread would outlive a cancelled send.
            return self._append(file, end, start, rendered)
        except OSError as error:
            return NothingHappened(_failure("prepare", error))
        finally:
            os.close(file)

    async def lookup(self, recipient: str, key: str) -> Finding:
        """The first line with this recipient and key."""
        try:
            with os.fdopen(_open(self._path, os.O_RDONLY), "rb") as lines:
                fcntl.flock(lines, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return self._find(lines, recipient, key)
        except FileNotFoundError as error:
            # A missing directory may be a volume that is not mounted, so it proves nothing.
            return Absent() if self._path.parent.is_dir() else CannotTell(_failure("open", error))
        except OSError as error:
            return CannotTell(_failure("read", error))

    def _append(self, file: int, end: int, start: int, line: bytes) -> Answer:
        try:
            # A line torn by a crash is closed first, so that it spoils only itself.
            _write_all(file, b"\n" * (start - end) + line)
        except OSError as error:
            return _take_back(file, end, error)
        try:
            os.fsync(file)
        except OSError as error:
            return Doubt(_failure("sync", error))
        return self._happened(start)

    def _find(self, lines: BinaryIO, recipient: str, key: str) -> Finding:
        start = 0
        for line in lines:
            # One that lacks only its newline is whole: no shorter part of it is JSON.
            if _names(line, recipient, key):
                return self._happened(start)
            start += len(line)
        return Absent()

    def _happened(self, start: int) -> Happened:
        facts: dict[str, JSON] = {"offset": start}
        return Happened(f"{self._path.name}:{start}", facts)


def _open(path: Path, flags: int) -> int:
    # Without O_NONBLOCK a pipe in the file's place would stop the whole process.
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "not a file")


async def _lock(file: int, deadline_s: float) -> bool:
    clock = asyncio.get_running_loop().time
    deadline = clock() + deadline_s
    while clock() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_LOCK_POLL_S)  # noqa: TID251 - flock cannot wait until a time
        else:
            return clock() < deadline
    return False


def _ends_a_line(file: int, end: int) -> bool:
    return end == 0 or os.pread(file, 1, end - 1) == b"\n"


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _take_back(file: int, end: int, error: OSError) -> Answer:
    try:
        os.ftruncate(file, end)
        os.fsync(file)
    except OSError as worse:
        return Doubt(_failure("take_back", worse))
    return NothingHappened(_failure("write", error))


def _names(line: bytes, recipient: str, key: str) -> bool:
    try:
        found = read_object(line)
    except BadJSON:
        return False
    return found.get("recipient") == recipient and found.get("key") == key


def _failure(act: str, error: OSError) -> Failure:
    name = errno.errorcode.get(error.errno or 0, "unknown").lower()
    error_class = _CLASSES.get(error.errno or 0, FailureClass.UPSTREAM_ERROR)
    return Failure(error_class, f"file_{act}_{name}")


def _nothing(error_class: FailureClass, code: str) -> NothingHappened:
    return NothingHappened(Failure(error_class, code))

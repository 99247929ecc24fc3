"""The lock of an installation: one supervisor at a time runs it."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from dragoman.core.errors import BadSetting

_NAME = "up.lock"


@contextmanager
def only_one(home: Path) -> Generator[None]:
    """Two supervisors of one installation would start everything twice."""
    with _lock_file(home) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadSetting(f"Dragoman is up already in {home}") from None
        yield


def is_up(home: Path) -> bool:
    """Whether a supervisor holds the lock.

    >>> is_up(Path("/nowhere"))
    False
    """
    try:
        with (home / _NAME).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lock_file(home: Path) -> TextIO:
    try:
        home.mkdir(mode=0o711, parents=True, exist_ok=True)
        return (home / _NAME).open("w")
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "OSError")
        raise BadSetting(
            f"{home} cannot be made or written by this user ({code}); "
            "name another folder in DRAGOMAN_HOME"
        ) from None

"""One PostgreSQL server for a whole test run, shared by its xdist workers, and databases to clone.

Every process of a run holds a shared lock (its lease) on one file. A watchdog in a session of its
own waits for the exclusive lock: the kernel grants it when the last process has gone, however it
went, and the watchdog stops the server and removes its directory. The one who started the watchdog
waits for it at exit, so that nothing is left when pytest returns.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import Connection, sql

from dragoman.store.embedded import Server
from dragoman.store.roles import ADMIN, OWNER, make_database

_HAND_OVER_S = 20.0


@functools.cache
def shared_server() -> Server:
    """The run's server, without fsync, with all roles; started by whoever comes first."""
    folder = _folder()
    lease = _lease(folder)
    with _locked(folder / "lock"):
        server = Server(folder / "home", unsafe_fast=True)
        if not (folder / "watched").exists():
            _watch(folder, lease)
            (folder / "watched").touch()
        server.bootstrap()
    return server


def template_database(build: Callable[[str], None]) -> str:
    """The name of a database that `build` made once for this run; it is given the owner's DSN."""
    server = shared_server()
    known = f"{build.__module__}.{build.__qualname__}".encode()
    name = f"template_{hashlib.sha256(known).hexdigest()[:16]}"
    with _locked(server.home.parent / "lock"), _admin() as connection:
        if not _is_template(connection, name):
            _drop(connection, name)  # somebody died while building it
            make_database(connection, name)
            build(server.dsn(OWNER, name))
            connection.execute(
                sql.SQL("alter database {} is_template true").format(sql.Identifier(name))
            )
    return name


def clone(template: str) -> str:
    """A database of one test's own. Copying files is three times as fast where fsync is off."""
    name = f"test_{uuid4().hex}"
    with _admin() as connection:
        make_database(connection, name, template, "file_copy")
    return name


def make(name: str) -> None:
    """An empty database."""
    with _admin() as connection:
        make_database(connection, name)


def drop(name: str) -> None:
    """Remove a clone, whoever is still connected to it."""
    with _admin() as connection:
        _drop(connection, name)


def dsn(role: str, database: str) -> str:
    """How a role connects to a clone."""
    return shared_server().dsn(role, database)


def _folder() -> Path:
    """The run's directory: xdist tells its workers one name, any other run is one process."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"
    return Path(tempfile.gettempdir()) / f"dragoman-tests-{os.geteuid()}-{run}"


def _lease(folder: Path) -> int:
    """Hold the run's directory until this process ends; begin anew if it has just been removed."""
    while True:
        folder.mkdir(mode=0o711, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise PermissionError(folder)
        lease = os.open(folder / "lease", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lease, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lease), (folder / "lease").stat()):
                return lease
        os.close(lease)


def _watch(folder: Path, lease: int) -> None:
    watchdog = subprocess.Popen(
        (sys.executable, __file__, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # Our own search path, so that the watchdog imports what we import.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd="/",
    )
    atexit.register(_leave, watchdog, lease, os.getpid())


def _leave(watchdog: subprocess.Popen[bytes], lease: int, started_by: int) -> None:
    """Give the lease back and see the watchdog finish; a forked child must do neither."""
    if os.getpid() == started_by:
        fcntl.flock(lease, fcntl.LOCK_UN)
        with suppress(subprocess.TimeoutExpired):
            watchdog.wait(_HAND_OVER_S)


def _clear(folder: Path) -> None:
    """The watchdog: wait for the last lease, then stop the server and remove everything."""
    lease = os.open(folder / "lease", os.O_RDWR)
    fcntl.flock(lease, fcntl.LOCK_EX)
    Server(folder / "home", unsafe_fast=True).stop()
    gone = folder.rename(folder.with_name(f"{folder.name}-{uuid4().hex}"))
    shutil.rmtree(gone, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _admin() -> Generator[Connection]:
    with psycopg.connect(shared_server().dsn(ADMIN, "postgres"), autocommit=True) as connection:
        yield connection


def _is_template(connection: Connection, name: str) -> bool:
    return bool(
        connection.execute(
            "select from pg_catalog.pg_database where datname = %s and datistemplate", (name,)
        ).rowcount
    )


def _drop(connection: Connection, name: str) -> None:
    connection.execute(
        sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
    )


if __name__ == "__main__":
    _clear(Path(sys.argv[1]))

"""Backups: one snapshot of the whole database, dumped while everything runs, sealed on its way.

What is copied are rows, not files. So a backup holds no role, no password and no text that was
erased, it can be loaded into a later PostgreSQL, and no plain text touches the disk.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from dragoman.core.errors import BadSetting, Refused
from dragoman.store.archive import CHUNK, About, BackupFailed, RestoreFailed, write_archive
from dragoman.store.database import mapped, statement


def take_backup(dsn: str, programs: Path, target: Path, key: str) -> tuple[Path, About]:
    """Write a backup to a file, or into a folder under a name of its own.

    >>> take_backup(server.dsn(OWNER), server.bin_dir, Path("/backups"), key)  # doctest: +SKIP
    """
    with mapped(), psycopg.connect(dsn, options="-c search_path=dragoman") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("set local idle_in_transaction_session_timeout = 0")
        snapshot, about = _look(connection)
        path = _place(target, about)
        write_archive(path, about, key, _dumped(dsn, programs, snapshot))
    return path, about


def load_dump(dsn: str, programs: Path, dump: Iterable[bytes]) -> None:
    """Load a dump into an empty database, in one transaction."""
    argv = (programs / "pg_restore", "--exit-on-error", "--single-transaction", "--no-owner")
    with _running(argv, dsn, subprocess.PIPE, subprocess.DEVNULL) as process:
        assert process.stdin is not None  # noqa: S101 - asked for a line above
        try:
            for chunk in dump:
                process.stdin.write(chunk)
            process.stdin.close()
        except BrokenPipeError:
            pass  # its exit code says more
        if process.wait():
            raise RestoreFailed


def _look(connection: psycopg.Connection) -> tuple[str, About]:
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(statement("backup/read_about")).fetchone()
    if row is None:
        raise Refused("there is no schema in this database yet")
    snapshot = str(row.pop("snapshot"))
    migrations = tuple((str(name), str(digest)) for name, digest in row.pop("migrations"))
    return snapshot, About(migrations=migrations, **row)


def _place(target: Path, about: About) -> Path:
    if target.is_dir():
        target /= f"dragoman-{about.cell}-{about.taken_at:%Y%m%dT%H%M%SZ}.backup"
    if target.exists():
        raise BadSetting(f"{target} exists already: name another file, or a folder")
    return target


def _dumped(dsn: str, programs: Path, snapshot: str) -> Iterator[bytes]:
    argv = (programs / "pg_dump", "--format=custom", "--no-owner", f"--snapshot={snapshot}")
    with _running(argv, dsn, subprocess.DEVNULL, subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101 - asked for a line above
        while chunk := process.stdout.read(CHUNK):
            yield chunk
        if code := process.wait():
            raise BackupFailed(f"pg_dump ended with {code}; no file was left behind")


@contextmanager
def _running(
    argv: tuple[str | Path, ...], dsn: str, stdin: int, stdout: int
) -> Generator[subprocess.Popen[bytes]]:
    """One of PostgreSQL's programs; what it says is dropped, for it quotes rows."""
    told = conninfo_to_dict(dsn)
    password = str(told.pop("password", ""))  # a command line is everybody's to read
    where = make_conninfo("", **told)
    process = subprocess.Popen(  # noqa: S603 - programs of our own server
        (*argv, f"--dbname={where}"),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PGPASSWORD": password},
        cwd="/",
        start_new_session=True,
    )
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    except BrokenPipeError:  # raised by closing the pipe of a program that has ended
        raise BackupFailed(f"{Path(argv[0]).name} ended early") from None

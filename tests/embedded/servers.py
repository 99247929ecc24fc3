"""Embedded servers that tests start, hurt and stop."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from dragoman.store.embedded import Server
from dragoman.store.roles import ADMIN, OWNER

WORKER = "dragoman_worker"
NOBODY_KNOWS = 54321  # a uid without a name
STRANGER = pwd.getpwnam("daemon").pw_uid  # an account that never runs the server here
SOURCES = os.pathsep.join(path for path in sys.path if path)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

# The interpreter may lie where a stranger cannot read it, so it changes its user after the imports.
IMPORTS = """
import encodings.idna, os, sys
from pathlib import Path
import psycopg
from dragoman.store.embedded import Server
"""
BECOME = "os.setgroups([]); os.setgid({0}); os.setuid({0})\n"

START = """
server = Server(Path(sys.argv[1]))
server.bootstrap()
print(server.status().pid, flush=True)
"""
START_AND_STAY = START + "sys.stdin.read()\n"

CONNECT = """
try:
    psycopg.connect(sys.argv[1]).close()
    print("connected")
except psycopg.OperationalError:
    print("refused")
"""


@contextmanager
def folder() -> Generator[Path]:
    """A short directory that every account may pass through, as /var/lib is."""
    made = Path(tempfile.mkdtemp(prefix="dm-"))
    made.chmod(0o711)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def stopped_at_last(home: Path) -> Generator[Server]:
    server = Server(home)
    try:
        yield server
    finally:
        server.stop()


def admin(server: Server) -> psycopg.Connection:
    return psycopg.connect(server.dsn(ADMIN, "postgres"), autocommit=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pid_of(server: Server) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def processes_of(server: Server) -> list[int]:
    """The server and its backends: whoever works in the data directory."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == server.home / "data":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A Python of its own with next to no environment: no HOME, no LANG, no PATH."""
    return subprocess.Popen(
        (sys.executable, "-c", IMPORTS + code, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": SOURCES, "LC_ALL": "C"},
        start_new_session=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.strip()


def put_row(server: Server) -> None:
    with psycopg.connect(server.dsn(OWNER)) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept (a int)")
        connection.execute("insert into kept values (7)")


def rows(server: Server) -> Sequence[tuple[int]]:
    with psycopg.connect(server.dsn(OWNER)) as connection:
        return connection.execute("select a from kept").fetchall()

"""Servers that are not ours: Debian's PostgreSQL 15, and a PgBouncer before any server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from dragoman.store.cluster import Account, Cluster
from tests.eventually import eventually

BIN_15 = Path("/usr/lib/postgresql/15/bin")
BOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
ADMIN, MANAGER, PASSWORD = "postgres", "manager", "known-to-this-test"

needs_15 = pytest.mark.skipif(
    not BIN_15.is_dir(), reason="PostgreSQL 15 is left out: sudo apt-get install -y postgresql-15"
)
needs_bouncer = pytest.mark.skipif(
    BOUNCER is None, reason="PgBouncer is left out: sudo apt-get install -y pgbouncer"
)


@dataclass(frozen=True)
class Elsewhere:
    """A server on a port of its own; `manager` may make roles and databases, and nothing more."""

    port: int

    def url(self, user: str, database: str = "postgres") -> str:
        """How one of the two admins connects."""
        return f"postgresql://{user}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    @property
    def place(self) -> str:
        """What the setting `database` says."""
        return f"postgresql://127.0.0.1:{self.port}/dragoman"

    @contextmanager
    def admin(self, user: str = ADMIN, database: str = "postgres") -> Generator[psycopg.Connection]:
        """A connection of an admin."""
        with psycopg.connect(self.url(user, database), autocommit=True) as connection:
            yield connection


@contextmanager
def postgresql_15(folder: Path, **settings: str) -> Generator[Elsewhere]:
    """Debian's server with its own defaults, for as long as the block runs."""
    password = folder / "password"
    with _output(folder / "15.log") as (account, log):
        password.write_text(PASSWORD)
        home = folder / "postgres"
        home.mkdir()
        for path in (password, home):
            account.owns(path)
        data = home / "data"
        argv = [BIN_15 / "initdb", "-D", data, "-U", ADMIN, "--pwfile", password, "-E", "UTF8"]
        made = account.start([*argv, "--auth=scram-sha-256", "--no-sync"], log).wait()
        assert made == 0, (folder / "15.log").read_text()
        server = Elsewhere(free_port())
        told = {
            "port": str(server.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **settings,
        }
        options = [word for name, value in told.items() for word in ("-c", f"{name}={value}")]
        process = account.start([BIN_15 / "postgres", "-D", data, *options], log)
        try:
            eventually(lambda: _answers(server.url(ADMIN)), timeout=30)
            with server.admin() as connection:
                connection.execute(
                    f"create role {MANAGER} login createrole createdb password '{PASSWORD}'"
                )
            yield server
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@contextmanager
def pgbouncer(
    folder: Path, server: Elsewhere, passwords: Mapping[str, str], forced: str = ""
) -> Generator[str]:
    """A PgBouncer in transaction mode with one connection per role; what `database` says."""
    assert BOUNCER is not None
    port = free_port()
    ini, users = folder / "pgbouncer.ini", folder / "users.txt"
    users.write_text("".join(f'"{name}" "{word}"\n' for name, word in passwords.items()))
    ini.write_text(
        f"""[databases]
* = host=127.0.0.1 port={server.port} pool_size=1 {forced}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = transaction
"""
    )
    with _output(folder / "pgbouncer.log") as (account, log):
        for path in (ini, users):
            account.owns(path)
        process = account.start([BOUNCER, ini], log)
        try:
            eventually(lambda: _listens(port), timeout=20)
            yield f"postgresql://127.0.0.1:{port}/dragoman"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def _output(log: Path) -> Generator[tuple[Account, int]]:
    account = Cluster(log.parent / "nothing").account()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        yield account, descriptor
    finally:
        os.close(descriptor)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True

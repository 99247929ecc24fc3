"""The life of the embedded PostgreSQL server: first start, attach, restart, stop, passwords.

Two proofs keep this honest. A server's process is ours if it is named postgres and works in our
data directory: a process number alone proves nothing, it may be a zombie's or somebody else's by
now. And every process of a server, the orphans of a killed one too, holds the lock on the file
`alive` that the first of them was given: while it is held, no second server is started.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psycopg
from psycopg import Connection, pq
from psycopg.conninfo import make_conninfo

from dragoman.store.cluster import MAJOR, PORT, Child, Cluster, ServerDown
from dragoman.store.roles import (
    ADMIN,
    DATABASE,
    HOW_TO_CONNECT,
    ROLES,
    Secrets,
    close_database,
    make_database,
    make_role,
    set_password,
)

_PING_S = 2
_LAUNCHES = 8  # a server that ends at once so often will not stay the next time

_children: list[Child] = []


class State(StrEnum):
    """What there is to say about a server; only READY answers statements."""

    ABSENT = "absent"
    STOPPED = "stopped"
    STARTING = "starting"
    RECOVERING = "recovering"
    READY = "ready"
    WRONG_VERSION = "wrong_version"


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a server, and how we know."""

    state: State
    data: Path
    why: str
    pid: int | None = None
    version: str | None = None


class Server:
    """One server in one private home directory, shared by every process that names that home.

    >>> server = Server(Path("/var/lib/dragoman"))  # doctest: +SKIP
    >>> server.bootstrap()  # doctest: +SKIP
    >>> psycopg.connect(server.dsn("dragoman_worker"))  # doctest: +SKIP
    """

    def __init__(self, home: Path, *, wait_s: float = 60.0, unsafe_fast: bool = False) -> None:
        """`unsafe_fast` leaves out fsync: for the data of tests, refused for any other."""
        self._cluster = Cluster(home.resolve())
        self._secrets = Secrets(self._cluster.home / "secrets")
        self._wait_s = wait_s
        self._unsafe_fast = unsafe_fast

    @property
    def home(self) -> Path:
        """The directory that holds everything of this server."""
        return self._cluster.home

    @property
    def log(self) -> Path:
        """What the server says; bounded, and without any value of a statement."""
        return self._cluster.log

    @property
    def bin_dir(self) -> Path:
        """The directory of PostgreSQL's own programs."""
        return self._cluster.binaries

    @property
    def psql_path(self) -> Path:
        """The interactive terminal."""
        return self.bin_dir / "psql"

    def dsn(self, role: str, database: str = DATABASE) -> str:
        """How a role connects; it holds the password, so it belongs in no log."""
        return self._conninfo(role, self._secrets.read(role), database)

    def status(self) -> Status:
        """The state of the server now; nothing is changed by asking."""
        cluster = self._cluster
        cluster.refuse_stranger()
        version = cluster.version()
        if version is None:
            return Status(State.ABSENT, cluster.data, "there are no data yet")
        if version != MAJOR:
            why = f"the data are of PostgreSQL {version}, not {MAJOR}"
            return Status(State.WRONG_VERSION, cluster.data, why, version=version)
        pid = self._postmaster()
        if pid is None:
            state, why = self._without_postmaster()
            return Status(state, cluster.data, why, version=version)
        state, why, version = self._asked(version)
        return Status(state, cluster.data, why, pid, version)

    def ensure_running(self) -> None:
        """Return when `select 1` has been answered; start whatever is needed for that."""
        self._cluster.refuse_stranger()
        self._cluster.refuse_version()
        self._cluster.refuse_mixed(unsafe=self._unsafe_fast)
        if self.status().state is not State.READY:
            self._cluster.make_home()
            with self._alone():
                self._start()
        self._cluster.trim_log()

    def stop(self) -> None:
        """Stop fast: transactions are rolled back, the data are closed properly."""
        self._cluster.refuse_stranger()
        if self._cluster.version() is None:
            return
        with self._alone():
            told = None
            for _ in self._tries():
                pid = self._postmaster()
                if pid is None and not self._has_processes():
                    return
                if pid is not None and pid != told:
                    os.kill(pid, signal.SIGINT)
                    told = pid
        raise ServerDown("The server has not stopped yet", self.log)

    def bootstrap(self) -> None:
        """Start, then make whatever is missing of roles, passwords and the database."""
        self.ensure_running()
        with self._alone(), self._admin() as connection:
            for role, settings in ROLES.items():
                self._secrets.ensure(role)
                with connection.transaction():
                    make_role(connection, role, settings)
                    set_password(connection, role, self._secrets.read(role))
            for name in ("postgres", "template1"):
                close_database(connection, name)
            make_database(connection, DATABASE)

    def rotate_passwords(self) -> None:
        """New passwords for every role; open connections stay, new ones read the files again."""
        self.ensure_running()
        with self._alone(), self._admin() as connection:
            for role in ROLES:
                self._secrets.renew(role)
                set_password(connection, role, self._secrets.read(role))
            set_password(connection, ADMIN, self._secrets.propose())
            self._secrets.adopt()

    def _start(self) -> None:
        launches = 0
        for _ in self._tries():
            status = self.status()
            if status.state is State.READY:
                return
            if status.state is State.RECOVERING:
                self._secrets.settle(self._is_right)
            if status.state in {State.ABSENT, State.STOPPED}:
                if launches == _LAUNCHES:
                    raise ServerDown(f"The server ended {launches} times as it started", self.log)
                launches += self._launch()
        told = self.status()
        raise ServerDown(f"The server is {told.state}: {told.why}", self.log)

    def _launch(self) -> bool:
        """Start a server unless a process of the last one still lives; whether it was started."""
        try:
            self._prepare()
            self._spawn()
        except BlockingIOError:
            return False
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "OSError")
            raise ServerDown(f"The server's files cannot be written ({code})", self.log) from None
        return True

    def _prepare(self) -> None:
        cluster = self._cluster
        account = cluster.account()
        cluster.prepare(account, unsafe=self._unsafe_fast)
        if cluster.version() is None:
            self._secrets.ensure(ADMIN)
            cluster.create(account, ADMIN, self._secrets.read(ADMIN))

    def _spawn(self) -> None:
        cluster = self._cluster
        with self._alive(fcntl.LOCK_EX) as alive, cluster.output() as log:
            # PostgreSQL believes any living process that these name; we have proved them stale.
            (cluster.data / "postmaster.pid").unlink(missing_ok=True)
            (cluster.sockets / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
            _children.append(cluster.account().start(self._command(), log, keep=(alive,)))

    def _command(self) -> list[str | Path]:
        cluster = self._cluster
        command: list[str | Path] = [cluster.binaries / "postgres", "-D", cluster.data]
        for setting in (f"config_file={cluster.settings}", f"hba_file={cluster.hba}"):
            command += ["-c", setting]
        return [*command, "-c", "fsync=off"] if self._unsafe_fast else command

    def _asked(self, version: str) -> tuple[State, str, str]:
        """What a living server answers."""
        socket = make_conninfo(host=str(self._cluster.sockets), port=PORT, connect_timeout=_PING_S)
        answer = pq.PGconn.ping(socket.encode())
        if answer == pq.Ping.REJECT:
            return State.RECOVERING, "it takes no connections yet", version
        if answer != pq.Ping.OK:
            return State.STARTING, "it lives and does not answer yet", version
        try:
            with self._admin() as connection:
                connection.execute("select 1")
                found = connection.info.parameter_status("server_version") or version
        except psycopg.Error:
            return State.RECOVERING, "it answers, and takes no statement of ours yet", version
        return State.READY, "it answered select 1", found

    def _without_postmaster(self) -> tuple[State, str]:
        if not self._has_processes():
            return State.STOPPED, "no process of it lives"
        if (self._cluster.data / "postmaster.pid").exists():
            return State.RECOVERING, "processes of the server before it are still ending"
        return State.STARTING, "its first process has begun"

    def _postmaster(self) -> int | None:
        """The living server's process, proved to be ours."""
        _children[:] = [child for child in _children if child.poll() is None]
        try:
            pid = abs(int((self._cluster.data / "postmaster.pid").read_bytes().split(b"\n")[0]))
            name = Path(f"/proc/{pid}/comm").read_bytes()
            works_in = Path(f"/proc/{pid}/cwd").readlink()  # a zombie has none
        except (OSError, ValueError):
            return None
        is_ours = name == b"postgres\n" and works_in == self._cluster.data.resolve()
        return pid if is_ours else None

    def _has_processes(self) -> bool:
        """Whether any process of a server of ours lives, wherever its number may be visible."""
        try:
            with self._alive(fcntl.LOCK_SH, os.O_RDONLY):
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    @contextmanager
    def _alive(self, kind: int, flags: int = os.O_RDWR | os.O_CREAT) -> Generator[int]:
        """The lock that every process of a server holds, or BlockingIOError if one lives."""
        descriptor = os.open(self.home / "alive", flags, 0o600)
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Hold the home's lock: one process at a time starts, stops or changes passwords."""
        descriptor = os.open(self.home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for _ in self._tries():
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
            else:
                raise ServerDown("Another process is still starting or stopping it", self.log)
            yield
        finally:
            os.close(descriptor)

    def _tries(self) -> Iterator[None]:
        """Turns with a growing pause between them, until the wait is over."""
        deadline = time.monotonic() + self._wait_s
        pause = 0.02
        while True:
            yield
            if time.monotonic() + pause > deadline:
                return
            threading.Event().wait(
                pause
            )  # there is nothing else to wait on: it may be nobody's child
            pause = min(pause * 1.5, 0.5)

    @contextmanager
    def _admin(self) -> Generator[Connection]:
        with psycopg.connect(self.dsn(ADMIN, "postgres"), autocommit=True) as connection:
            yield connection

    def _is_right(self, password: str) -> bool:
        try:
            psycopg.connect(self._conninfo(ADMIN, password, "postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _conninfo(self, role: str, password: str, database: str) -> str:
        return make_conninfo(
            "",
            host=str(self._cluster.sockets),
            port=PORT,
            dbname=database,
            user=role,
            password=password,
            **HOW_TO_CONNECT,
        )

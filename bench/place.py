"""Where the measurements happen: one server, databases made fresh, and programs that race."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from dragoman.store.embedded import Server
from dragoman.store.migrate import migrate
from dragoman.store.roles import ADMIN, OWNER, Secrets, make_database

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"
PEERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Place:
    """A server, and the interpreter of the peers unless this run goes without them."""

    server: Server
    peers: Path | None
    database: str = "bench"

    def dsn(self, role: str) -> str:
        """How a role of ours connects."""
        return self.server.dsn(role, self.database)

    def fresh(self) -> None:
        """An empty database with the newest schema."""
        self.drop()
        with self.admin() as connection:
            make_database(connection, self.database)
        migrate(self.dsn(OWNER))

    def drop(self) -> None:
        """Remove the database, if it is there."""
        with self.admin() as connection:
            connection.execute(f"drop database if exists {self.database} with (force)".encode())

    @contextmanager
    def admin(self) -> Generator[psycopg.Connection]:
        """A connection that may make databases."""
        with psycopg.connect(self.server.dsn(ADMIN, "postgres"), autocommit=True) as connection:
            yield connection

    @contextmanager
    def owner(self) -> Generator[psycopg.Connection]:
        """A connection that may fill and look."""
        options = "-c search_path=dragoman"
        with psycopg.connect(self.dsn(OWNER), autocommit=True, options=options) as connection:
            yield connection

    def number(self, query: str) -> float:
        """One number that the owner reads."""
        with self.owner() as connection:
            found = connection.execute(query.encode()).fetchone()
        return float(found[0]) if found else 0.0

    def ours(self, *words: object) -> list[str]:
        """A program of ours in this database."""
        module = [sys.executable, "-m", "bench.ours", str(self.server.home), self.database]
        return [*module, *map(str, words)]

    def peer(self, program: str, what: str, *words: object) -> list[str]:
        """A program of a peer's."""
        host = str(conninfo_to_dict(self.server.dsn(ADMIN))["host"])
        return [str(self.peers), str(PEERS / program), what, host, *map(str, words)]

    def run(self, command: Sequence[str]) -> str:
        """Run a program to its end; what it printed."""
        secret = Secrets(self.server.home / "secrets").read(ADMIN) + "\n"
        done = subprocess.run(
            command, input=secret, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def race(self, command: Sequence[str], count: int, workers: int = 1) -> float:
        """Jobs a second from a common start until the last of these workers has nothing left."""
        with ExitStack() as stack:
            runners = [stack.enter_context(self.started(command)) for _ in range(workers)]
            began = time.monotonic()
            for runner in runners:
                tell(runner, "go")
            told = [heard(runner).split() for runner in runners]
        done = sum(int(jobs) for jobs, _ in told)
        if done != count:
            raise RuntimeError(f"{done} of {count} jobs were done")
        return count / (max(float(end) for _, end in told) - began)

    @contextmanager
    def started(self, command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
        """A program that has said it is ready; ended by its own process number."""
        pipe = subprocess.PIPE
        runner = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, text=True)
        try:
            tell(runner, Secrets(self.server.home / "secrets").read(ADMIN))
            if heard(runner) != "ready":
                raise RuntimeError(f"{command[-3:]} did not become ready")
            yield runner
            tell(runner, "end")
            runner.wait(60)
        finally:
            runner.kill()
            runner.wait()
            for stream in (runner.stdin, runner.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()


def tell(runner: subprocess.Popen[str], word: str) -> None:
    """A line to a program."""
    assert runner.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already
        runner.stdin.write(word + "\n")
        runner.stdin.flush()


def heard(runner: subprocess.Popen[str]) -> str:
    """A line from a program."""
    assert runner.stdout is not None
    return runner.stdout.readline().strip()


@contextmanager
def own_server() -> Generator[Server]:
    """An embedded server of this run's own, as safe as in production; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        Path(folder).chmod(0o711)
        server = Server(Path(folder) / "postgresql")  # where an installation has it
        try:
            server.bootstrap()
            yield server
        finally:
            server.stop()


def peers_python() -> Path:
    """The peers' own interpreter, made on first use."""
    python, stamp = CACHE / "bin" / "python", CACHE / "peers.txt"
    wanted = (PEERS / "requirements.txt").read_bytes()
    if not stamp.exists() or stamp.read_bytes() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", CACHE], check=True)
        command = [python, "-m", "pip", "install", "--quiet", "-r", PEERS / "requirements.txt"]
        subprocess.run(command, check=True)
        stamp.write_bytes(wanted)
    return python

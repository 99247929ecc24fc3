"""The supervisor: the database, the sandbox, one process per role; stopped in order."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import typer

from dragoman.cli.alone import only_one
from dragoman.cli.db import (
    Database,
    cell_of,
    check_roles,
    database_of,
    dsn_of,
    leave,
    prepare,
)
from dragoman.cli.held import held_line
from dragoman.cli.roles import DOOR_ROLES, WORKERS
from dragoman.compose import (
    audit_key,
    channels_of,
    mail_file,
    provider_url,
    sandbox_file,
    wired,
    write_intake,
    write_routes,
)
from dragoman.core.errors import BadSetting, DragomanError
from dragoman.review.paths import AllowList
from dragoman.settings import DoorSettings, Settings, read_secret

_PR_SET_PDEATHSIG = 1
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_READY_S = 30.0
_STOP_S = 15.0
_LOOK_S = 2.0
_NOTE_S = 10.0
_SOON_S = 60.0


@dataclass(slots=True)
class Child:
    """One process that the supervisor keeps alive."""

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    start_at: float = 0.0
    began: float = float("-inf")

    def start(self) -> None:
        """Start it in a session of its own: Ctrl-C reaches the supervisor alone."""
        with _undisturbed(), self.log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - no other thread
            )

    def watch(self, now: float) -> bool:
        """Start it again when it has died, later each time it dies soon; True when it did die."""
        if self.process is not None and self.process.poll() is not None:
            self.process = None
            self.failures = self.failures + 1 if now - self.began < _SOON_S else 1
            self.start_at = now + min(0.5 * 2 ** min(self.failures, 6), 30)
            return True
        if self.process is None and now >= self.start_at:
            self.start()
            self.began = now
        return False

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def wait_stopped(self, until: float) -> None:
        """Wait; whoever does not listen is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Supervisor:
    """Everything that `dragoman up` runs."""

    settings: Settings
    server: Database
    outside: list[Child] = field(
        default_factory=list[Child]
    )  # the sandbox: a stand-in for the outside world
    doors: list[Child] = field(default_factory=list[Child])
    workers: list[Child] = field(default_factory=list[Child])
    look_at: float = 0.0  # when the database is looked at again
    note_at: float = 0.0  # when it is noted again how far it is

    @property
    def children(self) -> list[Child]:
        """All of them."""
        return [*self.outside, *self.doors, *self.workers]

    def stay(self) -> None:
        """Watch until Ctrl-C or SIGTERM."""
        pause = threading.Event()
        while not pause.wait(0.3):
            self.watch()

    def watch(self) -> None:
        """Keep them alive, and the database without which they die."""
        now = time.monotonic()
        for child in self.children:
            if child.watch(now):
                typer.echo(
                    f"{child.name} has died and will be started again; its log is {child.log}",
                    err=True,
                )
        if now >= self.look_at:
            self._revive()
            self.look_at = time.monotonic() + _LOOK_S

    def _revive(self) -> None:
        try:
            self.server.ensure_running()
            if time.monotonic() >= self.note_at:
                leave(self.server)
                self.note_at = time.monotonic() + _NOTE_S
        except DragomanError as error:
            typer.echo(f"dragoman: {error}", err=True)

    def stop(self) -> None:
        """Workers first, then doors, then the outside, then the database."""
        for group in (self.workers, self.doors, self.outside):
            for child in group:
                child.ask_to_stop()
            until = time.monotonic() + _STOP_S
            for child in group:
                child.wait_stopped(until)
        leave(self.server)
        self.server.stop()

    def door_url(self) -> str:
        """Where API and console listen."""
        return self._door_file().read_text(encoding="utf-8").strip()

    def _door_file(self) -> Path:
        return self.settings.home / "run" / "door.url"


def stay_up(settings: Settings) -> int:
    """Run until Ctrl-C or SIGTERM."""
    with suppress(KeyboardInterrupt), supervised(settings) as supervisor:
        typer.echo(f"Dragoman is up: {supervisor.door_url()}  (Ctrl-C stops it)")
        supervisor.stay()
    return 0


@contextmanager
def supervised(
    settings: Settings, tell: Callable[[str], None] = typer.echo
) -> Generator[Supervisor]:
    """Everything started and ready; everything stopped at the end, whatever happened.

    Ctrl-C and SIGTERM raise KeyboardInterrupt inside; once it stops, both are ignored.
    """
    _refuse_impossible(settings)
    with only_one(settings.home), _terminable() as ignore:
        supervisor = Supervisor(settings, database_of(settings))
        _take_port(settings.door, tell)
        try:
            tell("database …")
            prepare(settings)
            if held := held_line(settings):
                tell(held)
            _start(supervisor, tell)
            yield supervisor
            tell("stopping …")
        finally:
            ignore()
            supervisor.stop()


def _refuse_impossible(settings: Settings) -> None:
    """What could never work is said before anything is started."""
    _ = settings.pace
    if settings.database != "embedded":
        dsn_of(settings, "owner")
    if settings.review.allow:
        AllowList.read(settings.review.allow)
    read_secret(settings.provider.api_key_env, settings.provider.api_key_file)
    read_secret(settings.mail.password_env, settings.mail.password_file)
    if settings.audit.anchor_file:
        audit_key(settings)
    if not settings.uses_sandbox:
        provider_url(settings)


def _take_port(door: DoorSettings, tell: Callable[[str], None]) -> None:
    """Refuse a port that was asked for and is taken; if nobody asked for it, take another one."""
    why = _taken(door.host, door.port)
    if why is None:
        return
    name = f"door.host {door.host}, door.port {door.port}"
    if why != errno.EADDRINUSE:
        code = errno.errorcode.get(why, "no such host")
        raise BadSetting(f"the door cannot listen at {name} ({code})")
    if "port" in door.model_fields_set:
        raise BadSetting(f"{name}: another program listens there; set DRAGOMAN_DOOR__PORT")
    with socket.create_server((door.host, 0), family=_family(door.host)) as free:
        port = free.getsockname()[1]
    os.environ["DRAGOMAN_DOOR__PORT"] = str(port)  # the door's process reads it
    tell(f"port {door.port} is taken by another program; the door listens at {port}")


def _taken(host: str, port: int) -> int | None:
    try:
        socket.create_server((host, port), family=_family(host)).close()
    except OSError as error:
        return error.errno or 0
    return None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _start(supervisor: Supervisor, tell: Callable[[str], None]) -> None:
    settings, run = supervisor.settings, supervisor.settings.home / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    for child, ready in _outside(settings, run):
        supervisor.outside.append(child)
        ready.unlink(missing_ok=True)
        child.start()
    _wait_for([ready for _, ready in _outside(settings, run)], supervisor)
    asyncio.run(_write_routes(settings))
    tell("processes …")
    (run / "door.url").unlink(missing_ok=True)
    supervisor.doors.append(_role("door", run))
    supervisor.workers += [_role(role, run) for role in WORKERS]
    for child in (*supervisor.doors, *supervisor.workers):
        child.start()
    _wait_for([run / "door.url"], supervisor)


def _outside(settings: Settings, run: Path) -> Iterator[tuple[Child, Path]]:
    """The sandbox stands in for what is not configured."""
    if settings.uses_sandbox:
        ready = sandbox_file(settings)
        argv = ["dragoman.sandbox", *_remembering(ready), *_sandbox_pace(settings)]
        yield Child("sandbox", [sys.executable, "-m", *argv], run / "sandbox.log"), ready
    if settings.mail.host is None:
        ready = mail_file(settings)
        argv = ["dragoman.sandbox.mail", *_remembering(ready)]
        yield Child("mail", [sys.executable, "-m", *argv], run / "mail.log"), ready


def _remembering(ready: Path) -> list[str]:
    """The outside world forgets nothing when we are killed."""
    return ["--ready-file", str(ready), "--state", str(ready.with_suffix(".state"))]


def _sandbox_pace(settings: Settings) -> list[str]:
    """A batch of the sandbox takes as long as two ticks of the profile."""
    step = str(settings.pace.collector_every_s / 2)
    return ["--validating-s", step, "--running-s", step, "--finalizing-s", step]


def _role(role: str, run: Path) -> Child:
    return Child(role, [sys.executable, "-m", "dragoman.cli", "run", role], run / f"{role}.log")


async def _write_routes(settings: Settings) -> None:
    await check_roles(settings, ("worker", *DOOR_ROLES))
    async with wired(settings) as providers, cell_of(settings, "operator", "dragoman up") as cell:
        providers.advisor()  # this and the channels refuse what every role would die of
        channels_of(settings)
        await write_routes(cell, settings)
        await write_intake(cell, settings)


def _wait_for(files: Sequence[Path], supervisor: Supervisor) -> None:
    until = time.monotonic() + _READY_S
    pause = threading.Event()
    while missing := [file for file in files if not file.exists()]:
        dead = [
            child
            for child in supervisor.children
            if child.process and child.process.poll() is not None
        ]
        if dead or time.monotonic() > until:
            culprit = dead[0] if dead else supervisor.children[-1]
            raise BadSetting(f"{missing[0].name} did not appear; see {culprit.log}")
        pause.wait(0.05)


@contextmanager
def _terminable() -> Generator[Callable[[], None]]:
    """SIGTERM is as good as Ctrl-C; gives what makes this process deaf to both of them."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)  # whose handler is asyncio's while a loop runs

    kept = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, interrupt),
    }

    def ignore() -> None:
        for each in kept:
            signal.signal(each, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


@contextmanager
def _undisturbed() -> Generator[None]:
    """Ctrl-C waits: between a process's start and its entry in our books it would be lost."""
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)


def _die_with(parent: int) -> Callable[[], None]:
    """Whoever kills the supervisor outright leaves no process behind."""
    libc = ctypes.CDLL(None)

    def prepare_child() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
        if os.getppid() != parent:
            os._exit(1)

    return prepare_child

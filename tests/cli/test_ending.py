"""How an installation starts when its door is taken, and how it ends: at once, and whole."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.cli.up import Child, _take_port
from dragoman.core.errors import BadSetting
from dragoman.settings import DoorSettings
from tests.cli.installation import Installation, processes_in, short_folder
from tests.eventually import eventually

STYLE = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def here() -> Generator[Installation]:
    """A home in which nothing was started yet."""
    with short_folder() as folder:
        yield Installation(folder)


@pytest.fixture
def taken() -> Generator[int]:
    """A port at which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        yield somebody.getsockname()[1]


def started(here: Installation, terminal: int, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*here.command, *words],
        env={**here.environment, "COLUMNS": "80", "TERM": "xterm-256color"},
        cwd=here.folder,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )


def test_at_a_terminal_the_demonstration_stays_until_ctrl_c(here: Installation) -> None:
    """It shows its sums and a command to try, stays, and then leaves nothing behind."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    seen = bytearray()

    def invites() -> None:
        with suppress(BlockingIOError):
            seen.extend(STYLE.sub(b"", os.read(ours, 1 << 16)))
        assert b'rewrite submit "' in seen

    with started(here, theirs, "demo", "--complaints", "1") as process:
        try:
            eventually(invites, timeout=60)
            assert process.poll() is None
            assert b"The sum closes: 1 accepted = 1 completed" in seen
            assert len(processes_in(here.folder)) >= 10
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
    os.close(ours)
    os.close(theirs)
    assert processes_in(here.folder) == {}
    assert b"Traceback" not in seen


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("stage", ["postgresql/data/postmaster.pid", "run/sandbox.log"])
def test_told_to_stop_while_it_starts_it_leaves_nothing(
    here: Installation, name: str, stage: str
) -> None:
    """A signal between the first process and the last one: it ends at once and as a whole."""
    with (here.folder / "said").open("wb") as said, started(here, said.fileno(), "up") as process:
        try:
            eventually((here.home / stage).exists, timeout=60)
            process.send_signal(signal.Signals[name])
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert processes_in(here.folder) == {}
    assert "Traceback" not in (here.folder / "said").read_text()


def test_a_port_that_was_asked_for_and_is_taken_is_refused(here: Installation, taken: int) -> None:
    """The sentence names host, port and variable, and no database was made."""
    said = here.run("up", told={"DRAGOMAN_DOOR__PORT": str(taken)}).sentence
    assert said == (
        f"door.host 127.0.0.1, door.port {taken}: another program listens there; "
        "set DRAGOMAN_DOOR__PORT"
    )
    assert not (here.home / "postgresql").exists()


def test_a_port_that_nobody_asked_for_is_replaced(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the default is taken a free port is chosen, said, and told to the door's process."""
    monkeypatch.setenv("DRAGOMAN_DOOR__PORT", "")
    told: list[str] = []
    door = DoorSettings.model_construct(set(), host="127.0.0.1", port=taken)
    _take_port(door, told.append)
    chosen = os.environ["DRAGOMAN_DOOR__PORT"]
    assert told == [f"port {taken} is taken by another program; the door listens at {chosen}"]
    socket.create_server(("127.0.0.1", int(chosen))).close()


def test_a_free_port_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said and nothing is changed."""
    monkeypatch.delenv("DRAGOMAN_DOOR__PORT", raising=False)
    told: list[str] = []
    _take_port(DoorSettings(port=0), told.append)
    assert told == []
    assert "DRAGOMAN_DOOR__PORT" not in os.environ


def test_a_host_that_is_not_ours_is_refused() -> None:
    """An address of another machine, or a name of none, could never be listened at."""
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(BadSetting, match=f"cannot listen at door.host {host}"):
            _take_port(DoorSettings(host=host, port=0), print)


def test_the_lock_of_a_killed_supervisor_is_free(here: Installation, tmp_path: Path) -> None:
    """A lock file that nobody holds keeps nobody out."""
    here.home.mkdir()
    (here.home / "up.lock").touch()
    assert here.run("db", "stop").code == 0


def test_a_process_that_has_lived_long_is_soon_started_again(tmp_path: Path) -> None:
    """Each early death makes the next start later; one after a day counts as the first again."""
    child = Child("short", ["/bin/true"], tmp_path / "short.log")

    def pause_after(lived_s: float) -> float:
        child.watch(child.start_at)
        assert child.process is not None
        child.process.wait()
        died_at = child.start_at + lived_s
        assert child.watch(died_at)
        return child.start_at - died_at

    assert [pause_after(0.1) for _ in range(6)] == [1, 2, 4, 8, 16, 30]
    assert [pause_after(86_400), pause_after(86_400)] == [1, 1]

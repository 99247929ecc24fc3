"""A stranger's installation: a home of its own, the command, and the proof that nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.eventually import eventually

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "dragoman.cli")


@contextmanager
def short_folder() -> Generator[Path]:
    """A folder that every account may enter, as pytest's own are not; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-cli-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        end(folder)
        eventually(lambda: not processes_in(folder), timeout=20)
        shutil.rmtree(folder)


def processes_in(folder: Path) -> dict[int, str]:
    """Every living process that names the folder, works in it, or was told of it."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            told = (
                words + (entry / "environ").read_bytes() + os.fsencode((entry / "cwd").readlink())
            )
            if os.fsencode(folder) in told and int(entry.name) != os.getpid():
                found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


def end(folder: Path) -> None:
    """Kill -9 for all of them at once, as a power cut would."""
    for process in processes_in(folder):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@dataclass(frozen=True)
class Done:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The refusal, which is all that there is to read."""
        assert self.code == 1, self
        assert self.out == "", self
        assert self.err.startswith("dragoman: "), self
        assert self.err.count("\n") == 1, self
        return self.err.removeprefix("dragoman: ").rstrip("\n")


@dataclass
class Installation:
    """One home and one way to call the command; as another account if there is a reason."""

    folder: Path
    command: Sequence[str] = COMMAND
    prefix: Sequence[str] = ()
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Where it lives."""
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """Little, as after a login; nothing of the account that runs the suite."""
        return {
            "HOME": str(self.folder),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"),
            "DRAGOMAN_HOME": str(self.home),
            "DRAGOMAN_DOOR__PORT": "0",
            **self.told,
        }

    def run(
        self, *words: str | bytes, given: bytes = b"", told: Mapping[str, str] | None = None
    ) -> Done:
        """One command to its end."""
        done = subprocess.run(
            [*self.prefix, *self.command, *words],
            env={**self.environment, **(told or {})},
            cwd=self.folder,
            input=given,
            capture_output=True,
            timeout=100,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def up(self, *words: str) -> Generator[subprocess.Popen[bytes]]:
        """`dragoman up`, ready; ended by SIGTERM, or dead already."""
        said = self.folder / "up.out"
        with (
            said.open("wb") as out,
            subprocess.Popen(
                [*self.prefix, *self.command, *(words or ("up",))],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            ) as process,
        ):
            try:
                eventually(lambda: _is_up(said, process), timeout=60)
                yield process
            finally:
                process.terminate()
                code = _ended(process)
            assert code in {0, -signal.SIGKILL}, said.read_text()


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(40)
    except subprocess.TimeoutExpired:
        process.kill()
        return 1


def _is_up(said: Path, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise ChildProcessError(said.read_text())
    return "Dragoman is up: http" in said.read_text()

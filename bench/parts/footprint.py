"""What the program costs before it has done anything: its start, and a worker's memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.part import Part, Size
from bench.place import ROOT, Place
from bench.result import Figure, Result
from dragoman.store.migrate import migrate
from dragoman.store.roles import DATABASE, OWNER
from tests.eventually import eventually

STARTS = {Size.FULL: 30, Size.QUICK: 10, Size.TOY: 1}
MOST_STARTS, MOST_MB = 8.0, 80.0
HELP = "from dragoman.cli import main; main()"
LINES = ("Rss", "Pss", "Private_Dirty")


def starts(count: int) -> tuple[float, float]:
    """The best of so many starts, in turn: a bare interpreter's, and the help's. In ms."""
    bare, told = [sys.executable, "-c", "pass"], [sys.executable, "-c", HELP, "--help"]
    pairs = [(_timed(bare), _timed(told)) for _ in range(count + 1)]
    return min(one for one, _ in pairs), min(other for _, other in pairs)


def _timed(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return (time.perf_counter() - began) * 1000


@contextmanager
def idle_worker(place: Place) -> Generator[int]:
    """A worker's process as `dragoman up` starts it, with nothing to do; its number."""
    migrate(place.server.dsn(OWNER, DATABASE))
    settings = {
        "DRAGOMAN_HOME": str(place.server.home.parent),
        "DRAGOMAN_PROVIDER__BASE_URL": "http://127.0.0.1:9",
        "DRAGOMAN_MAIL__HOST": "127.0.0.1",
    }
    log = place.server.home.parent / "worker.log"
    with log.open("wb") as output:
        command = [sys.executable, "-c", HELP, "run", "worker"]
        worker = subprocess.Popen(command, env={**os.environ, **settings}, stdout=output)
    try:
        eventually(lambda: b"running" in log.read_bytes(), timeout=60)
        yield worker.pid
    finally:
        worker.terminate()
        worker.wait(30)


def memory(pid: int) -> dict[str, float]:
    """Megabytes of a process, by what the kernel says of it."""
    told = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    found = {line: re.search(rf"^{line}:\s+(\d+) kB", told, re.MULTILINE) for line in LINES}
    return {line: int(match[1]) / 1024 for line, match in found.items() if match}


def measure(place: Place, size: Size) -> Result:
    """Starts first, then the worker."""
    bare, told = starts(STARTS[size])
    with idle_worker(place) as pid:
        megabytes = memory(pid)
    return Result(
        figures=[
            Figure(
                "`dragoman --help` beside a bare interpreter's start", told / bare, most=MOST_STARTS
            ),
            Figure("an idle worker's resident memory", megabytes["Rss"], most=MOST_MB, unit="MB"),
        ],
        head=["", "measured"],
        rows=[
            ["a bare interpreter", f"{bare:.0f} ms"],
            ["`dragoman --help`", f"{told:.0f} ms"],
            *([f"worker, {line}", f"{amount:.0f} MB"] for line, amount in megabytes.items()),
        ],
    )


PART = Part(
    "footprint",
    "Start and memory",
    "The best of several starts, in turn, of `python -c pass` and of the help; and the worker's "
    "process of an idle installation, by what the kernel says of it once it runs.",
    measure,
)

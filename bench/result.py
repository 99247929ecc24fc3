"""What a part of the benchmark found, kept as JSON beside the commit that it was found at."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.place import ROOT

RESULTS = ROOT / ".cache" / "bench" / "results.json"


@dataclass(frozen=True)
class Figure:
    """One thing that was wanted, and what was measured; a ratio unless it names its unit."""

    what: str
    measured: float
    least: float | None = None
    most: float | None = None
    unit: str = "×"
    spread: Sequence[float] | None = None

    @property
    def is_reached(self) -> bool | None:
        """None when nothing was wanted of it."""
        if self.least is not None:
            return self.measured >= self.least
        return None if self.most is None else self.measured <= self.most


def ratio(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    least: float | None = None,
    most: float | None = None,
) -> Figure:
    """The median of the ratios within each round: the machine is shared, a figure says little."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Figure(what, median(ratios), least, most, spread=(min(ratios), max(ratios)))


@dataclass
class Result:
    """What one part found: its figures, and rows that say more."""

    figures: list[Figure] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """A result with where it comes from."""

    result: Result
    size: str
    commit: str
    at: str
    machine: str


def keep(part: str, size: str, result: Result, path: Path = RESULTS) -> None:
    """Put a part's result beside those of the others."""
    kept = Kept(result, size, _commit(), datetime.now(UTC).date().isoformat(), _machine())
    known = {name: asdict(one) for name, one in stored(path).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    told = json.dumps({**known, part: asdict(kept)}, indent=1)
    path.write_text(told, encoding="utf-8")


def stored(path: Path = RESULTS) -> dict[str, Kept]:
    """All that has been kept so far."""
    if not path.exists():
        return {}
    known: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))  # Any: JSON
    return {name: Kept(**{**one, "result": _result(one["result"])}) for name, one in known.items()}


def _result(told: dict[str, Any]) -> Result:
    figures = [Figure(**one) for one in told["figures"]]
    return Result(**{**told, "figures": figures})


def _machine() -> str:
    return f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"


def _commit() -> str:
    def git(*words: str) -> str:
        told = subprocess.run(
            ["git", *words],  # noqa: S607 - whatever git is at hand
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        return told.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" and changes" if changed else "")

"""The one chart of the overview, as numbers: the template only writes them down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.console.queries import Minute

HEIGHT = 100.0
STRIP = 14.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle; x and width in per cent, y and height in pixels."""

    x: str
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Finished per minute as bars, accepted as a line, failures in a strip of their own."""

    done: Sequence[Bar]
    failed: Sequence[Bar]
    line: str
    grid: Sequence[tuple[int, str]]
    labels: Sequence[tuple[str, str]]
    width: str
    finished: int
    accepted: int
    failures: int
    peak: int


def chart(minutes: Sequence[Minute]) -> Chart:
    """Geometry of the last hour.

    >>> chart([]).peak
    0
    """
    peak = max((max(m.completed + m.canceled, m.accepted) for m in minutes), default=0)
    top = _nice(peak)
    worst = max((m.failed for m in minutes), default=0)
    step = 100 / max(len(minutes), 1)
    return Chart(
        done=[
            _bar(i, step, m.completed + m.canceled, top, HEIGHT)
            for i, m in enumerate(minutes)
            if m.completed + m.canceled
        ],
        failed=[
            _bar(i, step, m.failed, worst, STRIP, 139.0) for i, m in enumerate(minutes) if m.failed
        ],
        line=_line([m.accepted for m in minutes], top),
        grid=[(n, f"{HEIGHT - n / top * HEIGHT:.1f}") for n in (top // 2, top) if n],
        labels=[
            (f"{(i + 0.5) * step:.2f}%", f"{m.minute:%H:%M}")
            for i, m in enumerate(minutes)
            if m.minute.minute % 15 == 0
        ],
        width=f"{step * 0.76:.3f}%",
        finished=sum(m.completed + m.failed + m.canceled for m in minutes),
        accepted=sum(m.accepted for m in minutes),
        failures=sum(m.failed for m in minutes),
        peak=peak,
    )


def _bar(place: int, step: float, n: int, top: int, height: float, floor: float = HEIGHT) -> Bar:
    size = max(n / max(top, 1) * height, 2.0)
    return Bar(f"{(place + 0.12) * step:.3f}%", f"{floor - size:.1f}", f"{size:.1f}")


def _line(values: Sequence[int], top: int) -> str:
    """A stair, so that a minute looks like a minute."""
    points: list[str] = []
    for place, value in enumerate(values):
        y = HEIGHT - value / top * HEIGHT
        points += [f"{place * 10},{y:.1f}", f"{place * 10 + 10},{y:.1f}"]
    return " ".join(points)


def _nice(peak: int) -> int:
    """The next round number: 2, 4, 6, 8, 10, 20, 40."""
    return next(
        n * 10**power for power in range(12) for n in (2, 4, 6, 8, 10) if n * 10**power >= peak
    )

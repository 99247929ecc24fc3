"""How long a job waits on an idle system, beside one committed write."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from dataclasses import dataclass, field
from statistics import median, quantiles

from bench.noop import name_queues, new_jobs, prepare
from bench.part import Part, Size
from bench.place import Place, heard
from bench.result import Figure, Result
from dragoman.core.ids import HomeId, uuid7
from dragoman.store import jobs, queues
from dragoman.store.database import Cell, open_cell

SAMPLES = {Size.FULL: (400, 20), Size.QUICK: (100, 5), Size.TOY: (5, 1)}
WANTED = 5.0
IDLE_S = 0.03


@dataclass
class Times:
    """Milliseconds, sample by sample."""

    write: list[float] = field(default_factory=list)
    enqueue: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)


async def sample(place: Place, runner: subprocess.Popen[str], count: int, *, hint: bool) -> Times:
    """A write, then a job, with a pause after each so that everybody sleeps again."""
    times, home, actor = Times(), HomeId(uuid7()), uuid7()
    async with open_cell(place.dsn("dragoman_orchestrator")) as cell:
        for n in range(count + 1):
            times.write.append(await _write(cell))
            _pause()
            (job,) = new_jobs("noop", home, [f"{hint}-{n}"])
            began = time.monotonic()
            async with cell.transaction("enqueue") as tx:
                await jobs.enqueue_jobs(tx, actor, [job])
            committed = time.monotonic()
            if hint:
                await queues.hint_ready(cell)
            name, moment = heard(runner).split()
            if name != str(job.id):
                raise RuntimeError("another job began")
            times.enqueue.append((committed - began) * 1000)
            times.start.append((float(moment) - committed) * 1000)
            _pause()
    return Times(times.write[1:], times.enqueue[1:], times.start[1:])  # the first one warms up


async def _write(cell: Cell) -> float:
    began = time.monotonic()
    async with cell.transaction("write") as tx:
        await tx.run("output/write_one", "bench", id=uuid7())
    return (time.monotonic() - began) * 1000


def _pause() -> None:
    threading.Event().wait(IDLE_S)


def measure(place: Place, size: Size) -> Result:
    """With the hint, and for comparison by the loop's pauses alone."""
    hinted, polled = SAMPLES[size]
    result = Result(head=["", "median ms", "99 of 100 within, ms"])
    found = {
        hint: _measured(place, count, hint=hint)
        for hint, count in ((True, hinted), (False, polled))
    }
    times = found[True]
    ratios = [start / write for start, write in zip(times.start, times.write, strict=True)]
    result.figures = [
        Figure(
            "enqueue's commit to the handler's first line, beside one committed write",
            median(times.start) / median(times.write),
            most=WANTED,
            spread=(min(ratios), max(ratios)),
        )
    ]
    for what, values in (
        ("one committed single-row write", times.write),
        ("enqueue of one job, to its commit", times.enqueue),
        ("from that commit to the handler, with the hint", times.start),
        ("the same without a hint", found[False].start),
    ):
        result.rows.append([what, f"{median(values):.2f}", f"{_p99(values):.2f}"])
    return result


def _measured(place: Place, count: int, *, hint: bool) -> Times:
    prepare(place)
    asyncio.run(_name(place))
    with place.started(place.ours("idle", "hints" if hint else "pauses")) as runner:
        return asyncio.run(sample(place, runner, count, hint=hint))


async def _name(place: Place) -> None:
    async with open_cell(place.dsn("dragoman_orchestrator")) as cell:
        await name_queues(cell)


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


PART = Part(
    "latency",
    "Start on an idle system",
    "One job at a time, everybody asleep in between. After its commit the one who enqueues sends a "
    "hint (`pg_notify` in a transaction of its own), which wakes a worker's loop; without it the "
    "worker looks after its pause of a second. Beside it a transaction of the same client that "
    "writes one row, in turn.",
    measure,
)

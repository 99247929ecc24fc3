"""Drain a backlog of no-op jobs beside pgqueuer, without and with a stored result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from bench.noop import TEXT, prepare
from bench.part import Part, Size
from bench.place import Place
from bench.result import Result, ratio

Run: TypeAlias = Callable[[Place, int, int], float]  # jobs, workers -> jobs a second


@dataclass(frozen=True)
class Amount:
    """How many jobs, how often."""

    jobs: int
    rounds: int
    batches: Sequence[int] = (100, 1_000)


AMOUNTS = {
    Size.FULL: Amount(30_000, 7),
    Size.QUICK: Amount(10_000, 3),
    Size.TOY: Amount(150, 1, (100,)),
}
WORKERS = (1, 2)
PROGRAMS = (("kernel", "drain"), ("worker", "shipped"))
NAMES = {"kernel": "the kernel's functions", "worker": "the worker"}
WANTED = {100: 1.4, 1_000: 2.2}
WANTED_STORED = {100: 1.1, 1_000: 1.6}

Speeds: TypeAlias = dict[tuple[str, int, int], list[float]]


def ours(place: Place, program: str, pipeline: str, jobs: int, batch: int, workers: int) -> float:
    """One round of ours, every job of which must be completed at its end."""
    prepare(place)
    place.run(place.ours("fill", pipeline, jobs))
    with place.owner() as connection:
        connection.execute("vacuum analyze")
    speed = place.race(place.ours(program, pipeline, batch), jobs, workers)
    done = place.number("select count(*) from standing where state = 'completed'")
    if done != jobs:
        raise RuntimeError(f"{done} of {jobs} jobs are completed")
    return speed


def theirs(place: Place, jobs: int, batch: int, workers: int, result_bytes: int = 0) -> float:
    """One round of pgqueuer's."""
    place.run(place.peer("queuer.py", "fill", jobs))
    return place.race(place.peer("queuer.py", "drain", batch, result_bytes), jobs, workers)


def measure(place: Place, size: Size) -> Result:
    """Rounds in turn, so that a slow minute of the machine slows everybody."""
    amount, speeds = AMOUNTS[size], defaultdict[tuple[str, int, int], list[float]](list)
    for _ in range(amount.rounds):
        for batch in amount.batches:
            for workers in WORKERS:
                key = (batch, workers)
                for name, program in PROGRAMS:
                    speed = ours(place, program, "noop", amount.jobs, *key)
                    speeds[name, *key].append(speed)
                if place.peers:
                    speeds["pgqueuer", *key].append(theirs(place, amount.jobs, *key))
    return _result(speeds, WANTED)


def measure_stored(place: Place, size: Size) -> Result:
    """The same with a text of about 4 KB for each job."""
    amount, speeds = AMOUNTS[size], defaultdict[tuple[str, int, int], list[float]](list)
    for _ in range(amount.rounds):
        for batch in amount.batches:
            key = (batch, 1)
            for name, program in PROGRAMS:
                speeds[name, *key].append(ours(place, program, "text", amount.jobs, *key))
            if place.peers:
                for name, length in (("pgqueuer", len(TEXT)), ("pgqueuer, no result", 0)):
                    speeds[name, *key].append(theirs(place, amount.jobs, *key, length))
    result = _result(speeds, WANTED_STORED)
    for batch in amount.batches if place.peers else ():
        mine, bare = speeds["worker", batch, 1], speeds["pgqueuer, no result", batch, 1]
        result.figures.append(
            ratio(f"batch {batch:,}, the worker beside pgqueuer that stores nothing", mine, bare)
        )
    return result


def _result(speeds: Speeds, wanted: dict[int, float]) -> Result:
    result = Result(head=["batch", "workers", "who", "jobs/s (median)"])
    for (who, batch, workers), found in sorted(speeds.items(), key=lambda pair: pair[0][1:]):
        result.rows.append(
            [f"{batch:,}", str(workers), NAMES.get(who, who), f"{median(found):,.0f}"]
        )
        their = speeds.get(("pgqueuer", batch, workers))
        if who in NAMES and their:
            what = f"batch {batch:,}, {workers} worker{'s' * (workers > 1)}, {NAMES[who]}"
            result.figures.append(ratio(what, found, their, least=wanted[batch]))
    return result


PART = Part(
    "drain",
    "Drain of a no-op job",
    "A no-op job is drained from a backlog: ours with its fence, its guards, its unit lock and one "
    "hash-chained event for each of its two transitions; pgqueuer 1.6 (asyncpg, uvloop, the same "
    "batch) with none of these. *The kernel's functions*: claim and finish called by a loop of the "
    "benchmark that overlaps the finish of one batch with the claim of the next. *The worker*: the "
    "loop that is shipped, told to take as many at a time. Two workers are two processes that "
    "begin at one signal; the end is the end of the last.",
    measure,
)
STORED = Part(
    "stored",
    "Drain with a stored result",
    "Each job leaves a text of 4 KB, stored by its pipeline's own statement in the transaction of "
    "its finish, with a trigger on each side that refuses completed without text and text without "
    "completed, as a rewrite has them. pgqueuer offers no result; its handlers hand theirs to one "
    "COPY for a whole batch on a second connection and wait for its commit, which is the best a "
    "handler can do: its result and the end of its job are two transactions.",
    measure_stored,
)

"""Drain beside awa-pg, the fastest of the other queues that refuse a late finish."""

from __future__ import annotations

from statistics import median

from bench.part import Part, Size
from bench.parts.drain import ours
from bench.place import Place
from bench.result import Result, ratio

WIDTH, CLAIMERS, CLAIM = 256, 1, 256  # the best of six that were tried
ROUNDS = {Size.FULL: (20_000, 5), Size.QUICK: (5_000, 3), Size.TOY: (250, 1)}
BATCHES = (100, 1_000)
WANTED = 3.0


def measure(place: Place, size: Size) -> Result:
    """Rounds in turn."""
    jobs, rounds = ROUNDS[size]
    mine: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    their: list[float] = []
    for _ in range(rounds):
        for batch in BATCHES:
            mine[batch].append(ours(place, "shipped", "noop", jobs, batch, 1))
        if place.peers:
            place.run(place.peer("rust.py", "fill", jobs))
            drain = place.peer("rust.py", "drain", jobs, WIDTH, CLAIMERS, CLAIM)
            their.append(place.race(drain, jobs))
    result = Result(head=["who", "jobs/s (median)"])
    result.rows = [[f"ours, batch {batch:,}", f"{median(mine[batch]):,.0f}"] for batch in BATCHES]
    if their:
        result.rows.append(["awa-pg", f"{median(their):,.0f}"])
        result.figures = [
            ratio(f"batch {batch:,}", mine[batch], their, least=WANTED) for batch in BATCHES
        ]
    return result


PART = Part(
    "fenced",
    "Drain beside awa-pg",
    "The same no-op job, by the worker as it is shipped, beside awa-pg 0.6.9: Rust claims and "
    f"completes by its queue storage, Python handles ({WIDTH} handlers, {CLAIM} a claim: the best "
    "of six settings). Its clock stops when the last handler has run; what it has still to write "
    "then is given to it.",
    measure,
)

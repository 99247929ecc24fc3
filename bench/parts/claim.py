"""What a claim costs in front of many rows that it must not take."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from statistics import median, quantiles

from bench.noop import PIPELINES, enqueue, name_queues, prepare, queue_of, units
from bench.part import Part, Size
from bench.place import Place
from bench.result import Figure, Result
from dragoman.core.ids import uuid7
from dragoman.core.job import Done
from dragoman.store import jobs
from dragoman.store.database import Cell, open_cell
from dragoman.work.finish import Finished, finish

BATCH = 100
WANTED = 1.5
# Claims, then rows that are deferred, behind closed gates, finished.
AMOUNTS = {
    Size.FULL: (1_000, 1_000_000, 300_000, 10_000_000),
    Size.QUICK: (200, 200_000, 60_000, 500_000),
    Size.TOY: (3, 2_000, 2_000, 2_000),
}
CHUNK = 500_000

# The rows of a scenario, as many statements of the product would have left them.
_FILL = """
insert into standing (id, home_id, not_before_at, sort_at, created_at, last_event_at, unit_lock, queue_key, seq, state,
                      pipeline, stage, priority, attempt_count, stage_attempts, free_requeues, max_attempts, reason, ready, head)
select gen_random_uuid(), '00000000-0000-7000-8000-000000000000', {not_before}, now(), now(), now(), n, {key}, 1,
       '{state}', 9, 0, 0, 0, 0, 0, 5, 0, {ready}, sha256(int4send(n))
  from generate_series({first}, {last}) as n
"""  # noqa: E501 - one statement


def fill(place: Place, scenario: str, count: int) -> None:
    """Rows that no claim of ours may take."""
    key = queue_of("noop").key
    how = {
        "deferred": {"not_before": "now() + interval '1 day'", "state": "queued", "ready": "false"},
        "closed gates": {"not_before": "null", "state": "queued", "ready": "true", "key": "n % 50"},
        "finished": {"not_before": "null", "state": "completed", "ready": "false"},
    }
    with place.owner() as connection:
        for first in range(1, count + 1, CHUNK):
            last = min(first + CHUNK - 1, count)
            values = {"key": str(key), **how[scenario], "first": first, "last": last}
            connection.execute(_FILL.format(**values).encode())
        connection.execute("vacuum analyze standing")


async def claims(places: dict[str, Place], count: int) -> dict[str, list[float]]:
    """Milliseconds of each claim, one scenario after the other, round by round."""
    times: dict[str, list[float]] = {scenario: [] for scenario in places}
    async with AsyncExitStack() as stack:
        cells: dict[str, tuple[Cell, Cell]] = {}
        for scenario, place in places.items():
            door = await stack.enter_async_context(open_cell(place.dsn("dragoman_orchestrator")))
            worker = await stack.enter_async_context(open_cell(place.dsn("dragoman_worker")))
            await name_queues(door)
            cells[scenario] = door, worker
        for n in range(count + 5):
            for scenario, (door, worker) in cells.items():
                took = await _claim(door, worker, f"{scenario}-{n}")
                times[scenario] += [took] if n >= 5 else []  # the first ones warm up
    return times


async def _claim(door: Cell, worker: Cell, name: str) -> float:
    actor = uuid7()
    await enqueue(door, actor, "noop", units(name, BATCH))
    began = time.perf_counter()
    held = await jobs.claim_jobs(worker, actor, [queue_of("noop").key], BATCH)
    took = (time.perf_counter() - began) * 1000
    if len(held) != BATCH:
        raise RuntimeError(f"{len(held)} of {BATCH} jobs were claimed")
    await finish(worker, actor, PIPELINES, [Finished(job, Done(None)) for job in held])
    return took


def measure(place: Place, size: Size) -> Result:
    """All scenarios stand ready at once, so that each claim has its neighbour's weather."""
    count, deferred, closed, finished = AMOUNTS[size]
    rows = {"empty": 0, "deferred": deferred, "closed gates": closed, "finished": finished}
    places: dict[str, Place] = {}
    for number, (scenario, amount) in enumerate(rows.items()):
        places[scenario] = replace(place, database=f"{place.database}_{number}")
        prepare(places[scenario])
        if amount:
            fill(places[scenario], scenario, amount)
    with place.admin() as connection:
        connection.execute("checkpoint")
    times = asyncio.run(claims(places, count))
    for each in places.values():
        each.drop()
    return _result(times, rows)


def _result(times: dict[str, list[float]], rows: dict[str, int]) -> Result:
    result = Result(head=["in front of the claim", "median ms", "99 of 100 within, ms"])
    empty = _p99(times["empty"])
    for scenario, found in times.items():
        what = f"{rows[scenario]:,} rows {scenario}" if rows[scenario] else "nothing"
        result.rows.append([what, f"{median(found):.2f}", f"{_p99(found):.2f}"])
        if rows[scenario]:
            result.figures.append(Figure(f"p99 with {what}", _p99(found) / empty, most=WANTED))
    return result


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


PART = Part(
    "claim",
    "Claims in front of deep backlogs",
    f"A claim of {BATCH} jobs by the worker's role, to its commit, with each of these in the same "
    "table, beside an empty one: four databases on one server, one claim in each in turn.",
    measure,
)

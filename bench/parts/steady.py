"""Steady load: one who enqueues beside one worker, and the sweeper's sums, for ten minutes."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from bench.noop import enqueue, name_queues, prepare, units
from bench.part import Part, Size
from bench.place import Place, heard, tell
from bench.result import Figure, Result
from dragoman.core.ids import uuid7
from dragoman.store import queues, workers
from dragoman.store.database import Cell, open_cell

SECONDS = {Size.FULL: 600.0, Size.QUICK: 30.0, Size.TOY: 5.0}
SLICES = 10
BATCH, CHUNK, AHEAD = 1_000, 1_000, 10_000
FOLD_S = 10.0
WANTED = 0.9

_LOOK = """
select t.n_dead_tup, t.n_tup_upd, t.n_tup_hot_upd,
       t.autovacuum_count, pg_table_size('standing'), pg_indexes_size('standing'),
       (select sum(pg_table_size(inhrelid)) from pg_inherits where inhparent = 'event'::regclass),
       (select sum(pg_indexes_size(inhrelid)) from pg_inherits where inhparent = 'event'::regclass),
       (select count(*) from queue_delta), pg_current_wal_lsn() - '0/0'::pg_lsn, d.blks_read, d.blks_hit,
       (select num_timed + num_requested from pg_stat_checkpointer)
  from pg_stat_user_tables t, pg_stat_database d
 where t.relname = 'standing' and d.datname = current_database()
"""  # noqa: E501 - one statement


@dataclass
class Progress:
    """How many jobs the worker has done."""

    done: int = 0


@dataclass(frozen=True)
class Look:
    """What the server says of itself at the end of a slice."""

    at: float
    done: int
    told: tuple[float, ...]


async def load(place: Place, progress: Progress, seconds: float) -> list[Look]:
    """Keep a backlog in front of the worker; look at the server at the end of each slice."""
    looks, actor, sent = [look(place, progress)], uuid7(), 0
    async with (
        open_cell(place.dsn("dragoman_orchestrator")) as door,
        open_cell(place.dsn("dragoman_worker")) as sweeper,
    ):
        folding = asyncio.create_task(_fold_forever(sweeper))
        while len(looks) <= SLICES:
            if sent - progress.done < AHEAD:
                await enqueue(door, actor, "noop", [f"{sent + n}" for n in range(CHUNK)], CHUNK)
                await queues.hint_ready(door)
                sent += CHUNK
            else:
                await asyncio.wait([folding], timeout=0.005)
            if time.monotonic() - looks[0].at >= seconds / SLICES * len(looks):
                looks.append(look(place, progress))
        folding.cancel()
    return looks


async def _fold_forever(sweeper: Cell) -> None:
    never = asyncio.Event()
    while True:
        await workers.fold_deltas(sweeper)
        await asyncio.wait([asyncio.ensure_future(never.wait())], timeout=FOLD_S)


def look(place: Place, progress: Progress) -> Look:
    """One look."""
    with place.owner() as connection:
        row = connection.execute(_LOOK.encode()).fetchone()
    assert row is not None
    return Look(time.monotonic(), progress.done, tuple(float(one or 0) for one in row))


@contextmanager
def counted(runner: subprocess.Popen[str]) -> Generator[Progress]:
    """The worker's own count, read as it comes."""
    progress = Progress()

    def follow() -> None:
        while (line := heard(runner)) not in {"end", ""}:
            progress.done = int(line.split()[0])

    reader = threading.Thread(target=follow)
    tell(runner, "go")
    reader.start()
    yield progress
    tell(runner, "end")
    reader.join()


def measure(place: Place, size: Size) -> Result:
    """Jobs a second in each slice, and what the server says of itself."""
    prepare(place)
    asyncio.run(_warm(place))
    with place.started(place.ours("steady", BATCH)) as runner, counted(runner) as progress:
        looks = asyncio.run(load(place, progress, SECONDS[size]))
    speeds = [(b.done - a.done) / (b.at - a.at) for a, b in pairwise(looks)]
    slice_s, share = SECONDS[size] / SLICES, speeds[-1] / max(speeds[1], 1.0)
    result = Result(
        [Figure("the last slice beside the second", share, least=WANTED)],
        ["slice", "jobs/s", "HOT", "dead rows", "vacuums", "standing, MB (indexes)",
         "event, MB (indexes)", "deltas", "WAL, bytes a job", "read from disk", "checkpoints"],
        notes=[f"A slice is {slice_s:g} s."],
    )  # fmt: skip
    for number, (before, after) in enumerate(pairwise(looks)):
        result.rows.append([str(number + 1), f"{speeds[number]:,.0f}", *_told(before, after)])
    return result


def _told(before: Look, after: Look) -> list[str]:
    a, b, mb = before.told, after.told, 1 << 20
    jobs = max(after.done - before.done, 1)
    return [
        f"{100 * (b[2] - a[2]) / max(b[1] - a[1], 1):.0f} %",
        f"{b[0]:,.0f}",
        f"{b[3] - a[3]:.0f}",
        f"{b[4] / mb:,.0f} ({b[5] / mb:,.0f})",
        f"{b[6] / mb:,.0f} ({b[7] / mb:,.0f})",
        f"{b[8]:,.0f}",
        f"{(b[9] - a[9]) / jobs:,.0f}",
        f"{100 * (b[10] - a[10]) / max(b[10] + b[11] - a[10] - a[11], 1):.1f} %",
        f"{b[12] - a[12]:.0f}",
    ]


async def _warm(place: Place) -> None:
    async with open_cell(place.dsn("dragoman_orchestrator")) as cell:
        await name_queues(cell)
        await enqueue(cell, uuid7(), "noop", units("first", AHEAD))
    with place.owner() as connection:
        connection.execute("vacuum analyze")


PART = Part(
    "steady",
    "Steady load",
    f"One process enqueues, {CHUNK:,} in a transaction and never more than {AHEAD:,} ahead; "
    f"the worker as it is shipped takes up to {BATCH:,} at a time; the sums are folded every "
    f"{FOLD_S:g} s, as the sweeper does. Nothing is ever removed: the tables grow as they would.",
    measure,
)

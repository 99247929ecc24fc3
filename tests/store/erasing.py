"""An eraser, and what is there to be erased."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

from dragoman.core.ids import HomeId, JobId
from dragoman.core.job import Held, Kind, State
from dragoman.store.database import Cell
from dragoman.store.erasure import Extent, Scope, erase
from tests import stand
from tests.store.kernel import KEY, Crew, apply, claim, crew_of, enqueue, move, new_job, submitted

NOTHING = Extent(0, 0, 0, 0)


@dataclass
class Erasing:
    """A crew, and the eraser beside it."""

    crew: Crew
    cell: Cell

    async def erase(self, home: UUID, user: UUID | None = None, most: int = 100) -> Extent:
        """Steps until one finds nothing; how much went."""
        total = NOTHING
        while step := await self.step(home, user, most):
            total += step
        return total

    async def step(self, home: UUID, user: UUID | None = None, most: int = 100) -> Extent:
        """One step."""
        return await erase(self.cell, Scope(home, user), "test", most)


@asynccontextmanager
async def erasing_of(database: str) -> AsyncGenerator[Erasing]:
    """Everybody whom a job meets, its eraser included."""
    async with crew_of(database) as crew, stand.cell_of(database, "dragoman_eraser") as cell:
        yield Erasing(crew, cell)


async def bring_to(crew: Crew, home: UUID, state: State, key: int = KEY) -> Held:
    """A job of this home in this state, as its last holder knew it."""
    await enqueue(crew, new_job(home_id=HomeId(home), queue_key=key))
    (held,) = await claim(crew, key)
    match state:
        case State.QUEUED:
            await apply(crew, move(held, state, Kind.DEFERRED))
        case State.BATCH_SUBMITTED:
            await submitted(crew, held)
        case State.COMPLETED | State.CANCELED:
            kind = Kind.COMPLETED if state is State.COMPLETED else Kind.CANCELED
            await apply(crew, move(held, state, kind))
        case State.FAILED:
            await apply(crew, move(held, state, Kind.FAILED, attempt_add=1))
        case State.PROCESSING:
            pass
    return held


def kinds(database: str, job: JobId) -> list[Kind]:
    """What the chain of a job says, in order."""
    rows = stand.rows(database, "select kind from event where job_id = %s order by seq", job)
    return [Kind(row[0]) for row in rows]


def left_of(database: str, home: UUID) -> dict[str, int]:
    """In which tables a home still has rows."""
    tables = stand.rows(
        database,
        "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'dragoman'::regnamespace and c.relkind in ('r', 'p')"
        " and not c.relispartition and a.attname = 'home_id' and not a.attisdropped",
    )
    counts = {
        table: stand.rows(database, f"select count(*) from {table} where home_id = %s", home)[0][0]
        for (table,) in tables
    }
    return {table: count for table, count in counts.items() if count}


def add_people(database: str, home: UUID, *users: UUID) -> None:
    """Members with a preference each."""
    with stand.owner(database) as connection:
        for user in users:
            connection.execute(
                "insert into member values (%s, %s, 'housemate', 'en')", (home, user)
            )
            connection.execute(
                "insert into preference values (%s, %s, 'directness', 'soft')", (home, user)
            )


def new_home() -> UUID:
    """A home that nobody has seen before."""
    return uuid4()

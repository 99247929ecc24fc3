"""Erasure against everybody who works at the same time: nothing is lost, nobody waits in a ring."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest

from dragoman.core.errors import TryAgain
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import HomeId, uuid7
from dragoman.core.job import Bury, Done, Kind, State
from dragoman.rewrite import store as rewrite_store
from dragoman.store import jobs
from dragoman.store.database import Cell
from dragoman.store.erasure import Extent, Scope, count_erasable
from dragoman.work.finish import Finished, finish
from tests import stand
from tests.eventually import eventually_async
from tests.invariants import violations
from tests.store.erasing import NOTHING, add_people, bring_to, erasing_of, kinds, left_of, new_home
from tests.store.kernel import KEY, PIPELINES, check_books, claim, enqueue, new_job
from tests.store.outbox import review_of
from tests.store.rewrites import Request

BROKEN = Bury(Failure(FailureClass.RUNTIME_BUG, "broken"))


@asynccontextmanager
async def open_erasure(cell: Cell, home: UUID) -> AsyncGenerator[None]:
    """A step that has done its work and not yet committed it."""
    async with cell.transaction("erase") as tx:
        [step] = await tx.fetch(
            Extent, "erasure/erase", home=home, user=None, most=100, actor=uuid7(), name="test"
        )
        assert step
        yield


async def somebody_waits(database: str) -> None:
    """A statement is waiting for another transaction."""
    query = (
        "select count(*) from pg_locks l join pg_stat_activity a using (pid)"
        " where a.datname = %s and not l.granted"
    )
    await eventually_async(lambda: stand.rows(database, query, database) == [(1,)])


@asynccontextmanager
async def locked(cell: Cell, table: str, column: str, job: UUID) -> AsyncGenerator[None]:
    """A row that another transaction is about to write."""
    async with cell.transaction("lock") as tx:
        query = f"select from {table} where {column} = %s for update"
        assert (await tx.connection.execute(query.encode(), (job,))).rowcount
        yield


@pytest.mark.parametrize("outcome", [Done(None), BROKEN])
def test_a_finish_that_waits_for_an_erasure_is_a_late_result(
    database: str, outcome: Done | Bury
) -> None:
    """The rows are gone when its turn comes: it stores nothing, and the tombstone says it came."""

    async def scenario() -> None:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.PROCESSING)
            async with open_erasure(erasing.cell, home):
                late = asyncio.create_task(
                    finish(crew.worker, crew.actor, PIPELINES, [Finished(held, outcome)])
                )
                await somebody_waits(database)
            assert await late == {"lost": 1}
            assert kinds(database, held.id)[-2:] == [Kind.ERASED, Kind.LATE_RESULT]
            assert set(left_of(database, home)) == {"event", "tombstone"}

    asyncio.run(scenario())
    assert violations(database) == []
    check_books(database)


def test_an_event_that_waits_for_an_erasure_is_not_lost(database: str) -> None:
    """It was to extend the standing's chain, and extends the tombstone's."""

    async def scenario() -> None:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.COMPLETED)
            async with open_erasure(erasing.cell, home):
                refused = asyncio.create_task(
                    jobs.cancel_jobs(crew.operator, crew.actor, [held.id])
                )
                await somebody_waits(database)
            assert await refused == set()
            assert kinds(database, held.id)[-2:] == [Kind.ERASED, Kind.CANCEL_REFUSED]

    asyncio.run(scenario())
    assert violations(database) == []


def test_a_job_that_somebody_moves_is_left_for_the_next_step(database: str) -> None:
    """The step does not wait; once the move is over the job goes as it then stands."""

    async def scenario() -> None:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.PROCESSING)
            move = jobs.Move(State.COMPLETED, Kind.COMPLETED, jobs.Reason.NONE)
            async with crew.worker.transaction("move") as tx:
                await jobs.lock_units(tx, [held.unit_lock])
                assert await jobs.move_jobs(tx, crew.actor, held.state, move, [held])
                async with asyncio.timeout(1):
                    assert await erasing.erase(home) == NOTHING
            assert await erasing.erase(home) == Extent(0, 0, 1, 0)
            assert kinds(database, held.id)[-2:] == [Kind.COMPLETED, Kind.ERASED]

    asyncio.run(scenario())
    assert violations(database) == []


@pytest.mark.parametrize("table", ["delivery", "batch_item", "dead_letter"])
def test_a_job_of_which_a_row_is_being_written_is_canceled_and_left(
    database: str, table: str
) -> None:
    """Whoever writes such a row goes on to the standing: to wait for it would be a ring."""

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            if table == "delivery":
                held = (await review_of(crew)).held
            elif table == "batch_item":
                held = await bring_to(crew, new_home(), State.BATCH_SUBMITTED)
            else:
                held = await bring_to(crew, new_home(), State.PROCESSING)
                await finish(crew.worker, crew.actor, PIPELINES, [Finished(held, BROKEN)])
            was_final = table == "dead_letter"
            async with (
                stand.cell_of(database, "dragoman_owner") as owner,
                locked(owner, table, "job_id", held.id),
                asyncio.timeout(1),
            ):
                assert await erasing.erase(held.home_id) == NOTHING
            assert (kinds(database, held.id)[-1] is Kind.CANCELED) != was_final
            assert (await erasing.erase(held.home_id)).jobs == 1

    asyncio.run(scenario())
    check_books(database)


def test_a_request_that_is_being_enqueued_is_erased_with_its_job(database: str) -> None:
    """Its row is locked while its job is made; the next step finds both."""
    request = Request().write(database)

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            async with crew.orchestrator.transaction("enqueue") as tx:
                await tx.connection.execute(
                    "update rewrite_request set failed_at = null where id = %s", (request.id,)
                )
                await jobs.enqueue_jobs(tx, crew.actor, [request.job()])
                async with asyncio.timeout(1):
                    assert await erasing.erase(request.home) == NOTHING
            assert await erasing.erase(request.home) == Extent(0, 1, 1, 0)

    asyncio.run(scenario())
    assert violations(database) == []


async def persist(cell: Cell, home: UUID, ann: UUID, bob: UUID, reached: asyncio.Event) -> bool:
    """Store a message from ann to bob as the door does, and take a moment before the commit."""
    async with cell.transaction("persist_request") as tx:
        is_new = await rewrite_store.persist_request(
            tx,
            id=uuid7(),
            home_id=home,
            sender_user_id=ann,
            recipient_user_id=bob,
            surface="other",
            text="canary",
            text_sha256=bytes(32),
            sender_locale=None,
            recipient_locale=None,
            actor=uuid7(),
            recipient_snapshot_id=uuid7(),
            preference_snapshot_id=uuid7(),
        )
        if not reached.is_set():
            reached.set()
            await somebody_waits(cell_database(cell))
        return is_new


def cell_database(cell: Cell) -> str:
    """The database behind a cell of these tests."""
    return str(cell.pool.conninfo).partition("dbname=")[2].split()[0]


def test_a_message_stored_while_its_people_are_erased_is_found_and_the_next_refused(
    database: str,
) -> None:
    """Nothing slips in behind the erasure: what was begun is waited for, what comes is refused."""
    home, ann, bob = (uuid4() for _ in range(3))
    add_people(database, home, ann, bob)

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            door, reached = erasing.crew.orchestrator, asyncio.Event()
            stored = asyncio.create_task(persist(door, home, ann, bob, reached))
            await reached.wait()
            assert await erasing.erase(home, ann) == Extent(1, 1, 0, 0)
            assert await stored
            assert not await persist(door, home, ann, bob, reached)
            assert await count_erasable(erasing.cell, Scope(home, ann)) == NOTHING

    asyncio.run(scenario())
    assert set(left_of(database, home)) == {"member", "preference"}  # bob's


def test_a_door_that_is_stuck_stops_the_step_and_not_the_house(database: str) -> None:
    """Its wait is short and its refusal typed; nothing was erased."""
    home, ann = uuid4(), uuid4()
    add_people(database, home, ann)

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            async with erasing.crew.orchestrator.transaction("stuck") as tx:
                await tx.connection.execute("update rewrite_request set failed_at = null")
                with pytest.raises(TryAgain):
                    await erasing.erase(home)
            assert await count_erasable(erasing.cell, Scope(home)) == Extent(1, 0, 0, 0)

    asyncio.run(scenario())


def test_erasers_and_workers_in_each_others_way_end_well(database: str) -> None:
    """Two erasers, and chunks that finish in every order: no deadlock, no job left."""
    home = new_home()

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            await enqueue(crew, *(new_job(home_id=HomeId(home)) for _ in range(60)))
            held = await claim(crew, KEY, 60)
            chunks = [held[n::5] for n in range(5)] + [held[n : n + 12][::-1] for n in (0, 12, 24)]
            finishing = [
                finish(crew.worker, crew.actor, PIPELINES, [Finished(one, Done(None)) for one in c])
                for c in chunks
            ]
            await asyncio.gather(
                *finishing, erasing.erase(home, most=7), erasing.erase(home, most=9)
            )
            await erasing.erase(home)

    asyncio.run(scenario())
    assert set(left_of(database, home)) == {"event", "tombstone"}
    assert stand.rows(database, "select count(*) from tombstone") == [(60,)]
    query = "select deadlocks from pg_stat_database where datname = current_database()"
    assert stand.rows(database, query) == [(0,)]
    assert violations(database) == []
    check_books(database)

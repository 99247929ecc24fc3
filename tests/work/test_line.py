"""A worker's line: the lease it renews, the fence it closes, and the locks that fall with it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import psycopg
import pytest

from dragoman.core import ports
from dragoman.core.errors import LeaseLost
from dragoman.core.ids import unit_lock
from dragoman.work.line import Line, open_line
from tests import postgres, stand
from tests.eventually import eventually_async

UNIT, OTHER = unit_lock("plain", "one"), unit_lock("plain", "two")
QUICK_S = 0.6
SLOW_S = 600


@pytest.fixture
def database() -> Generator[str]:
    """A database of one test's own."""
    name = stand.new_database()
    yield name
    postgres.drop(name)


@pytest.fixture
def clock() -> Generator[list[float]]:
    """The process's own clock, in the test's hand."""
    now = [1000.0]
    ports.install_clock(lambda: now[0])
    yield now
    ports.install_clock(None)


def line_of(database: str, lease_s: float = SLOW_S):
    """A line of a worker."""
    dsn = postgres.dsn("dragoman_worker", database)
    return open_line(dsn, role="test", name="line", lease_s=lease_s)


def end(database: str, line: Line) -> None:
    """End the line's backend."""
    with psycopg.connect(
        postgres.dsn("dragoman_admin", database), autocommit=True
    ) as administrator:
        administrator.execute(
            "select pg_terminate_backend(%s, 5000)", (line.connection.info.backend_pid,)
        )


async def lost(line: Line) -> None:
    """Wait until the line knows, and see the fence closed."""
    async with asyncio.timeout(15):
        await line.lost.wait()
    with pytest.raises(LeaseLost):
        line.fence()


def test_a_lease_is_renewed_while_the_line_stands(database: str) -> None:
    """Its end moves on at the server, past its first one, and the fence is open."""

    async def scenario() -> None:
        async with line_of(database, QUICK_S) as line:
            query = "select extract(epoch from expires_at - started_at) from worker where id = %s"

            async def is_renewed() -> bool:
                return stand.rows(database, query, line.worker)[0][0] > 2 * QUICK_S

            await eventually_async(is_renewed)
            line.fence()
            assert not line.lost.is_set()

    asyncio.run(scenario())


def test_a_line_that_is_closed_gives_its_lease_back(database: str) -> None:
    """Nobody has to wait for the end of a lease that nobody needs."""

    async def scenario() -> None:
        async with line_of(database):
            assert stand.rows(database, "select stopped_at is null from worker") == [(True,)]

    asyncio.run(scenario())
    query = "select stopped_at is null, expires_at <= clock() from worker"
    assert stand.rows(database, query) == [(False, True)]


def test_a_broken_line_is_lost(database: str) -> None:
    """The backend ends: the next renewal finds out, and nothing may be done any more."""

    async def scenario() -> None:
        async with line_of(database, QUICK_S) as line:
            line.fence()
            end(database, line)
            await lost(line)

    asyncio.run(scenario())


def test_a_renewal_without_an_answer_loses_the_line(database: str) -> None:
    """Somebody holds the row: the worker does not wait for longer than its lease allows."""

    async def scenario() -> None:
        async with line_of(database, QUICK_S) as line:
            with stand.owner(database) as holder, holder.transaction():
                holder.execute("select from worker for update")
                await lost(line)

    asyncio.run(scenario())


def test_a_lease_that_has_ended_at_the_server_is_lost(database: str) -> None:
    """Whatever the worker believes, the database's clock has the last word."""

    async def scenario() -> None:
        async with line_of(database, QUICK_S) as line:
            stand.move_clock(database, 60)
            await lost(line)

    asyncio.run(scenario())


def test_the_fence_closes_by_the_workers_own_clock(database: str, clock: list[float]) -> None:
    """After two thirds of a lease without an answer it is closed, and stays so."""

    async def scenario() -> None:
        async with line_of(database) as line:
            clock[0] += SLOW_S * 2 / 3
            line.fence()
            clock[0] += 1
            with pytest.raises(LeaseLost):
                line.fence()
            clock[0] -= SLOW_S
            assert line.lost.is_set()
            with pytest.raises(LeaseLost):
                line.fence()

    asyncio.run(scenario())


def test_an_acknowledgement_counts_from_its_question(database: str, clock: list[float]) -> None:
    """The lease is as old as the moment at which its renewal was asked for, not answered."""

    async def scenario() -> None:
        async with line_of(database, QUICK_S) as line:
            before = line.acknowledged
            clock[0] += 0.1

            async def is_acknowledged() -> bool:
                return line.acknowledged > before

            await eventually_async(is_acknowledged)
            assert line.acknowledged == 1000.1

    asyncio.run(scenario())


def locks(database: str) -> set[int]:
    """The advisory locks that sessions of this database hold."""
    query = (
        "select (classid::bigint << 32 | objid::bigint) from pg_locks l join pg_database d"
        " on d.oid = l.database where locktype = 'advisory' and granted and datname = %s"
    )
    return {row[0] for row in stand.rows(database, query, database)}


def test_a_units_lock_stands_at_the_server_during_the_call(database: str) -> None:
    """The key is the unit's, it is held while the block runs, and no longer."""

    async def scenario() -> None:
        async with line_of(database) as line:
            async with line.unit(UNIT) as one, line.unit(OTHER) as other:
                assert (one, other) == (True, True)
                assert locks(database) == {UNIT, OTHER}
            assert locks(database) == set()

    asyncio.run(scenario())


def test_a_process_does_not_take_one_lock_twice(database: str) -> None:
    """The server would let the same session in again; the process does not."""

    async def scenario() -> None:
        async with line_of(database) as line:
            async with line.unit(UNIT) as first:
                async with line.unit(UNIT) as second:
                    assert (first, second) == (True, False)
                async with line.unit(UNIT) as third:
                    assert third is False
                assert len(locks(database)) == 1
            async with line.unit(UNIT) as again:
                assert again is True

    asyncio.run(scenario())


def test_two_tasks_of_one_process_do_not_enter_together(database: str) -> None:
    """Of tasks that ask in the same instant one is let in."""

    async def scenario() -> list[bool]:
        refused = asyncio.Semaphore(0)

        async def enter(line: Line) -> bool:
            async with line.unit(UNIT) as is_ours:
                if is_ours:
                    await refused.acquire()
                    await refused.acquire()
                else:
                    refused.release()
                return is_ours

        async with line_of(database) as line, asyncio.timeout(1):
            return await asyncio.gather(*(enter(line) for _ in range(3)))

    assert sorted(asyncio.run(scenario())) == [False, False, True]


def test_two_processes_exclude_each_other(database: str) -> None:
    """While one line holds a unit the other is refused at once, and let in afterwards."""

    async def scenario() -> None:
        async with line_of(database) as one, line_of(database) as other:
            async with one.unit(UNIT) as mine:
                async with other.unit(UNIT) as theirs:
                    assert (mine, theirs) == (True, False)
                async with other.unit(OTHER) as theirs:
                    assert theirs is True
            async with other.unit(UNIT) as theirs:
                assert theirs is True

    asyncio.run(scenario())


def test_a_lost_line_has_lost_its_locks(database: str) -> None:
    """They fall with the session: another process enters, and the first is told no more."""

    async def scenario() -> None:
        async with line_of(database) as one, line_of(database) as other:
            async with one.unit(UNIT) as mine:
                assert mine is True
                end(database, one)
                async with other.unit(UNIT) as theirs:
                    assert theirs is True
            with pytest.raises(LeaseLost):
                async with one.unit(OTHER):
                    pass
            with pytest.raises(LeaseLost):
                one.fence()

    asyncio.run(scenario())


def test_a_unit_is_let_go_when_its_call_fails(database: str) -> None:
    """An error inside the block frees the unit like a good end."""

    async def scenario() -> None:
        async with line_of(database) as line:
            with pytest.raises(KeyError):
                async with line.unit(UNIT):
                    raise KeyError
            assert locks(database) == set()
            async with line.unit(UNIT) as again:
                assert again is True

    asyncio.run(scenario())

"""The edge to the driver: each error becomes one of ours, and nothing that was said comes along."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Generator
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import PoolTimeout

from dragoman.core import ports
from dragoman.core.errors import (
    CommitUnknown,
    DatabaseDown,
    DatabaseError,
    DataRefused,
    TryAgain,
)
from dragoman.core.ids import unit_lock
from dragoman.store import jobs
from dragoman.store.database import Cell, Tx, mapped, translate
from tests import postgres, stand
from tests.eventually import eventually_async
from tests.store.kernel import crew_of, enqueue, new_job
from tests.store.rewrites import Request

CANARY = "Zephyrine-4711"
FULL = "do $$ begin raise exception 'CANARY' using errcode = '53100'; end $$"


@pytest.fixture(autouse=True)
def no_hook() -> Generator[None]:
    """Whatever a test installs is gone after it."""
    yield
    ports.install(None)


def silent(error: BaseException) -> bool:
    """Whether no part of an error, nor anything hung onto it, holds the canary."""
    told = [repr(error), str(error), *map(str, error.args), *getattr(error, "__notes__", ())]
    chain = (error.__cause__, error.__context__)
    shown = "".join(traceback.format_exception_only(error))
    return CANARY not in "".join([*told, shown]) and chain == (None, None)


async def caught(cell: Cell, act: Callable[[Tx], Awaitable[object]]) -> DatabaseError:
    """The error of a transaction."""
    with pytest.raises(DatabaseError) as found:
        async with cell.transaction("test") as tx:
            await act(tx)
    return found.value


def says(statement: str) -> Callable[[Tx], Awaitable[object]]:
    """Run a statement that holds the canary."""
    told = statement.replace("CANARY", CANARY).encode()
    return lambda tx: tx.connection.execute(told, prepare=False)


@pytest.mark.req("R084", "R085", "R284")
@pytest.mark.parametrize(
    ("statement", "kind", "code"),
    [
        ("select 'CANARY'::int", DataRefused, "22P02"),
        ("select '{\"a\": \"CANARY\\u0000\"}'::jsonb ->> 'a'", DataRefused, "22P05"),
        ('select "CANARY"', DataRefused, "42703"),
        ("select 'CANARY', 1 / 0", DataRefused, "22012"),
        ("insert into alert (kind) values ('CANARY')", DataRefused, "23502"),
        ("delete from job where unit = 'CANARY'", DataRefused, "42501"),
        ("do $$ begin raise exception 'CANARY' using errcode = '40001'; end $$", TryAgain, "40001"),
        (FULL, DatabaseDown, "53100"),
        ("set local statement_timeout = '5ms'; select 'CANARY', pg_sleep(9)", TryAgain, "57014"),
        ("set transaction read only; delete from queue_delta", DatabaseDown, "25006"),
    ],
)  # fmt: skip
def test_an_error_keeps_its_code_and_loses_its_words(
    shared: str, statement: str, kind: type, code: str
) -> None:
    """SQLSTATE stays; message, detail, context and the driver's own error are let go of."""

    async def scenario() -> DatabaseError:
        async with stand.cell_of(shared) as cell:
            return await caught(cell, says(statement))

    found = asyncio.run(scenario())
    assert (type(found), found.sqlstate) == (kind, code)
    assert silent(found)


@pytest.mark.req("R084", "R085", "R284")
def test_a_key_that_exists_is_named_by_its_constraint_alone(shared: str) -> None:
    """The server quotes the row of a unique violation; of ours the constraint's name is left."""
    job = new_job(unit=CANARY)

    async def scenario() -> DatabaseError:
        async with crew_of(shared) as crew:
            await enqueue(crew, job)
            with pytest.raises(DataRefused) as found:
                await enqueue(crew, new_job(id=job.id, unit=f"{CANARY} again"))
            return found.value

    found = asyncio.run(scenario())
    assert (found.sqlstate, found.constraint) == ("23505", "job_pkey")
    assert str(found).endswith("(23505, job_pkey)")
    assert silent(found)


def test_a_guard_that_waits_for_the_commit_is_a_refusal_and_no_doubt(shared: str) -> None:
    """What is refused at COMMIT was surely not done: the guard's name comes back."""
    request = Request().write(shared)

    async def scenario() -> DatabaseError:
        async with crew_of(shared) as crew:
            job = request.job()
            await enqueue(crew, job)
            (held,) = await jobs.claim_jobs(crew.worker, crew.actor, [41], 1)
            return await caught(crew.worker, lambda tx: complete(tx, held.id))

    found = asyncio.run(scenario())
    assert (type(found), found.sqlstate) == (DataRefused, "DR001")
    assert found.constraint == "completed_without_output"
    assert silent(found)


async def complete(tx: Tx, job: UUID) -> None:
    """Move a standing as no statement would."""
    await tx.connection.execute(
        "update standing set state = 'completed', claim_token = null, claimed_by = null,"
        " claimed_at = null, seq = seq + 1, head = sha256(head) where id = %s",
        (job,),
    )


def test_two_who_wait_for_each_other_are_told_to_try_again(shared: str) -> None:
    """A deadlock hits one of the two; the other goes on."""

    async def scenario() -> list[object]:
        async with stand.cell_of(shared) as cell:
            first, second = unit_lock("test", "a"), unit_lock("test", "b")
            both = asyncio.Barrier(2)

            async def lock(mine: int, theirs: int) -> None:
                async with cell.transaction("lock") as tx:
                    await jobs.lock_units(tx, [mine])
                    await both.wait()
                    await tx.connection.execute("set local lock_timeout = 0")
                    await jobs.lock_units(tx, [theirs])

            both_ended = await asyncio.gather(
                lock(first, second), lock(second, first), return_exceptions=True
            )
            return list(both_ended)

    found = asyncio.run(scenario())
    (error,) = [each for each in found if each is not None]
    assert isinstance(error, TryAgain)
    assert error.sqlstate == "40P01"


def test_a_lock_that_does_not_come_is_tried_again(shared: str) -> None:
    """The role's lock time-out ends the wait."""
    key = unit_lock("test", "c")

    async def scenario() -> DatabaseError:
        async with stand.cell_of(shared) as cell, cell.transaction("hold") as tx:
            await jobs.lock_units(tx, [key])

            async def wait(other: Tx) -> None:
                await other.connection.execute("set local lock_timeout = '5ms'")
                await jobs.lock_units(other, [key])

            return await caught(cell, wait)

    found = asyncio.run(scenario())
    assert (type(found), found.sqlstate) == (TryAgain, "55P03")


async def backend(connection: psycopg.AsyncConnection) -> int:
    """Who serves a connection."""
    return connection.info.backend_pid


def end(database: str, pid: int) -> None:
    """End a backend, as a fail-over or an administrator would, and see it gone."""
    with psycopg.connect(
        postgres.dsn("dragoman_admin", database), autocommit=True
    ) as administrator:
        administrator.execute("select pg_terminate_backend(%s, 5000)", (pid,))


def test_a_backend_that_was_ended_is_a_lost_server_and_the_pool_goes_on(shared: str) -> None:
    """The statement meets a closed connection; the next transaction gets a new one."""

    async def scenario() -> DatabaseError:
        async with stand.cell_of(shared) as cell:

            async def lose(tx: Tx) -> None:
                end(shared, await backend(tx.connection))
                await tx.connection.execute(f"select '{CANARY}'".encode())

            found = await caught(cell, lose)
            async with cell.transaction("next") as tx:
                await tx.connection.execute("select 1")
            return found

    found = asyncio.run(scenario())
    assert (type(found), found.sqlstate) == (DatabaseDown, "57P01")
    assert silent(found)


@pytest.mark.parametrize("role", ["dragoman_worker", "dragoman_orchestrator"])
def test_a_commit_without_an_answer_is_doubt_and_nothing_else(shared: str, role: str) -> None:
    """The connection dies between the last statement and COMMIT: look what is done."""
    alert = uuid4()
    statement = (
        "insert into alert (id, kind, subject, severity, facts, first_at, last_at)"
        f" values (%s, 'k', '{alert}', 'act', '{{}}', clock(), clock())"
    ).encode()

    async def scenario() -> DatabaseError:
        async with stand.cell_of(shared, role) as cell:
            pid = 0

            def at(tag: str, moment: str) -> None:
                if (tag, moment) == ("db.doubt", "before"):
                    end(shared, pid)

            ports.install(at)

            async def insert() -> None:
                nonlocal pid
                async with cell.transaction("doubt") as tx:
                    pid = await backend(tx.connection)
                    await tx.connection.execute(statement, (alert,))

            with pytest.raises(DatabaseError) as found:
                await insert()
            async with cell.transaction("after") as tx:
                await tx.connection.execute("select 1")
            return found.value

    found = asyncio.run(scenario())
    assert isinstance(found, CommitUnknown)
    assert silent(found)
    assert stand.rows(shared, "select from alert where id = %s", alert) == []


async def raises(cell: Cell) -> None:
    """A transaction whose body fails after its statement."""
    async with cell.transaction("two") as tx:
        await tx.connection.execute("insert into queue_delta values (clock(), 1, 'queued', 1)")
        raise KeyError


def test_the_ports_are_crossed_around_each_commit(shared: str) -> None:
    """Before and after, by its tag; a body that raises commits nothing and crosses neither."""
    crossed: list[tuple[str, str]] = []

    async def scenario() -> None:
        async with stand.cell_of(shared) as cell:
            ports.install(lambda tag, moment: crossed.append((tag, moment)))
            async with cell.transaction("one"):
                pass
            with pytest.raises(KeyError):
                await raises(cell)

    asyncio.run(scenario())
    assert crossed == [("db.one", "before"), ("db.one", "after")]
    assert stand.rows(shared, "select from queue_delta where queue_key = 1") == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.IdleInTransactionSessionTimeout, DatabaseDown),
        (errors.TooManyConnections, DatabaseDown),
        (errors.DiskFull, DatabaseDown),
        (errors.OutOfMemory, DatabaseDown),
        (errors.CannotConnectNow, DatabaseDown),
        (errors.CrashShutdown, DatabaseDown),
        (errors.ConnectionFailure, DatabaseDown),
        (errors.IoError, DatabaseDown),
        (errors.DataCorrupted, DatabaseDown),
        (errors.ReadOnlySqlTransaction, DatabaseDown),
        (errors.SerializationFailure, TryAgain),
        (errors.DeadlockDetected, TryAgain),
        (errors.LockNotAvailable, TryAgain),
        (errors.QueryCanceled, TryAgain),
        (errors.CheckViolation, DataRefused),
        (errors.StringDataRightTruncation, DataRefused),
        (errors.ProgramLimitExceeded, DataRefused),
        (psycopg.OperationalError, DatabaseDown),
        (psycopg.DataError, DataRefused),
        (psycopg.ProgrammingError, DataRefused),
    ],
)
def test_only_the_values_fault_is_a_refusal_of_the_values(
    error: type[psycopg.Error], kind: type
) -> None:
    """A server that is full, read-only, stopping or gone condemns no result."""
    found = translate(error(CANARY))
    assert (type(found), found.sqlstate) == (kind, error.sqlstate)
    assert CANARY not in str(found)


def test_a_server_that_is_not_there_is_down() -> None:
    """No socket, or no connection in time: DatabaseDown, and nothing of where it was looked for."""
    with pytest.raises(DatabaseDown) as found, mapped():
        psycopg.connect(f"host=/nowhere/{CANARY} dbname=x")
    assert silent(found.value)
    with pytest.raises(DatabaseDown) as found, mapped():
        raise PoolTimeout(CANARY)
    assert silent(found.value)


def test_a_cell_that_is_handed_out_has_been_proven(shared: str) -> None:
    """The pool has a connection with the cell's schema, and the types of its rows are known."""

    async def scenario() -> None:
        async with stand.cell_of(shared) as cell:
            assert {"holding", "note", "new_job", "ticket", "item"} <= cell.shapes.keys()

            async def idle() -> bool:
                return cell.pool.get_stats()["pool_available"] >= 1

            await eventually_async(idle)

    asyncio.run(scenario())

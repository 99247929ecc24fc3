"""Enqueue for a pipeline of somebody's own, on their connection and in their transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from dragoman.core.errors import (
    BadInput,
    Conflict,
    DatabaseError,
    DataRefused,
    NotFound,
    QueueFull,
    Refused,
)
from dragoman.core.job import Held, Mode, State
from dragoman.store import jobs
from dragoman.store.database import Tx
from dragoman.work.enqueue import Enqueued, Work, enqueue, enqueue_many
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.store.kernel import build_plain, check_books
from tests.work.shops import HOME, PLAIN, ROUTING, SUMMARIES


@pytest.fixture
def database() -> Generator[str]:
    """A database with two pipelines of somebody's own, and a table of their business."""
    name = postgres.clone(postgres.template_database(build_plain))
    with stand.owner(name) as connection:
        connection.execute("insert into pipeline values (10, 'summaries', '{ask}')")
        connection.execute("create schema shop")
        connection.execute("create table shop.orders (name text primary key)")
        connection.execute("grant usage on schema shop to dragoman_orchestrator, dragoman_worker")
        connection.execute("grant all on shop.orders to dragoman_orchestrator, dragoman_worker")
    yield name
    postgres.drop(name)


@asynccontextmanager
async def caller(
    database: str, role: str = "orchestrator", **how: Any
) -> AsyncGenerator[AsyncConnection[Any]]:
    """Somebody's own connection, which knows nothing of ours."""
    dsn = postgres.dsn(f"dragoman_{role}", database)
    options = "-c search_path=shop"
    async with await AsyncConnection.connect(dsn, options=options, **how) as connection:
        yield connection


def written(database: str) -> tuple[int, int]:
    """How many jobs and orders there are."""
    return stand.rows(
        database, "select (select count(*) from job), (select count(*) from shop.orders)"
    )[0]


ORDER = "insert into orders values (%s)"


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("goes_well", [True, False])
def test_our_rows_and_theirs_share_one_fate(
    database: str, autocommit: bool, goes_well: bool
) -> None:
    """Inside their transaction the job is written with their row, or neither of them is."""

    async def scenario() -> None:
        async with caller(database, autocommit=autocommit) as connection:
            with pytest.raises(ZeroDivisionError) if not goes_well else _nothing():
                async with connection.transaction():
                    await connection.execute(ORDER, ("one",))
                    made = await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
                    assert made.is_new
                    assert written(database) == (0, 0)
                    if not goes_well:
                        raise ZeroDivisionError

    asyncio.run(scenario())
    assert written(database) == ((1, 1) if goes_well else (0, 0))
    check_books(database)


class _nothing:  # noqa: N801 - reads as a word
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@pytest.mark.parametrize("commits", [True, False])
def test_it_does_not_commit(database: str, commits: bool) -> None:
    """As the very first statement of an implicit transaction, too, the commit is the caller's."""

    async def scenario() -> None:
        async with caller(database) as connection:
            await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
            assert connection.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
            await connection.execute(ORDER, ("one",))
            await (connection.commit() if commits else connection.rollback())

    asyncio.run(scenario())
    assert written(database) == ((1, 1) if commits else (0, 0))


def test_a_connection_that_commits_by_itself_is_refused(database: str) -> None:
    """Nothing would hold their rows and the job together; the sentence says what to do."""

    async def scenario() -> None:
        async with caller(database, autocommit=True) as connection:
            with pytest.raises(Refused) as refused:
                await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
            assert "open a transaction" in str(refused.value)

    asyncio.run(scenario())
    assert written(database) == (0, 0)


def test_a_cells_own_transaction_will_do(database: str) -> None:
    """Our own code enqueues in the same way; a conflict there takes back no more than itself."""

    async def scenario() -> list[Enqueued]:
        async with stand.cell_of(database, "dragoman_orchestrator") as cell:
            async with cell.transaction("enqueue") as tx:
                first = await enqueue(tx, PLAIN, Work("one", HOME), by="shop")
                with pytest.raises(Conflict):
                    await enqueue(tx, PLAIN, Work("one", uuid4()), by="shop")
            async with cell.transaction("enqueue") as tx:
                return [first, await enqueue(tx, PLAIN, Work("one", HOME), by="shop")]

    first, second = asyncio.run(scenario())
    assert (first.is_new, second) == (True, replace(first, is_new=False))
    assert written(database) == (1, 0)


def test_a_thousand_go_by_one_statement(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New ones, one that exists and two that are one: each answer stands in its place."""
    asked: list[str] = []
    tuples = Tx.tuples

    async def noted(tx: Tx, statement: str, /, *given: Any, **params: Any):
        asked.append(statement)
        return await tuples(tx, statement, *given, **params)

    async def scenario() -> None:
        async with caller(database) as connection:
            known = await enqueue(connection, PLAIN, Work("unit-500", HOME), by="shop")
            monkeypatch.setattr(Tx, "tuples", noted)
            works = [Work(f"unit-{n}", HOME) for n in range(999)]
            made = await enqueue_many(connection, PLAIN, [*works, works[3]], by="shop")
            await connection.commit()
            assert [each.is_new for each in made] == [n not in {500, 999} for n in range(1000)]
            assert (made[500].job_id, made[999]) == (known.job_id, replace(made[3], is_new=False))
            assert len({each.job_id for each in made}) == 999

    asyncio.run(scenario())
    assert asked.count("job/enqueue_jobs") == 1
    assert len(asked) < 10
    units = "select unit, id from job order by length(unit), unit"
    assert [row[0] for row in stand.rows(database, units)] == [f"unit-{n}" for n in range(999)]
    check_books(database)


CHANGES: dict[str, dict[str, Any]] = {
    "home_id": {"home_id": uuid4()},
    "account": {"account": "other"},
    "mode": {"mode": Mode.BATCH},
    "max_attempts": {"max_attempts": 9},
    "routing": {"routing": {**ROUTING, "model": "m-2"}},
    "more routing": {"routing": {**ROUTING, "base_url": "https://x.example"}},
    "input": {"input_sha256": bytes(32)},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_unit_that_stands_for_something_else_is_a_conflict(database: str, what: str) -> None:
    """Typed, nothing of the whole call is written, and their transaction goes on as it was."""
    work = Work("one", HOME, ROUTING)

    async def scenario() -> None:
        async with caller(database) as connection:
            await enqueue(connection, SUMMARIES, work, by="shop")
            await connection.commit()
            await connection.execute(ORDER, ("one",))
            lot = [Work("two", HOME, ROUTING), replace(work, **CHANGES[what])]
            with pytest.raises(Conflict) as conflict:
                await enqueue_many(connection, SUMMARIES, lot, by="shop")
            assert "work 1 stands for something else" in str(conflict.value)
            await connection.commit()

    asyncio.run(scenario())
    assert written(database) == (1, 1)
    check_books(database)


def test_when_it_is_due_and_how_urgent_it_is_are_no_conflict(database: str) -> None:
    """They say when, not what: asked again with another hurry, it is the same unit."""

    async def scenario() -> None:
        async with caller(database) as connection:
            first = await enqueue(
                connection, PLAIN, Work("one", HOME, priority=3, delay_s=60), by="shop"
            )
            again = await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
            assert again == replace(first, is_new=False)
            await connection.commit()

    asyncio.run(scenario())
    told = "select priority, ready, not_before_at - created_at from standing"
    ((priority, ready, delay),) = stand.rows(database, told)
    assert (priority, ready, delay.total_seconds()) == (3, False, 60)


def test_a_pipeline_that_the_database_does_not_know(database: str) -> None:
    """Unknown, of another number or with other stages: typed, and nothing is written."""
    strangers = {
        NotFound: [replace(PLAIN, name="stranger")],
        BadInput: [replace(PLAIN, id=12), replace(PLAIN, stages=PLAIN.stages[:1])],
    }

    async def scenario() -> None:
        async with caller(database) as connection:
            for kind, pipelines in strangers.items():
                for pipeline in pipelines:
                    with pytest.raises(kind):
                        await enqueue(connection, pipeline, Work("one", HOME), by="shop")
            await connection.commit()

    asyncio.run(scenario())
    assert written(database) == (0, 0)


class Shouting(Loader):
    """A loader of the caller's own, which makes ids of another kind."""

    def load(self, data: Any) -> str:
        """No UUID."""
        return "theirs"


@pytest.mark.parametrize("goes_well", [True, False])
def test_their_connection_is_as_it_was(database: str, goes_well: bool) -> None:
    """Search path, row factory, loaders and prepared statements: theirs before and after."""

    async def scenario() -> None:
        async with caller(database, row_factory=dict_row, prepare_threshold=0) as connection:
            connection.adapters.register_loader("uuid", Shouting)
            for round_ in range(8):
                work = Work("one", HOME if goes_well or not round_ else uuid4())
                try:
                    made = await enqueue(connection, PLAIN, work, by="shop")
                    assert isinstance(made.job_id, UUID)
                except Conflict:
                    assert not goes_well
                row = await (await connection.execute("show search_path")).fetchone()
                assert row == {"search_path": "shop"}
                told = await (await connection.execute("select %s::uuid as id", (HOME,))).fetchone()
                assert told == {"id": "theirs"}
            await connection.execute(ORDER, ("one",))
            await connection.commit()
            prepared = "select statement from pg_prepared_statements"
            told = await (await connection.execute(prepared)).fetchall()
            assert told
            assert not [row for row in told if row["statement"].lstrip().startswith("--")]
            row = await (await connection.execute("show search_path")).fetchone()
            assert row == {"search_path": "shop"}

    asyncio.run(scenario())
    assert written(database) == (1, 1)


def test_a_path_that_they_set_in_their_transaction_stays(database: str) -> None:
    """What they said inside this very transaction is what they find after it."""

    async def scenario() -> None:
        async with caller(database) as connection:
            await connection.execute("set search_path = shop, pg_temp")
            await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
            await connection.commit()
            row = await (await connection.execute("show search_path")).fetchone()
            assert row == ("shop, pg_temp",)

    asyncio.run(scenario())


def test_another_encoding_is_refused(database: str) -> None:
    """Texts would be stored as other letters than they are."""

    async def scenario() -> None:
        async with caller(database, client_encoding="latin1") as connection:
            with pytest.raises(Refused):
                await enqueue(connection, PLAIN, Work("é", HOME), by="shop")

    asyncio.run(scenario())


def test_two_at_once_are_one_job(database: str) -> None:
    """The second waits for the first's commit and finds its job; if that is taken back, its own."""

    async def scenario(first_commits: bool, unit: str) -> None:
        async with caller(database) as one, caller(database) as other:
            first = await enqueue(one, PLAIN, Work(unit, HOME), by="shop")
            waiting = asyncio.create_task(enqueue(other, PLAIN, Work(unit, HOME), by="shop"))
            await asyncio.wait({waiting}, timeout=0.2)
            assert not waiting.done()
            await (one.commit() if first_commits else one.rollback())
            second = await asyncio.wait_for(waiting, 10)
            assert second.is_new is not first_commits
            assert (second.job_id == first.job_id) is first_commits
            await other.commit()

    asyncio.run(scenario(True, "one"))
    asyncio.run(scenario(False, "two"))
    assert written(database) == (2, 0)


def test_a_full_home_takes_nothing_new_and_answers_for_the_old(database: str) -> None:
    """Refused by type, nothing of the lot is written; units that it has are still told."""
    with stand.owner(database) as connection:
        connection.execute("update cell set max_waiting_per_home = 2")

    async def scenario() -> None:
        async with caller(database) as connection:
            old = [Work("one", HOME), Work("two", HOME)]
            made = await enqueue_many(connection, PLAIN, old, by="shop")
            with pytest.raises(QueueFull):
                await enqueue_many(connection, PLAIN, [Work("three", HOME), *old], by="shop")
            again = await enqueue_many(connection, PLAIN, old, by="shop")
            assert again == [replace(each, is_new=False) for each in made]
            await connection.commit()

    asyncio.run(scenario())
    assert written(database) == (2, 0)


def test_another_role_is_refused_and_its_transaction_lives(database: str) -> None:
    """Only the orchestrator's role may enqueue; the error is ours, and their own row stands."""

    async def scenario() -> DatabaseError:
        async with caller(database, "worker") as connection:
            await connection.execute(ORDER, ("one",))
            with pytest.raises(DataRefused) as refused:
                await enqueue(connection, PLAIN, Work("one", HOME), by="shop")
            await connection.commit()
            return refused.value

    assert asyncio.run(scenario()).sqlstate == "42501"
    assert written(database) == (0, 1)


@pytest.mark.parametrize("mode", Mode)
def test_a_stage_that_asks_waits_before_its_gate(database: str, mode: Mode) -> None:
    """Mode, provider, account and model name the queue in which it is claimed."""
    work = Work("one", HOME, ROUTING, account="team", mode=mode, input_sha256=bytes(32))

    async def scenario() -> Held:
        async with caller(database) as connection:
            await enqueue(connection, SUMMARIES, work, by="shop")
            await connection.commit()
        async with stand.station_of(database, {"summaries": SUMMARIES}) as station:
            (queue,) = await jobs.open_queues(station.cell, mode, ["summaries"])
            assert (queue.provider, queue.account, queue.model) == ("acme", "team", "m-1")
            (held,) = await jobs.claim_jobs(station.cell, station.line.worker, [queue.key], 9)
            return held

    held = asyncio.run(scenario())
    assert (held.unit, held.mode, held.routing, held.account) == ("one", mode, ROUTING, "team")
    assert held.group_key == f"acme|m-1|summaries|{mode}"


def test_a_worker_brings_them_to_their_end(database: str) -> None:
    """What came in this way is done like anything else, and its chain names who sent it."""

    async def scenario() -> None:
        async with caller(database) as connection:
            works = [Work(f"unit-{n}", HOME) for n in range(5)]
            await enqueue_many(connection, PLAIN, works, by="shop")
            await connection.commit()
        async with stand.station_of(database, {"plain": PLAIN}) as station:
            worker = Worker(station, cast("Any", None))
            while await worker.run_once():
                pass

    asyncio.run(scenario())
    told = "select state::text, count(*) from standing group by 1"
    assert stand.rows(database, told) == [(State.COMPLETED.value, 5)]
    by = "select distinct actor_role, actor from history where kind = 'enqueued'"
    assert stand.rows(database, by) == [("orchestrator", "shop")]
    check_books(database)

"""Leases, runs, alerts, sums, and what a failed job leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import uuid7
from dragoman.core.job import Bury, Done, Held, Kind, Reason, Retry, State
from dragoman.store import jobs, workers
from dragoman.work.finish import Finished, finish
from tests import stand
from tests.store.kernel import KEY, PIPELINES, bring, check_books, claim, crew_of, give_lease, look


def test_a_lease_ends_at_its_very_moment(database: str) -> None:
    """While it lasts it is renewed; one that has ended or was stopped stays so."""

    async def scenario() -> list[bool]:
        async with crew_of(database) as crew:
            worker, found = uuid7(), []
            await give_lease(crew.worker, worker, 30)
            async with crew.worker.pool.connection() as connection:
                for seconds in (20, 20, 31, 0):
                    stand.move_clock(database, seconds)
                    found.append(await workers.renew_lease(connection, worker, 30))
                other = uuid7()
                await workers.register_worker(connection, other, "test", "worker", 30)
                await workers.stop_worker(connection, other)
                found.append(await workers.renew_lease(connection, other, 30))
        return found

    assert asyncio.run(scenario()) == [True, True, False, False, False]


def test_renewing_a_lease_moves_no_claim(database: str) -> None:
    """A claim's age counts from the claim: neither its time nor its row changes by a renewal."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            before = look(database, held.id)
            stand.move_clock(database, 60)
            async with crew.worker.pool.connection() as connection:
                assert await workers.renew_lease(connection, crew.actor, 3600)
            assert look(database, held.id) == before

    asyncio.run(scenario())


def test_a_worker_is_known_by_its_line(database: str) -> None:
    """The row names the backend and its start, so that a reused pid is told apart."""

    async def scenario() -> tuple:
        async with crew_of(database) as crew:
            worker = uuid7()
            async with crew.worker.pool.connection() as connection:
                await workers.register_worker(connection, worker, "relay", "relay-1", 30)
                return worker, connection.info.backend_pid

    worker, pid = asyncio.run(scenario())
    ((found_pid, has_start, role, name),) = stand.rows(
        database,
        "select backend_pid, backend_start is not null, role, name"
        " from worker join actor using (id) where id = %s",
        worker,
    )
    assert (found_pid, has_start, role, name) == (pid, True, "relay", "relay-1")


def test_who_acts_under_a_name_is_one_actor(database: str) -> None:
    """The same role and name give the same id on every machine, and one row."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for _ in range(2):
                async with crew.operator.transaction("know") as tx:
                    assert await workers.know_actor(tx, "operator", "ada") == workers.actor_id(
                        "operator", "ada"
                    )

    asyncio.run(scenario())
    assert stand.rows(database, "select role from actor where name = 'ada'") == [("operator",)]
    assert workers.actor_id("operator", "ada") != workers.actor_id("worker", "ada")


def test_an_open_alert_is_counted_and_a_closed_one_is_not_opened_again(database: str) -> None:
    """One row per subject and kind while it is open; after it was closed there is a new one."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for subject in ("a", "a", "b"):
                await workers.raise_alert(crew.worker, "lost", subject, "act", {"n": 1})
            with stand.owner(database) as connection:
                connection.execute("update alert set closed_at = clock() where subject = 'a'")
            await workers.raise_alert(crew.worker, "lost", "a", "page", {})

    asyncio.run(scenario())
    assert stand.rows(
        database,
        "select subject, severity, times, closed_at is null from alert order by first_at",
    ) == [("a", "act", 2, False), ("b", "act", 1, True), ("a", "page", 1, True)]


@pytest.mark.req("R279", "R247")
def test_a_run_and_a_skip_are_rows(database: str) -> None:
    """A run has its limits, times and counts; one with nothing to do says so."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            run = await workers.open_run(crew.worker, "submitter", crew.actor, 25, 240)
            await workers.close_run(crew.worker, run, {"claimed": 3}, {"p/m": 3})
            await workers.close_run(crew.worker, run, {"claimed": 99}, {})
            await workers.skip_run(crew.worker, "submitter", crew.actor, "skipped: nothing")

    asyncio.run(scenario())
    assert stand.rows(
        database,
        "select role, max_jobs_per_run, max_runtime_s, counts, models, skipped,"
        " finished_at >= started_at from run order by started_at",
    ) == [
        ("submitter", 25, 240, {"claimed": 3}, {"p/m": 3}, None, True),
        ("submitter", None, None, {}, {}, "skipped: nothing", True),
    ]


def test_folding_keeps_every_sum(database: str) -> None:
    """What the moves wrote is added up once; two sweepers at once fold no move twice."""

    async def scenario() -> list[int]:
        async with crew_of(database) as crew:
            for number, state in enumerate(State):
                await bring(crew, state, KEY + number)
            check_books(database)
            folded = await asyncio.gather(*(workers.fold_deltas(crew.worker) for _ in range(2)))
            check_books(database)
            await bring(crew, State.PROCESSING, KEY)
            check_books(database)
            await workers.fold_deltas(crew.worker)
            return folded

    assert sum(asyncio.run(scenario())) > 0
    assert stand.rows(database, "select from queue_delta") == []
    check_books(database)


def test_a_failed_job_leaves_its_dead_letter(database: str) -> None:
    """Class, code, stage, attempts and a stack stand in it, and the job's two times."""
    first, last = (
        Failure(FailureClass.NETWORK_TIMEOUT, "http_503", http_status=503),
        Failure(FailureClass.AUTH_DENIED, "http_401", http_status=401),
    )

    async def scenario() -> Held:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            await finish(crew.worker, crew.actor, PIPELINES, [Finished(held, Retry(first))])
            stand.move_clock(database, 901)
            (held,) = await claim(crew, KEY)
            buried = [Finished(held, Bury(last, ("one.py:3 in run",)))]
            counts = await finish(crew.worker, crew.actor, PIPELINES, buried)
            assert counts == {"failed": 1}
            return held

    held = asyncio.run(scenario())
    ((letter,),) = stand.rows(database, "select to_jsonb(d) from dead_letter d")
    expected = {
        "job_id": str(held.id),
        "home_id": str(held.home_id),
        "stage_name": "one",
        "error_class": "AUTH_DENIED",
        "code": "http_401",
        "reason": "not_retryable",
        "attempts": 2,
        "last_stack": ["one.py:3 in run"],
        "state": "open",
    }
    assert {name: letter[name] for name in expected} == expected
    standing = look(database, held.id).standing
    times = ("first_failure_at", "last_failure_at")
    assert [letter[name] for name in times] == [standing[name] for name in times]
    assert letter["first_failure_at"] < letter["last_failure_at"]
    check_books(database)


def test_a_stage_that_is_done_hands_on(database: str) -> None:
    """Its reference and hash are stored, and the job is ready at the next stage."""

    async def scenario() -> Held:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            passed = [Finished(held, Done(None, sha256=b"hash"))]
            assert await finish(crew.worker, crew.actor, PIPELINES, passed) == {"succeeded": 1}
            return held

    held = asyncio.run(scenario())
    seen = look(database, held.id)
    assert (seen.state, seen.standing["stage"], seen.standing["attempt_count"]) == ("queued", 1, 0)
    assert (seen.kinds[-1], seen.standing["reason"]) == (Kind.ADVANCED, Reason.NEXT_STAGE)
    assert stand.rows(database, "select job_id, stage, reference, sha256 from stage_result") == [
        (held.id, 0, f"plain/one/{held.id}", b"hash")
    ]
    check_books(database)


def test_settled_work_is_known_by_its_token(database: str) -> None:
    """Whoever lost the answer of a commit asks what is done, and is told of its own token alone."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.FAILED, KEY)
            other = await bring(crew, State.PROCESSING, KEY)
            async with crew.worker.transaction("ask") as tx:
                asked = [(held.id, held.token), (held.id, uuid7()), (other.id, other.token)]
                assert await jobs.find_settled(tx, asked) == {held.id}

    asyncio.run(scenario())

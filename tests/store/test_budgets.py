"""Budgets belong to a stage and stand on the row: no history is needed to keep them."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.job import Done, Held, Outcome, Retry, State
from dragoman.work.finish import Finished, finish
from tests import stand
from tests.store.kernel import KEY, PIPELINES, Crew, claim, crew_of, enqueue, look, new_job

FAILURE = Failure(FailureClass.UPSTREAM_ERROR, "http_500", http_status=500)
LATER_S = 7201


async def let_go(crew: Crew, held: Held, outcome: Outcome) -> None:
    """Finish, let the wait pass, and forget all history."""
    await finish(crew.worker, crew.actor, PIPELINES, [Finished(held, outcome)])
    stand.move_clock(crew.database, LATER_S)
    forget(crew.database)


def forget(database: str) -> None:
    """Drop every partition of the history, and make room for what comes."""
    with stand.owner(database) as connection:
        parts = connection.execute(
            "select relid::regclass::text from pg_partition_tree('event') where isleaf"
        ).fetchall()
        for (part,) in parts:
            connection.execute(f"drop table {part}".encode())
        connection.execute("select ensure_partitions()")


async def fail(crew: Crew, key: int, times: int) -> Held:
    """So many failed attempts in a row."""
    held = None
    for _ in range(times):
        (held,) = await claim(crew, key)
        await let_go(crew, held, Retry(FAILURE))
    assert held is not None
    return held


@pytest.mark.req("R324", "R326", "R327", "R328", "R335")
def test_each_stage_has_its_own_budget_without_any_history(database: str) -> None:
    """Four failures in each stage leave the job alive; the fifth of one stage buries it."""

    async def scenario() -> Held:
        async with crew_of(database) as crew:
            await enqueue(crew, new_job(max_attempts=5))
            held = await fail(crew, KEY, 4)
            (last,) = await claim(crew, KEY)
            assert (last.stage, last.attempt) == (0, 5)
            await let_go(crew, last, Done(None))
            row = look(database, held.id).standing
            assert (row["stage"], row["stage_attempts"], row["attempt_count"]) == (1, 0, 4)
            key = row["queue_key"]
            await fail(crew, key, 4)
            row = look(database, held.id).standing
            assert (row["state"], row["stage_attempts"], row["attempt_count"]) == ("queued", 4, 8)
            return await fail(crew, key, 1)

    held = asyncio.run(scenario())
    row = look(database, held.id).standing
    assert (State(row["state"]), row["stage_attempts"]) == (State.FAILED, 5)
    ((letter,),) = stand.rows(database, "select to_jsonb(d) from dead_letter d")
    assert (letter["stage_name"], letter["attempts"], letter["reason"]) == ("two", 5, "exhausted")
    assert letter["first_failure_at"] < letter["last_failure_at"]
    assert letter["sanitized_context"]["stage"] == "two"

"""What may be replayed, and by whom: a rewrite never, an operator nothing but a replay."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dragoman.core.errors import DataRefused, Refused
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import JobId, uuid7
from dragoman.core.job import Bury, Mode, Queue, State
from dragoman.core.remedy import CATEGORIES, needed
from dragoman.store import dead_letters, jobs, queues
from dragoman.work.finish import Finished, finish
from dragoman.work.replay import plan_replay, replay
from tests import stand
from tests.store.kernel import Crew, claim, crew_of, enqueue, look
from tests.store.rewrites import Request
from tests.store.test_guards_rewrite import writing

DENIED = Bury(Failure(FailureClass.AUTH_DENIED, "http_403"))


async def failed_rewrite(crew: Crew, request: Request) -> JobId:
    """A rewrite that no repetition can cure."""
    await enqueue(crew, request.job())
    [held] = await claim(crew, 41, 1)
    await finish(crew.worker, crew.actor, writing({}), [Finished(held, DENIED)])
    return held.id


@pytest.mark.req("R184")
def test_a_failed_rewrite_is_made_again_by_nobody(database: str) -> None:
    """Its unit enqueued anew is nothing new, and its letter is seen and closed, never replayed."""

    async def scenario() -> JobId:
        async with crew_of(database) as crew:
            request = Request().write(database)
            job = await failed_rewrite(crew, request)
            async with crew.orchestrator.transaction("enqueue") as tx:
                assert await jobs.enqueue_jobs(tx, crew.actor, [request.job()]) == set()
            cell, who = crew.operator, crew.actor
            await dead_letters.triage(cell, who, job, "auth_config")
            await dead_letters.remediate(cell, who, job, "OPS-7", {"rotated": "a key"})
            with pytest.raises(Refused, match="a rewrite is not replayed"):
                await plan_replay(cell, job)
            with pytest.raises(Refused, match="a rewrite is not replayed"):
                await replay(cell, who, job, is_safe_twice=True)
            forced = request.job(unit="replay:1", replay_of=job)
            for role in (crew.operator, crew.orchestrator):
                with pytest.raises(DataRefused):
                    async with role.transaction("enqueue") as tx:
                        await jobs.enqueue_jobs(tx, who, [forced])
            assert (await dead_letters.resolve(cell, who, job, "told the sender")).closed_at
            return job

    job = asyncio.run(scenario())
    assert look(database, job).state is State.FAILED
    assert stand.rows(database, "select id from job") == [(job,)]


def test_the_operator_writes_no_job_but_a_replay(database: str) -> None:
    """A job of the operator's own is denied by the row policy, before any other rule is asked."""

    async def scenario() -> tuple[str | None, str | None]:
        async with crew_of(database) as crew:
            job = replace(Request().job(), request_id=None, pipeline=2, unit=str(uuid7()))
            with pytest.raises(DataRefused) as caught:
                async with crew.operator.transaction("enqueue") as tx:
                    await jobs.enqueue_jobs(tx, crew.actor, [job])
            return caught.value.sqlstate, caught.value.constraint

    assert asyncio.run(scenario()) == ("42501", None)


def test_code_and_schema_ask_for_the_same_remedies(database: str) -> None:
    """Every class of failure has its categories, and each its fields, in both places alike."""
    stored = stand.rows(database, "select error_class, category, fields from remedy")
    assert {(known, category): tuple(fields) for known, category, fields in stored} == {
        (known.value, category.value): needed(known, category)
        for known in FailureClass
        for category in CATEGORIES[known]
    }


@pytest.mark.req("R325")
def test_a_review_has_three_stages_and_no_other(database: str) -> None:
    """Fetch, llm and notify have queues; a fourth stage is refused by the database."""

    async def name(stage: int) -> int:
        queue = Queue("review", f"stage {stage}", Mode.ASYNC)
        async with crew_of(database) as crew, crew.orchestrator.transaction("name") as tx:
            return await queues.name_queue(tx, replace(queue, account=str(stage)), stage)

    stages = stand.rows(database, "select stages from pipeline where name = 'review'")
    assert stages == [(["fetch", "llm", "notify"],)]
    for stage in range(3):
        asyncio.run(name(stage))
    for stage in (-1, 3):
        with pytest.raises(DataRefused) as caught:
            asyncio.run(name(stage))
        assert caught.value.constraint == "unknown_stage"

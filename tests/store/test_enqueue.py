"""Enqueue: a unit once, and a rewrite's job only as its request was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dragoman.core.errors import DataRefused
from dragoman.core.ids import JobId, uuid7
from dragoman.core.job import Kind, Mode, Queue, State
from dragoman.store import jobs, queues
from tests import stand
from tests.store.kernel import KEY, bring, check_books, crew_of, enqueue, look, new_job
from tests.store.rewrites import Request


@pytest.mark.req("R013", "R114", "R238", "R124")
def test_a_unit_is_enqueued_once(database: str) -> None:
    """The second enqueue changes nothing, whatever state the first job has reached."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            request = Request().write(database)
            job = request.job()
            assert await enqueue(crew, job) == {job.id}
            assert await enqueue(crew, request.job()) == set()
            for number, state in enumerate(State):
                held = await bring(crew, state, KEY + number)
                before = look(database, held.id)
                again = new_job(unit=held.unit, home_id=held.home_id, max_attempts=9)
                assert await enqueue(crew, again) == set()
                assert look(database, held.id) == before

    asyncio.run(scenario())
    assert stand.rows(database, "select count(*) from job where pipeline = 1") == [(1,)]
    check_books(database)


@pytest.mark.req("R013")
def test_twins_in_one_statement_are_one_job(database: str) -> None:
    """Of two equal units that arrive together one is written, and of a mixed lot the new ones."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            first, other = new_job(), new_job()
            twin = replace(first, id=JobId(uuid7()))
            assert await enqueue(crew, first, twin, other) == {first.id, other.id}
            third = new_job()
            assert await enqueue(crew, replace(other, id=JobId(uuid7())), third) == {third.id}

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R113")
def test_two_enqueues_at_once_are_one_job(database: str) -> None:
    """The unique unit decides between two orchestrators, without an error for either."""
    request = Request().write(database)

    async def scenario() -> list[set[JobId]]:
        async with crew_of(database) as crew:
            return await asyncio.gather(*(enqueue(crew, request.job()) for _ in range(4)))

    found = asyncio.run(scenario())
    assert sorted(map(len, found)) == [0, 0, 0, 1]
    check_books(database)


def differing(request: Request) -> Mapping[str, Mapping[str, Any]]:
    """Jobs that are not what their request says."""
    swapped = {"source_locale": request.target, "target_locale": request.source}
    return {
        "another home": {"home_id": uuid4()},
        "another recipient": {"recipient_id": uuid4()},
        "another source": {"source_locale": "fr"},
        "another target": {"target_locale": "fr"},
        "swapped": swapped,
        "another request": {"request_id": uuid7()},
        "no request": {"request_id": None},
        "no recipient": {"recipient_id": None},
        "no languages": {"source_locale": None, "target_locale": None, "lane": None},
        "no source": {"source_locale": None},
        "no target": {"target_locale": None},
        "no lane": {"lane": None},
        "the other lane": {"lane": "same_language"},
        "unknown source": {"source_locale": "unknown"},
        "undetermined target": {"target_locale": "und"},
    }


@pytest.mark.req("R045", "R115", "R005", "R107")
@pytest.mark.parametrize("what", differing(Request()))
def test_a_job_that_differs_from_its_request_is_refused(shared: str, what: str) -> None:
    """Home, recipient, languages and lane are the request's, or nothing is written at all."""
    request = Request().write(shared)
    changed = differing(request)[what]

    async def scenario() -> DataRefused:
        async with crew_of(shared) as crew:
            with pytest.raises(DataRefused) as refused:
                await enqueue(crew, request.job(**changed))
            return refused.value

    refused = asyncio.run(scenario())
    assert (refused.sqlstate, refused.constraint) == ("DR001", "job_differs_from_request")
    assert stand.rows(shared, "select from job where unit like %s", f"{request.id}%") == []


@pytest.mark.req("R116", "R106")
def test_a_job_needs_the_snapshot_of_its_own_request(database: str) -> None:
    """A request whose snapshot names somebody else, or that has none, gets no job."""
    mine, none = Request().write(database), Request().write(database)
    with stand.owner(database) as connection:
        connection.execute("alter table recipient_snapshot disable trigger user")
        connection.execute(
            "update recipient_snapshot set recipients = %s where request_id = %s",
            ([uuid4()], mine.id),
        )
        connection.execute("delete from recipient_snapshot where request_id = %s", (none.id,))

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for request in (mine, none):
                with pytest.raises(DataRefused) as refused:
                    await enqueue(crew, request.job())
                assert refused.value.constraint == "job_differs_from_request"

    asyncio.run(scenario())


def test_a_request_that_has_failed_gets_no_job(database: str) -> None:
    """Failed means failed: a late enqueue is refused."""
    request = Request().write(database)
    with stand.owner(database) as connection:
        connection.execute(
            "update rewrite_request set failed_at = clock() where id = %s", (request.id,)
        )

    async def scenario() -> None:
        async with crew_of(database) as crew:
            with pytest.raises(DataRefused) as refused:
                await enqueue(crew, request.job())
            assert refused.value.constraint == "job_differs_from_request"

    asyncio.run(scenario())


def test_one_refused_job_takes_its_whole_statement_with_it(database: str) -> None:
    """Nothing is half enqueued: the orchestrator hears of the refusal and decides."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            good = new_job()
            with pytest.raises(DataRefused):
                await enqueue(crew, good, Request().job())

    asyncio.run(scenario())
    assert stand.rows(database, "select from job") == []
    check_books(database)


def test_an_enqueue_says_when_and_why_on_its_event(database: str) -> None:
    """The first event carries the facts it was given, and starts the chain from nothing."""

    async def scenario() -> JobId:
        async with crew_of(database) as crew:
            job = new_job(facts=jobs.facts(surface="other", none=None), delay_s=30.0)
            await enqueue(crew, job)
            return job.id

    seen = look(database, asyncio.run(scenario()))
    (event,) = seen.events
    assert (Kind(event.kind), bytes(event.facts)) == (Kind.ENQUEUED, b'{"surface":"other"}')
    assert (event.seq, event.attempt, seen.standing["ready"]) == (1, 1, False)
    check_books(database)


def test_a_queue_is_named_once_and_by_one_name_only(database: str) -> None:
    """The key comes back whenever it is asked for; another name under it is refused."""
    queue = Queue("plain", "one", Mode.BATCH, "p", "default", "m")

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for _ in range(2):
                async with crew.orchestrator.transaction("name") as tx:
                    assert await queues.name_queue(tx, queue, 0) == queue.key
            (found,) = await queues.open_queues(crew.worker, Mode.BATCH, ["plain"])
            assert (found.key, found.provider, found.model) == (queue.key, "p", "m")
            assert await queues.open_queues(crew.worker, Mode.ASYNC, ["plain"]) == []
            assert await queues.open_queues(crew.worker, Mode.BATCH, ["rewrite"]) == []
            async with crew.orchestrator.transaction("name") as tx:
                rows = await tx.tuples(
                    "queue/name_queue",
                    key=queue.key,
                    pipeline="plain",
                    stage=1,
                    mode="batch",
                    provider="other",
                    account="default",
                    model="m",
                )
                assert rows == []

    asyncio.run(scenario())

"""Submissions: what each statement does, what it refuses, and whom it finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from dragoman.core.ids import BatchId, JobId, Token, uuid7
from dragoman.core.job import Held, Kind, Reason, State
from dragoman.store import batches, jobs, workers
from dragoman.store.batches import Batch, Item, NewBatch, Settled
from tests import stand
from tests.store.kernel import (
    KEY,
    Crew,
    apply,
    begin,
    check_books,
    claim,
    crew_of,
    enqueue,
    give_lease,
    look,
    mark,
    move,
    new_batch,
    new_job,
    recorded,
    started,
    submitted,
)


async def held(crew: Crew, count: int, worker: UUID | None = None) -> list[Held]:
    """So many claimed jobs."""
    await enqueue(crew, *(new_job() for _ in range(count)))
    return await claim(crew, KEY, count, worker)


async def settle(crew: Crew, batch: NewBatch, *indices: int, state: str = "done") -> set[JobId]:
    """Settle items of a batch."""
    async with crew.worker.transaction("settle") as tx:
        rows = [Settled(BatchId(batch.id), index, state, None) for index in indices]
        return await batches.settle_items(tx, rows)


async def poll(crew: Crew, batch: Batch, **changed) -> bool:
    """Record how the provider's batch stands."""
    told = {"status": "in_progress", "state": "running", "files": [], "ended": False, **changed}
    return await batches.record_poll(crew.worker, batch, **told)


def row(database: str, batch: NewBatch, columns: str) -> tuple:
    """Some columns of a batch."""
    (found,) = stand.rows(database, f"select {columns} from batch where id = %s", batch.id)
    return found


@pytest.mark.req("R148", "R150")
def test_the_intent_is_written_before_anything_leaves(database: str) -> None:
    """Batch and items stand, with our own id, while the provider knows nothing."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            jobs_held = await held(crew, 3)
            batch = await recorded(crew, *jobs_held)
            assert row(database, batch, "state, items, started_at, provider_batch_id") == (
                "submitting",
                3,
                None,
                None,
            )
            items = stand.rows(
                database, "select item_index, job_id, token, attempt from batch_item order by 1"
            )
            assert items == [(n, one.id, one.token, 1) for n, one in enumerate(jobs_held)]
            found = await batches.open_items(crew.worker, batch.id)
            assert [(item.item_index, item.job) for item in found] == list(enumerate(jobs_held))

    asyncio.run(scenario())


def test_only_what_is_still_held_goes_into_a_batch(database: str) -> None:
    """A job that was lost meanwhile is left out; with none left there is no batch."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            first, second = await held(crew, 2)
            await jobs.cancel_jobs(crew.operator, crew.actor, [first.id])
            batch = new_batch()
            items = [Item(one.id, one.token, n, 0, str(n)) for n, one in enumerate((first, second))]
            taken = await batches.record_batch(crew.worker, crew.actor, batch, items)
            assert (taken, row(database, batch, "items")) == ({1}, (1,))
            (left,) = await batches.open_items(crew.worker, batch.id)
            assert (left.item_index, left.job) == (0, second)
            assert (
                await batches.record_batch(crew.worker, crew.actor, new_batch(), items[:1]) == set()
            )

    asyncio.run(scenario())
    assert stand.rows(database, "select count(*) from batch") == [(1,)]


@pytest.mark.req("R053")
def test_submitted_marks_the_batch_and_its_jobs_at_once(database: str) -> None:
    """One statement gives batch and jobs the provider's id; a second one finds nothing to mark."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            two = await held(crew, 2)
            batch = await started(crew, *two)
            assert not await begin(crew, batch)
            assert await mark(crew, batch, *two, theirs="theirs")
            for one in two:
                seen = look(database, one.id)
                assert (seen.state, seen.kinds[-1]) == (State.BATCH_SUBMITTED, Kind.SUBMITTED)
                assert seen.standing["provider_batch_id"] == "theirs"
                assert seen.standing["claim_token"] == str(one.token)
            assert row(database, batch, "state, provider_batch_id") == ("submitted", "theirs")
            assert not await mark(crew, batch, *two, theirs="other")

    asyncio.run(scenario())
    check_books(database)


def test_a_batch_that_was_never_begun_cannot_be_marked(database: str) -> None:
    """Without a committed beginning nothing can have been created, so nothing is adopted."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            (one,) = await held(crew, 1)
            batch = await recorded(crew, one)
            assert not await mark(crew, batch, one)
            assert not await batches.record_doubt(crew.worker, batch.id, batch.token)
            assert look(database, one.id).state is State.PROCESSING

    asyncio.run(scenario())


@pytest.mark.req("R047", "R119", "R223")
def test_the_first_providers_batch_stays_on_the_job(database: str) -> None:
    """A second submission after a retry, and the success after it, leave the first id in place."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            (first,) = await held(crew, 1)
            batch = await started(crew, first)
            await mark(crew, batch, first, theirs="first")
            out = replace(first, state=State.BATCH_SUBMITTED)
            await apply(crew, move(out, State.QUEUED, Kind.RETRIED, attempt_add=1))
            await settle(crew, batch, 0, state="requeued")
            (second,) = await claim(crew, KEY)
            again = await started(crew, second)
            await mark(crew, again, second, theirs="second")
            out = replace(second, state=State.BATCH_SUBMITTED)
            await apply(crew, move(out, State.COMPLETED, Kind.COMPLETED))
            assert look(database, first.id).standing["provider_batch_id"] == "first"
            ids = stand.rows(database, "select provider_batch_id from batch order by created_at")
            assert ids == [("first",), ("second",)]

    asyncio.run(scenario())
    check_books(database)


def test_doubt_comes_when_the_answer_can_no_longer(database: str) -> None:
    """A submission is in doubt once its deadline has passed, and not a moment before."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            one, two = await held(crew, 2)
            begun, waiting = await started(crew, one), await recorded(crew, two)
            assert await batches.doubt_overdue(crew.worker) == 0
            stand.move_clock(database, 61)
            assert await batches.doubt_overdue(crew.worker) == 1
            assert row(database, begun, "state") == ("submit_unknown",)
            assert row(database, waiting, "state") == ("submitting",)
            assert await batches.find_doubtful(crew.worker, 60) == []
            stand.move_clock(database, 60)
            (found,) = await batches.find_doubtful(crew.worker, 60)
            assert (found.id, found.token, found.state) == (begun.id, begun.token, "submit_unknown")

    asyncio.run(scenario())


def test_a_doubt_is_asked_about_now_and_then(database: str) -> None:
    """The next question waits for the settle time; absences are counted."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await started(crew, *(await held(crew, 1)))
            stand.move_clock(database, 122)
            await batches.doubt_overdue(crew.worker)
            for absences in (1, 2):
                (found,) = await batches.find_doubtful(crew.worker, 60)
                assert await batches.record_absence(crew.worker, found) == absences
                assert await batches.find_doubtful(crew.worker, 60) == []
                stand.move_clock(database, 61)
            (found,) = await batches.find_doubtful(crew.worker, 60)
            assert (await batches.record_asked(crew.worker, found), found.absences) == (True, 2)
            assert await batches.find_doubtful(crew.worker, 60) == []

    asyncio.run(scenario())


def test_what_never_began_is_found_when_its_submitter_is_gone(database: str) -> None:
    """While the lease lasts an unfinished submission is its maker's; then it is anybody's."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            submitter = uuid7()
            await give_lease(crew.worker, submitter, 30)
            crew.actor = submitter
            one, two = await held(crew, 2)
            waiting = await recorded(crew, one)
            await started(crew, two)
            assert await batches.find_never_started(crew.worker) == []
            stand.move_clock(database, 31)
            assert [b.id for b in await batches.find_never_started(crew.worker)] == [waiting.id]

    asyncio.run(scenario())


def test_a_submission_that_was_taken_over_is_not_begun(database: str) -> None:
    """Its submitter was only slow: it finds the token changed. What has begun is not taken over."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            one, two = await held(crew, 2)
            slow, quick = await recorded(crew, one), await started(crew, two)
            (found,) = [b for b in await _all(crew) if b.id == slow.id]
            other = uuid7()
            taken = await batches.take_over(crew.worker, found, other)
            assert taken is not None
            assert taken.token != slow.token
            assert row(database, slow, "token, claimed_by") == (taken.token, other)
            assert not await begin(crew, slow)
            assert await batches.take_over(crew.worker, found, other) is None
            (begun,) = [b for b in await _all(crew) if b.id == quick.id]
            with stand.owner(database) as connection:
                connection.execute("update batch set state = 'submitting'")
            assert await batches.take_over(crew.worker, begun, other) is None
            assert await mark(crew, quick, two)

    asyncio.run(scenario())


async def _all(crew: Crew) -> list[Batch]:
    """Every batch, each by the statement that would find it."""
    with stand.owner(crew.database) as connection:
        connection.execute("update worker set stopped_at = clock()")
        connection.execute("update batch set deadline_at = clock() - interval '1 hour'")
        connection.execute("update batch set state = 'submit_unknown' where started_at is not null")
    waiting = await batches.find_never_started(crew.worker)
    return waiting + await batches.find_doubtful(crew.worker, 0)


def test_a_stopped_submitter_is_gone_at_once(database: str) -> None:
    """Stopping ends the lease, and what it left behind is found without waiting."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            waiting = await recorded(crew, *(await held(crew, 1)))
            async with crew.worker.pool.connection() as connection:
                await workers.stop_worker(connection, crew.actor)
            assert [b.id for b in await batches.find_never_started(crew.worker)] == [waiting.id]

    asyncio.run(scenario())


def test_a_batch_closes_when_it_has_ended_and_nothing_is_open(database: str) -> None:
    """Before it ended, or with an item open, it stays; then its files are to be deleted, once."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            batch = await submitted(crew, *(await held(crew, 2)))
            (view,) = await batches.find_open(crew.worker)
            await settle(crew, batch, 0, 1)
            assert not await batches.close_batch(crew.worker, view)
            assert await poll(crew, view, state="completed", files=["out"], ended=True)
            assert await batches.find_closed_with_files(crew.worker) == []
            assert await batches.count_work(crew.worker) == 1
            assert await batches.close_batch(crew.worker, view)
            assert await batches.find_open(crew.worker) == []
            assert not await poll(crew, view, state="failed")
            (closed,) = await batches.find_closed_with_files(crew.worker)
            assert (closed.input_file_id, closed.result_files) == ("file", ["out"])
            assert closed.closed_at is not None
            assert await batches.record_files_deleted(crew.worker, closed)
            assert not await batches.record_files_deleted(crew.worker, closed)
            assert await batches.count_work(crew.worker) == 0

    asyncio.run(scenario())


def test_the_providers_word_and_our_state_are_two_columns(database: str) -> None:
    """An unknown word is kept, and leaves our state and the end's time as they were."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            batch = await submitted(crew, *(await held(crew, 1)))
            (view,) = await batches.find_open(crew.worker)
            await poll(crew, view, state="completed", ended=True)
            first = row(database, batch, "ended_at")
            stand.move_clock(database, 5)
            await poll(crew, view, status="a new word", state=None, ended=True)
            assert row(database, batch, "state, provider_status") == ("completed", "a new word")
            assert row(database, batch, "ended_at") == first

    asyncio.run(scenario())


def test_batches_are_polled_in_turn(database: str) -> None:
    """The one that was not asked about for the longest time comes first."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            made = [await submitted(crew, one) for one in await held(crew, 3)]
            found = await batches.find_open(crew.worker)
            assert [one.id for one in found] == [one.id for one in made]
            await poll(crew, found[0])
            assert [one.id for one in await batches.find_open(crew.worker)] == [
                made[1].id,
                made[2].id,
                made[0].id,
            ]

    asyncio.run(scenario())


def test_an_item_is_settled_once(database: str) -> None:
    """The second settlement of an item finds it closed and changes nothing."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            two = await held(crew, 2)
            batch = await submitted(crew, *two)
            assert await settle(crew, batch, 0) == {two[0].id}
            assert await settle(crew, batch, 0, 1, state="failed") == {two[1].id}
            states = stand.rows(database, "select state from batch_item order by item_index")
            assert states == [("done",), ("failed",)]
            assert await batches.open_items(crew.worker, batch.id) == []
            assert await batches.known_ids(crew.worker, batch.id) == {str(one.id) for one in two}

    asyncio.run(scenario())


def test_what_two_collectors_see_at_once_counts_once(database: str) -> None:
    """A reading or an absence is counted by who saw the batch as it stands."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await submitted(crew, *(await held(crew, 1)))
            await started(crew, *(await held(crew, 1)))
            stand.move_clock(database, 122)
            await batches.doubt_overdue(crew.worker)
            for count, find in (
                (batches.count_download, batches.find_open(crew.worker)),
                (batches.record_absence, batches.find_doubtful(crew.worker, 60)),
            ):
                (view,) = await find
                assert [await count(crew.worker, view) for _ in range(2)] == [1, 0]
            (view,) = await batches.find_open(crew.worker)
            assert await batches.count_download(crew.worker, view) == 2

    asyncio.run(scenario())


def test_a_batch_is_given_up_only_without_items(database: str) -> None:
    """While an item is open the batch stays; then it is released and closed."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            batch = await recorded(crew, *(await held(crew, 1)))
            assert not await batches.release_batch(crew.worker, batch.id, batch.token)
            await settle(crew, batch, 0, state="released")
            assert not await batches.release_batch(crew.worker, batch.id, Token(uuid7()))
            assert await batches.release_batch(crew.worker, batch.id, batch.token)
            state, closed_at = row(database, batch, "state, closed_at")
            assert (state, closed_at is None) == ("released", False)
            assert await batches.count_work(crew.worker) == 0

    asyncio.run(scenario())


def test_an_adopted_batch_says_so_on_its_jobs(database: str) -> None:
    """Out of doubt the same mark is made, with its reason on every job's event."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            (one,) = await held(crew, 1)
            batch = await started(crew, one)
            await batches.record_doubt(crew.worker, batch.id, batch.token)
            assert await batches.record_submitted(
                crew.worker,
                crew.actor,
                batch,
                [batches.Sending(one.id, one.token, b"{}")],
                theirs="found",
                status="running",
                reason=Reason.ADOPTED,
            )
            event = look(database, one.id).events[-1]
            assert (Kind(event.kind), Reason(event.reason)) == (Kind.SUBMITTED, Reason.ADOPTED)

    asyncio.run(scenario())
    check_books(database)

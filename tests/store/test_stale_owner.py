"""Who holds an older token writes nothing: each write is tried with the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import UUID

import pytest

from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import BatchId, JobId, Token, uuid7
from dragoman.core.job import Bury, Defer, Done, Held, Kind, Outcome, Reason, Retry, State
from dragoman.providers.base import Account
from dragoman.store import batches, deliveries, jobs
from dragoman.store.batches import Batch, Item, NewBatch
from dragoman.store.deliveries import Delivery
from dragoman.work.finish import Finished, finish
from dragoman.work.worker import Worker
from tests import stand
from tests.store.kernel import (
    KEY,
    PIPELINES,
    Crew,
    apply,
    begin,
    bring,
    check_books,
    claim,
    crew_of,
    look,
    mark,
    move,
    new_batch,
    recorded,
    started,
    submitted,
)
from tests.store.outbox import review_of, send, take

FAILURE = Failure(FailureClass.NETWORK_TIMEOUT, "http_503")


async def two_tokens(crew: Crew) -> tuple[Held, Held]:
    """One job that the same worker has claimed twice: its older and its newer holding."""
    old = await bring(crew, State.QUEUED, KEY)
    (new,) = await claim(crew, KEY)
    assert old.id == new.id
    return replace(old, state=State.PROCESSING), new


async def moves(crew: Crew, held: Held) -> object:
    """Finish the job."""
    return await apply(crew, move(held, State.COMPLETED, Kind.COMPLETED))


async def begins(crew: Crew, held: Held) -> object:
    """Say that a model is about to be called."""
    note = jobs.Note(held.id, held.token, Kind.CALLING)
    return await jobs.begin_calls(crew.worker, crew.actor, [note])


async def packs(crew: Crew, held: Held) -> object:
    """Put the job into a batch."""
    items = [Item(held.id, held.token, 0, 0, str(held.id))]
    return await batches.record_batch(crew.worker, crew.actor, new_batch(), items)


async def submits(crew: Crew, held: Held) -> object:
    """Mark the job with another job's batch; how many jobs moved is all that counts."""
    companion = await bring(crew, State.PROCESSING, KEY + 1)
    batch = await started(crew, companion)
    await mark(crew, batch, held)
    return look(crew.database, held.id).state is State.BATCH_SUBMITTED


@pytest.mark.req("R263")
@pytest.mark.parametrize("write", [moves, begins, packs, submits])
def test_an_older_token_of_the_same_worker_writes_nothing(
    database: str, write: Callable[[Crew, Held], Awaitable[object]]
) -> None:
    """Zero rows, and the job stands as it stood; the newer token then does the same."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            old, new = await two_tokens(crew)
            before = look(database, old.id)
            assert not await write(crew, old)
            assert look(database, old.id) == before
            assert await write(crew, new)

    asyncio.run(scenario())
    check_books(database)


OUTCOMES: dict[str, Outcome] = {
    "done": Done(None),
    "retry": Retry(FAILURE),
    "bury": Bury(FAILURE),
    "defer": Defer(Reason.OVERFLOW, delay_s=60),
}


@pytest.mark.req("R263")
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_stale_holder_of_two_cannot_finish(database: str, name: str) -> None:
    """Its result is dropped; what the same token has let go of before is no late result."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            done = [Finished(held, Retry(FAILURE))]
            assert await finish(crew.worker, crew.actor, PIPELINES, done) == {"requeued": 1}
            stand.move_clock(database, 901)
            await claim(crew, KEY)
            before = look(database, held.id)
            late = [Finished(held, OUTCOMES[name])]
            assert await finish(crew.worker, crew.actor, PIPELINES, late) == {"noop": 1}
            assert look(database, held.id) == before

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_a_result_that_comes_after_the_sweeper_is_recorded(
    database: str, max_attempts: int
) -> None:
    """Whether the sweeper requeued or failed the job, its late holder says so on the chain."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = replace(
                await bring(crew, State.PROCESSING, KEY, worker=UUID(int=99)),
                max_attempts=max_attempts,
            )
            stale = Retry(Failure(FailureClass.STALE_CLAIM, "stale_claim_requeued"))
            swept = [Finished(held, stale)]
            await finish(crew.worker, crew.actor, PIPELINES, swept)
            late = [Finished(held, Done(None))]
            counts = await finish(crew.worker, UUID(int=99), PIPELINES, late)
            assert counts == {"lost": 1}
            seen = look(database, held.id)
            assert seen.state is (State.FAILED if max_attempts == 1 else State.QUEUED)
            assert seen.kinds[-1] is Kind.LATE_RESULT
            assert seen.standing["last_failure"]["code"] == "stale_claim_requeued"

    asyncio.run(scenario())
    check_books(database)


@dataclass
class Asked:
    """A model behind a stage that asks it; it counts how often it was asked."""

    times: int = 0
    kind: str = "a"

    def adapter(self, kind: str) -> Any:  # Any: only `answer` is ever called
        """Itself."""
        return self

    def account(self, name: str, base_url: str | None) -> Account:
        """Anybody."""
        return Account(name, "http://127.0.0.1:9", "key")

    async def answer(self, *args: object) -> None:
        """Count."""
        self.times += 1


@pytest.mark.req("R263")
def test_a_worker_without_the_lease_makes_no_call(database: str) -> None:
    """LeaseLost comes before the provider is asked, once another claim is there."""
    asked = Asked()

    async def scenario() -> None:
        async with crew_of(database) as crew, stand.station_of(database, PIPELINES) as station:
            old, _ = await two_tokens(crew)
            worker = Worker(station, asked)
            with pytest.raises(LeaseLost):
                await worker._call(old, [object()])  # type: ignore[list-item]  # never looked at

    asyncio.run(scenario())
    assert asked.times == 0


def batch_row(database: str, batch: UUID) -> object:
    """A batch as it stands."""
    return stand.rows(database, "select to_jsonb(b) from batch b where id = %s", batch)


def as_batch(batch: NewBatch, token: Token) -> Batch:
    """The batch as a collector with this token would know it, of which nobody has asked yet."""
    known = {field.name: getattr(batch, field.name, None) for field in fields(Batch)}
    counts = {"absences": 0, "downloads": 0}
    return Batch(**{**known, **counts, "token": token})


BatchAct = Callable[[Crew, NewBatch, Token], Awaitable[object]]


async def _in_doubt(crew: Crew, held: Held) -> NewBatch:
    batch = await started(crew, held)
    assert await batches.record_doubt(crew.worker, batch.id, batch.token)
    return batch


async def _ended(crew: Crew, held: Held) -> NewBatch:
    batch = await submitted(crew, held)
    await batches.record_poll(
        crew.worker, as_batch(batch, batch.token), status="x", state=None, files=[], ended=True
    )
    return batch


BATCH_WRITES: dict[str, tuple[Callable[[Crew, Held], Awaitable[NewBatch]], BatchAct]] = {
    "start": (recorded, lambda c, b, t: begin(c, replace(b, token=t))),
    "submitted": (started, lambda c, b, t: mark(c, replace(b, token=t))),
    "doubt": (started, lambda c, b, t: batches.record_doubt(c.worker, b.id, t)),
    "absence": (_in_doubt, lambda c, b, t: batches.record_absence(c.worker, as_batch(b, t))),
    "asked": (_in_doubt, lambda c, b, t: batches.record_asked(c.worker, as_batch(b, t))),
    "poll": (
        submitted,
        lambda c, b, t: batches.record_poll(
            c.worker, as_batch(b, t), status="y", state="running", files=["f"], ended=False
        ),
    ),
    "download": (_ended, lambda c, b, t: batches.count_download(c.worker, as_batch(b, t))),
}


@pytest.mark.req("R263")
@pytest.mark.parametrize("name", BATCH_WRITES)
def test_another_token_does_not_write_a_batch(database: str, name: str) -> None:
    """Zero rows, and the batch stands as it stood; its own token then writes."""
    make, write = BATCH_WRITES[name]

    async def scenario() -> None:
        async with crew_of(database) as crew:
            batch = await make(crew, await bring(crew, State.PROCESSING, KEY))
            before = batch_row(database, batch.id)
            assert not await write(crew, batch, Token(uuid7()))
            assert batch_row(database, batch.id) == before
            assert await write(crew, batch, batch.token)
            assert batch_row(database, batch.id) != before

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R263")
@pytest.mark.parametrize("name", ["close", "release"])
def test_another_token_does_not_end_a_batch(database: str, name: str) -> None:
    """Closing and releasing wait for the last item, and belong to the batch's own token."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            held = await bring(crew, State.PROCESSING, KEY)
            batch = await (_ended if name == "close" else recorded)(crew, held)

            async def end(token: Token) -> bool:
                if name == "close":
                    return await batches.close_batch(crew.worker, as_batch(batch, token))
                return await batches.release_batch(crew.worker, batch.id, token)

            assert not await end(batch.token)
            async with crew.worker.transaction("settle") as tx:
                done = batches.Settled(BatchId(batch.id), 0, "done", None)
                assert await batches.settle_items(tx, [done]) == {JobId(held.id)}
            assert not await end(Token(uuid7()))
            assert await end(batch.token)
            assert not await end(batch.token)

    asyncio.run(scenario())


DeliveryAct = Callable[[Crew, Delivery], Awaitable[object]]


async def _doubt(crew: Crew, one: Delivery) -> bool:
    return await deliveries.record_doubt(crew.worker, crew.actor, one, FAILURE)


DELIVERY_WRITES: dict[str, tuple[int, DeliveryAct]] = {
    "start": (0, send),
    "sent": (1, lambda c, d: deliveries.record_sent(c.worker, c.actor, d, "id", {})),
    "retry": (
        1,
        lambda c, d: deliveries.record_unsent(c.worker, c.actor, d, FAILURE, delay_s=1.0),
    ),
    "fail": (
        1,
        lambda c, d: deliveries.record_unsent(c.worker, c.actor, d, FAILURE, delay_s=None),
    ),
    "doubt": (1, _doubt),
    "asked": (2, lambda c, d: deliveries.record_asked(c.worker, d)),
}


@pytest.mark.req("R263", "R360")
@pytest.mark.parametrize("name", DELIVERY_WRITES)
def test_another_token_does_not_write_a_message(database: str, name: str) -> None:
    """Who believes an older row of the outbox changes nothing, on the row and on the chain."""
    steps, write = DELIVERY_WRITES[name]

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew)
            (old,) = await take(crew)
            (new,) = await take(crew)
            for step in (send, _doubt)[:steps]:
                assert await step(crew, new)
            query = "select to_jsonb(d) from delivery d"
            before = stand.rows(database, query), look(database, told.held.id)
            assert not await write(crew, old)
            assert (stand.rows(database, query), look(database, told.held.id)) == before
            assert await write(crew, new)
            assert stand.rows(database, query) != before[0]

    asyncio.run(scenario())
    check_books(database)

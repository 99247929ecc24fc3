"""The outbox: what each statement does, what it refuses, and whom it finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import uuid7
from dragoman.core.job import Kind, Reason, State
from dragoman.store import deliveries
from dragoman.store.deliveries import Delivery
from tests import stand
from tests.store.kernel import Crew, apply, check_books, crew_of, give_lease, look, move
from tests.store.outbox import CHANNELS, review_of, send, take

FAILURE = Failure(FailureClass.NETWORK_TIMEOUT, "http_503", http_status=503)


async def doubt(crew: Crew, one: Delivery) -> bool:
    """Say that nobody knows."""
    return await deliveries.record_doubt(crew.worker, crew.actor, one, FAILURE)


async def sent(crew: Crew, one: Delivery, evidence: str = "id-1") -> bool:
    """Mark with the evidence."""
    return await deliveries.record_sent(crew.worker, crew.actor, one, evidence, {"queue": "q1"})


async def unsent(crew: Crew, one: Delivery, delay_s: float | None, **changed) -> bool:
    """Give a message back, or let it fail."""
    return await deliveries.record_unsent(
        crew.worker, crew.actor, one, FAILURE, delay_s=delay_s, **changed
    )


def row(database: str, one: Delivery, columns: str) -> tuple:
    """Some columns of a message."""
    (found,) = stand.rows(database, f"select {columns} from delivery where id = %s", one.id)
    return found


@pytest.mark.req("R359")
def test_one_write_marks_a_message_with_its_evidence(database: str) -> None:
    """Id, time and state are written together; that it began was committed before."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew)
            (one,) = await take(crew)
            assert await send(crew, one)
            begun = look(database, told.held.id)
            assert begun.kinds[-1] is Kind.SENDING
            assert row(database, one, "state, attempt_count, notified_at") == ("sending", 1, None)
            assert await sent(crew, one, "message-7")
            state, theirs, at, evidence = row(
                database, one, "state, notification_id, notified_at, evidence"
            )
            assert (state, theirs, evidence) == ("sent", "message-7", {"queue": "q1"})
            event = look(database, told.held.id).events[-1]
            assert (Kind(event.kind), event.at) == (Kind.SENT, at)
            assert one.recipient.encode() not in bytes(event.facts)

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.req("R361")
def test_what_was_told_is_never_begun_or_marked_again(database: str) -> None:
    """No statement begins, marks, doubts or gives back a message that was told."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one)
            await sent(crew, one)
            before = row(database, one, "to_jsonb(delivery)")
            assert await take(crew) == []
            for act in (send, sent, doubt):
                assert not await act(crew, one)
            assert not await unsent(crew, one, 1.0)
            assert not await unsent(crew, one, None)
            assert row(database, one, "to_jsonb(delivery)") == before

    asyncio.run(scenario())


def test_a_mark_that_stands_is_not_written_over(database: str) -> None:
    """A row that is looked into again keeps its time and its evidence until both are cleared."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one)
            await sent(crew, one)
            with stand.owner(database) as connection:
                connection.execute("update delivery set state = 'reconciling'")
            before = row(database, one, "to_jsonb(delivery)")
            assert not await sent(crew, one, "another")
            assert not await unsent(crew, one, 1.0)
            assert row(database, one, "to_jsonb(delivery)") == before

    asyncio.run(scenario())


def test_a_message_is_begun_once(database: str) -> None:
    """The second begin of one holding finds the message on its way already."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            (one,) = await take(crew)
            assert [await send(crew, one) for _ in range(2)] == [True, False]

    asyncio.run(scenario())


def test_a_message_given_back_waits_for_its_time(database: str) -> None:
    """It is queued with its delay and its failure, found when it is due, and counted."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one)
            assert await unsent(crew, one, 30.0)
            assert row(database, one, "state, claimed_by, last_failure ->> 'code'") == (
                "queued",
                None,
                "http_503",
            )
            assert await take(crew) == []
            stand.move_clock(database, 31)
            (again,) = await take(crew)
            assert (again.attempt_count, again.token != one.token) == (1, True)
            assert look(database, told.held.id).kinds[-1] is Kind.SEND_RETRIED

    asyncio.run(scenario())
    check_books(database)


def test_a_message_that_cannot_arrive_fails_alone(database: str) -> None:
    """Without a delay it has failed; the others of the review go on."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew, recipients=2)
            first, second = await take(crew)
            await send(crew, first)
            assert await unsent(crew, first, None)
            assert await send(crew, second)
            assert await sent(crew, second)
            assert await take(crew) == []
            states = await deliveries.tell_states(crew.worker, told.changelist, 1)
            assert {(one.state, one.n, one.told) for one in states} == {
                ("failed", 1, 0),
                ("sent", 1, 1),
            }
            kinds = look(database, told.held.id).kinds
            assert kinds[-3:] == [Kind.SEND_FAILED, Kind.SENDING, Kind.SENT]

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.parametrize("ends", ["sent", "failed"])
def test_the_end_of_a_message_wakes_the_job_that_waits_for_it(database: str, ends: str) -> None:
    """Told or failed for good, the notify stage is ready at once; a retry does not wake it."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew)
            waits = {"ready": False, "delay_s": 600.0, "reason": Reason.AWAITING_DELIVERIES}
            await apply(crew, move(told.held, State.QUEUED, Kind.DEFERRED, **waits))
            (one,) = await take(crew)
            await send(crew, one)
            await unsent(crew, one, 0.0)
            assert look(database, told.held.id).standing["ready"] is False
            (one,) = await take(crew)
            await send(crew, one)
            assert await (sent(crew, one) if ends == "sent" else unsent(crew, one, None))
            assert look(database, told.held.id).standing["ready"] is True

    asyncio.run(scenario())
    check_books(database)


def test_a_claim_takes_messages_of_its_channels_within_its_limit(database: str) -> None:
    """Another channel's message is left alone, and so is everything beyond the limit."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew, recipients=3)
            assert await deliveries.claim_deliveries(crew.worker, crew.actor, ["slack"], 9) == []
            assert len(await take(crew, 2)) == 2
            other = uuid7()
            assert len(await take(crew, 9, other)) == 1

    asyncio.run(scenario())


def test_a_message_is_claimed_again_by_its_own_relay_or_when_that_is_gone(database: str) -> None:
    """A living relay keeps its claims from others; what it dropped it takes up again."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            dying = uuid7()
            await give_lease(crew.worker, dying, 30)
            (first,) = await take(crew, worker=dying)
            assert await take(crew) == []
            (again,) = await take(crew, worker=dying)
            assert not await send(crew, first)
            stand.move_clock(database, 31)
            (mine,) = await take(crew)
            assert not await send(crew, again)
            assert await send(crew, mine)

    asyncio.run(scenario())


def test_two_relays_never_hold_one_message(database: str) -> None:
    """What one claims, the other passes over, also in the same instant."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew, recipients=6)
            other = uuid7()
            await give_lease(crew.worker, other)
            both = await asyncio.gather(take(crew, 3), take(crew, 3, other))
            taken = [one.id for found in both for one in found]
            assert (len(taken), len(set(taken))) == (6, 6)

    asyncio.run(scenario())


def test_a_message_is_overdue_after_its_deadline_and_a_slack(database: str) -> None:
    """Until nothing can arrive any more nobody settles it; then anybody may, with its own token."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one, deadline_s=30)
            stand.move_clock(database, 35)
            assert await deliveries.find_overdue(crew.worker, 10) == []
            stand.move_clock(database, 10)
            (found,) = await deliveries.find_overdue(crew.worker, 10)
            assert (found.id, found.token, found.state) == (one.id, one.token, "sending")
            assert await doubt(crew, found)
            assert await deliveries.find_overdue(crew.worker, 10) == []
            assert row(database, one, "state, doubted_at is not null") == ("unknown", True)

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.parametrize(("guarantee", "is_found"), [("key", 1), ("lookup", 1), ("neither", 0)])
def test_a_doubt_is_settled_by_what_the_target_can_do(
    database: str, guarantee: str, is_found: int
) -> None:
    """A target that neither honours keys nor can be asked is left to the operator."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew, guarantee=guarantee)
            (one,) = await take(crew)
            await send(crew, one)
            await doubt(crew, one)
            assert await deliveries.find_doubtful(crew.worker, 60) == []
            stand.move_clock(database, 91)
            found = await deliveries.find_doubtful(crew.worker, 60)
            assert len(found) == is_found
            if found:
                assert await deliveries.record_asked(crew.worker, found[0])
                assert await deliveries.find_doubtful(crew.worker, 60) == []
                stand.move_clock(database, 61)
                assert len(await deliveries.find_doubtful(crew.worker, 60)) == 1

    asyncio.run(scenario())


@pytest.mark.req("R370")
def test_what_a_lookup_found_is_marked_without_a_second_send(database: str) -> None:
    """Out of doubt the evidence is filled in; the message was begun once."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            told = await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one)
            await doubt(crew, one)
            assert await deliveries.record_sent(
                crew.worker, crew.actor, one, "found", {}, Reason.ADOPTED
            )
            assert row(database, one, "state, notification_id, attempt_count") == (
                "sent",
                "found",
                1,
            )
            assert look(database, told.held.id).kinds.count(Kind.SENDING) == 1

    asyncio.run(scenario())
    check_books(database)


@pytest.mark.parametrize(
    ("reason", "is_over"), [(Reason.PROVABLY_ABSENT, True), (Reason.FREE_REQUEUE, False)]
)
def test_only_proof_of_absence_ends_a_doubt(database: str, reason: Reason, is_over: bool) -> None:
    """The same key once more leaves the doubt on the row; proof takes it away."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            (one,) = await take(crew)
            await send(crew, one)
            await doubt(crew, one)
            assert await unsent(crew, one, 0.0, reason=reason)
            (again,) = await take(crew)
            assert (again.doubted_at is None) == is_over
            assert again.first_started_at is not None
            assert replace(again, token=one.token).payload == one.payload

    asyncio.run(scenario())


def test_no_message_is_claimed_without_a_channel(database: str) -> None:
    """The list of channels is the relay's, and an empty one takes nothing."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            await review_of(crew)
            assert await deliveries.claim_deliveries(crew.worker, crew.actor, [], 9) == []
            assert len(await deliveries.claim_deliveries(crew.worker, crew.actor, CHANNELS, 9)) == 1

    asyncio.run(scenario())

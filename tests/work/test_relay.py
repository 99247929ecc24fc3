"""The relay: one message, one send, one mark; and what settles a doubt, target by target."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dragoman.channels.base import Guarantee
from dragoman.core import ports
from dragoman.core.answer import Answer, Happened
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.retry import FullJitter
from dragoman.store import database, deliveries, jobs, workers
from dragoman.store.deliveries import Delivery
from dragoman.work import relay
from dragoman.work.acts import act_once, send_message
from dragoman.work.loop import Station
from dragoman.work.relay import Relay, Sending
from tests import stand
from tests.reviews import ANN, BOB, LOST, Desk, Target, second_station, tell

AFTER_THE_DEADLINE_S = 12
SETTLED_S = 70
BUSY = Failure(FailureClass.THROTTLED, "busy")
GONE = Failure(FailureClass.DELIVERY_REJECTED, "gone")


def tell_to(target: Target, story: Any, recipients: Sequence[str] = ("post:ann",)) -> None:
    """A review whose messages wait for this target, and what happens then."""

    async def begin(desk: Desk) -> None:
        await desk.outbox(recipients=recipients)
        await story(desk)

    tell(begin, channels={"post": target})


def look(desk: Desk) -> tuple:
    """State, tries, evidence and whether it was told, of the one message."""
    query = "select state, attempt_count, notification_id, notified_at is not null from delivery"
    [found] = desk.rows(query)
    return found


async def claimed(desk: Desk, other: Station | None = None) -> Delivery:
    """The one message as a relay holds it."""
    station = other or desk.station
    [one] = await deliveries.claim_deliveries(station.cell, station.line.worker, ["post"], 1)
    return one


async def send(desk: Desk, one: Delivery) -> Answer:
    """What the relay does with a message in its hand."""
    station, channel = desk.station, desk.channels[one.channel]
    act = send_message(channel, one.recipient, one.key, one.payload, 5)
    return await act_once(Sending(station.cell, station.line.worker, one), act, station.line.fence)


@pytest.fixture
def hook() -> Iterator[Any]:
    """Watch the ports; nothing is left installed."""
    yield ports.install
    ports.install(None)
    ports.install_clock(None)


@pytest.mark.req("R356", "R384")
def test_the_row_is_checked_then_sent_then_marked(
    monkeypatch: pytest.MonkeyPatch, hook: Any
) -> None:
    """Every statement, commit and call of one send, in their order."""
    seen: list[str] = []
    read = database.statement

    def spy(name: str, package: str = "dragoman.store") -> Any:
        seen.append(name)
        return read(name, package)

    async def story(desk: Desk) -> None:
        await desk.relay._settle()
        monkeypatch.setattr(database, "statement", spy)
        hook(lambda tag, moment: seen.append(f"{moment} {tag}"))
        await desk.relay.run_once()
        start = seen.index("delivery/claim_deliveries")
        assert seen[start:] == [
            "delivery/claim_deliveries",
            "before db.claim_deliveries",
            "after db.claim_deliveries",
            "delivery/start_sending",
            "before db.start_sending",
            "after db.start_sending",
            "before relay.send",
            "after relay.send",
            "delivery/record_sent",
            "job/wake_jobs",
            "before db.record_sent",
            "after db.record_sent",
        ]

    tell_to(Target(Guarantee.NEITHER), story)


@pytest.mark.req("R358", "R359")
def test_one_update_marks_a_message_with_everything_at_once() -> None:
    """The database saw one write after the send: id, time and state together."""
    target = Target(Guarantee.NEITHER)
    watch = (
        "create table seen (n serial, was text, became text, id text, told bool);"
        "create function watch() returns trigger language plpgsql security definer"
        " set search_path = dragoman as $$ begin insert into seen (was, became, id, told) values"
        " (old.state, new.state, new.notification_id, new.notified_at is not null); return null;"
        " end $$;"
        "create trigger watch after update on delivery for each row execute function watch()"
    )

    async def story(desk: Desk) -> None:
        desk.run_as_owner(watch)
        await desk.relay.run_once()
        [(key,)] = desk.rows("select key from delivery")
        assert desk.rows("select was, became, id, told from seen order by n") == [
            ("queued", "queued", None, False),
            ("queued", "sending", None, False),
            ("sending", "sent", f"id of {key}", True),
        ]

    tell_to(target, story)


@pytest.mark.req("R366", "R367", "R357")
def test_a_transient_failure_waits_longer_each_time_and_five_tries_are_all(
    monkeypatch: pytest.MonkeyPatch, hook: Any
) -> None:
    """Each try is announced, committed, before it is made; the fifth no is the last."""
    monkeypatch.setattr(relay, "_RETRY", FullJitter(rng=lambda: 1.0))
    target = Target(Guarantee.NEITHER, [BUSY] * 9)
    announced: list[int] = []

    async def story(desk: Desk) -> None:
        def count(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("relay.send", "before"):
                announced.append(len(desk.events("sending")))

        hook(count)
        waits = []
        for _ in range(4):
            await desk.relay.run_once()
            assert look(desk)[0] == "queued"
            query = "select extract(epoch from next_attempt_at - started_at)::float8 from delivery"
            waits += desk.rows(query)[0]
            await desk.relay.run_once()
            desk.later(9)
        assert waits == pytest.approx([1, 2, 4, 8], abs=0.5)
        await desk.relay.run_once()
        desk.later(400)
        await desk.relay.run_once()
        assert look(desk) == ("failed", 5, None, False)
        assert announced == [1, 2, 3, 4, 5]
        assert len(target.sends) == 5
        assert len(set(target.sends)) == 1
        told = desk.rows(
            "select facts ->> 'key', (facts ->> 'attempt')::int, count(distinct token)::int"
            " from history where kind like 'send%%' group by 1, 2 order by 2"
        )
        key = target.sends[0][0][:32]
        assert told == [(key, attempt, 1) for attempt in (1, 2, 3, 4, 5)]
        assert desk.alerts() == [("delivery_failed", "act")]
        await desk.work()
        assert [letter["error_class"] for letter in desk.letters()] == ["DELIVERY_REJECTED"]

    tell_to(target, story)


@pytest.mark.req("R360", "R361", "R384")
def test_what_is_in_memory_is_not_trusted() -> None:
    """A relay that slept while another one told the recipient finds no row, and sends nothing."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        stale = await claimed(desk)
        desk.later(4000)
        async with second_station(desk) as station:
            await Relay(station, desk.channels).run_once()
        before = desk.rows("select * from delivery")
        assert (look(desk)[0], len(target.sends)) == ("sent", 1)
        with pytest.raises(LeaseLost):
            await send(desk, stale)
        assert (desk.rows("select * from delivery"), len(target.sends)) == (before, 1)

    tell_to(target, story)


@pytest.mark.req("R360")
def test_what_another_relay_has_claimed_is_not_sent_by_the_one_before() -> None:
    """While its lease runs nobody takes a message; after that the first relay sends nothing."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        stale = await claimed(desk)
        async with second_station(desk) as station:
            assert await Relay(station, desk.channels).run_once() == 0
        desk.later(4000)
        async with second_station(desk) as station:
            assert (await claimed(desk, station)).token != stale.token
            with pytest.raises(LeaseLost):
                await send(desk, stale)
        assert (look(desk)[0], target.sends) == ("queued", [])

    tell_to(target, story)


def test_of_a_cancelled_review_nothing_is_sent_any_more() -> None:
    """Cancelled before the claim, or between claim and send: no message leaves."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        one = await claimed(desk)
        [(job,)] = desk.rows("select id from job")
        async with stand.cell_of(desk.database, "dragoman_operator") as cell:
            async with cell.transaction("know_actor") as tx:
                actor = await workers.know_actor(tx, "operator", "test")
            assert await jobs.cancel_jobs(cell, actor, [job]) == {job}
        with pytest.raises(LeaseLost):
            await send(desk, one)
        assert await desk.relay.run_once() == 0
        assert target.sends == []

    tell_to(target, story)


@pytest.mark.req("R361", "R384")
def test_a_message_that_was_told_is_not_sent_under_its_own_token() -> None:
    """Even the holder of the token is refused once notified_at is set."""
    target = Target(Guarantee.KEY)

    async def story(desk: Desk) -> None:
        one = await claimed(desk)
        await send(desk, one)
        with pytest.raises(LeaseLost):
            await send(desk, one)
        desk.run_as_owner("update delivery set state = 'queued'")
        with pytest.raises(LeaseLost):
            await send(desk, one)
        assert len(target.sends) == 1

    tell_to(target, story)


def test_two_relays_at_once_send_each_message_once() -> None:
    """What one holds the other does not see."""
    target = Target(Guarantee.NEITHER)
    people = [f"post:reader-{n}" for n in range(12)]

    async def story(desk: Desk) -> None:
        async with second_station(desk) as station:
            other = Relay(station, desk.channels)
            await asyncio.gather(desk.relay.run_once(), other.run_once())
        assert len({key for key, _ in target.sends}) == len(target.sends) == len(people)
        assert set(desk.told().values()) == {"sent"}

    tell_to(target, story, people)


@pytest.mark.req("R371")
def test_mail_that_may_have_arrived_is_never_sent_again() -> None:
    """The server fell silent after the dot: unknown for ever, an alert, and the job waits."""

    async def story(desk: Desk) -> None:
        desk.mail.fault(
            {"at": "after_data", "do": "drop_after_data", "recipient": "ann@team.example"}
        )
        job = await desk.outbox()
        for _ in range(4):
            await desk.relay.run_once()
            await desk.work()
            desk.later(1800)
        assert desk.told() == {ANN: "unknown", BOB: "sent"}
        assert len(desk.mail.ledger()) == 2
        assert desk.alerts() == [("delivery_unknown", "act")]
        assert (desk.state(job), (await desk.shown(job)).status) == ("queued", "in_progress")
        assert desk.faults_found() == []

    tell(story)


@pytest.mark.req("R369", "R370")
def test_a_target_that_can_be_asked_is_asked_before_anything_is_sent_again() -> None:
    """It has the message: the evidence is filled in, and the job completes without a resend."""
    target = Target(Guarantee.LOOKUP, ["take and fall silent"])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        assert look(desk)[0] == "unknown"
        desk.run_as_owner("update delivery set notification_id = 'half a mark'")
        await desk.relay.run_once()
        desk.later(AFTER_THE_DEADLINE_S)
        await desk.relay.run_once()
        assert target.asked == []
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert target.asked == [target.taken[0][0]]
        assert look(desk) == ("sent", 1, f"id of {target.asked[0]}", True)
        assert ("sent", "adopted", 2, 1) in desk.events("sent")
        await desk.work()
        assert (len(target.sends), desk.rows("select state from standing")) == (
            1,
            [("completed",)],
        )

    tell_to(target, story)


@pytest.mark.req("R357", "R371")
def test_what_a_target_provably_never_got_is_sent_again_byte_for_byte() -> None:
    """Asked, it says no: the same bytes go out under the same key; and only now may it fail."""
    target = Target(Guarantee.LOOKUP, ["lose", "lose", GONE])

    async def story(desk: Desk) -> None:
        for tries in (1, 2):
            await desk.relay.run_once()
            assert look(desk) == ("unknown", tries, None, False)
            desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert look(desk) == ("failed", 3, None, False)
        assert len(target.asked) == 2
        assert len(set(target.sends)) == 1

    tell_to(target, story)


def test_a_target_that_cannot_tell_is_asked_again_later_and_sent_nothing() -> None:
    """No answer is no proof: the doubt stays until the target speaks."""
    target = Target(Guarantee.LOOKUP, ["take and fall silent"], is_mute=True)

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        for questions in (1, 2):
            desk.later(SETTLED_S)
            await desk.relay.run_once()
            await desk.relay.run_once()
            assert (look(desk)[0], len(target.asked)) == ("unknown", questions)
        target.is_mute = False
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert (look(desk)[0], len(target.sends)) == ("sent", 1)

    tell_to(target, story)


@pytest.mark.req("R357")
def test_a_target_that_honours_keys_gets_the_same_bytes_again() -> None:
    """Same key, same bytes, no question; the target took it once."""
    target = Target(Guarantee.KEY, ["take and fall silent", "take and fall silent"])

    async def story(desk: Desk) -> None:
        for _ in range(3):
            await desk.relay.run_once()
            desk.later(SETTLED_S)
        assert (len(target.sends), len(set(target.sends)), len(target.taken)) == (3, 1, 1)
        assert (look(desk)[0], target.asked) == ("sent", [])

    tell_to(target, story)


@pytest.mark.req("R371")
def test_that_a_repeat_was_refused_proves_nothing_about_the_first_send() -> None:
    """Doubt, then a definite no to the repeat: still unknown, until the target says yes."""
    target = Target(Guarantee.KEY, ["take and fall silent", GONE])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert look(desk) == ("unknown", 2, None, False)
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert look(desk)[0] == "sent"

    tell_to(target, story)


def test_a_process_that_was_stopped_after_its_intent_does_not_send(hook: Any) -> None:
    """SIGSTOP right before the send, SIGCONT past the deadline: no send, a doubt."""
    target, jump = Target(Guarantee.NEITHER), [0.0]

    async def story(desk: Desk) -> None:
        def stop(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("relay.send", "before"):
                jump[0] = 6.0

        hook(stop)
        ports.install_clock(lambda: time.monotonic() + jump[0])
        await desk.relay.run_once()
        assert (look(desk)[0], target.sends) == ("sending", [])
        desk.later(AFTER_THE_DEADLINE_S)
        await desk.relay.run_once()
        assert (look(desk)[0], target.sends) == ("unknown", [])
        assert desk.alerts() == [("delivery_unknown", "act")]

    tell_to(target, story)


def test_a_worker_that_lost_its_lease_sends_nothing_more(hook: Any) -> None:
    """Lost between claim and send: the run ends, and not one of the messages goes out."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        def lose(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("db.claim_deliveries", "after"):
                desk.station.line.lost.set()

        hook(lose)
        with pytest.raises(LeaseLost):
            await desk.relay.run_once()
        assert target.sends == []

    tell_to(target, story, ["post:ann", "post:bob"])


def test_an_answer_that_comes_after_the_doubt_still_counts() -> None:
    """Another relay gave the send up; then its evidence arrives under the same token."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        one = await claimed(desk)
        book = Sending(desk.station.cell, desk.station.line.worker, one)
        assert await book.begin(6)
        desk.later(AFTER_THE_DEADLINE_S)
        async with second_station(desk) as station:
            await Relay(station, desk.channels).run_once()
        assert look(desk)[0] == "unknown"
        await book.mark(Happened("late", {}))
        assert look(desk) == ("sent", 1, "late", True)
        await book.doubt(LOST)
        await book.give_back(GONE)
        assert look(desk) == ("sent", 1, "late", True)
        assert desk.alerts() == [("delivery_unknown", "act")]
        assert desk.rows("select times, closed_at is not null from alert") == [(1, True)]

    tell_to(target, story)

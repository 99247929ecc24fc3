"""Reconciliation: marks that no send has left, keys that have ended, and a person's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest

from dragoman.channels.base import Guarantee, Message
from dragoman.core.answer import Answer
from dragoman.core.failure import Failure, FailureClass
from dragoman.store import doubts, workers
from dragoman.store.database import Cell
from tests import postgres, stand
from tests.reviews import ANN, BOB, Desk, Target, tell

SETTLED_S = 70
GONE = Failure(FailureClass.DELIVERY_REJECTED, "gone")
MARKED = {
    "sent without a send": "state = 'sent', notification_id = 'made up', notified_at = clock()",
    "queued and told": "notified_at = clock()",
    "failed and told": "state = 'failed', notification_id = 'made up', notified_at = clock()",
    "canceled and told": "state = 'canceled', notified_at = clock()",
    "doubtful and told": "state = 'unknown', doubted_at = clock(), notified_at = clock()",
    "evidence without a start": (
        "state = 'sent', notification_id = 'made up', notified_at = clock(), evidence = '{}'"
    ),
}


@dataclass
class KeysOnly:
    """A target that honours keys and cannot be asked."""

    inner: Target
    guarantee: Guarantee = Guarantee.KEY
    scheme: str = "post"
    key_window_s: float | None = field(default=600)

    def render(self, message: Message) -> bytes:
        """Its bytes."""
        return self.inner.render(message)

    async def send(self, recipient: str, key: str, rendered: bytes, deadline_s: float) -> Answer:
        """One send."""
        return await self.inner.send(recipient, key, rendered, deadline_s)


def tell_to(target: Any, story: Any, recipients: Sequence[str] = ("post:ann",)) -> None:
    """A review whose messages wait for this target, and what happens then."""

    async def begin(desk: Desk) -> None:
        await desk.outbox(recipients=recipients)
        await desk.work()  # the job begins to wait for them
        await story(desk)

    tell(begin, channels={"post": target})


def plant(desk: Desk, change: str) -> None:
    """What the guards forbid: an owner's hand, a restore, an older program."""
    with stand.owner(desk.database) as connection, connection.transaction():
        connection.execute("alter table delivery disable trigger user")
        connection.execute(f"update delivery set {change}".encode())
        connection.execute("alter table delivery enable trigger user")


def look(desk: Desk) -> tuple:
    """State, and both marks, of the one message."""
    [found] = desk.rows("select state, notification_id, notified_at is not null from delivery")
    return found


def open_alerts(desk: Desk) -> list[str]:
    """The kinds of the alerts that are open."""
    query = "select kind from alert where closed_at is null order by kind"
    return [kind for (kind,) in desk.rows(query)]


def key_of(desk: Desk) -> str:
    """The key of the one message."""
    return desk.rows("select key from delivery")[0][0]


async def end(desk: Desk) -> str:
    """Let the job look once, without any time passing; its state."""
    await desk.work()
    return desk.rows("select state from standing")[0][0]


async def decide(cell: Cell, one: doubts.Doubt, *, has_arrived: bool) -> bool:
    """What an operator says of a doubt."""
    async with cell.transaction("know_actor") as tx:
        actor = await workers.know_actor(tx, "operator", "test")
    return await doubts.resolve_doubt(cell, actor, one, "INC-7", has_arrived=has_arrived)


async def only_doubt(cell: Cell) -> doubts.Doubt:
    """The one message in doubt, as the operator sees it."""
    [one] = await doubts.list_doubts(cell)
    return one


@pytest.mark.req("R372", "R373", "R374", "R377")
@pytest.mark.parametrize("change", MARKED.values(), ids=MARKED.keys())
def test_a_mark_that_no_send_has_left_is_looked_up_before_anything_is_sent(change: str) -> None:
    """Nothing goes out until the target answers; it has nothing: both marks go, and it is sent."""
    target = Target(Guarantee.LOOKUP, is_mute=True)

    async def story(desk: Desk) -> None:
        plant(desk, change)
        for questions in (1, 2):
            await desk.relay.run_once()
            await desk.relay.run_once()
            assert (look(desk)[0], target.sends) == ("reconciling", [])
            assert len(target.asked) == questions
            assert await end(desk) == "queued"
            desk.later(SETTLED_S)
        assert desk.alerts() == [("delivery_order_violated", "act")]
        target.is_mute = False
        await desk.relay._settle()
        assert (look(desk), target.sends) == (("queued", None, False), [])
        assert desk.rows("select evidence, doubted_at from delivery") == [(None, None)]
        await desk.relay.run_once()
        key = key_of(desk)
        assert look(desk) == ("sent", f"id of {key}", True)
        assert (len(target.sends), await end(desk)) == (1, "completed")
        assert desk.events("send_unknown", "send_retried")[1][1] == "provably_absent"
        assert open_alerts(desk) == ["delivery_order_violated"]
        assert desk.faults_found() == []

    tell_to(target, story)


@pytest.mark.req("R377", "R370")
@pytest.mark.parametrize("change", MARKED.values(), ids=MARKED.keys())
def test_a_mark_whose_message_is_there_gets_its_evidence(change: str) -> None:
    """The target has it: the row is proved in one write, and nothing is sent again."""
    target = Target(Guarantee.LOOKUP)

    async def story(desk: Desk) -> None:
        target.taken.append((key_of(desk), b""))
        plant(desk, change)
        await desk.relay.run_once()
        assert look(desk) == ("sent", f"id of {key_of(desk)}", True)
        assert desk.rows("select evidence from delivery") == [({},)]
        assert (target.sends, await end(desk)) == ([], "completed")
        assert [kind for kind, *_ in desk.events("sent", "reconciled")] == ["reconciled"]
        assert await desk.relay.run_once() == 0
        assert desk.faults_found() == []

    tell_to(target, story)


@pytest.mark.req("R363")
@pytest.mark.parametrize("has_it", [True, False])
def test_an_id_without_a_mark_is_looked_up_before_it_is_sent_again(*, has_it: bool) -> None:
    """Half a mark: the send may have happened, and the target is asked first."""
    target = Target(Guarantee.LOOKUP, is_mute=True)

    async def story(desk: Desk) -> None:
        plant(desk, "notification_id = 'half'")
        await desk.relay.run_once()
        assert (look(desk), target.sends) == (("reconciling", "half", False), [])
        target.is_mute = False
        if has_it:
            target.taken.append((key_of(desk), b""))
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert look(desk) == ("sent", f"id of {key_of(desk)}", True)
        assert (len(target.asked), len(target.sends)) == (2, 0 if has_it else 1)
        assert await end(desk) == "completed"

    tell_to(target, story)


@pytest.mark.req("R363")
def test_a_key_is_not_repeated_over_half_a_mark() -> None:
    """A target that honours keys, too, is asked first when an id stands there already."""
    target = Target(Guarantee.KEY, ["take and fall silent"])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        plant(desk, "notification_id = 'half'")
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert (len(target.asked), len(target.sends)) == (1, 1)
        assert look(desk)[0] == "sent"

    tell_to(target, story)


@pytest.mark.req("R375")
def test_every_violation_is_found_and_repaired_and_what_is_right_stays() -> None:
    """Eight recipients, each row wrong in its own way but two: all are told once, one job ends."""
    target = Target(Guarantee.LOOKUP)
    people = [f"post:reader-{n}" for n in range(len(MARKED) + 2)]

    async def story(desk: Desk) -> None:
        rows = desk.rows("select recipient, key from delivery")
        keys = dict(rows)
        for number, change in enumerate(MARKED.values()):
            plant(desk, f"{change} where recipient = 'post:reader-{number}'")
        target.taken.append((keys["post:reader-0"], b""))
        assert await desk.relay.run_once() > 0
        assert await desk.relay.run_once() == 0
        assert set(desk.told().values()) == {"sent"}
        assert sorted(key for key, _ in target.taken) == sorted(keys.values())
        assert len(desk.alerts()) == len(MARKED)
        assert await end(desk) == "completed"

    tell_to(target, story, people)


@pytest.mark.req("R365")
@pytest.mark.parametrize("state", ["sending", "unknown", "reconciling"])
def test_a_review_is_in_progress_while_one_recipient_is_in_doubt(state: str) -> None:
    """One is told, of the other nobody knows: no failure, no success."""

    async def story(desk: Desk) -> None:
        job = await desk.outbox()
        await desk.relay.run_once()
        marks = (
            "notified_at = null, notification_id = null, claim_token = id, deadline_at = clock()"
        )
        plant(desk, f"state = '{state}', {marks} where recipient = '{BOB}'")
        await desk.work()
        assert (desk.state(job), (await desk.shown(job)).status) == ("queued", "in_progress")

    tell(story)


@pytest.mark.req("R365")
def test_a_recipient_who_failed_ends_the_review_once_the_rest_was_told() -> None:
    """In progress, then retryable, or failed once the letter is closed; a retry tells the rest."""

    async def story(desk: Desk) -> None:
        desk.mail.fault(
            {"at": "rcpt", "do": "reply", "code": 550, "recipient": "ann@team.example", "times": 1}
        )
        desk.mail.fault({"at": "rcpt", "do": "reply", "recipient": "bob@team.example", "times": 1})
        job = await desk.outbox()
        await desk.relay.run_once()
        await desk.work()
        assert desk.told() == {ANN: "failed", BOB: "queued"}
        assert (await desk.shown(job)).status == "in_progress"
        desk.later(61)
        await desk.relay.run_once()
        await desk.work()
        assert desk.told() == {ANN: "failed", BOB: "sent"}
        assert [letter["error_class"] for letter in desk.letters()] == ["DELIVERY_REJECTED"]
        assert (desk.state(job), (await desk.shown(job)).status) == ("failed", "retryable_failed")
        desk.run_as_owner(
            "update dead_letter set state = 'resolved', notes = 'told by phone', closed_at = now()"
        )
        assert (await desk.shown(job)).status == "failed"
        again = await desk.through(key="push-2")
        assert (await desk.shown(again)).status == "succeeded"
        taken = [str(row["recipient"]) for row in desk.mail.ledger()]
        assert sorted(taken) == ["ann@team.example", "bob@team.example"]

    tell(story)


@pytest.mark.req("R371")
def test_a_key_is_repeated_only_while_its_target_remembers_it() -> None:
    """Within the window the same bytes go again; after it nothing does, and a person is told."""
    inner = Target(Guarantee.KEY, ["take and fall silent"] * 9)

    async def story(desk: Desk) -> None:
        for _ in range(3):
            await desk.relay.run_once()
            desk.later(SETTLED_S)
        assert (len(inner.sends), open_alerts(desk)) == (3, [])
        desk.later(600)
        for _ in range(3):
            await desk.relay.run_once()
            desk.later(SETTLED_S)
        assert (look(desk)[0], len(inner.sends)) == ("unknown", 3)
        assert desk.rows("select kind, times from alert") == [("delivery_unknown", 1)]

    tell_to(KeysOnly(inner), story)


def test_a_repeat_that_waited_too_long_is_not_sent() -> None:
    """The key ended between the decision and the send: the doubt comes back, to a person."""
    inner = Target(Guarantee.KEY, ["take and fall silent"])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        desk.later(SETTLED_S)
        await desk.relay._settle()
        assert look(desk)[0] == "queued"
        desk.later(600)
        await desk.relay.run_once()
        assert (look(desk)[0], len(inner.sends)) == ("reconciling", 1)
        assert open_alerts(desk) == ["delivery_unknown"]
        async with stand.cell_of(desk.database, "dragoman_operator") as cell:
            assert (await only_doubt(cell)).needs_a_person

    tell_to(KeysOnly(inner), story)


def test_a_target_whose_key_has_ended_is_asked_if_it_can_be() -> None:
    """After the window a question settles what a repeat no longer may; absence begins a new one."""
    target = Target(Guarantee.KEY, ["lose", "lose"], key_window_s=600)

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        desk.later(700)
        await desk.relay.run_once()
        assert (look(desk)[0], len(target.asked), len(target.sends)) == ("unknown", 1, 2)
        desk.later(SETTLED_S)
        await desk.relay.run_once()
        assert (look(desk)[0], len(target.asked), len(target.sends)) == ("sent", 1, 3)

    tell_to(target, story)


@pytest.mark.parametrize("has_arrived", [True, False])
def test_an_operator_settles_what_no_target_can(*, has_arrived: bool) -> None:
    """Told: marked with the reference; not told: sent once more; the alert ends either way."""
    target = Target(Guarantee.NEITHER, ["lose"])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        desk.later(SETTLED_S)
        assert (await end(desk), open_alerts(desk)) == ("queued", ["delivery_unknown"])
        async with stand.cell_of(desk.database, "dragoman_operator") as cell:
            one = await only_doubt(cell)
            assert await decide(cell, one, has_arrived=has_arrived)
            assert not await decide(cell, one, has_arrived=not has_arrived)
            assert await doubts.list_doubts(cell) == []
        assert open_alerts(desk) == []
        if has_arrived:
            assert look(desk) == ("sent", "INC-7", True)
        else:
            assert look(desk) == ("queued", None, False)
            assert await end(desk) == "queued"
        await desk.relay.run_once()
        assert len(target.sends) == (1 if has_arrived else 2)
        assert await end(desk) == "completed"
        told = desk.rows(
            "select actor_role, reason, facts ->> 'verdict', facts ->> 'evidence' from history"
            " where kind = 'reconciled'"
        )
        verdict = "sent" if has_arrived else "not_sent"
        assert told == [("operator", "asked_by_operator", verdict, "INC-7")]
        assert desk.faults_found() == []

    tell_to(target, story)


def test_a_mark_on_a_target_that_cannot_be_asked_waits_for_a_person() -> None:
    """Mail has no answer to give: no send until an operator has spoken, who ends the alert."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        plant(desk, MARKED["sent without a send"])
        for _ in range(3):
            await desk.relay.run_once()
            desk.later(SETTLED_S)
        assert (look(desk)[0], target.sends) == ("reconciling", [])
        async with stand.cell_of(desk.database, "dragoman_operator") as cell:
            assert await decide(cell, await only_doubt(cell), has_arrived=False)
        await desk.relay.run_once()
        assert (len(target.sends), open_alerts(desk)) == (1, [])
        assert await end(desk) == "completed"

    tell_to(target, story)


def test_a_person_may_settle_a_doubt_and_nothing_else() -> None:
    """By hand, too, an operator marks no message that nobody doubts, and takes back no mark."""
    target = Target(Guarantee.NEITHER)

    async def story(desk: Desk) -> None:
        dsn = postgres.dsn("dragoman_operator", desk.database)
        changes = ("notification_id = 'x'", "state = 'unknown'", "state = 'queued'")
        for _ in range(2):
            for change in changes:
                with (
                    psycopg.connect(dsn, options="-c search_path=dragoman") as operator,
                    pytest.raises(psycopg.Error) as refused,
                ):
                    operator.execute(f"update delivery set {change}".encode())
                assert refused.value.diag.constraint_name == "only_doubts_are_settled_by_hand"
            await desk.relay.run_once()
        assert look(desk)[0] == "sent"

    tell_to(target, story)


def test_a_doubt_that_moved_on_is_not_settled_by_who_read_it_before() -> None:
    """The operator's word names the token it was read under, and another one refuses it."""
    target = Target(Guarantee.NEITHER, ["lose"])

    async def story(desk: Desk) -> None:
        await desk.relay.run_once()
        async with stand.cell_of(desk.database, "dragoman_operator") as cell:
            one = await only_doubt(cell)
            desk.run_as_owner("update delivery set claim_token = %s", UUID(int=1))
            assert not await decide(cell, one, has_arrived=True)
        assert look(desk)[0] == "unknown"

    tell_to(target, story)

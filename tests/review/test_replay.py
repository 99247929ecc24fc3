"""A dead letter is triaged, remediated, replayed where it failed, verified and resolved."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.core.errors import BadInput, DragomanError, NotFound, Refused
from dragoman.core.failure import FailureClass
from dragoman.core.ids import uuid7
from dragoman.core.remedy import CATEGORIES, Category, needed
from dragoman.store import dead_letters, jobs
from dragoman.work.replay import plan_replay
from tests import reviews, stand
from tests.review.operators import FIXED, Operator, failed_at_llm, mails, mend, play, unreachable
from tests.reviews import ANN, Desk
from tests.store.attack import refusal


@pytest.mark.req("R341", "R342", "R345")
def test_a_replay_at_notify_sends_the_same_message_to_those_who_were_not_told() -> None:
    """The mailbox exists now: one mail more; the original stays failed, its letter is closed."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        frozen = desk.rows("select id, key, payload from delivery order by id")
        desk.mail.clear_faults()
        await operator.ready(job, "data")
        made = await operator.replay(job)
        assert (made.plan.stage_name, made.plan.letter.stage_name) == ("notify", "notify")
        assert made.plan.payload_ref == job
        assert made.plan.context == desk.letters()[0]["sanitized_context"]
        assert made.plan.key == f"replay:{made.plan.letter.id}:1"
        await desk.relay.run_once()
        await desk.work()
        assert (desk.state(job), desk.state(made.job_id)) == ("failed", "completed")
        assert mails(desk) == ["bob@team.example", "ann@team.example"]
        assert desk.rows("select id, key, payload from delivery order by id") == frozen
        assert desk.answers() == 1
        assert (await desk.enqueue("push-2")).job_id == made.job_id
        assert (await desk.enqueue("push-1")).job_id == job
        with pytest.raises(BadInput):
            await operator.resolve(job, " ")
        letter = await operator.resolve(job, "the mailbox was made")
        assert (letter.state, letter.notes) == ("resolved", "the mailbox was made")
        assert letter.closed_at is not None

    play(act)


@pytest.mark.req("R329")
def test_a_replay_at_the_model_does_not_fetch_again() -> None:
    """The repository is not asked: the diff of the failed job is what the model gets."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await failed_at_llm(desk)
        await mend(desk, operator)
        await operator.ready(job, "auth_config")
        made = await operator.replay(job)
        assert made.references == [f"review/fetch/{job}"]
        await desk.work()
        await desk.relay.run_once()
        await desk.work()
        assert desk.state(made.job_id) == "completed"
        assert desk.rows("select job_id from review_diff") == [(job,)]
        facts = "select stage, attempt_count, max_attempts from standing where id = %s"
        assert desk.rows(facts, made.job_id) == [(2, 0, 5)]
        assert (await desk.shown(made.job_id)).findings > 0
        await operator.resolve(job)

    play(act)


@pytest.mark.req("R343")
def test_a_full_restart_is_asked_for() -> None:
    """With the flag the replay begins at fetch, and fetches."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await failed_at_llm(desk)
        await mend(desk, operator)
        await operator.ready(job, "auth_config")
        desk.run_as_owner("update review_diff set expires_at = clock()")
        with pytest.raises(Refused, match="full restart"):
            await plan_replay(operator.cell, job)
        assert (await plan_replay(operator.cell, job, full_restart=True)).stage == 0
        with pytest.raises(Refused, match="full restart"):
            await operator.replay(job)
        made = await operator.replay(job, full_restart=True)
        assert (made.plan.stage_name, made.references) == ("fetch", [])
        await desk.work(2)
        await desk.relay.run_once()
        await desk.work()
        assert desk.state(made.job_id) == "completed"
        assert (made.job_id,) in desk.rows("select job_id from review_diff")

    play(act)


CLASSES = {
    "R306": (FailureClass.SCHEMA_INVALID, Category.DATA, "correction"),
    "R308": (FailureClass.AUTH_DENIED, Category.AUTH_CONFIG, "rotated"),
    "R310": (FailureClass.NOT_FOUND, Category.DATA, "metadata"),
    "R313": (FailureClass.RUNTIME_BUG, Category.DEFECT, "release"),
}


@pytest.mark.req("R306", "R308", "R310", "R313")
@pytest.mark.parametrize("rule", CLASSES)
def test_a_class_of_failure_needs_its_own_remedy(rule: str) -> None:
    """Another category is refused, and so is a remedy without the field that this class needs."""
    error_class, category, field = CLASSES[rule]

    async def act(desk: Desk, operator: Operator) -> None:
        job = await failed_at_llm(desk)
        desk.run_as_owner("alter table dead_letter disable trigger in_order")
        desk.run_as_owner("update dead_letter set error_class = %s", error_class.value)
        desk.run_as_owner("alter table dead_letter enable trigger in_order")
        wrong = set(Category) - set(CATEGORIES[error_class])
        for other in wrong:
            with pytest.raises(Refused):
                await dead_letters.triage(operator.cell, operator.id, job, other)
        assert wrong
        await dead_letters.triage(operator.cell, operator.id, job, category)
        told = {name: FIXED[name] for name in needed(error_class, category)[:-1]}
        for missing in ({}, {field: " "}):
            evidence = {name: told[name] for name in told if name != field} | missing
            with pytest.raises(BadInput, match=field):
                await dead_letters.remediate(operator.cell, operator.id, job, "OPS-7", evidence)
            with pytest.raises(Refused):
                await operator.replay(job)
        await dead_letters.remediate(operator.cell, operator.id, job, "OPS-7", told)
        await operator.replay(job)

    play(act)


@pytest.mark.req("R336", "R337", "R339", "R340")
def test_a_replay_needs_every_step_before_it() -> None:
    """Triage with a known category, evidence with a ticket, and the word that twice is safe."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        cell, who = operator.cell, operator.id
        with pytest.raises(Refused, match="is open"):
            await operator.replay(job)
        for category in ("", "bad luck"):
            with pytest.raises(Refused):
                await dead_letters.triage(cell, who, job, category)
        await dead_letters.triage(cell, who, job, "data")
        with pytest.raises(Refused, match="is triaged"):
            await operator.replay(job)
        for ticket in ("", "  "):
            with pytest.raises(BadInput, match="ticket"):
                await dead_letters.remediate(cell, who, job, ticket, {"correction": "mailbox"})
        await dead_letters.remediate(cell, who, job, "OPS-7", {"correction": "mailbox"})
        with pytest.raises(Refused, match="twice"):
            await operator.replay(job, is_safe_twice=False)
        assert desk.rows("select count(*) from job") == [(1,)]
        await operator.replay(job)
        with pytest.raises(Refused, match="is replayed"):
            await operator.replay(job)
        kinds = [row[0] for row in desk.events("triaged", "remediated", "replayed")]
        assert kinds == ["triaged", "remediated", "replayed"]
        told = desk.rows(
            "select facts ->> 'error_class', facts ->> 'stage', facts ->> 'reason',"
            " facts ->> 'attempts', actor_role from history where kind = 'triaged'"
        )
        assert told == [("DELIVERY_REJECTED", "notify", "not_retryable", "1", "operator")]

    play(act)


STEPS = {
    "letter_out_of_order": "state = 'remediated', category = 'auth_config', evidence = %(all)s",
    "letter_category": "state = 'triaged', category = 'data'",
}
LATER = {
    "letter_evidence": "state = 'remediated', evidence = '{\"ticket\": \"OPS-7\"}'",
    "letter_out_of_order": "state = 'replayed', is_safe_twice = true",
    "letter_without_notes": "state = 'resolved', notes = ' ', closed_at = now()",
}
LAST = {
    "letter_unconfirmed": "state = 'replayed'",
    "letter_without_replay": "state = 'replayed', is_safe_twice = true",
    "letter_category": "state = 'replayed', is_safe_twice = true, category = 'data'",
}


@pytest.mark.req("R338")
def test_the_schema_refuses_a_missing_field_and_a_step_out_of_order() -> None:
    """Not even the owner takes a letter past a step, or a replay past its evidence."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await failed_at_llm(desk)
        whole = {"all": '{"rotated": "a key", "ticket": "OPS-7"}'}

        def refused(steps: dict[str, str]) -> None:
            for name, step in steps.items():
                statement = f"update dead_letter set {step}"
                with stand.owner(desk.database) as connection:
                    assert refusal(connection, statement, whole) == ("DR001", name)

        copy = (
            "insert into job select (jsonb_populate_record(j, jsonb_build_object("
            "'id', gen_random_uuid(), 'unit', gen_random_uuid(), 'replay_of', id))).* from job j"
            " where id = %s"
        )
        refused(STEPS)
        await dead_letters.triage(operator.cell, operator.id, job, "auth_config")
        refused(LATER)
        assert reviews.refusal(desk, copy, job) == "replay_not_ready"
        await operator.ready(job, "auth_config")
        refused(LAST)
        await operator.replay(job)
        assert reviews.refusal(desk, copy, job) == "replay_not_ready"

    play(act)


@pytest.mark.req("R344")
def test_a_letter_is_resolved_only_when_its_replay_reached_everybody() -> None:
    """Not while it runs, and not while one recipient's row is untold; the schema says the same."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        desk.mail.clear_faults()
        await operator.ready(job, "data")
        made = await operator.replay(job)
        close = "update dead_letter set state = 'resolved', notes = 'n', closed_at = now()"
        for _ in range(2):
            with pytest.raises(Refused, match="not told"):
                await operator.resolve(job)
            assert reviews.refusal(desk, close) == "letter_unverified"
            await desk.relay.run_once()
        await desk.work()
        assert desk.state(made.job_id) == "completed"
        desk.run_as_owner("update delivery set state = 'unknown' where recipient = %s", ANN)
        with pytest.raises(Refused, match="not told"):
            await operator.resolve(job)
        desk.run_as_owner("update delivery set state = 'sent' where recipient = %s", ANN)
        assert (await operator.resolve(job)).state == "resolved"

    play(act)


@pytest.mark.req("R346")
def test_the_same_failure_again_is_escalated_and_both_are_kept() -> None:
    """The replay's own letter is escalated with a page; another class of failure is just open."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        await operator.ready(job, "data")
        second = (await operator.replay(job)).job_id
        await desk.relay.run_once()
        await desk.work()
        found = [(each["job_id"], each["state"], each["error_class"]) for each in desk.letters()]
        assert found == [
            (job, "replayed", "DELIVERY_REJECTED"),
            (second, "escalated", "DELIVERY_REJECTED"),
        ]
        assert ("dead_letter_escalated", "page") in desk.alerts()
        with pytest.raises(BadInput, match="sign-off"):
            await operator.ready(second, "data")
        assert desk.rows("select count(*) from job") == [(2,)]
        desk.mail.clear_faults()
        await operator.ready(second, "data", "engineering: kim")
        third = (await operator.replay(second)).job_id
        assert (
            desk.rows("select kind from alert where closed_at is null and severity = 'page'") == []
        )
        await desk.relay.run_once()
        await desk.work()
        assert desk.state(third) == "completed"
        with pytest.raises(Refused):
            await operator.resolve(job)
        await operator.resolve(second)
        await operator.resolve(job)
        assert mails(desk) == ["bob@team.example", "ann@team.example"]

    play(act)


def test_another_failure_of_the_replay_is_an_open_letter() -> None:
    """A class that was not there before is a new cycle, not an escalation."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await failed_at_llm(desk)
        await mend(desk, operator)
        desk.sandbox.fault({"on": "response", "do": "status", "status": 404})
        await operator.ready(job, "auth_config")
        second = (await operator.replay(job)).job_id
        await desk.work()
        letters = {each["job_id"]: (each["error_class"], each["state"]) for each in desk.letters()}
        assert letters[second] == ("NOT_FOUND", "open")

    play(act)


def test_a_canceled_replay_is_replayed_again_after_engineering_looked() -> None:
    """One replay at a time; the second has its own key and takes the same rows."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        desk.mail.clear_faults()
        await operator.ready(job, "data")
        first = (await operator.replay(job)).job_id
        await operator.escalate(job)
        await operator.ready(job, "data", "engineering: kim")
        with pytest.raises(DragomanError):
            await operator.replay(job)
        await jobs.cancel_jobs(operator.cell, operator.id, [first])
        made = await operator.replay(job)
        assert made.plan.key.endswith(":2")
        await desk.relay.run_once()
        await desk.work()
        assert desk.state(made.job_id) == "completed"

    play(act)


def test_a_version_that_another_job_answers_for_is_not_replayed() -> None:
    """Somebody asked anew meanwhile: two jobs would tell the same people the same."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        await desk.enqueue("push-2")
        await operator.ready(job, "data")
        with pytest.raises(Refused, match="another job"):
            await operator.replay(job)
        assert desk.letters()[0]["state"] == "remediated"
        assert desk.rows("select count(*) from job where replay_of is not null") == [(0,)]

    play(act)


def test_two_operators_make_one_replay() -> None:
    """Both replay at the same moment: one job, and one refusal."""

    async def act(desk: Desk, operator: Operator) -> None:
        job = await unreachable(desk)
        await operator.ready(job, "data")
        made = await asyncio.gather(
            operator.replay(job), operator.replay(job), return_exceptions=True
        )
        assert sorted(type(each).__name__ for each in made) == ["Refused", "Replayed"]
        assert desk.rows("select count(*) from job") == [(2,)]

    play(act)


def test_what_is_not_there_is_not_found() -> None:
    """An id that is no letter's and no failed job's."""

    async def act(desk: Desk, operator: Operator) -> None:
        with pytest.raises(NotFound):
            await dead_letters.read_letter(operator.cell, uuid7())
        assert await dead_letters.list_letters(operator.cell, 10) == []

    play(act)

"""A review walks from a repository to mail, and ends only when everybody was told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dragoman.core import ports
from dragoman.core.job import Done, Mode
from dragoman.review.source import Changelist
from dragoman.review.stages import review_pipeline
from dragoman.store import jobs, queues
from dragoman.work.finish import Finished, finish
from tests import reviews
from tests.reviews import ANN, BOB, Desk, shop, tell


def test_a_changelist_is_fetched_criticised_and_told_to_each_recipient_once() -> None:
    """Three stages and two mails later the job is completed, and more work does nothing more."""

    async def story(desk: Desk) -> None:
        job = await desk.through()
        await desk.relay.run_once()
        await desk.work()
        assert [row["recipient"] for row in desk.mail.ledger()] == [
            "ann@team.example",
            "bob@team.example",
        ]
        shown = await desk.shown(job)
        assert (shown.status, shown.findings > 0, desk.answers()) == ("succeeded", True, 1)
        assert desk.faults_found() == []

    tell(story)


@pytest.mark.req("R353", "R362")
def test_findings_and_outbox_are_stored_before_the_first_message_goes_out() -> None:
    """When the first send begins, every finding and every recipient's row with its key stands."""
    seen: list[tuple] = []

    async def story(desk: Desk) -> None:
        await desk.outbox()
        query = (
            "select (select count(*) from finding) > 0, count(distinct key), count(notified_at),"
            " count(notification_id) from delivery"
        )

        def look(tag: str, moment: ports.Moment) -> None:
            if (tag, moment) == ("relay.send", "before"):
                seen.extend(desk.rows(query))

        ports.install(look)
        try:
            await desk.relay.run_once()
        finally:
            ports.install(None)
        # Both null is safe to send the first time; the second message finds the first one told.
        assert seen == [(True, 2, 0, 0), (True, 2, 1, 1)]

    tell(story)


@pytest.mark.req("R354", "R381")
def test_recipients_named_twice_share_one_row_and_the_tuple_is_unique() -> None:
    """Two spellings of one address are one message; the database refuses a second row."""

    async def story(desk: Desk) -> None:
        await desk.outbox(recipients=[ANN, BOB, " mailto:ann@TEAM.example "])
        assert desk.rows("select recipient from delivery order by 1") == [(ANN,), (BOB,)]
        again = (
            "insert into delivery (id, key, changelist_id, recipient, review_version, home_id,"
            " job_id, channel, guarantee, payload, payload_sha256, state, max_attempts, created_at)"
            " select gen_random_uuid(), 'another key', changelist_id, recipient, review_version,"
            " home_id, job_id, channel, guarantee, payload, payload_sha256, 'queued', 5, created_at"
            " from delivery limit 1"
        )
        refused = reviews.refusal(desk, again)
        assert refused == "delivery_changelist_id_recipient_review_version_key"

    tell(story)


@pytest.mark.req("R355")
def test_a_recipient_who_was_told_is_left_out() -> None:
    """Of two messages one was told before: only the other is sent."""

    async def story(desk: Desk) -> None:
        desk.mail.fault({"at": "rcpt", "do": "reply", "recipient": "bob@team.example", "times": 1})
        await desk.outbox()
        await desk.relay.run_once()
        assert desk.told() == {ANN: "sent", BOB: "queued"}
        desk.later(61)
        await desk.relay.run_once()
        assert [row["recipient"] for row in desk.mail.ledger()] == [
            "ann@team.example",
            "bob@team.example",
        ]

    tell(story)


@pytest.mark.req("R364")
def test_the_review_is_in_progress_until_the_last_recipient_was_told() -> None:
    """One of two told: the job waits and is woken by the second message."""

    async def story(desk: Desk) -> None:
        desk.mail.fault({"at": "rcpt", "do": "reply", "recipient": "bob@team.example", "times": 1})
        job = await desk.outbox()
        await desk.work()
        await desk.relay.run_once()
        await desk.work()
        assert (desk.state(job), (await desk.shown(job)).status) == ("queued", "in_progress")
        desk.later(61)
        await desk.relay.run_once()
        await desk.work()
        assert (desk.state(job), (await desk.shown(job)).status) == ("completed", "succeeded")

    tell(story)


@pytest.mark.req("R364")
def test_even_a_bug_in_the_last_stage_cannot_complete_a_review_before_its_time() -> None:
    """Notify says done while a recipient waits: the database refuses, and the job is no success."""

    async def story(desk: Desk) -> None:
        job = await desk.outbox()
        cell, worker = desk.station.cell, desk.station.line.worker
        waiting = await queues.open_queues(cell, Mode.ASYNC, ["review"])
        held = await jobs.claim_jobs(cell, worker, [queue.key for queue in waiting], 1)
        assert [one.id for one in held] == [job]
        told = [Finished(held[0], Done(None))]
        await finish(cell, worker, desk.station.pipelines, told)
        assert desk.state(job) == "failed"
        assert [letter["code"] for letter in desk.letters()] == ["refused_by_database_DR001"]

    tell(story)


@pytest.mark.req("R364")
def test_not_even_the_owner_can_complete_a_review_before_its_time() -> None:
    """The guard of the schema stands behind every role."""

    async def story(desk: Desk) -> None:
        job = await desk.outbox()
        cell, worker = desk.station.cell, desk.station.line.worker
        waiting = await queues.open_queues(cell, Mode.ASYNC, ["review"])
        await jobs.claim_jobs(cell, worker, [queue.key for queue in waiting], 1)
        force = (
            "update standing set state = 'completed', claim_token = null, claimed_by = null,"
            " claimed_at = null, seq = seq + 1, head = 'forged' where id = %s"
        )
        assert reviews.refusal(desk, force, job) == "succeeded_before_told"
        assert desk.state(job) == "processing"

    tell(story)


@pytest.mark.req("R368")
def test_a_recipient_who_cannot_be_reached_stops_nobody_else() -> None:
    """One address is refused for good: the other is told, then the job fails in plain sight."""

    async def story(desk: Desk) -> None:
        desk.mail.fault({"at": "rcpt", "do": "reply", "code": 550, "recipient": "ann@team.example"})
        job = await desk.outbox()
        await desk.relay.run_once()
        assert desk.told() == {ANN: "failed", BOB: "sent"}
        assert desk.alerts() == [("delivery_failed", "act")]
        assert (await desk.shown(job)).status == "in_progress"
        await desk.work()
        [letter] = desk.letters()
        found = (letter["error_class"], letter["stage_name"], letter["reason"], letter["state"])
        assert found == ("DELIVERY_REJECTED", "notify", "not_retryable", "open")
        assert (await desk.shown(job)).status == "retryable_failed"
        desk.run_as_owner(
            "update dead_letter set state = 'resolved', notes = 'no such person', closed_at = now()"
        )
        assert (await desk.shown(job)).status == "failed"
        assert desk.faults_found() == []

    tell(story)


def test_a_new_attempt_tells_only_those_whom_the_failed_one_did_not_reach() -> None:
    """The mailbox exists now: a new key for the version sends one mail, with the frozen bytes."""

    async def story(desk: Desk) -> None:
        fault = {"at": "rcpt", "do": "reply", "code": 550, "recipient": "ann@team.example"}
        desk.mail.fault(fault)
        first = await desk.outbox()
        await desk.relay.run_once()
        await desk.work()
        frozen = desk.rows("select recipient, key, payload from delivery order by 1")
        desk.mail.clear_faults()
        second = (await desk.enqueue("push-2")).job_id
        await desk.work(2)
        await desk.relay.run_once()
        await desk.work()
        assert (desk.state(first), desk.state(second)) == ("failed", "completed")
        assert [row["recipient"] for row in desk.mail.ledger()] == [
            "bob@team.example",
            "ann@team.example",
        ]
        assert desk.rows("select recipient, key, payload from delivery order by 1") == frozen
        assert desk.faults_found() == []

    tell(story)


@pytest.mark.req("R311")
def test_a_repository_outside_the_list_is_not_even_opened() -> None:
    """A denied path is a policy's no: nothing fetched, asked or queued, and an open dead letter."""

    async def story(desk: Desk) -> None:
        job = (await desk.enqueue()).job_id
        await desk.work(2)
        [letter] = desk.letters()
        found = (letter["error_class"], letter["stage_name"], letter["attempts"], letter["state"])
        assert found == ("POLICY_REJECTED", "fetch", 1, "open")
        assert desk.state(job) == "failed"
        assert _left_behind(desk) == [(0, 0, 0)]
        assert ("path_denied", "act") in desk.alerts()

    tell(story, allow=["/somewhere/else/"])
    tell(story, pipeline=review_pipeline("main", (), {}, claim_timeout_s=30))


def test_a_repository_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    """What cannot be fetched whole is not fetched at all."""

    async def story(desk: Desk) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(shop().repository, copy)
        changelist = Changelist(str(copy), shop().base, shop().head)
        await desk.enqueue(changelist=changelist)
        shutil.rmtree(copy)
        await desk.work(2)
        [letter] = desk.letters()
        assert (letter["error_class"], letter["stage_name"]) == ("NOT_FOUND", "fetch")
        assert _left_behind(desk) == [(0, 0, 0)]

    tell(story, allow=[f"{tmp_path.resolve()}/"])


def _left_behind(desk: Desk) -> list[tuple]:
    assert desk.answers() == 0
    return desk.rows(
        "select (select count(*) from review_diff), (select count(*) from finding),"
        " (select count(*) from delivery)"
    )

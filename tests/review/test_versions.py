"""What a second request for a changelist gets: the job there was, a new one, or a refusal."""

from __future__ import annotations

import pytest

from dragoman.core.errors import Conflict, Refused
from dragoman.core.ids import JobId
from dragoman.review.enqueue import Enqueued
from tests.reviews import ANN, BOB, Desk, tell


def counts(desk: Desk) -> tuple:
    """How many jobs, outbox rows, results and mails there are."""
    query = (
        "select (select count(*) from job), (select count(*) from delivery),"
        " (select count(*) from review_result)"
    )
    return (*desk.rows(query)[0], len(desk.mail.ledger()))


@pytest.mark.req("R350", "R386")
def test_a_version_that_succeeded_is_not_done_again() -> None:
    """Same version, same or new key: the prior job with its version, no new row, no new mail."""

    async def story(desk: Desk) -> None:
        job = await desk.through()
        before = counts(desk)
        for again in (
            await desk.enqueue(),
            await desk.enqueue("push-2"),
            await desk.enqueue("push-3", is_rerun=True),
        ):
            assert again == Enqueued(JobId(job), "completed", 1, is_new=False)
        await desk.work()
        await desk.relay.run_once()
        assert counts(desk) == before == (1, 2, 1, 2)
        assert desk.rows("select job_id from review_result") == [(job,)]

    tell(story)


@pytest.mark.req("R351")
def test_a_rerun_needs_the_flag_and_a_strictly_higher_version() -> None:
    """Of the four ways to ask after version 2, only higher with the flag makes a job."""

    async def story(desk: Desk) -> None:
        job = await desk.through(version=2)
        with pytest.raises(Refused):
            await desk.enqueue("a", 3)
        for is_rerun in (False, True):
            with pytest.raises(Conflict):
                await desk.enqueue("b", 1, is_rerun=is_rerun)
        assert (await desk.enqueue("c", 2, is_rerun=True)).job_id == job
        assert counts(desk)[0] == 1
        made = await desk.enqueue("d", 3, is_rerun=True)
        assert (made.is_new, made.version, counts(desk)[0]) == (True, 3, 2)

    tell(story)


@pytest.mark.req("R352", "R382", "R387")
def test_a_rerun_is_a_new_job_that_tells_everybody_under_new_keys() -> None:
    """Same changelist, higher version: new rows, new keys, and each recipient hears once more."""

    async def story(desk: Desk) -> None:
        first = await desk.through(version=3)
        second = await desk.through(key="push-2", version=4, is_rerun=True)
        assert first != second
        assert desk.rows("select count(distinct changelist_id), count(*) from job") == [(1, 2)]
        found = desk.rows("select recipient, review_version, job_id from delivery order by 2, 1")
        jobs = ((3, first), (4, second))
        assert found == [(who, version, job) for version, job in jobs for who in (ANN, BOB)]
        assert desk.rows("select count(distinct key) from delivery") == [(4,)]
        assert len({row["message_id"] for row in desk.mail.ledger()}) == 4  # type: ignore[misc]
        assert desk.faults_found() == []

    tell(story)


def test_after_a_failure_the_same_version_may_be_tried_again() -> None:
    """A new key makes a new job in charge; the old key goes on returning what it made."""

    async def story(desk: Desk) -> None:
        desk.sandbox.fault({"on": "response", "do": "status", "status": 403})
        first = (await desk.enqueue()).job_id
        await desk.work(2)
        assert (await desk.shown(first)).status == "retryable_failed"
        second = await desk.enqueue("push-2")
        assert (second.is_new, second.job_id != first) == (True, True)
        old = await desk.enqueue()
        assert (old.job_id, old.state, old.is_new) == (first, "failed", False)
        assert desk.rows("select version, job_id from review") == [(1, second.job_id)]
        third = await desk.enqueue("push-3")
        assert (third.job_id, third.is_new) == (second.job_id, False)

    tell(story)


def test_a_failed_version_is_stale_once_a_higher_one_exists() -> None:
    """Version 1 failed and version 2 came: nobody may go back."""

    async def story(desk: Desk) -> None:
        desk.sandbox.fault({"on": "response", "do": "status", "status": 403})
        await desk.enqueue()
        await desk.work(2)
        await desk.enqueue("push-2", 2, is_rerun=True)
        with pytest.raises(Conflict):
            await desk.enqueue("push-3", 1)

    tell(story)

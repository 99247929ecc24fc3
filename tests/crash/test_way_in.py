"""A message survives kill -9 at every crossing of the orchestrator, and is never taken twice."""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID, uuid4

import pytest

from dragoman.core import ports
from dragoman.core.errors import CommitUnknown, Conflict, TryAgain
from dragoman.rewrite.orchestrator import Accepted, Complaint
from dragoman.sandbox.server import Sandbox
from tests import stand
from tests.crash import rig
from tests.invariants import violations

ROWS = """
select r.id, r.xmin::text, j.id, j.xmin::text, s.seq, s.xmin::text
  from rewrite_request r left join job j on j.request_id = r.id left join standing s on s.id = j.id
"""


async def a_complaint(database: str) -> Complaint:
    """Somebody's message, under an id that its sender chose."""
    async with stand.cell_of(database, "dragoman_orchestrator") as cell:
        home = await stand.add_home(cell)
    return Complaint(
        home.id, home.sender, home.recipient, stand.NOISE["en"], rewrite_request_id=uuid4()
    )


def created(complaint: Complaint) -> rig.Life:
    """The life of a door that takes this message."""

    async def life(database: str, sandbox: Sandbox) -> Accepted:
        async with (
            rig.providers_of(sandbox) as providers,
            stand.orchestrator_of(database, providers) as orchestrator,
        ):
            return await orchestrator.create(complaint)

    return life


def create(database: str, sandbox: Sandbox, complaint: Complaint) -> Accepted:
    """Hand the message over."""
    return cast("Accepted", asyncio.run(created(complaint)(database, sandbox)))


def crossings() -> list[rig.Crossing]:
    """Every moment at which the door can die."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        life = created(asyncio.run(a_complaint(database)))
        return rig.telling(rig.crossings_of(database, sandbox, life))


def jobs_of(database: str, request_id: UUID | None) -> int:
    """How many jobs a request has."""
    return stand.rows(database, "select count(*) from job where request_id = %s", request_id)[0][0]


def after_a_retry(at: rig.Crossing) -> list[str]:
    """What is wrong when the sender asks again with the same id."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        rig.live_and_die(database, sandbox, created(complaint), rig.at_crossing(at))
        first, before = create(database, sandbox, complaint), stand.rows(database, ROWS)
        second = create(database, sandbox, complaint)
        found = violations(database)
        if (first.status, first, before) != ("queued", second, stand.rows(database, ROWS)):
            found.append(f"{first} {second}")
        if jobs_of(database, complaint.rewrite_request_id) != 1:
            found.append("not one job")
        return [f"{at}: {each}" for each in found]


def without_a_retry(at: rig.Crossing) -> list[str]:
    """What is wrong when nobody ever asks again."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        rig.live_and_die(database, sandbox, created(complaint), rig.at_crossing(at))
        rig.clean_up(database, sandbox)
        found = rig.faults_of(database, sandbox)
        told = stand.rows(
            database,
            "select failure_code, (select count(*) from rewrite_output o where o.request_id = r.id)"
            " from rewrite_request r",
        )
        if told not in ([], [("never_enqueued", 0)], [(None, 1)]):
            found.append(f"neither failed nor completed: {told}")
        return [f"{at}: {each}" for each in found]


@pytest.mark.req("R113", "R124")
def test_a_door_that_dies_anywhere_takes_the_message_once_when_it_is_sent_again() -> None:
    """Killed at any crossing of create(): the same id sent again ends in one job, twice as well."""
    assert [fault for at in crossings() for fault in after_a_retry(at)] == []


@pytest.mark.req("R125")
def test_a_door_that_dies_leaves_no_message_without_an_end() -> None:
    """Killed at any crossing, never asked again: the message completes, fails, or is not there."""
    assert [fault for at in crossings() for fault in without_a_retry(at)] == []


@pytest.mark.req("R123")
def test_a_message_is_durable_before_the_classifier_looks_at_it() -> None:
    """A door killed as it turns to the classifier leaves the whole message, with its snapshots."""
    order = crossings()
    at = next(each for each in order if each.tag == "classify.answer")
    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        rig.live_and_die(database, sandbox, created(complaint), rig.at_crossing(at))
        assert rig.ledger_of(sandbox)["responses"] == []
        assert stand.rows(
            database,
            "select r.id, r.original_text, s.recipients, p.recipient_user_id, r.routed_at"
            " from rewrite_request r join recipient_snapshot s on s.request_id = r.id"
            " join recipient_preference_snapshot p on p.request_id = r.id",
        ) == [
            (
                complaint.rewrite_request_id,
                complaint.message,
                [complaint.recipient_user_id],
                complaint.recipient_user_id,
                None,
            )
        ]


@pytest.mark.req("R125")
def test_an_enqueue_that_the_database_refuses_fails_the_request() -> None:
    """The transaction that makes the job has an error: the request has failed, without a job."""

    def refuse(tag: str, moment: ports.Moment) -> None:
        if (tag, moment) == ("db.enqueue", "before"):
            raise TryAgain("40001")

    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        ports.install(refuse)
        try:
            accepted = create(database, sandbox, complaint)
        finally:
            ports.install(None)
        assert (accepted.status, accepted.job_id) == ("failed", None)
        assert jobs_of(database, complaint.rewrite_request_id) == 0
        status = stand.rows(database, "select status from rewrite_status")
        assert (status, violations(database)) == ([("failed",)], [])


def test_a_commit_whose_answer_is_lost_is_not_called_a_failure() -> None:
    """The job is there although COMMIT gave no answer: the sender is told that it is queued."""

    def lose(tag: str, moment: ports.Moment) -> None:
        if (tag, moment) == ("db.enqueue", "after"):
            raise CommitUnknown

    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        ports.install(lose)
        try:
            accepted = create(database, sandbox, complaint)
        finally:
            ports.install(None)
        assert accepted.status == "queued"
        assert create(database, sandbox, complaint) == accepted
        told = [accepted.rewrite_request_id]
        assert (jobs_of(database, told[0]), violations(database, answered=told)) == (1, [])


@pytest.mark.req("R113")
def test_two_doors_with_the_same_id_at_once_make_one_job() -> None:
    """Eight doors take the same message at the same time: one row, one job, one answer."""

    async def all_at_once(database: str, sandbox: Sandbox) -> list[Accepted]:
        complaint = await a_complaint(database)
        async with (
            rig.providers_of(sandbox) as providers,
            stand.orchestrator_of(database, providers) as orchestrator,
        ):
            return await asyncio.gather(*(orchestrator.create(complaint) for _ in range(8)))

    with rig.fresh(rig.empty_database) as (database, sandbox):
        answers = asyncio.run(all_at_once(database, sandbox))
        assert len(set(answers)) == 1
        told = [answers[0].rewrite_request_id]
        assert (jobs_of(database, told[0]), violations(database, answered=told)) == (1, [])


@pytest.mark.req("R113")
def test_an_id_that_was_used_for_another_message_is_refused() -> None:
    """The same id with another text: a conflict, and the stored row is unchanged."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        complaint = asyncio.run(a_complaint(database))
        create(database, sandbox, complaint)
        before = stand.rows(database, "select r.*, r.xmin::text from rewrite_request r")
        other = Complaint(
            complaint.home_id,
            complaint.sender_user_id,
            complaint.recipient_user_id,
            "Something else altogether.",
            rewrite_request_id=complaint.rewrite_request_id,
        )
        with pytest.raises(Conflict):
            create(database, sandbox, other)
        assert stand.rows(database, "select r.*, r.xmin::text from rewrite_request r") == before

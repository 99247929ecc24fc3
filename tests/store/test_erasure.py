"""Erasure: what belongs to a home or a person goes, a tombstone and the chain stay."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from dragoman.core.canonical import canonical, read_object
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import JobId
from dragoman.core.job import Done, Kind, State
from dragoman.store import batches, deliveries, jobs
from dragoman.store.changes import record_change
from dragoman.store.erasure import Extent, Scope, count_erasable
from dragoman.store.roles import ROLES
from dragoman.work.finish import Finished, finish
from tests import stand
from tests.invariants import violations
from tests.store.attack import DENIED, connect, guard, refusal
from tests.store.erasing import NOTHING, add_people, bring_to, erasing_of, kinds, left_of, new_home
from tests.store.kernel import KEY, PIPELINES, check_books, enqueue, recorded
from tests.store.outbox import review_of, send, take
from tests.store.rewrites import Request
from tests.store.test_changes import check_changes

KEPT = {"event", "tombstone", "batch_item"}
CALL = "select * from erase(gen_random_uuid(), null, 0, gen_random_uuid(), 'x')"


@pytest.mark.parametrize("state", list(State))
def test_a_job_of_any_state_ends_in_a_tombstone(database: str, state: State) -> None:
    """What is not final is canceled first; the chain ends with `erased` and can be verified."""

    async def scenario() -> None:
        home = new_home()
        async with erasing_of(database) as erasing:
            other = await bring_to(erasing.crew, new_home(), state, KEY + 1)
            held = await bring_to(erasing.crew, home, state)
            before = kinds(database, held.id)
            assert await erasing.erase(home) == Extent(0, 0, 1, 0)
            ending = [Kind.ERASED] if state.is_terminal else [Kind.CANCELED, Kind.ERASED]
            assert kinds(database, held.id) == before + ending
            assert set(left_of(database, home)) <= KEPT
            stones = stand.rows(database, "select * from tombstone")
            assert await erasing.erase(home) == NOTHING
            assert stand.rows(database, "select * from tombstone") == stones
            assert [row[0] for row in stones] == [held.id]
            assert stand.rows(database, "select id from job") == [(other.id,)]

    asyncio.run(scenario())
    check_books(database)
    told = [each for each in violations(database) if "dead letter" not in each]
    assert told == []  # a plain job of these tests fails without a dead letter


def test_who_holds_an_erased_job_stores_nothing_and_says_so_on_its_tombstone(database: str) -> None:
    """A finish after the erasure moves nothing; that it came is the chain's next event."""

    async def scenario() -> JobId:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.PROCESSING)
            await erasing.erase(home)
            counts = await finish(crew.worker, crew.actor, PIPELINES, [Finished(held, Done(None))])
            assert counts == {"lost": 1}
            assert await jobs.cancel_jobs(crew.operator, crew.actor, [held.id]) == set()
            assert (
                await jobs.begin_calls(
                    crew.worker, crew.actor, [jobs.Note(held.id, held.token, Kind.CALLING)]
                )
                == set()
            )
            return held.id

    job = asyncio.run(scenario())
    assert kinds(database, job)[-3:] == [Kind.ERASED, Kind.LATE_RESULT, Kind.CANCEL_REFUSED]
    heads = stand.rows(database, "select seq, head from chain_head where job_id = %s", job)
    assert heads == stand.rows(
        database, "select seq, hash from event where job_id = %s order by seq desc limit 1", job
    )
    assert violations(database) == []


def test_a_line_that_comes_for_an_erased_job_is_dropped_and_said_once(database: str) -> None:
    """Its item is ignored, the batch can be closed, and a second look adds no event."""

    async def scenario() -> JobId:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.BATCH_SUBMITTED)
            [batch] = await batches.find_open(crew.worker)
            await erasing.erase(home)
            assert await batches.open_items(crew.worker, batch.id) == []
            lines = [str(held.id), "an id of nobody"]
            found = [
                await batches.drop_erased(crew.worker, crew.actor, batch.id, lines)
                for _ in range(2)
            ]
            assert found == [1, 0]
            await batches.record_poll(
                crew.worker, batch, status="x", state="completed", files=[], ended=True
            )
            assert await batches.close_batch(crew.worker, batch)
            return held.id

    job = asyncio.run(scenario())
    assert kinds(database, job)[-2:] == [Kind.ERASED, Kind.LATE_RESULT]
    assert stand.rows(database, "select state from batch_item") == [("ignored",)]
    assert violations(database) == []


def test_a_submission_of_erased_jobs_finds_none_of_them(database: str) -> None:
    """Recorded and not yet created: the mark moves no job, and the batch is known all the same."""

    async def scenario() -> None:
        home = new_home()
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            held = await bring_to(crew, home, State.PROCESSING)
            batch = await recorded(crew, held)
            await erasing.erase(home)
            assert await batches.open_items(crew.worker, batch.id) == []
            assert await batches.release_batch(crew.worker, batch.id, batch.token)

    asyncio.run(scenario())
    assert violations(database) == []


@pytest.mark.parametrize("fate", ["queued", "sending", "overdue", "unknown", "sent"])
def test_a_message_on_its_way_is_waited_for_until_its_deadline(database: str, fate: str) -> None:
    """What waits is canceled, what is being sent keeps its job until the answer or the deadline."""

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            told = await review_of(crew, recipients=2)
            home = told.held.home_id
            (one,) = await take(crew, most=1)
            if fate != "queued":
                assert await send(crew, one)
            if fate == "sent":
                assert await deliveries.record_sent(crew.worker, crew.actor, one, "q1", {})
            if fate == "unknown":
                lost = Failure(FailureClass.NETWORK_TIMEOUT, "lost")
                assert await deliveries.record_doubt(crew.worker, crew.actor, one, lost)
            if fate == "overdue":
                stand.move_clock(database, 60)
            gone = await erasing.erase(home)
            if fate != "sending":
                assert gone == Extent(0, 0, 1, 2)
                assert not await send(crew, one)
                return
            assert gone == NOTHING
            states = stand.rows(
                database,
                "select state::text from standing union all select state from delivery order by 1",
            )
            assert states == [("canceled",), ("canceled",), ("sending",)]
            assert await deliveries.record_sent(crew.worker, crew.actor, one, "q1", {})
            assert await erasing.erase(home) == Extent(0, 0, 1, 2)
            assert kinds(database, told.held.id)[-2:] == [Kind.SENT, Kind.ERASED]

    asyncio.run(scenario())
    assert stand.rows(database, "select from delivery") == []
    check_books(database)


def test_one_person_is_erased_and_the_others_stay(database: str) -> None:
    """What the person sent and what the person received goes; the rest of the home stays."""
    home, ann, bob, cleo = (uuid4() for _ in range(4))
    add_people(database, home, ann, bob, cleo)
    sent = Request(home=home, sender=ann, recipient=bob).write(database)
    received = Request(home=home, sender=cleo, recipient=ann).write(database)
    between = Request(home=home, sender=bob, recipient=cleo).write(database)
    elsewhere = Request(sender=ann, recipient=bob).write(database)

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            every = [each.job() for each in (sent, received, between, elsewhere)]
            await enqueue(erasing.crew, *every)
            scope = Scope(home, ann)
            counted = await count_erasable(erasing.cell, scope)
            assert counted == Extent(1, 2, 2, 0)
            assert await erasing.erase(home, ann) == counted
            assert await count_erasable(erasing.cell, scope) == NOTHING

    asyncio.run(scenario())
    for table, column in {
        "rewrite_request": "id",
        "recipient_snapshot": "request_id",
        "recipient_preference_snapshot": "request_id",
        "job": "request_id",
    }.items():
        rows = stand.rows(database, f"select {column} from {table}")
        assert {row[0] for row in rows} == {between.id, elsewhere.id}
    for table in ("member", "preference"):
        rows = stand.rows(database, f"select user_id from {table}")
        assert {row[0] for row in rows} == {bob, cleo}
    check_books(database)
    assert violations(database) == []


def test_every_table_of_a_home_is_erased_or_kept_on_purpose(shared: str) -> None:
    """A new table with a home in it has to say which of the two."""
    [[source]] = stand.rows(shared, "select prosrc from pg_proc where proname = 'erase'")
    tables = stand.rows(
        shared,
        "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'dragoman'::regnamespace and c.relkind in ('r', 'p')"
        " and not c.relispartition and a.attname = 'home_id' and not a.attisdropped",
    )
    erased = {table for (table,) in tables if f"delete from {table} " in source}
    assert {table for (table,) in tables} - erased == KEPT


def test_an_erasure_goes_in_bounded_steps(database: str) -> None:
    """Each step takes no more than it may, and the next goes on where it ended."""
    home = new_home()
    requests = [Request(home=home).write(database) for _ in range(3)]

    async def scenario() -> list[Extent]:
        async with erasing_of(database) as erasing:
            await enqueue(erasing.crew, *(each.job() for each in requests))
            await enqueue(
                erasing.crew,
                *(Request(home=home).job(pipeline=9, request_id=None) for _ in range(3)),
            )
            steps = []
            while step := await erasing.step(home, most=2):
                steps.append(step)
            return steps

    steps = asyncio.run(scenario())
    assert sum(step.requests for step in steps) == 3
    assert sum(step.jobs for step in steps) == 6
    assert max(step.requests for step in steps) == 2
    assert max(step.jobs for step in steps) == 4
    check_books(database)


def test_whoever_erases_is_written_down_with_counts_alone(database: str) -> None:
    """Each step is a change: who, which home, how much; counting is none."""
    home, ann = new_home(), uuid4()
    add_people(database, home, ann)
    Request(home=home, sender=ann).write(database)

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            await count_erasable(erasing.cell, Scope(home, ann))
            await erasing.erase(home, ann)
            await erasing.erase(new_home())

    asyncio.run(scenario())
    rows = stand.rows(
        database, "select actor_role, actor, verb, subject, facts from change_history"
    )
    about = {"home": str(home), "user": str(ann), "subject": f"home {home}", "verb": "erase"}
    assert rows == [
        (
            "eraser",
            "test",
            "erase",
            f"home {home}",
            about | {"people": 1, "requests": 0, "jobs": 0, "messages": 0},
        ),
        (
            "eraser",
            "test",
            "erase",
            f"home {home}",
            about | {"people": 0, "requests": 1, "jobs": 0, "messages": 0},
        ),
    ]


def test_the_chain_of_changes_goes_on_over_an_erasure(database: str) -> None:
    """The function of the owner links its line as every other line is linked."""
    home = new_home()
    add_people(database, home, uuid4())

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            crew = erasing.crew
            for _ in range(2):
                async with crew.operator.transaction("change") as tx:
                    await record_change(tx, crew.actor, "pause", "gate p")
                await erasing.erase(home)

    asyncio.run(scenario())
    check_changes(database)
    facts = [bytes(row[0]) for row in stand.rows(database, "select facts from change order by seq")]
    assert len(facts) == 3
    assert [canonical(read_object(each)) for each in facts] == facts


def test_nobody_but_the_eraser_erases_and_it_does_nothing_else(shared: str) -> None:
    """The function is refused to every other role; the eraser reads and writes no table at all."""
    for role in ROLES:
        with connect(shared, role) as connection:
            may = role in ("dragoman_eraser", "dragoman_owner")
            assert refusal(connection, CALL) == (None if may else DENIED), role
    tables = stand.rows(
        shared,
        "select relname::text, relkind::text from pg_class where relname <> 'moved_clock'"
        " and relnamespace = 'dragoman'::regnamespace and relkind in ('r', 'p', 'v')",
    )
    with connect(shared, "dragoman_eraser") as eraser:
        for table, kind in tables:
            assert refusal(eraser, f"select from {table}") == DENIED, table
            if kind != "v":
                assert refusal(eraser, f"delete from {table}") == DENIED, table
                assert refusal(eraser, f"insert into {table} default values") == DENIED, table
        marked = "set local dragoman.erasing = 'on'; delete from job"
        assert refusal(eraser, marked) == DENIED


GUARDED = [
    "job",
    "standing",
    "rewrite_request",
    "recipient_snapshot",
    "recipient_preference_snapshot",
    "delivery",
]


def test_even_the_owner_deletes_nothing_by_the_way(database: str) -> None:
    """Rows of a job or a request go by erasure alone, and a tombstone never."""

    async def scenario() -> None:
        async with erasing_of(database) as erasing:
            request = Request().write(database)
            await enqueue(erasing.crew, request.job())
            await review_of(erasing.crew)
            erased = await bring_to(erasing.crew, new_home(), State.COMPLETED)
            await erasing.erase(erased.home_id)

    asyncio.run(scenario())
    with connect(database) as owner:
        for table in GUARDED:
            found = refusal(owner, f"delete from {table}")
            assert found == guard("only_erasure_deletes"), table
        for change in (
            "seq = seq + 2",
            "home_id = gen_random_uuid()",
            "erased_by = job_id",
            "seq = seq + 1, last_event_at = last_event_at - interval '1 s'",
        ):
            found = refusal(owner, f"update tombstone set {change}")
            assert found == guard("tombstone_only_grows"), change
        marked = "set local dragoman.erasing = 'on'; delete from tombstone"
        assert refusal(owner, marked) == guard("tombstone_stays")

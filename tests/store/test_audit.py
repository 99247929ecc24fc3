"""The audit against real forgeries: each is made by the owner in the database, and found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from dragoman.core.chain import Fault
from dragoman.core.ids import JobId
from dragoman.core.job import State
from dragoman.store.changes import record_change
from dragoman.work.audit import Report, verify, verify_job
from tests import stand
from tests.store.kernel import KEY, bring, crew_of

STATES = [*State, State.COMPLETED, State.FAILED]


@pytest.fixture
def history(database: str) -> tuple[str, list[JobId]]:
    """Some jobs in every state and three changes; the jobs in the order of their ids."""

    async def live() -> list[JobId]:
        async with crew_of(database) as crew:
            jobs = [(await bring(crew, state, KEY + n)).id for n, state in enumerate(STATES)]
            for n in range(3):
                async with crew.operator.transaction("change") as tx:
                    await record_change(tx, crew.actor, "pause", f"gate {n}")
            return sorted(jobs)

    return database, asyncio.run(live())


def audited(
    database: str, job: JobId | None = None, since: datetime | None = None, portion: int = 3
) -> Report:
    """What an auditor finds, reading a few jobs at a time."""

    async def read() -> Report:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            return await (verify_job(cell, job) if job else verify(cell, since, portion))

    return asyncio.run(read())


def found(report: Report) -> Sequence[tuple[Fault, UUID | None, int | None]]:
    """The divergences as they can be compared."""
    assert report.broken == len(report.divergences)
    return [(each.fault, each.job_id, each.seq) for each in report.divergences]


def forge(database: str, *statements: str, **params: object) -> None:
    """Rewrite history as its owner can: with the triggers out of the way."""
    with stand.owner(database) as connection, connection.transaction():
        for table in ("event", "standing", "change"):
            connection.execute(f"alter table {table} disable trigger user".encode())
        for statement in statements:
            assert connection.execute(statement.encode(), params).rowcount
        for table in ("event", "standing", "change"):
            connection.execute(f"alter table {table} enable trigger user".encode())


LINK = "e.job_id, e.seq, e.kind, e.token, e.attempt, e.stage, e.reason, e.actor, e.at, e.facts"
RECHAIN = f"""
with recursive again as (
  select e.job_id, e.seq, chain('\\x', {LINK}) as hash
    from event e where e.job_id = %(id)s and e.seq = 1
  union all
  select e.job_id, e.seq, chain(a.hash, {LINK})
    from again a join event e on e.job_id = a.job_id and e.seq = a.seq + 1
)
update event e set hash = again.hash from again where e.job_id = again.job_id and e.seq = again.seq
"""
REHEAD = """
update standing s set head = e.hash
  from event e where s.id = %(id)s and e.job_id = s.id and e.seq = s.seq
"""


def test_what_nobody_touched_is_sound(history: tuple[str, list[JobId]]) -> None:
    """Every event and every change is computed again, in however small portions."""
    database, jobs = history
    (events,) = stand.rows(database, "select count(*) from event")
    for portion in (1, 3, 500):
        report = audited(database, portion=portion)
        assert (report.jobs, (report.events,), report.changes) == (len(jobs), events, 3)
        assert report.is_sound
    assert audited(database, jobs[0]).is_sound


FORGERIES = {
    "a fact": (
        "update event set facts = '{\"x\":1}' where job_id = %(id)s and seq = 2",
        Fault.HASH,
    ),
    "a fact of nothing": (
        "update event set facts = '' where job_id = %(id)s and seq = 2",
        Fault.EMPTY,
    ),
    "a reason": (
        "update event set reason = reason + 1 where job_id = %(id)s and seq = 2",
        Fault.HASH,
    ),
    "a kind": ("update event set kind = kind + 1 where job_id = %(id)s and seq = 2", Fault.HASH),
    "an actor": (
        "update event set actor = gen_random_uuid() where job_id = %(id)s and seq = 2",
        Fault.HASH,
    ),
    "a token": ("update event set token = null where job_id = %(id)s and seq = 2", Fault.HASH),
    "a time": (
        "update event set at = at + interval '1 microsecond' where job_id = %(id)s and seq = 2",
        Fault.HASH,
    ),
    "a home": (
        "update event set home_id = gen_random_uuid() where job_id = %(id)s and seq = 2",
        Fault.HOME,
    ),
    "the first event": ("delete from event where job_id = %(id)s and seq = 1", Fault.GAP),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_event_is_found_by_job_and_number(
    history: tuple[str, list[JobId]], name: str
) -> None:
    """The job and the event are named, alone and among all, and nothing else is accused."""
    database, jobs = history
    statement, fault = FORGERIES[name]
    forge(database, statement, id=jobs[4])
    assert found(audited(database)) == [(fault, jobs[4], 2)]
    assert found(audited(database, jobs[4])) == [(fault, jobs[4], 2)]
    assert audited(database, jobs[5]).is_sound


def test_a_deleted_event_leaves_a_gap(history: tuple[str, list[JobId]]) -> None:
    """An event in the middle is gone: the one after it has the wrong number."""
    database, jobs = history
    longest = stand.rows(
        database, "select job_id from event where seq >= 3 order by job_id limit 1"
    )[0][0]
    forge(database, "delete from event where job_id = %(id)s and seq = 2", id=longest)
    assert found(audited(database)) == [(Fault.GAP, longest, 3)]
    assert len(jobs) == len(STATES)


def test_a_cut_tail_is_seen_by_the_head(history: tuple[str, list[JobId]]) -> None:
    """The chain that is left is sound in itself; only the job's head says that it went on."""
    database, jobs = history
    forge(database, "delete from event where job_id = %(id)s and seq >= 2", id=jobs[2])
    assert found(audited(database)) == [(Fault.HEAD, jobs[2], 1)]
    forge(database, "delete from event where job_id = %(id)s", id=jobs[2])
    assert found(audited(database)) == [(Fault.NO_EVENTS, jobs[2], 0)]


def test_a_swapped_pair_is_found(history: tuple[str, list[JobId]]) -> None:
    """Two events of one job change their places."""
    database, jobs = history
    forge(
        database,
        "update event set seq = -seq where job_id = %(id)s and seq in (1, 2)",
        "update event set seq = 3 + seq where job_id = %(id)s and seq < 0",
        id=jobs[1],
    )
    assert found(audited(database)) == [(Fault.HASH, jobs[1], 1)]


def test_events_whose_job_was_taken_away_are_found(history: tuple[str, list[JobId]]) -> None:
    """A standing that was deleted leaves events that belong to nobody, wherever it stood."""
    database, jobs = history
    for gone in (jobs[0], jobs[3], jobs[-1]):
        forge(database, "delete from standing where id = %(id)s", id=gone)
    seen = found(audited(database))
    assert [(fault, job) for fault, job, _ in seen] == [
        (Fault.NO_JOB, job) for job in (jobs[0], jobs[3], jobs[-1])
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("verb = 'resume'", Fault.WORDS),
        ("actor = gen_random_uuid()", Fault.HASH),
        ("facts = '{}'", Fault.HASH),
        ("at = at - interval '1 day'", Fault.HASH),
    ],
)
def test_a_forged_change_is_found(
    history: tuple[str, list[JobId]], change: str, fault: Fault
) -> None:
    """The chain of what people changed is read as well."""
    database, _ = history
    forge(database, f"update change set {change} where seq = 2")
    assert found(audited(database)) == [(fault, None, 2)]


def test_a_whole_chain_computed_again_is_sound_in_itself(
    history: tuple[str, list[JobId]],
) -> None:
    """Whoever owns the database can rewrite a chain with its head: only an anchor shows it."""
    database, jobs = history
    forge(
        database,
        "update event set actor = gen_random_uuid() where job_id = %(id)s and seq = 2",
        RECHAIN,
        REHEAD,
        id=jobs[1],
    )
    assert audited(database).is_sound


def test_since_reads_what_has_moved_since_then(history: tuple[str, list[JobId]]) -> None:
    """Older chains are left out, and a broken one among them is not told."""
    database, jobs = history
    forge(
        database,
        "update event set at = at - interval '1 hour' where job_id = %(id)s",
        "update standing set last_event_at = last_event_at - interval '1 hour' where id = %(id)s",
        id=jobs[1],
    )
    (newest,) = stand.rows(database, "select max(at) from event")[0]
    since = newest - timedelta(minutes=30)
    assert found(audited(database)) == [(Fault.HASH, jobs[1], 1)]
    report = audited(database, since=since)
    assert (report.jobs, report.is_sound) == (len(jobs) - 1, True)
    assert audited(database, since=datetime(2100, 1, 1, tzinfo=UTC)).jobs == 0


def test_a_job_that_nobody_knows_has_no_chain(history: tuple[str, list[JobId]]) -> None:
    """Nothing is read and nothing is wrong."""
    database, _ = history
    assert audited(database, JobId(uuid4())).jobs == 0


def test_a_chain_that_grows_meanwhile_is_no_divergence(
    history: tuple[str, list[JobId]],
) -> None:
    """Jobs move while the auditor reads: heads and events are of one moment all the same."""
    database, _ = history

    async def read_while_moving() -> list[Report]:
        async with crew_of(database) as crew, stand.cell_of(database, "dragoman_auditor") as cell:
            moving = asyncio.gather(
                *(bring(crew, state, 500 + n) for n, state in enumerate([*State] * 4))
            )
            reports = [await verify(cell, portion=1)]
            while not moving.done():
                reports.append(await verify(cell, portion=2))
            await moving
            return reports

    assert all(report.is_sound for report in asyncio.run(read_while_moving()))

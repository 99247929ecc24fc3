"""The notary and its file: what is anchored, what an owner cannot rewrite, and every bad moment."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Generator, Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dragoman.core import ports
from dragoman.core.chain import Fault
from dragoman.core.errors import Refused
from dragoman.core.ids import JobId
from dragoman.core.job import State
from dragoman.store.changes import record_change
from dragoman.work.anchors import Anchored, verify_anchors
from dragoman.work.audit import Report, verify
from dragoman.work.notary import Notary
from tests import postgres, stand
from tests.store.kernel import KEY, bring, build_plain, crew_of
from tests.store.test_audit import RECHAIN, REHEAD, forge

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
EVERY_S = 300.0


@pytest.fixture
def database() -> Generator[str]:
    """A database with the plain pipeline, for one test."""
    name = postgres.clone(postgres.template_database(build_plain))
    yield name
    postgres.drop(name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the anchors go."""
    return tmp_path / "anchors"


async def live(database: str, *states: State) -> list[JobId]:
    """Jobs brought to these states, and one change."""
    async with crew_of(database) as crew:
        jobs = [(await bring(crew, state, KEY + n)).id for n, state in enumerate(states)]
        async with crew.operator.transaction("change") as tx:
            await record_change(tx, crew.actor, "pause", "gate")
        return jobs


async def anchor(database: str, path: Path, key: Ed25519PrivateKey = SIGNER) -> int:
    """A notary's two looks at the clock, far enough apart; how many lines it wrote."""
    async with stand.cell_of(database, "dragoman_auditor") as cell:
        notary = Notary(cell, path, key, EVERY_S)
        assert await notary.write_due() == 0, "one look does not tell which writers have ended"
        stand.move_clock(database, 61)
        return await notary.write_due()


def lived(database: str, path: Path, *states: State) -> list[JobId]:
    """A time in which jobs lived, anchored."""
    jobs = asyncio.run(live(database, *states))
    stand.move_clock(database, EVERY_S)
    assert asyncio.run(anchor(database, path)) == 1
    return jobs


def judged(database: str, path: Path, key: Ed25519PrivateKey = SIGNER) -> tuple[Report, Anchored]:
    """What an auditor finds who holds the file."""

    async def read() -> tuple[Report, Anchored]:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            report = await verify(cell)
            assert report.is_sound, "the chains alone show nothing"
            return report, await verify_anchors(cell, path, key.public_key(), report)

    return asyncio.run(read())


def faults(report: Report) -> Sequence[tuple[Fault, int | None]]:
    """What was found, and in which line."""
    return [(each.fault, each.seq) for each in report.divergences]


def lines(path: Path) -> list[dict[str, object]]:
    """The file, read by somebody else's eyes."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_covers_the_time_since_the_one_before(database: str, path: Path) -> None:
    """Windows follow each other without a gap, count every event, and are sound."""
    lived(database, path, State.COMPLETED, State.QUEUED)
    (before,) = stand.rows(database, "select count(*), count(distinct job_id) from event")
    lived(database, path, State.FAILED)
    (after,) = stand.rows(database, "select count(*), count(distinct job_id) from event")
    first, second = lines(path)
    assert (first["number"], second["number"], second["since"]) == (1, 2, first["upto"])
    assert (first["events"], first["jobs"]) == before
    assert (second["events"], second["jobs"]) == (after[0] - before[0], after[1] - before[1])
    report, anchored = judged(database, path)
    assert (report.is_sound, anchored.lines) == (True, 2)
    assert anchored.slowest < timedelta(seconds=EVERY_S)


LAST_TIME = """
update standing set last_event_at = (select max(at) from event where job_id = id) where id = %(id)s
"""
FIRST = "from event o where o.job_id = %(id)s and o.seq = 1"
SECOND = "where job_id = %(id)s and seq = 2"
REWRITTEN = {
    "an actor": [f"update event set actor = gen_random_uuid() {SECOND}", RECHAIN, REHEAD],
    "a home": [
        "update event set home_id = gen_random_uuid() where job_id = %(id)s and seq = 1",
        f"update event e set home_id = o.home_id {FIRST} and e.job_id = o.job_id",
        f"update standing s set home_id = o.home_id {FIRST} and s.id = o.job_id",
    ],
    "a time": [
        "update event set at = at + interval '1 second' where job_id = %(id)s",
        RECHAIN,
        REHEAD,
        LAST_TIME,
    ],
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_history_computed_again_by_its_owner_is_found(
    database: str, path: Path, name: str
) -> None:
    """Hashes and head are made new, the chain is sound in itself, and the anchor is not."""
    jobs = lived(database, path, State.COMPLETED, State.QUEUED)
    lived(database, path, State.QUEUED)
    forge(database, *REWRITTEN[name], id=jobs[1])
    assert faults(judged(database, path)[0]) == [(Fault.ANCHOR, 1)]


def test_a_job_taken_away_whole_and_one_slipped_in_are_found(database: str, path: Path) -> None:
    """Neither leaves a broken chain: only the count and the digest of their time tell."""
    jobs = lived(database, path, State.COMPLETED, State.QUEUED)
    gone = ["delete from event where job_id = %(id)s", "delete from standing where id = %(id)s"]
    forge(database, *gone, id=jobs[0])
    assert faults(judged(database, path)[0]) == [(Fault.ANCHOR, 1)]


def test_an_event_dated_back_is_found(database: str, path: Path) -> None:
    """New history cannot be made old: its time lies in a window, or before all of them."""
    lived(database, path, State.COMPLETED)
    (late,) = asyncio.run(live(database, State.COMPLETED))
    shift = [
        "update event set at = at - interval %(by)s where job_id = %(id)s",
        RECHAIN,
        REHEAD,
        LAST_TIME,
    ]
    forge(database, *(each.replace("%(by)s", "'360 s'") for each in shift), id=late)
    assert faults(judged(database, path)[0]) == [(Fault.ANCHOR, 1)]
    forge(database, *(each.replace("%(by)s", "'1 hour'") for each in shift), id=late)
    assert faults(judged(database, path)[0]) == [(Fault.BEFORE, 1)]


def test_changes_that_were_cut_or_made_new_are_found(database: str, path: Path) -> None:
    """The tail of the changes has no head in the database; the anchor has."""
    lived(database, path, State.QUEUED)
    lived(database, path, State.QUEUED)
    forge(database, "delete from change where seq = 2")
    assert faults(judged(database, path)[0]) == [(Fault.ANCHORED_CHANGES, 2)]
    forge(database, "delete from change")
    asyncio.run(live(database))
    assert faults(judged(database, path)[0]) == [
        (Fault.ANCHORED_CHANGES, 1),
        (Fault.ANCHORED_CHANGES, 2),
    ]


def test_a_file_that_was_tampered_with_is_found(database: str, path: Path) -> None:
    """A line changed, taken out, put twice, moved, or signed by somebody else."""
    for _ in range(3):
        lived(database, path, State.QUEUED)
    first, second, third = path.read_bytes().splitlines(keepends=True)
    forged = {
        b"".join([first, second.replace(b'"events":', b'"events":1'), third]): [
            (Fault.LINE, 2),
            (Fault.LINES, 3),
        ],
        b"".join([first, third]): [(Fault.LINES, 2)],
        b"".join([first, first, second, third]): [
            (Fault.LINES, 2),
            (Fault.LINES, 3),
            (Fault.LINES, 4),
        ],
        b"".join([second, third]): [(Fault.LINES, 1), (Fault.BEFORE, 2), (Fault.LINES, 2)],
    }
    for content, found in forged.items():
        path.write_bytes(content)
        assert faults(judged(database, path)[0]) == found
    path.write_bytes(first + second + third)
    stranger = Ed25519PrivateKey.generate()
    report, anchored = judged(database, path, stranger)
    assert (faults(report), anchored.lines) == ([(Fault.LINE, n) for n in (1, 2, 3)], 0)


def test_a_torn_last_line_is_taken_away(database: str, path: Path) -> None:
    """A crash in the middle of a line: an auditor passes over it, the next line repairs it."""
    lived(database, path, State.QUEUED)
    whole = path.read_bytes()
    for n, torn in enumerate((whole[:1], whole[:40], whole[:-1]), start=2):
        path.write_bytes(path.read_bytes() + torn)
        report, anchored = judged(database, path)
        assert (report.is_sound, anchored.lines) == (True, n - 1)
        lived(database, path, State.QUEUED)
        assert path.read_bytes().startswith(whole)
        report, anchored = judged(database, path)
        assert (report.is_sound, anchored.lines) == (True, n)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_around_the_line_does_no_harm(database: str, path: Path, moment: str) -> None:
    """Before it or after it: the next notary goes on where the file ends."""

    def die(tag: str, when: str) -> None:
        if (tag, when) == ("notary.append", moment):
            raise Killed

    asyncio.run(live(database, State.QUEUED))
    stand.move_clock(database, EVERY_S)
    ports.install(die)
    try:
        with pytest.raises(Killed):
            asyncio.run(anchor(database, path))
    finally:
        ports.install(None)
    lived(database, path, State.QUEUED)
    report, anchored = judged(database, path)
    assert (report.is_sound, anchored.lines) == (True, 1 if moment == "before" else 2)


def test_two_notaries_take_turns(database: str, path: Path) -> None:
    """While one holds the file the other writes nothing; two at once leave one chain of lines."""
    asyncio.run(live(database, State.QUEUED))
    stand.move_clock(database, EVERY_S)
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert asyncio.run(anchor(database, path)) == 0

    async def both() -> int:
        return sum(await asyncio.gather(*(anchor(database, path) for _ in range(2))))

    assert asyncio.run(both()) == 1
    assert judged(database, path)[0].is_sound


def test_a_time_is_not_over_while_somebody_writes_in_it(database: str, path: Path) -> None:
    """A transaction that is still open may commit an event of that time: the line waits for it."""
    jobs = asyncio.run(live(database, State.QUEUED))
    move = (
        "with moved as (update standing s set seq = seq + 1, last_event_at = clock(),"
        " head = chain(head, id, seq + 1, 28::int2, null, 1::int2, stage, 0::int2, id, clock(),"
        " null)"
        " where id = %s returning *)"
        " insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, hash)"
        " select id, home_id, seq, last_event_at, 28, 0, stage, 1, id, head from moved"
    )

    async def wait_for(writer: psycopg.Connection) -> tuple[int, int, int]:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            notary = Notary(cell, path, SIGNER, EVERY_S)
            await notary.write_due()
            stand.move_clock(database, 10 * EVERY_S)
            open_still = [await notary.write_due(), await notary.write_due()]
            writer.commit()
            return open_still[0], open_still[1], await notary.write_due()

    with stand.owner(database) as freezer:
        freezer.execute(
            "create or replace function clock() returns timestamptz language sql stable security"
            " definer set search_path = dragoman as 'select timestamptz ''2030-01-01'' +"
            " make_interval(secs => seconds) from moved_clock'"
        )
        freezer.execute("select ensure_partitions()")
    with psycopg.connect(
        postgres.dsn("dragoman_owner", database), options="-c search_path=dragoman"
    ) as writer:
        writer.execute(move, (jobs[0],))
        counts = asyncio.run(wait_for(writer))
    assert counts[:2] == (0, 0)
    assert counts[2] > 0
    assert judged(database, path)[0].is_sound
    newest = stand.rows(
        database, "select max(at) < timestamptz '2030-01-01' + interval '300 s' from event"
    )
    assert newest == [(True,)]


def test_a_long_time_is_caught_up_with_in_hours(database: str, path: Path) -> None:
    """Whoever begins late gets lines of an hour each, a bounded number at once."""
    asyncio.run(live(database, State.QUEUED))
    stand.move_clock(database, 100 * 3600)

    async def catch_up() -> list[int]:
        async with stand.cell_of(database, "dragoman_auditor") as cell:
            notary = Notary(cell, path, SIGNER, EVERY_S, margin_s=0)
            return [await notary.write_due() for _ in range(4)]

    nothing, first, second, rest = asyncio.run(catch_up())
    assert (nothing, first) == (0, 50)
    assert 100 <= first + second + rest <= 103
    assert judged(database, path)[0].is_sound


def test_a_file_of_another_key_is_not_written_to(database: str, path: Path) -> None:
    """What somebody else signed is kept as it is; so is a file that is none of ours."""
    lived(database, path, State.QUEUED)
    for content in (
        path.read_bytes(),
        b"somebody's shopping list\n",
        b"and one without an end",
        bytes(100_000),
    ):
        path.write_bytes(content)
        with pytest.raises(Refused):
            asyncio.run(anchor(database, path, Ed25519PrivateKey.generate()))
        assert path.read_bytes() == content


def test_a_file_that_cannot_be_written_is_said(database: str, path: Path) -> None:
    """A folder in its place, or no folder at all: a sentence, and nothing is lost."""
    path.mkdir()
    for place in (path, path / "none" / "anchors"):
        with pytest.raises(Refused):
            asyncio.run(anchor(database, place))

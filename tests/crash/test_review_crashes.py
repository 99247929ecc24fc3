"""A review survives kill -9 at every crossing of worker and relay, and nobody is told twice."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from psycopg.conninfo import conninfo_to_dict

from dragoman.channels.base import Channel
from dragoman.channels.file import File, FileSettings
from dragoman.core.canonical import read_object
from dragoman.sandbox.mail import MailSandbox
from dragoman.sandbox.server import Sandbox
from dragoman.store import deliveries
from dragoman.work.line import open_line
from dragoman.work.loop import Loop, Station
from dragoman.work.pipeline import Pipelines
from dragoman.work.relay import Relay
from dragoman.work.sweeper import Sweeper
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.crash import rig
from tests.invariants import violations
from tests.reviews import ANN, desk_of, pipeline_of, smtp_of

SHARDS = 4
LOG = "file:log"
CALM_S = 400.0
ROUNDS = 8


@dataclass
class Place:
    """A database and the targets of one schedule's own."""

    database: str
    sandbox: Sandbox
    mail: MailSandbox
    file: Path

    @property
    def channels(self) -> dict[str, Channel]:
        """Mail can do neither; a file can be asked."""
        return {"mailto": smtp_of(self.mail), "file": File(FileSettings(self.file))}

    @property
    def pipelines(self) -> Pipelines:
        """Reviews alone."""
        return {"review": pipeline_of(self.channels)}

    def rows(self, query: str) -> list[tuple]:
        """What the owner sees."""
        return stand.rows(self.database, query)


@contextmanager
def a_place(sandbox: Sandbox, database: str) -> Iterator[Place]:
    """Targets that nobody has sent to yet, around a database of this schedule's own."""
    try:
        with MailSandbox() as mail, TemporaryDirectory() as folder:
            yield Place(database, sandbox, mail, Path(folder) / "told.jsonl")
    finally:
        postgres.drop(database)


@contextmanager
def a_waiting_review(sandbox: Sandbox) -> Iterator[Place]:
    """A review that waits, and nothing that has happened yet."""
    with a_place(sandbox, stand.new_database()) as place:
        asyncio.run(_enqueue(place))
        yield place


async def _enqueue(place: Place) -> None:
    pipeline = place.pipelines["review"]
    async with desk_of(place.database, place.sandbox, place.mail, pipeline, place.channels) as desk:
        await desk.enqueue(recipients=[ANN, LOG])


def a_life(place: Place) -> rig.Life:
    """Everything that one process does for a review: fetch, ask, tell both, end."""

    async def life(database: str, sandbox: Sandbox) -> None:
        async with (
            rig.providers_of(sandbox) as providers,
            stand.station_of(database, place.pipelines) as station,
        ):
            plain, calls = (Worker(station, providers, asks=asks) for asks in (False, True))
            await plain.run_once()
            await calls.run_once()
            await Relay(station, place.channels).run_once()
            await plain.run_once()

    return life


@functools.cache
def crossings() -> tuple[rig.Crossing, ...]:
    """Every moment at which that process can die; its whole life ends well."""
    with Sandbox() as sandbox, a_waiting_review(sandbox) as place:
        found = rig.crossings_of(place.database, place.sandbox, a_life(place))
        assert place.rows("select state from standing") == [("completed",)]
        return tuple(found)


@asynccontextmanager
async def crew(place: Place) -> AsyncGenerator[list[Loop]]:
    """Two workers, two relays and a sweeper, each with a lease of its own."""
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(rig.providers_of(place.sandbox))
        opened = stand.station_of(place.database, place.pipelines)
        stations = [await stack.enter_async_context(opened)]
        first, dsn = stations[0], postgres.dsn("dragoman_worker", place.database)
        for name in ("second", "third", "fourth", "fifth"):
            line = open_line(dsn, role="test", name=name, lease_s=first.profile.lease_s)
            own = await stack.enter_async_context(line)
            stations.append(Station(first.cell, own, first.pipelines, first.profile))
        yield [
            *(Worker(station, providers) for station in stations[:2]),
            *(Relay(station, place.channels) for station in stations[2:4]),
            Sweeper(stations[4]),
        ]


async def one_round(place: Place) -> None:
    """Everybody works at the same time, as often as it takes to see a review through."""
    async with crew(place) as loops:
        for _ in range(3):
            await asyncio.gather(*(loop.run_once() for loop in loops))


def clean_up(place: Place) -> None:
    """Let time pass and the crew work until only what nobody can know is left."""
    for _ in range(ROUNDS):
        stand.move_clock(place.database, CALM_S)
        asyncio.run(one_round(place))
        if place.rows("select state from standing where state = 'completed'"):
            return
        open_ = place.rows("select 1 from delivery where state <> 'sent'")
        if open_ == place.rows("select 1 from delivery where state = 'unknown'") and open_:
            return


def is_between(at: rig.Crossing, first: str, last: str) -> int:
    """How many spans from one commit up to another this moment lies in: 0 or 1."""
    order = [(each.tag, each.moment) for each in crossings()]
    starts = [n for n, each in enumerate(order) if each == (first, "after")]
    ends = [n for n, each in enumerate(order) if each == (last, "after")]
    return sum(start <= at.index < end for start, end in zip(starts, ends, strict=True))


def survives(sandbox: Sandbox, at: rig.Crossing) -> list[str]:
    """What is wrong after a process died there and a crew has cleaned up."""
    with a_waiting_review(sandbox) as place:
        dies = rig.at_crossing(at)
        rig.live_and_die(place.database, place.sandbox, a_life(place), dies)
        under_way = [
            row[0] for row in place.rows("select channel from delivery where state = 'sending'")
        ]
        clean_up(place)
        mail = "unknown" if "mailto" in under_way else "sent"
        found = [*_told(place, mail), *_paid(place), *_ended(place, at, mail)]
        if len(under_way) != is_between(at, "db.start_sending", "db.record_sent"):
            found.append(f"under way were {under_way}")
        ledgers = rig.ledger_of(place.sandbox), place.mail.ledger()
        return [f"{at}: {each}" for each in (*found, *violations(place.database, *ledgers))]


def _told(place: Place, mail: str) -> Iterator[str]:
    """The mail at most once, and a doubt stands; the line in the file exactly once."""
    mails, lines = len(place.mail.ledger()), place.file.read_bytes().splitlines()
    states = dict(place.rows("select channel, state from delivery"))
    if states != {"mailto": mail, "file": "sent"}:
        yield f"expected mail {mail}: {states}"
    if len(lines) != 1 or read_object(lines[0])["recipient"] != LOG:
        yield f"{len(lines)} lines in the file"
    if mails > 1 or (mail == "sent" and mails != 1):
        yield f"{mails} mails"
    alerts = place.rows("select kind, severity from alert")
    if alerts != [("delivery_unknown", "act")] * (mail == "unknown"):
        yield f"alerts {alerts}"


def _paid(place: Place) -> Iterator[str]:
    """Each attempt asks the model once, and says so before."""
    calling = place.rows("select attempt from history where kind = 'calling'")
    if any(times > 1 for times in Counter(calling).values()):
        yield f"an attempt was paid twice: {calling}"
    [(job,)] = place.rows("select id::text from job")
    paid = [row["custom_id"] for row in rig.ledger_of(place.sandbox)["responses"]].count(job)
    if not 1 <= paid <= len(calling):
        yield f"{paid} answers paid, {len(calling)} announced"


def _ended(place: Place, at: rig.Crossing, mail: str) -> Iterator[str]:
    """Nothing is open but the job that waits for the unknown message alone."""
    [(state, attempts, stage)] = place.rows("select state, attempt_count, stage from standing")
    if (state, stage) != ("completed" if mail == "sent" else "queued", 2):
        yield f"the job is {state} at stage {stage}"
    if attempts != is_between(at, "db.claim", "db.finish"):
        yield f"{attempts} attempts burnt"
    if letters := place.rows("select code from dead_letter"):
        yield f"dead letters {letters}"


def moments(life: tuple[rig.Crossing, ...]) -> list[rig.Crossing]:
    """Where to die: a read leaves nothing behind, so it dies as its neighbours do."""
    return [each for each in life if each.tag != "db.read"]


@pytest.mark.req("R383")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whoever_dies_anywhere_tells_nobody_twice(shard: int) -> None:
    """Killed at any crossing: mail at most once, a target that can be asked exactly once."""
    dying = moments(crossings())[shard::SHARDS]
    with Sandbox() as sandbox:
        assert [fault for at in dying for fault in survives(sandbox, at)] == []


def test_the_life_that_is_cut_short_has_every_port_of_both_roles() -> None:
    """Each commit and each call stands there, before and after; the relay's doubts come below."""
    seen = Counter((each.tag, each.moment) for each in crossings())
    tags = {
        "db.read",
        "db.promote",
        "db.claim",
        "db.take_permit",
        "db.calling",
        "work.answer",
        "db.finish",
        "db.claim_deliveries",
        "db.start_sending",
        "relay.send",
        "db.record_sent",
    }
    assert {tag for tag, _ in seen} == tags
    assert all(seen[tag, "before"] == seen[tag, "after"] for tag in tags)
    assert [seen[tag, "before"] for tag in ("db.finish", "relay.send")] == [3, 2]


# A relay that settles what a dead one left, and dies too.


def build_in_doubt(owner_dsn: str) -> None:
    """A review whose two messages were on their way when a relay died."""
    stand.build(owner_dsn)
    name = str(conninfo_to_dict(owner_dsn)["dbname"])
    with Sandbox() as sandbox, MailSandbox() as mail:
        place = Place(name, sandbox, mail, Path("never-written"))
        asyncio.run(_enqueue(place))
        asyncio.run(_die_sending(place))


async def _die_sending(place: Place) -> None:
    async with (
        rig.providers_of(place.sandbox) as providers,
        stand.station_of(place.database, place.pipelines) as station,
    ):
        worker, cell, me = Worker(station, providers), station.cell, station.line.worker
        await worker.run_once()
        await worker.run_once()
        for one in await deliveries.claim_deliveries(cell, me, list(place.channels), 2):
            assert await deliveries.start_sending(cell, me, one, 6)


@contextmanager
def a_place_in_doubt(sandbox: Sandbox, *, has_line: bool) -> Iterator[Place]:
    """Some time after that death; the line had reached the file, or it had not."""
    database = postgres.clone(postgres.template_database(build_in_doubt))
    with a_place(sandbox, database) as place:
        stand.move_clock(database, CALM_S)
        if has_line:
            [(line,)] = place.rows("select payload from delivery where channel = 'file'")
            place.file.write_bytes(line)
        yield place


def a_relay_that_settles(place: Place) -> rig.Life:
    """One run: doubt what is overdue, ask who can be asked, send again what never arrived."""

    async def life(database: str, sandbox: Sandbox) -> None:
        async with stand.station_of(database, place.pipelines) as station:
            await Relay(station, place.channels).run_once()

    return life


@functools.cache
def crossings_of_settling(*, has_line: bool) -> tuple[rig.Crossing, ...]:
    """Every moment at which the second relay can die."""
    with Sandbox() as sandbox, a_place_in_doubt(sandbox, has_line=has_line) as place:
        return tuple(rig.crossings_of(place.database, place.sandbox, a_relay_that_settles(place)))


def settles(sandbox: Sandbox, at: rig.Crossing, has_line: bool) -> list[str]:
    """What is wrong after that relay died there and a crew has cleaned up."""
    with a_place_in_doubt(sandbox, has_line=has_line) as place:
        life = a_relay_that_settles(place)
        rig.live_and_die(place.database, sandbox, life, rig.at_crossing(at))
        clean_up(place)
        found = [*_told(place, "unknown"), *violations(place.database)]
        return [f"{at}: {each}" for each in found]


@pytest.mark.req("R369", "R370", "R383")
@pytest.mark.parametrize("has_line", [True, False], ids=["it arrived", "it did not"])
def test_a_relay_that_dies_while_it_settles_a_doubt_is_followed_by_another(has_line: bool) -> None:
    """The mail stays unknown with its alert; the line is adopted or sent, and stands there once."""
    with Sandbox() as sandbox:
        dying = moments(crossings_of_settling(has_line=has_line))
        assert [fault for at in dying for fault in settles(sandbox, at, has_line)] == []
    tags = {each.tag for each in crossings_of_settling(has_line=has_line)}
    ends = {"db.record_sent"} if has_line else {"db.record_unsent", "relay.send"}
    assert {"db.record_delivery_doubt", "relay.lookup", *ends} <= tags

"""Erasure in the middle of everything: what is on its way stores nothing, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict

from dragoman.core import ports
from dragoman.sandbox.server import Sandbox
from dragoman.store.erasure import Extent, Scope, count_erasable, erase
from tests import postgres, reviews, stand
from tests.crash import rig
from tests.invariants import violations
from tests.leaks import leaks, telling_piece
from tests.reviews import ANN, PROJECT, Desk, shop

NOTHING = Extent(0, 0, 0, 0)


async def erased(database: str, scope: Scope, most: int = 100) -> Extent:
    """Steps until one finds nothing."""
    total = NOTHING
    async with stand.cell_of(database, "dragoman_eraser") as cell:
        while step := await erase(cell, scope, "test", most):
            total += step
    return total


def erase_home(database: str, home: UUID) -> Extent:
    """A whole home."""
    return asyncio.run(erased(database, Scope(home)))


def homes(database: str) -> list[UUID]:
    """The homes that have a request, oldest first."""
    query = "select home_id from rewrite_request order by created_at"
    return [row[0] for row in stand.rows(database, query)]


def words_of(database: str, home: UUID) -> list[str]:
    """Every text of a home, each by a piece of it that looks the same everywhere."""
    query = (
        "select original_text from rewrite_request where home_id = %(home)s union all"
        " select rewritten_text from rewrite_output where home_id = %(home)s"
    )
    with stand.owner(database) as connection:
        return [telling_piece(row[0]) for row in connection.execute(query, {"home": home})]


def found(database: str, words: Sequence[str]) -> list[str]:
    """The columns of any table in which one of these words stands."""
    with stand.owner(database) as connection:
        return leaks(connection, words, own=())


NAMES = ("Zephyrine", "Melisande", "Ottoline")


async def tell(database: str, sandbox: Sandbox, *, is_one_home: bool) -> list[UUID]:
    """Three messages, each with a name in it, in one home or in three; their homes."""
    async with (
        rig.providers_of(sandbox) as providers,
        stand.orchestrator_of(database, providers) as door,
    ):
        homes: list[stand.Home] = []
        for name in NAMES:
            if not (is_one_home and homes):
                tastes = {"conflict_resolution_style": f"of_{name.lower()}"}
                homes.append(await stand.add_home(door.cell, "en", "en", tastes))
            text = f"{name}, you are always so loud at night. Please stop it, {name}!"
            home = homes[-1]
            await door.create(stand.Complaint(home.id, home.sender, home.recipient, text))
        return [home.id for home in homes]


def test_of_an_erased_home_no_word_is_left_anywhere_and_of_the_others_each() -> None:
    """A scan of every column of every table: texts, preferences, results; the chains hold."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        gone, *others = asyncio.run(tell(database, sandbox, is_one_home=False))
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        words = words_of(database, gone)
        kept = [word for other in others for word in words_of(database, other)]
        assert (len(words), len(kept)) == (2, 4)
        names = ["Zephyrine", "of_zephyrine"]
        assert {place.split(".")[0] for place in found(database, names)} >= {
            "rewrite_request",
            "preference",
            "recipient_preference_snapshot",
        }
        assert erase_home(database, gone) == Extent(2, 1, 1, 0)
        assert found(database, [*words, *names]) == []
        for word in kept:
            assert found(database, [word]), word
        assert erase_home(database, gone) == NOTHING
        rig.ends_clean(database, sandbox)


@pytest.mark.req("R207")
def test_a_line_for_an_erased_job_is_dropped_without_an_alert_and_an_unknown_one_with() -> None:
    """The others of its batch are completed; the line is an event of the erased job's chain."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.submit_once(database, sandbox)
        gone, *_ = homes(database)
        [[job]] = stand.rows(database, "select id from job where home_id = %s", gone)
        assert erase_home(database, gone) == Extent(2, 1, 1, 0)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)
        assert rig.alerts(database) == []
        last = "select kind, reason from history where job_id = %s order by seq desc limit 2"
        assert stand.rows(database, last, job) == [
            ("late_result", "lost_lease"),
            ("erased", "none"),
        ]
        assert rig.counted(rig.standings(database)) == rig.completed(rig.JOBS - 1)
        rig.ends_clean(database, sandbox)
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        sandbox.fault({"do": "unknown_id"})
        rig.submit_once(database, sandbox)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)
        assert rig.alerts(database) == ["unknown_batch_item"]
        assert rig.outputs(database) == rig.JOBS


@pytest.mark.parametrize(
    ("tag", "moment"),
    [
        ("submit.upload", "after"),
        ("submit.create", "after"),
        ("collect.poll", "after"),
        ("collect.download", "after"),
        ("db.finish", "before"),
        ("db.finish", "after"),
    ],
)
def test_whoever_is_stopped_while_its_jobs_are_erased_stores_nothing_of_them(
    tag: str, moment: ports.Moment
) -> None:
    """Submitter and collector go on where they stood: no text comes back, the rest is done."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        gone, *others = asyncio.run(tell(database, sandbox, is_one_home=False))
        words = words_of(database, gone)

        def meanwhile() -> None:
            is_being_written = (tag, moment) == ("db.finish", "before")
            assert erase_home(database, gone).requests == (not is_being_written)

        with rig.frozen_at(tag, moment, rig.elsewhere(meanwhile)):
            asyncio.run(rig.a_day(database, sandbox))
        erase_home(database, gone)
        assert homes(database) == others
        rig.clean_up(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed(len(others))
        assert found(database, words) == []
        rig.ends_clean(database, sandbox)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_eraser_killed_between_its_steps_is_simply_run_again(
    nth: int, moment: ports.Moment
) -> None:
    """Each step is whole or was never there; the next run ends what is left."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        [home] = asyncio.run(tell(database, sandbox, is_one_home=True))

        async def life(name: str, _: Sandbox) -> None:
            await erased(name, Scope(home), most=1)

        rig.live_and_die(database, sandbox, life, rig.at_nth("db.erase", moment, nth))
        rig.stays_clean(database, sandbox)
        erase_home(database, home)
        assert rig.standings(database) == []
        assert stand.rows(database, "select count(*) from tombstone") == [(3,)]
        rig.ends_clean(database, sandbox)


def test_of_an_erased_review_no_finding_no_address_and_no_path_is_left() -> None:
    """The findings, the messages, their recipients and the repository are in no table any more."""

    async def story(desk: Desk) -> None:
        job = await desk.through()
        pieces = [
            telling_piece(row[0])
            for row in desk.rows("select message from finding union select title from finding")
        ]
        words = [*pieces, ANN.removeprefix("mailto:"), shop().id, "shop.py"]
        assert len({place.split(".")[0] for place in found(desk.database, words)}) >= 5
        assert await erased(desk.database, Scope(PROJECT)) == Extent(0, 0, 1, 2)
        assert found(desk.database, words) == []
        assert desk.rows("select job_id from tombstone") == [(job,)]
        async with stand.cell_of(desk.database, "dragoman_eraser") as cell:
            assert await count_erasable(cell, Scope(PROJECT)) == NOTHING
        assert desk.faults_found() == []

    reviews.tell(story)


def build_erased(owner_dsn: str) -> None:
    """Three rewrites that ended well, and one of them erased since."""
    rig.build_waiting(owner_dsn)
    database = str(conninfo_to_dict(owner_dsn)["dbname"])
    with Sandbox() as sandbox:
        rig.submit_once(database, sandbox)
        erase_home(database, homes(database)[0])
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)


STONE = "select job_id from tombstone"
OUTPUT = "select job_id from rewrite_output limit 1"


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("I8", "update tombstone set head = sha256(head)"),
        ("I8", "update tombstone set seq = seq + 1"),
        ("I8", "delete from event where kind = 27"),
        ("I8", "delete from event e using tombstone t where e.job_id = t.job_id and e.kind = 11"),
        ("I8", "delete from tombstone"),
        ("I1", "update batch_item set state = 'open' where code = 'dropped'"),
        ("I1", f"update rewrite_output set job_id = ({STONE}) where job_id = ({OUTPUT})"),
        ("I2", "update event set kind = 3 where kind = 14"),
        ("I12", "update tombstone set home_id = gen_random_uuid()"),
    ],
)
def test_the_auditor_sees_what_is_wrong_with_a_tombstone(name: str, statement: str) -> None:
    """Each invariant names itself when the owner, with the guards off, breaks it."""
    database = postgres.clone(postgres.template_database(build_erased))
    try:
        assert violations(database) == []
        with stand.owner(database) as connection:
            for table in ("tombstone", "event", "rewrite_output"):
                connection.execute(f"alter table {table} disable trigger user")
            assert connection.execute(statement.encode()).rowcount > 0
        assert name in {each.split()[0] for each in violations(database)}
    finally:
        postgres.drop(database)

"""Results are taken in item by item: each wholly or not at all, however often and by however many."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from dragoman.core import ports
from dragoman.core.canonical import JSONObject
from dragoman.core.errors import CommitUnknown
from dragoman.sandbox.batches import Pace
from dragoman.sandbox.server import Sandbox
from dragoman.store import database as store
from dragoman.work import collector
from tests import stand
from tests.crash import rig

LINES_OF_FINISH = ("job/lock_units", "job/move_jobs", "output/store_outputs", "batch/settle_items")


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every item is finished in a transaction of its own."""
    monkeypatch.setattr(collector, "_CHUNK", 1)


def submitted(database: str, sandbox: Sandbox) -> None:
    """Three rewrites that were submitted and whose batch is done."""
    rig.submit_once(database, sandbox)
    sandbox.advance(rig.A_BATCH_IS_DONE_S)


def dies_in_statement(name: str, nth: int) -> rig.Life:
    """A collector that is killed as it turns to the n-th statement of this name."""

    async def life(database: str, sandbox: Sandbox) -> None:
        real, passed = store.statement, 0

        def statement(asked: str, package: str = "dragoman.store"):
            nonlocal passed
            passed += asked == name
            if passed == nth:
                ports.at("here", "before")
            return real(asked, package)

        store.statement = statement  # type: ignore[assignment]  # this process is about to die
        await collect_alone(database, sandbox)

    return life


async def collect_alone(database: str, sandbox: Sandbox) -> None:
    """One run of one collector, inside a process of its own."""
    async with rig.providers_of(sandbox) as providers, stand.station_of(database) as station:
        await collector.Collector(station, providers).run_once()


def wholly_finished(database: str) -> int:
    """How many items are finished in every respect; any that is so only in part is a fault."""
    rows = stand.rows(
        database,
        """select s.state = 'completed', o.job_id is not null, i.state = 'done', i.settled_at is not null,
                  exists (select from history h where h.job_id = s.id and h.kind = 'completed')
             from standing s join batch_item i on i.job_id = s.id left join rewrite_output o on o.job_id = s.id""",
    )
    assert all(len(set(row)) == 1 for row in rows), rows
    return sum(row[0] for row in rows)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("item", [1, 2, 3])
@pytest.mark.req("R066", "R137", "R101")
def test_a_collector_killed_at_an_item_has_finished_those_before_it(
    one_by_one: None, item: int, moment: ports.Moment
) -> None:
    """Killed before or after the commit of item k: k - 1 or k are whole, the next run ends the rest."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        at = rig.Crossing(item, "db.finish", moment)
        rig.live_and_die(database, sandbox, dying_at_nth(at), rig.Crossing(0, "here", "before"))
        assert wholly_finished(database) == (item if moment == "after" else item - 1)
        rig.stays_clean(database, sandbox)
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()
        assert len(sandbox.ledger()["items"]) == rig.JOBS


def dying_at_nth(at: rig.Crossing) -> rig.Life:
    """A collector that is killed at the n-th crossing with one tag."""

    async def life(database: str, sandbox: Sandbox) -> None:
        die, passed = ports.hook(), 0

        def count(tag: str, moment: ports.Moment) -> None:
            nonlocal passed
            passed += (tag, moment) == (at.tag, at.moment)
            if passed == at.index:
                die("here", "before")

        ports.install(count)
        await collect_alone(database, sandbox)

    return life


@pytest.mark.parametrize("name", LINES_OF_FINISH)
@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.req("R066", "R137")
def test_a_collector_killed_between_two_statements_leaves_its_chunk_untouched(
    monkeypatch: pytest.MonkeyPatch, chunk: int, name: str
) -> None:
    """Between any two statements of a finish: nothing of that chunk, everything of those before."""
    monkeypatch.setattr(collector, "_CHUNK", chunk)
    nth = 2 if chunk == 1 else 1
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        submitted(database, sandbox)
        here = rig.Crossing(0, "here", "before")
        rig.live_and_die(database, sandbox, dies_in_statement(name, nth), here)
        assert wholly_finished(database) == nth - 1
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert rig.counted(rig.standings(database)) == rig.completed()
        assert len(sandbox.ledger()["items"]) == rig.JOBS

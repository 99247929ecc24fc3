"""Each item for itself: judged alone, and finished wholly or not at all, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from dragoman.core import ports
from dragoman.core.ids import uuid7
from dragoman.rewrite.contracts import RewriteRequest, RoutingDecision
from dragoman.rewrite.orchestrator import Decided, new_job
from dragoman.sandbox.server import Sandbox
from dragoman.store import jobs
from dragoman.work import collector
from tests import stand
from tests.crash import rig

COPY = (
    (
        "insert into rewrite_request (id, home_id, recipient_user_id, rewrite_request, {others})"
        " select %(id)s, %(home)s, %(recipient)s, %(stored)s, {others}"
        " from rewrite_request where id = %(first)s"
    ),
    (
        "insert into recipient_snapshot select gen_random_uuid(), %(id)s, %(home)s,"
        " array[%(recipient)s::uuid], created_at from recipient_snapshot"
        " where request_id = %(first)s"
    ),
)
FINISH = (
    "job/lock_units",
    "job/record_verdicts",
    "job/move_jobs",
    "output/store_outputs",
    "batch/settle_items",
)


async def enqueue(database: str, sandbox: Sandbox, count: int) -> None:
    """One complaint that came in by the door, and so many more like it, of homes of their own."""
    async with (
        rig.providers_of(sandbox) as providers,
        stand.orchestrator_of(database, providers) as orchestrator,
    ):
        ((first),) = await stand.submit(orchestrator, [("en", "en")])
        asked = "select rewrite_request || jsonb_build_object('original_text', original_text)"
        known = stand.rows(database, f"{asked}, routing_decision from rewrite_request")[0]
        stored, routing = known[0], RoutingDecision.from_json(known[1])
        copies = []
        for _ in range(count - 1):
            who = {
                "rewrite_request_id": str(uuid7()),
                "home_id": str(uuid4()),
                "recipient_user_id": str(uuid4()),
            }
            pack = {**stored["context_pack"], "recipient_user_id": who["recipient_user_id"]}
            copies.append({**stored, **who, "context_pack": pack})
        write_copies(database, first, copies)
        made = [
            new_job(Decided(RewriteRequest.from_json(copy), routing, "default")) for copy in copies
        ]
        async with orchestrator.cell.transaction("enqueue") as tx:
            await jobs.enqueue_jobs(tx, orchestrator.actor, made)


def write_copies(database: str, first: object, copies: list[dict]) -> None:
    """Their requests and snapshots."""
    with stand.owner(database) as connection, connection.transaction():
        columns = connection.execute(
            "select string_agg(attname, ', ') from pg_attribute where attrelid ="
            " 'rewrite_request'::regclass and attnum > 0 and attname not in"
            " ('id', 'home_id', 'recipient_user_id', 'rewrite_request')"
        ).fetchone()
        assert columns is not None
        rows = [
            {
                "first": first,
                "id": copy["rewrite_request_id"],
                "home": copy["home_id"],
                "recipient": copy["recipient_user_id"],
                "stored": Jsonb({k: v for k, v in copy.items() if k != "original_text"}),
            }
            for copy in copies
        ]
        for statement in COPY:
            with connection.cursor() as cursor:
                cursor.executemany(statement.format(others=columns[0]).encode(), rows)


@contextmanager
def ready(count: int, *faults: dict) -> Generator[tuple[str, Sandbox]]:
    """So many rewrites in one batch that is done, and nobody has looked at its results."""
    with rig.fresh(rig.empty_database) as (database, sandbox):
        asyncio.run(enqueue(database, sandbox, count))
        sandbox.fault(*faults)
        rig.submit_once(database, sandbox, max_jobs_per_run=count)
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        assert stand.rows(database, "select items from batch") == [(count,)]
        yield database, sandbox


@dataclass(frozen=True)
class Whole:
    """How many items are finished, and of how many nothing has been written at all."""

    finished: int
    untouched: int


def whole(database: str) -> Whole:
    """Count the items; one that is neither finished nor untouched is a fault."""
    rows = stand.rows(
        database,
        """select array[s.state = 'completed', o.job_id is not null, i.state = 'done',
                  i.settled_at is not null,
                  exists (select from history h where h.job_id = s.id and h.kind = 'completed'),
                  exists (select from history h where h.job_id = s.id and h.kind = 'judged')],
                  s.state::text, i.state
             from standing s join batch_item i on i.job_id = s.id
             left join rewrite_output o on o.job_id = s.id""",
    )
    assert all(len(set(marks)) == 1 for marks, *_ in rows)
    untouched = [row for row in rows if row[1:] == ("batch_submitted", "open")]
    finished = [row for row in rows if all(row[0])]
    assert len(untouched) + len(finished) == len(rows)
    return Whole(len(finished), len(untouched))


@pytest.mark.parametrize(
    ("chunk", "count", "statements"),
    [(1, 9, FINISH), (7, 60, FINISH), (1_000, 1_000, FINISH[-2:])],
)
@pytest.mark.req("R066", "R159", "R012")
def test_a_kill_at_any_statement_leaves_every_item_whole_or_untouched(
    monkeypatch: pytest.MonkeyPatch, chunk: int, count: int, statements: tuple[str, ...]
) -> None:
    """Killed at each statement in turn; the next run ends the rest, and nothing is paid again."""
    monkeypatch.setattr(collector, "_CHUNK", chunk)
    life = rig.statement_by_statement(rig.a_collection)
    nth = 1 if chunk == count else 2  # each life but that of the thousand commits a chunk first
    moments: list[tuple[str, ports.Moment]] = [(f"sql.{name}", "before") for name in statements]
    with ready(count) as (database, sandbox):
        paid, done = len(rig.ledger_of(sandbox)["items"]), 0
        for tag, moment in [*moments, ("db.finish", "before"), ("db.finish", "after")]:
            rig.live_and_die(database, sandbox, life, rig.at_nth(tag, moment, nth))
            done += chunk * (nth if moment == "after" else nth - 1)
            assert whole(database) == Whole(done, count - done), tag
        rig.collect_once(database, sandbox)
        assert whole(database) == Whole(count, 0)
        assert len(rig.ledger_of(sandbox)["items"]) == paid
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)


@pytest.mark.parametrize(("count", "bad"), [(3, 0), (3, 1), (3, 2), (1_000, 637)])
@pytest.mark.req("R064", "R159")
def test_one_bad_item_fails_and_all_others_complete_in_the_same_run(count: int, bad: int) -> None:
    """It says too much: it fails with its code; every other one is stored by that one run."""
    with ready(count, {"do": "extra_keys", "item": {"index": bad}}) as (database, sandbox):
        rig.collect_once(database, sandbox)
        guilty = stand.rows(database, "select job_id from batch_item where item_index = %s", bad)
        assert stand.rows(
            database, "select id, last_failure ->> 'code' from standing where state = 'failed'"
        ) == [(*guilty[0], "schema_invalid")]
        good = "select count(*) from rewrite_output o join standing s on s.id = o.job_id"
        assert stand.rows(database, f"{good} where s.state = 'completed'") == [(count - 1,)]
        counts = "select counts from run where role = 'rewrite_batch_collector'"
        ((told,),) = stand.rows(database, counts)
        assert (told["succeeded"], told["failed"]) == (count - 1, 1)
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)

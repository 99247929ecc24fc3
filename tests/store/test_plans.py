"""The hot statements keep their plans: by index, whatever history lies behind them."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest

from dragoman.store.database import statement
from dragoman.store.migrate import migrate
from tests import postgres
from tests.store.attack import WORKER, connect

BIG = {"standing", "job", "batch", "batch_item", "delivery"}
TYPES = {
    "actor": "uuid",
    "worker": "uuid",
    "id": "uuid",
    "token": "uuid",
    "ids": "uuid[]",
    "homes": "uuid[]",
    "kind": "int2",
    "reason": "int2",
}
FILL = """
insert into actor values ('00000000-0000-0000-0000-000000000001', 'test', 'test', clock());
create function numbered(n int) returns uuid language sql as
  $$ select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
insert into job (id, pipeline, unit, home_id, mode, account, routing, max_attempts, queue_keys,
                 created_by, created_at)
select numbered(n), 2, 'unit' || n, gen_random_uuid(), 'batch', 'default', '{"provider": "p"}', 2,
       array[n % 4], numbered(1), clock()
  from generate_series(1, 20000) as n;
insert into standing (id, home_id, pipeline, not_before_at, sort_at, created_at, last_event_at,
                      unit_lock, queue_key, seq, state, stage, priority, attempt_count,
                      stage_attempts, free_requeues, max_attempts, reason, ready, head,
                      claim_token, claimed_by, claimed_at, provider_batch_id)
select id, home_id, pipeline,
       case when n between 2001 and 8000 then clock() + make_interval(secs => n) end,
       clock(), clock(), clock(), n, n % 4, 1, state, 0, 0, 0, 0, 0, 2, 0, n <= 2000, '\\x00',
       case when state in ('processing', 'batch_submitted') then gen_random_uuid() end,
       case when state = 'processing' then gen_random_uuid() end,
       case when state = 'processing' then clock() end,
       case when state = 'batch_submitted' then 'theirs' end
  from (select j.*, substr(unit, 5)::int as n from job j) j
 cross join lateral (
   select (case when n <= 8000 then 'queued' when n <= 8400 then 'processing'
                when n <= 9000 then 'batch_submitted' else 'completed' end)::state as state) s;
insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, hash)
select id, home_id, seq, last_event_at, 1, 0, 0, 1, gen_random_uuid(), head from standing;
insert into batch (id, nonce, provider, adapter_kind, account, model, group_key, state, token,
                   claimed_by, items, created_at, provider_batch_id, closed_at, files_deleted_at)
select numbered(n), 'n' || n, 'p', 'a', 'default', 'm', 'g', 'completed', gen_random_uuid(),
       gen_random_uuid(), 10, clock(), 'theirs' || n, case when n > 5 then clock() end,
       case when n > 5 then clock() end
  from generate_series(1, 2000) as n;
insert into batch_item (batch_id, item_index, job_id, home_id, token, attempt, custom_id, state)
select numbered(1 + n / 10), n % 10, numbered(n + 1), gen_random_uuid(), gen_random_uuid(), 1,
       n::text, case when n < 50 then 'open' else 'done' end
  from generate_series(0, 19999) as n;
insert into delivery (id, changelist_id, recipient, review_version, home_id, job_id, channel,
                      guarantee, key, payload, payload_sha256, state, max_attempts, created_at,
                      notification_id, notified_at, deadline_at, first_started_at, evidence)
select gen_random_uuid(), 'c' || n, 'r', 1, gen_random_uuid(), gen_random_uuid(), 'mailto',
       'lookup', n::text, '\\x00', '\\x00',
       case when n < 100 then 'queued' when n < 200 then 'unknown' else 'sent' end, 5, clock(),
       'x', case when n >= 200 then clock() end, clock(), clock(), '{}'
  from generate_series(1, 10000) as n;
analyze;
"""
# Each hot statement, and the indexes that it must walk by.
HOT = {
    "job/promote_due": {"standing_due", "standing_pkey"},
    "job/claim_jobs": {"standing_ready", "standing_pkey"},
    "intake/count_waiting": {"standing_home"},
    "intake/last_waiting": {"standing_home"},
    "job/count_due": {"standing_ready", "standing_due"},
    "job/move_jobs": {"standing_pkey"},
    "job/begin_calls": {"standing_pkey"},
    "job/note_events": {"standing_pkey"},
    "job/cancel_jobs": {"standing_pkey"},
    "job/find_stale": {"standing_claimed"},
    "job/count_claims": {"standing_claimed"},
    "job/lock_standings": {"standing_pkey"},
    "job/wake_jobs": {"standing_pkey"},
    "job/store_stage_results": {"standing_pkey"},
    "dead_letter/bury_jobs": {"standing_pkey"},
    "batch/record_batch": {"standing_pkey"},
    "batch/start_submission": {"batch_pkey"},
    "batch/record_submitted": {"batch_pkey", "standing_pkey"},
    "batch/record_poll": {"batch_pkey"},
    "batch/find_open": {"batch_open"},
    "batch/open_items": {"standing_pkey", "job_pkey"},
    "batch/settle_items": {"batch_item_pkey"},
    "batch/close_batch": {"batch_pkey"},
    "delivery/claim_deliveries": {"delivery_due", "delivery_pkey"},
    "delivery/start_sending": {"delivery_pkey", "standing_pkey"},
    "delivery/record_sent": {"delivery_pkey", "standing_pkey"},
    "delivery/find_overdue": {"delivery_doubt"},
    "delivery/find_doubtful": {"delivery_in_doubt"},
    "delivery/find_unproved": {"delivery_unproved", "delivery_half_marked", "delivery_repeated"},
}


def build_production(owner_dsn: str) -> None:
    """The schema as an installation has it, with its own clock, and much behind it."""
    migrate(owner_dsn)
    options = "-c search_path=dragoman"
    with psycopg.connect(owner_dsn, autocommit=True, options=options) as connection:
        connection.execute(FILL.encode())


@pytest.fixture(scope="module")
def worker() -> Generator[psycopg.Connection]:
    """A worker's connection to twenty thousand jobs, with the settings of its role."""
    database = postgres.clone(postgres.template_database(build_production))
    with connect(database, WORKER) as connection:
        yield connection
    postgres.drop(database)


def plan(connection: psycopg.Connection, name: str, *options: str) -> dict[str, Any]:
    """The generic plan of a statement, as the worker's role prepares it."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", number, statement(name))
    types = ", ".join(TYPES.get(each, "unknown") for each in names)
    given = f"({', '.join(['null'] * len(names))})" if names else ""
    connection.execute(f"prepare hot {f'({types})' if names else ''} as {text}".encode())
    try:
        explain = f"explain ({', '.join((*options, 'format json'))}) execute hot {given}"
        row = connection.execute(explain.encode()).fetchone()
    finally:
        connection.execute("deallocate hot")
    assert row is not None
    return row[0][0]["Plan"]


def nodes(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan's nodes, from the top."""
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


def scanned(tree: dict[str, Any]) -> set[str]:
    """Big tables that a plan reads from end to end."""
    return {
        node["Relation Name"]
        for node in nodes(tree)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG
    }


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_walks_by_its_index(worker: psycopg.Connection, name: str) -> None:
    """No hot statement reads a big table whole, and each uses the index that was made for it."""
    tree = plan(worker, name)
    assert scanned(tree) == set()
    assert indexes(tree) >= HOT[name]


def indexes(tree: dict[str, Any]) -> set[str]:
    """The indexes that a plan walks by."""
    return {node["Index Name"] for node in nodes(tree) if "Index Name" in node}


def test_the_claim_is_ordered_by_its_index(worker: psycopg.Connection) -> None:
    """Each queue is read in order and stops at its share: below the merge nothing is sorted."""
    (lateral,) = [
        node
        for node in nodes(plan(worker, "job/claim_jobs"))
        if node["Node Type"] == "Nested Loop" and "standing_ready" in indexes(node)
    ]
    below = [node["Node Type"] for node in nodes(lateral)]
    assert "Sort" not in below
    assert below.count("Limit") == 1


def test_history_is_read_by_its_job(worker: psycopg.Connection) -> None:
    """Asking what was settled touches the events of the asked jobs only."""
    tree = plan(worker, "job/find_settled")
    filled = worker.execute("select tableoid::regclass::text from event limit 1").fetchone()
    assert filled is not None
    read = [node for node in nodes(tree) if node.get("Relation Name") == filled[0]]
    assert read
    assert {node["Node Type"] for node in read} <= {
        "Index Scan",
        "Index Only Scan",
        "Bitmap Heap Scan",
    }


@pytest.mark.parametrize("name", ["job/claim_jobs", "job/move_jobs", "batch/start_submission"])
def test_the_clock_costs_no_call(worker: psycopg.Connection, name: str) -> None:
    """In production clock() is written into the plan as clock_timestamp(), not called."""
    told = str(plan(worker, name, "verbose"))
    assert "clock_timestamp()" in told
    assert "clock()" not in told.replace("clock_timestamp()", "")


def test_a_sequential_scan_is_found(worker: psycopg.Connection) -> None:
    """The search itself bites: a statement without an index is seen to read everything."""
    worker.execute("set enable_seqscan = on")
    worker.execute("set enable_indexscan = off")
    worker.execute("set enable_indexonlyscan = off")
    worker.execute("set enable_bitmapscan = off")
    try:
        assert scanned(plan(worker, "job/find_stale")) >= {"standing"}
    finally:
        worker.execute("reset enable_seqscan")
        worker.execute("reset enable_indexscan")
        worker.execute("reset enable_indexonlyscan")
        worker.execute("reset enable_bitmapscan")

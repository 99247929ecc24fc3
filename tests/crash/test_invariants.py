"""The auditor itself bites: each invariant, broken by hand, is reported by its name."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict

from dragoman.sandbox.server import Sandbox
from tests import postgres, stand
from tests.crash import rig
from tests.invariants import violations

TABLES = ("job", "standing", "event", "rewrite_output", "rewrite_request", "batch", "delivery")
ONE = "(select id from standing order by id limit 1)"
LAST = "(job_id, seq) = (select job_id, seq from event order by job_id desc, seq desc limit 1)"
TEXT = "(select rewritten_text from rewrite_output limit 1)"
MESSAGE = """
insert into delivery (id, changelist_id, recipient, review_version, home_id, job_id, channel,
                      guarantee, key, payload, payload_sha256, state, max_attempts,
                      notification_id, notified_at, created_at)
select gen_random_uuid(), 'c', 'mailto:a', 1, home_id, id, 'mailto',
       'lookup', 'k', '', '', '{state}', 5, {evidence}, {told}, clock()
  from standing where id = {one}
"""


def message(state: str, evidence: str = "'e'", told: str = "null") -> str:
    """A message of the first job, in a state and with these marks."""
    return MESSAGE.format(state=state, evidence=evidence, told=told, one=ONE)


def build_done(owner_dsn: str) -> None:
    """A database in which three rewrites are completed, with guards that can be switched off."""
    rig.build_waiting(owner_dsn)
    database = str(conninfo_to_dict(owner_dsn)["dbname"])
    with Sandbox() as sandbox:
        asyncio.run(rig.a_day(database, sandbox))


def broken(*statements: str, at_rest: bool = False) -> list[str]:
    """What the auditor says after the owner, with the guards off, did this."""
    database = postgres.clone(postgres.template_database(build_done))
    try:
        with stand.owner(database) as connection:
            for table in TABLES:
                connection.execute(f"alter table {table} disable trigger user")
            for each in statements:
                assert connection.execute(each.encode()).rowcount > 0, each
        return violations(database, at_rest=at_rest)
    finally:
        postgres.drop(database)


def test_a_healthy_database_has_no_violation() -> None:
    """Three completed rewrites at rest: nothing to report, but a success that left no trace."""
    database = postgres.clone(postgres.template_database(build_done))
    try:
        assert violations(database, at_rest=True) == []
        [untold] = violations(database, answered=[UUID(int=1)])
        assert untold.startswith("I11 ")
    finally:
        postgres.drop(database)


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("I1", [f"delete from standing where id = {ONE}"]),
        (
            "I1",
            ["update queue_delta set n = n + 1"],
        ),
        ("I1", [f"delete from job where id = {ONE}"]),
        ("I1", ["update rewrite_request set failed_at = clock()"]),
        ("I2", [f"update standing set state = 'failed' where id = {ONE}"]),
        ("I2", [f"delete from event where job_id = {ONE} and kind = 5"]),
        ("I3", ["delete from rewrite_output where job_id = " + ONE]),
        ("I3", [f"update rewrite_output set home_id = gen_random_uuid() where job_id = {ONE}"]),
        ("I4", ["update batch_item set state = 'open' where item_index = 1"]),
        ("I4", ["update batch_item set item_index = 7 where item_index = 2"]),
        ("I4", [f"update standing set provider_batch_id = 'batch_other' where id = {ONE}"]),
        (
            "I5",
            [
                message("sent", told="clock()"),
                "update delivery set first_started_at = notified_at + interval '1 s'",
            ],
        ),
        ("I5", [message("unknown")]),
        ("I6", [f"update event set token = gen_random_uuid() where job_id = {ONE} and kind = 5"]),
        ("I7", ["update run set skipped = (select original_text from rewrite_request limit 1)"]),
        (
            "I7",
            [f"update event set facts = convert_to({TEXT}, 'UTF8') where {LAST}"],
        ),
        ("I8", ["update event set reason = 1 where " + LAST]),
        ("I8", [f"delete from event where {LAST}"]),
        ("I8", [f"update standing set free_requeues = 1 where id = {ONE}"]),
        (
            "I8",
            [f"update event set at = at - interval '1 second' where job_id = {ONE} and seq = 3"],
        ),
        ("I8", [f"update event set kind = 99 where {LAST}"]),
        ("I10", [f"update standing set free_requeues = 4 where id = {ONE}"]),
        ("I14", [message("unknown")]),
        ("I12", [f"update event set home_id = gen_random_uuid() where {LAST}"]),
    ],
)
def test_what_is_broken_by_hand_is_reported(name: str, statements: list[str]) -> None:
    """Each invariant names itself when a row breaks it."""
    assert name in {each.split()[0] for each in broken(*statements)}


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("I9", [f"update standing set state = 'queued', ready = true where id = {ONE}"]),
        ("I9", ["update batch set closed_at = null"]),
        ("I9", ["update batch set files_deleted_at = null"]),
        ("I13", [message("unknown", evidence="null")]),
    ],
)
def test_what_is_left_undone_is_reported_at_rest(name: str, statements: list[str]) -> None:
    """Work that is not over is a violation only when everything should be over."""
    assert name in {each.split()[0] for each in broken(*statements, at_rest=True)}


def test_a_ledger_that_tells_another_story_is_reported() -> None:
    """Created twice, unknown to us, run twice, never run, files left behind: I3 or I4."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        asyncio.run(rig.a_day(database, sandbox))
        true = rig.ledger_of(sandbox)
        assert violations(database, true, at_rest=True) == []
        for name, told in stories(true):
            found = violations(database, told, at_rest=True)
            assert {each.split()[0] for each in found} == {name}, found


def stories(true: Any) -> list[tuple[str, Any]]:
    """The ledger, wrong in one way each."""
    twice, stranger, paid, unpaid, left, gone = (deepcopy(true) for _ in range(6))
    twice["creates"].append(twice["creates"][0] | {"batch_id": "batch_2"})
    nobody = {"dragoman_nonce": "0" * 32}
    stranger["creates"].append(stranger["creates"][0] | {"metadata": nobody, "batch_id": "b"})
    paid["items"].append(paid["items"][0])
    unpaid["items"].pop()
    left["files"] = {theirs: ["file-1"] for theirs in left["files"]}
    gone["creates"].clear()
    wrong = {"I4": (twice, stranger, paid, left, gone), "I3": (unpaid,)}
    return [(name, told) for name, ledgers in wrong.items() for told in ledgers]


def test_a_mail_that_arrived_twice_is_reported() -> None:
    """Two effects of one key at the same recipient."""
    database = postgres.clone(postgres.template_database(build_done))
    try:
        mail = {"message_id": "<a@b>", "recipient": "c@example.org"}
        assert violations(database, None, [mail]) == []
        assert [each[:2] for each in violations(database, None, [mail, mail])] == ["I5"]
    finally:
        postgres.drop(database)

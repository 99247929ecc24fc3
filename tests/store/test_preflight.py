"""What a process refuses to start on, by its name and with the line to change."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from dragoman.store.preflight import (
    Expected,
    Facts,
    Unfit,
    accept_risks,
    lock_faults,
    preflight,
    server_faults,
)
from dragoman.store.roles import ADMIN
from tests import postgres, stand
from tests.store.attack import connect
from tests.store.kernel import crew_of

# The server of the tests is made without fsync on purpose, so most tests look past that.
WORKER = Expected("dragoman_worker", is_durable=False)
GOOD = Facts(
    user="dragoman_worker",
    login="dragoman_worker",
    version=150018,
    is_replica=False,
    is_read_only=False,
    schema="dragoman",
    has_schema=True,
    settings={
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_statement": "none",
        "log_parameter_max_length_on_error": "0",
        "debug_print_parse": "off",
        "debug_print_rewritten": "off",
        "debug_print_plan": "off",
        "pgaudit.log_parameter": None,
        "log_min_duration_statement": "-1",
        "log_min_duration_sample": "-1",
        "log_transaction_sample_rate": "0",
        "log_parameter_max_length": "-1",
        "auto_explain.log_min_duration": None,
        "auto_explain.log_parameter_max_length": None,
        "max_locks_per_transaction": "64",
        "max_connections": "100",
        "max_prepared_transactions": "0",
    },
)


def ask(database: str, expected: Expected = WORKER, login: str = "dragoman_worker") -> list[str]:
    """What the preflight of a process says."""

    async def scenario() -> list[str]:
        async with stand.cell_of(database, login) as cell:
            return await preflight(cell, expected)

    return asyncio.run(scenario())


def refusal(database: str, expected: Expected = WORKER, login: str = "dragoman_worker") -> str:
    """The sentence with which a process does not start."""
    with pytest.raises(Unfit) as refused:
        ask(database, expected, login)
    return str(refused.value)


@contextmanager
def set_for_the_worker(database: str, **settings: str) -> Generator[None]:
    """What an operator may have set on the server."""
    with psycopg.connect(postgres.dsn(ADMIN, database), autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(
                sql.SQL("alter role dragoman_worker in database {} set {} = {}").format(
                    sql.Identifier(database), sql.Identifier(name), value
                )
            )
    yield


@pytest.mark.parametrize("role", ["orchestrator", "worker", "operator", "frontend"])
def test_every_process_starts_on_a_database_that_is_right(shared: str, role: str) -> None:
    """Each role may ask what it has to know, and hears nothing."""
    name = f"dragoman_{role}"
    assert ask(shared, replace(WORKER, role=name), name) == []


def test_a_pooler_that_makes_everybody_one_user_is_refused(shared: str) -> None:
    """Who we are is proved, not assumed."""
    said = refusal(shared, login="dragoman_operator")
    assert "should be dragoman_worker and are dragoman_operator" in said


def test_a_server_that_may_lose_what_it_answered_is_refused(shared: str) -> None:
    """The tests' own server, which runs without fsync, is no place for work."""
    said = refusal(shared, replace(WORKER, is_durable=True))
    assert "fsync is off: set fsync = on in postgresql.conf" in said


def test_commits_that_nobody_waits_for_are_refused(database: str) -> None:
    """An answer before the write is on disk would be a promise we cannot keep."""
    with set_for_the_worker(database, synchronous_commit="off"):
        said = refusal(database, replace(WORKER, is_durable=True))
    assert "set synchronous_commit = on" in said


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("log_statement", "all", "log_statement = none"),
        ("log_min_messages", "warning", "log_min_messages = log"),
        ("log_min_error_statement", "error", "log_min_error_statement = panic"),
        ("log_parameter_max_length_on_error", "-1", "log_parameter_max_length_on_error = 0"),
        ("debug_print_plan", "on", "debug_print_plan = off"),
    ],
)
def test_a_log_that_would_keep_values_is_refused_or_accepted_by_name(
    database: str, name: str, value: str, line: str
) -> None:
    """The refusal names the setting and its right value; what is accepted comes back."""
    with set_for_the_worker(database, **{name: value}):
        said = refusal(database)
        assert f"{name}={value}" in said
        assert line in said
        assert refusal(database, replace(WORKER, accepted=frozenset({"another"}))) == said
        assert ask(database, replace(WORKER, accepted=frozenset({name}))) == [f"{name}={value}"]


def test_slow_statements_may_be_logged_without_their_values(database: str) -> None:
    """A log of durations is a risk only while it shows parameters."""
    with set_for_the_worker(
        database, log_min_duration_statement="1s", log_parameter_max_length="-1"
    ):
        assert "log_min_duration_statement=1s" in refusal(database)
    with set_for_the_worker(database, log_parameter_max_length="0"):
        assert ask(database) == []


def test_a_risk_that_was_accepted_is_an_event_once(database: str) -> None:
    """Whoever starts next finds it written down; another value is another risk."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            for risks in (["log_statement=all"], ["log_statement=all"], ["log_statement=mod"]):
                await accept_risks(crew.worker, crew.actor, risks)

    asyncio.run(scenario())
    query = "select actor_role, verb, subject from change_history order by seq"
    assert stand.rows(database, query) == [
        ("test", "accept", "server log log_statement=all"),
        ("test", "accept", "server log log_statement=mod"),
    ]


def test_another_cells_database_is_refused(database: str) -> None:
    """The row in the schema says which cell it is."""
    with connect(database) as connection:
        connection.execute("update cell set name = 'north'")
    assert "this database is cell north, and the setting cell says main" in refusal(database)


def test_an_older_schema_is_refused_with_the_command(database: str) -> None:
    """A migration that is missing is named."""
    with connect(database) as connection:
        connection.execute("delete from migration where name = '0008_preflight'")
    assert "lacks 0008_preflight: dragoman db migrate" in refusal(database)


@pytest.mark.parametrize(
    "right", ["revoke select on installed from dragoman_worker", "drop view installed"]
)
def test_a_schema_from_before_there_was_a_preflight_is_refused(database: str, right: str) -> None:
    """Where nothing can be read of the schema, that is said."""
    with connect(database) as connection:
        connection.execute(right.encode())
    assert "an older one" in refusal(database)


def test_a_newer_schema_is_refused_only_when_something_was_taken_away(database: str) -> None:
    """Workers of before go on while a newer program expands; a contraction ends that."""
    with connect(database) as connection:
        connection.execute("insert into migration values ('9001_more', '', now())")
        assert ask(database) == []
        connection.execute("insert into migration values ('9002_contract_job', '', now())")
    assert "newer than this program, it has 9002_contract_job" in refusal(database)


def test_a_history_without_room_past_this_month_is_refused(database: str) -> None:
    """With one month ahead somebody is told; with none nothing starts."""
    with connect(database) as connection:
        months = [
            row[0]
            for row in connection.execute(
                "select relname from pg_class where relispartition and relkind = 'r'"
                " and relname ~ '^event_' order by 1"
            )
        ]
        assert len(months) == 4
        for month in months[:1:-1]:
            connection.execute(f"drop table {month}".encode())
        assert ask(database) == []
        alert = connection.execute("select kind, subject, facts from alert").fetchall()
        assert alert == [("partitions_short", "event", {"months": 2})]
        connection.execute(f"drop table {months[1]}".encode())
        assert "no room past this month: run dragoman db migrate" in refusal(database)
        connection.execute("select ensure_partitions()")
    assert ask(database) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"version": 140011}, "PostgreSQL 14 is too old: 15 or newer"),
        ({"is_replica": True}, "a replica or read-only"),
        ({"is_read_only": True}, "a replica or read-only"),
        ({"login": "pooler"}, "should be dragoman_worker"),
    ],
)
def test_what_no_server_here_shows_is_refused_too(
    changed: Mapping[str, Any], sentence: str
) -> None:
    """An old server, a replica and a borrowed session, as their facts would read."""
    expected = Expected("dragoman_worker")
    assert list(server_faults(GOOD, expected)) == []
    (said,) = server_faults(replace(GOOD, **changed), expected)
    assert sentence in said


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"full_page_writes": "off"}, "full_page_writes = on"),
        ({"synchronous_commit": "local"}, "synchronous_commit = on"),
        ({"pgaudit.log_parameter": "on"}, "pgaudit.log_parameter = off"),
        ({"auto_explain.log_min_duration": "0"}, "auto_explain.log_min_duration = -1"),
    ],
)
def test_a_setting_that_no_server_here_has_is_refused_by_name(
    settings: Mapping[str, str], named: str
) -> None:
    """The line to change is in the sentence."""
    facts = replace(GOOD, settings={**GOOD.settings, **settings})
    (said,) = server_faults(facts, Expected("dragoman_worker"))
    assert named in said


def test_all_writers_together_leave_half_of_the_locks_free() -> None:
    """Each may lock the units of two chunks; one process too many is told what to set."""
    assert list(lock_faults(GOOD, chunk=200, writers=7)) == []
    (said,) = lock_faults(GOOD, chunk=200, writers=8)
    assert "9 worker processes may hold 3600 locks" in said
    assert "max_locks_per_transaction = 72" in said
    roomy = replace(GOOD, settings={**GOOD.settings, "max_locks_per_transaction": "72"})
    assert list(lock_faults(roomy, chunk=200, writers=8)) == []

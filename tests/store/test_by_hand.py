"""Each role in turn at a terminal: psql, its own password, and what the schema says to it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dragoman.core.job import Done
from dragoman.store.cluster import installed
from dragoman.store.roles import OWNER, ROLES
from dragoman.work.finish import Finished, finish
from tests import postgres
from tests.store.kernel import crew_of
from tests.store.rewrites import Request
from tests.store.test_guards_rewrite import claimed, writing

FREE = "claim_token = null, claimed_by = null, claimed_at = null"
NEXT = "seq = seq + 1, head = sha256(head), last_event_at = clock()"
DENIED, GUARD, TWICE = "42501", "DR001", "23505"

# What is tried, and what those hear who are not denied already.
ATTACKS = {
    "update job set unit = unit": {OWNER: GUARD},
    "insert into rewrite_output select * from rewrite_output": {
        OWNER: TWICE,
        "dragoman_worker": TWICE,
    },
    f"update standing set state = 'completed', {FREE}, {NEXT} where state = 'processing'": {
        OWNER: GUARD,
        "dragoman_worker": GUARD,
        "dragoman_operator": GUARD,
    },
    f"update standing set state = 'queued', {NEXT} where state = 'completed'": {
        OWNER: GUARD,
        "dragoman_worker": GUARD,
        "dragoman_operator": GUARD,
    },
    "update event set seq = seq": {OWNER: GUARD},
}
TEXTS = {
    "select original_text from rewrite_request": {"dragoman_orchestrator", "dragoman_worker"},
    "select rewritten_text from rewrite_output": {"dragoman_orchestrator", "dragoman_worker"},
    "select * from rewrite_request": {"dragoman_orchestrator", "dragoman_worker"},
    "select * from rewrite_output": {"dragoman_orchestrator", "dragoman_worker"},
}


@pytest.fixture(scope="module")
def lived_in(shared: str) -> str:
    """A database with one rewrite that is completed and one that a worker holds."""

    async def build() -> None:
        async with crew_of(shared) as crew:
            requests = [Request().write(shared) for _ in range(2)]
            (held, output), _ = (await claimed(crew, requests)).values()
            done = [Finished(held, Done("passed"))]
            counts = await finish(crew.worker, crew.actor, writing({held.id: output}), done)
            assert counts == {"succeeded": 1}

    asyncio.run(build())
    return shared


def type_in(database: str, role: str, statement: str) -> str:
    """What psql answers: the rows, or the SQLSTATE alone."""
    told = conninfo_to_dict(postgres.dsn(role, database))
    environment = {
        **os.environ,
        "PGPASSWORD": str(told.pop("password")),
        "PGOPTIONS": "-c search_path=dragoman",
    }
    words = ["-XAtq", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate", "-c", statement]
    done = subprocess.run(
        [installed() / "bin" / "psql", *words, make_conninfo("", **told)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    refused = re.fullmatch(r"ERROR:  ([0-9A-Z]{5})\n", done.stderr)
    assert refused or not done.stderr, done.stderr
    return refused[1] if refused else done.stdout.strip()


@pytest.mark.parametrize("statement", ATTACKS)
def test_what_no_role_can_do_by_hand(lived_in: str, statement: str) -> None:
    """A changed job, a second output, an end without one, a way back: refused to all seven."""
    answers = {role: type_in(lived_in, role, statement) for role in ROLES}
    assert answers == {role: ATTACKS[statement].get(role, DENIED) for role in ROLES}


@pytest.mark.parametrize("statement", TEXTS)
def test_a_message_is_read_by_those_who_work_on_it(lived_in: str, statement: str) -> None:
    """The operator, the auditor, a product's users and the eraser get no word of it."""
    for role in ROLES:
        answer = type_in(lived_in, role, statement)
        if role in {OWNER, *TEXTS[statement]}:
            assert "canary" in answer or "for " in answer, role
        else:
            assert answer == DENIED, role

"""The oldest PostgreSQL we run on: bootstrapped as on a managed server, then the main flows.

The flows are tests of other modules, collected here again with databases of that server.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from dragoman.core.errors import BadSetting, DatabaseDown, Refused
from dragoman.store.bootstrap import bootstrap
from dragoman.store.migrate import migrate
from dragoman.store.remote import Remote
from dragoman.store.roles import OWNER, ROLES, Secrets, make_database
from tests import postgres
from tests.cli.installation import short_folder
from tests.elsewhere import ADMIN, MANAGER, Elsewhere, needs_15, postgresql_15
from tests.store import (
    test_batches,
    test_claim,
    test_enqueue,
    test_guards,
    test_moves,
    test_roles,
    test_statements,
    test_workers,
)
from tests.store.kernel import build_plain

pytestmark = needs_15
TEMPLATE = "template_plain"


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    """Where the server and the roles' passwords lie."""
    with short_folder() as made:
        yield made


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[Elsewhere]:
    """Debian's PostgreSQL 15."""
    with postgresql_15(folder) as server:
        yield server


@pytest.fixture(scope="module")
def remote(server: Elsewhere, folder: Path) -> Remote:
    """A database that a manager without superuser has made ready."""
    remote = Remote(server.place, Secrets(folder / "secrets"))
    bootstrap(server.url(MANAGER), remote, lambda _: None)
    migrate(remote.line_dsn(OWNER))
    return remote


@pytest.fixture(scope="module")
def instead(remote: Remote, server: Elsewhere) -> Generator[Elsewhere]:
    """Whoever asks for a database of the tests gets one of this server."""

    def dsn(role: str, database: str) -> str:
        return make_conninfo(remote.dsn(role), dbname=database)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "dsn", dsn)
        with server.admin() as connection:
            make_database(connection, TEMPLATE, "template0")
        build_plain(dsn(OWNER, TEMPLATE))
        yield server


def cloned(server: Elsewhere) -> Generator[str]:
    """A copy of the template; gone afterwards."""
    name = f"test_{uuid4().hex}"
    with server.admin() as connection:
        make_database(connection, name, TEMPLATE)
        yield name
        connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def database(instead: Elsewhere) -> Generator[str]:
    """One test's own."""
    yield from cloned(instead)


@pytest.fixture(scope="module")
def shared(instead: Elsewhere) -> Generator[str]:
    """This module's."""
    yield from cloned(instead)


field, owner = test_guards.field, test_roles.owner

test_a_statement_fits_the_schema = test_statements.test_a_statement_fits_the_schema
test_roles_do_what_they_should = (
    test_roles.test_each_role_may_do_on_each_table_what_it_should_and_no_more
)
test_no_role_has_more = test_roles.test_no_role_has_more_than_its_grants
test_edges_alone_are_open = test_guards.test_of_36_pairs_of_states_the_edges_alone_are_open
test_final_is_final = test_guards.test_a_final_row_moves_nothing_but_its_chain
test_a_unit_is_enqueued_once = test_enqueue.test_a_unit_is_enqueued_once
test_two_claimers = test_claim.test_two_claimers_never_hold_one_job
test_a_busy_unit = test_claim.test_a_unit_that_is_busy_elsewhere_is_passed_over
test_a_retry = test_moves.test_a_retry_counts_an_attempt_and_a_failure
test_a_chunk = test_moves.test_each_job_of_a_chunk_finishes_at_its_own_time
test_a_submission = test_batches.test_submitted_marks_the_batch_and_its_jobs_at_once
test_a_dead_letter = test_workers.test_a_failed_job_leaves_its_dead_letter
test_sums = test_workers.test_folding_keeps_every_sum


def test_a_manager_without_superuser_makes_everything_once(
    remote: Remote, server: Elsewhere
) -> None:
    """A second time nothing is made, every password stays, and the manager is nobody's member."""
    told: list[str] = []
    before = {role: remote.secrets.read(role) for role in ROLES}
    bootstrap(server.url(MANAGER), remote, told.append)
    assert not [line for line in told if line.endswith("made")]
    assert {role: remote.secrets.read(role) for role in ROLES} == before
    with server.admin(database="dragoman") as connection:
        members = connection.execute("select from pg_auth_members where roleid >= 16384")
        owner = connection.execute(
            "select datdba::regrole::text from pg_database where datname = 'dragoman'"
        ).fetchone()
        assert (members.rowcount, owner) == (0, (OWNER,))
        stored = connection.execute(
            "select rolpassword from pg_authid where rolname = any(%s)", (list(ROLES),)
        ).fetchall()
    assert len(stored) == len(ROLES)
    assert all(word.startswith("SCRAM-SHA-256$") for (word,) in stored)


def test_what_only_the_server_can_fix_is_printed_with_its_line(
    remote: Remote, server: Elsewhere
) -> None:
    """A manager hears what to set; a superuser sets it for our roles and is done."""
    told: list[str] = []
    bootstrap(server.url(MANAGER), remote, told.append)
    assert [line for line in told if "log_min_messages = log, log_min_error_statement" in line]
    bootstrap(server.url(ADMIN), remote, told.append)
    with psycopg.connect(remote.dsn("dragoman_worker")) as connection:
        row = connection.execute(
            "select current_setting('log_min_messages'), current_schema()::text"
        ).fetchone()
    assert row == ("log", "dragoman")


def test_roles_of_another_installation_are_not_taken_away(
    remote: Remote, server: Elsewhere, tmp_path: Path
) -> None:
    """Without the passwords' files nothing changes, unless new ones are asked for."""
    stranger = Remote(server.place, Secrets(tmp_path / "secrets"))
    with pytest.raises(Refused, match="--new-passwords"):
        bootstrap(server.url(MANAGER), stranger, lambda _: None)
    psycopg.connect(remote.dsn("dragoman_worker")).close()
    before = remote.secrets.read("dragoman_worker")
    bootstrap(server.url(MANAGER), remote, lambda _: None, anew=True)
    assert remote.secrets.read("dragoman_worker") != before
    psycopg.connect(remote.dsn("dragoman_worker")).close()


def test_an_admin_who_may_not_is_told_what_it_needs(
    remote: Remote, server: Elsewhere, tmp_path: Path
) -> None:
    """An ordinary role, a wrong password and a database of another encoding: each a sentence."""
    with server.admin() as connection:
        connection.execute("create role plain login password 'known-to-this-test'")
        connection.execute(
            "create database latin owner dragoman_owner template template0 encoding 'LATIN1'"
            " locale 'C'"
        )
    with pytest.raises(Refused, match="CREATEROLE and CREATEDB"):
        bootstrap(server.url("plain"), remote, lambda _: None)
    with pytest.raises(DatabaseDown) as refused:
        bootstrap(server.url("nobody"), remote, lambda _: None)
    assert str(server.port) not in str(refused.value)
    latin = Remote(server.place.replace("/dragoman", "/latin"), remote.secrets)
    with pytest.raises(BadSetting, match="UTF8"):
        bootstrap(server.url(MANAGER), latin, lambda _: None)

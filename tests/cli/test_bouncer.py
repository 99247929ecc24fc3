"""PgBouncer in transaction mode before everything but the workers' lines."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from pathlib import Path

import psycopg
import pytest

from dragoman.cli.roles import WORKERS
from dragoman.store.remote import Remote
from dragoman.store.roles import ROLES, Secrets
from tests.cli.installation import Installation, short_folder
from tests.elsewhere import (
    ADMIN,
    Elsewhere,
    needs_15,
    needs_bouncer,
    pgbouncer,
    postgresql_15,
)

pytestmark = [needs_15, needs_bouncer]
SENTENCE = "The music is so loud that I cannot sleep."


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    """Where everything of this test lies."""
    with short_folder() as made:
        yield made


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[Elsewhere]:
    """A server with room for many, made ready before there is a pooler."""
    with postgresql_15(folder) as server:
        told = {"DRAGOMAN_DATABASE": server.place, "ADMIN": server.url(ADMIN)}
        done = Installation(folder, told=told).run("db", "bootstrap", "--admin-url-env", "ADMIN")
        assert done.code == 0, done
        yield server


def passwords(folder: Path) -> Mapping[str, str]:
    """What a pooler's operator writes into its list of users."""
    secrets = Secrets(folder / "home" / "secrets")
    return {role: secrets.read(role) for role in ROLES}


def behind(folder: Path, server: Elsewhere, pooler: str) -> Installation:
    """An installation that talks through the pooler, and whose lines go past it."""
    told = {"DRAGOMAN_DATABASE": pooler, "DRAGOMAN_DATABASE_LINE": server.place}
    return Installation(folder, told=told)


def test_a_complaint_travels_through_a_pooler(folder: Path, server: Elsewhere) -> None:
    """Door and workers share a few sessions per role; each worker's line is one of its own."""
    with pgbouncer(folder, server, passwords(folder)) as pooler:
        here = behind(folder, server, pooler)
        with here.up():
            told = here.run("rewrite", "submit", SENTENCE, "--from", "en", "--to", "es", "--wait")
            assert re.search(r"^completed ", told.out, re.MULTILINE), told
            with server.admin() as connection:
                found = connection.execute(
                    "select usename, application_name like '%% line' as is_line, count(*)"
                    " from pg_stat_activity where datname = 'dragoman' group by 1, 2"
                ).fetchall()
        sessions = {(role, is_line): count for role, is_line, count in found}
        assert sessions.pop(("dragoman_worker", True)) == len(WORKERS)
        assert sessions.pop(("dragoman_worker", False)) < len(WORKERS)
        assert set(sessions.values()) <= {1, 2}


def test_a_roles_settings_come_through_a_pooler(folder: Path, server: Elsewhere) -> None:
    """Schema, bounds and plans are the role's own, whichever session a transaction gets."""
    with pgbouncer(folder, server, passwords(folder)) as pooler:
        remote = Remote(pooler, Secrets(folder / "home" / "secrets"), server.place)
        with psycopg.connect(remote.dsn("dragoman_worker"), prepare_threshold=None) as connection:
            row = connection.execute(
                "select current_schema()::text, current_setting('statement_timeout'),"
                " current_setting('plan_cache_mode'), current_setting('jit')"
            ).fetchone()
    assert row == ("dragoman", "15s", "force_generic_plan", "off")


@pytest.mark.parametrize("words", [["up"], ["run", "door"]], ids=["up", "door"])
def test_a_pooler_that_makes_everybody_the_owner_is_refused(
    folder: Path, server: Elsewhere, words: list[str]
) -> None:
    """The boundary between the roles would be gone, so nothing starts."""
    forced = f"user=dragoman_owner password={passwords(folder)['dragoman_owner']}"
    with pgbouncer(folder, server, passwords(folder), forced) as pooler:
        said = behind(folder, server, pooler).run(*words).err
    assert "and are dragoman_owner: a pooler that makes everybody one user" in said

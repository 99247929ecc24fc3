"""A database by URL, as its operator meets it: made ready, run on, looked at, never stopped."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from dragoman.store.remote import Remote
from dragoman.store.roles import Secrets
from tests.cli.installation import Installation, short_folder
from tests.cli.test_running import UUID, assert_processes_are_their_roles
from tests.elsewhere import ADMIN, MANAGER, Elsewhere, needs_15, postgresql_15

pytestmark = needs_15
SENTENCE = "The music is so loud that I cannot sleep."


@pytest.fixture(scope="module")
def folder() -> Generator[Path]:
    """Where the installation lives."""
    with short_folder() as made:
        yield made


@pytest.fixture(scope="module")
def server(folder: Path) -> Generator[Elsewhere]:
    """Somebody else's server, with Debian's own settings."""
    with postgresql_15(folder) as server:
        yield server


@pytest.fixture(scope="module")
def there(folder: Path, server: Elsewhere) -> Installation:
    """An installation whose database is there, made ready by a manager without superuser."""
    told = {"DRAGOMAN_DATABASE": server.place}
    there = Installation(folder, told=told)
    assert "dragoman_owner: bootstrap first" in there.run("up").err
    made = there.run("db", "bootstrap", "--admin-url-env", "ADMIN", told=admin(server, MANAGER))
    assert made.code == 0, made
    assert "role     dragoman_worker made\n" in made.out
    assert re.search(r"^schema   0001_kernel applied$", made.out, re.MULTILINE)
    return there


def admin(server: Elsewhere, user: str) -> dict[str, str]:
    """The variable that holds an admin's URL."""
    return {"ADMIN": server.url(user)}


def dsn(there: Installation, server: Elsewhere, role: str) -> str:
    """How a role of this installation connects."""
    return Remote(server.place, Secrets(there.home / "secrets")).dsn(role)


def test_a_server_whose_log_would_keep_messages_is_refused_then_accepted_by_name(
    there: Installation, server: Elsewhere
) -> None:
    """Debian's own settings log the words of errors: `up` says so; accepted, it is an event."""
    said = there.run("up").err
    assert said.count("\n") == 1
    assert "log_min_messages=warning, log_min_error_statement=error" in said
    mistaken = there.run("up", "--accept-server-log-risk", "log_min_message").err
    assert "names log_min_message, which is no risk we know" in mistaken
    accepted = ["--accept-server-log-risk", "log_min_messages"]
    accepted += ["--accept-server-log-risk", "log_min_error_statement"]
    query = "select subject from dragoman.change_history where verb = 'accept' order by 1"
    with (
        there.up("up", *accepted),
        psycopg.connect(dsn(there, server, "dragoman_operator")) as connection,
    ):
        found = [row[0] for row in connection.execute(query)]
    assert found == [
        "server log log_min_error_statement=error",
        "server log log_min_messages=warning",
    ]


def test_an_installation_runs_on_a_server_by_url(there: Installation, server: Elsewhere) -> None:
    """Once a superuser has quieted the log, a complaint travels; each process is its role."""
    done = there.run("db", "bootstrap", "--admin-url-env", "ADMIN", told=admin(server, ADMIN))
    assert "no value of a statement reaches the server's log" in done.out
    with there.up():
        told = there.run("rewrite", "submit", SENTENCE, "--from", "en", "--to", "es", "--wait")
        found = re.search(rf"^completed  ({UUID})  job", told.out, re.MULTILINE)
        assert found, told
        assert_processes_are_their_roles(there, found[1], dsn(there, server, "dragoman_operator"))
    assert there.run("db", "status").out.startswith("state    ready\n")


def test_what_is_somebody_elses_is_neither_started_nor_stopped(
    there: Installation, server: Elsewhere
) -> None:
    """The verbs start and stop refuse with the place; psql, migrate and status work."""
    for verb in ("start", "stop"):
        assert f"127.0.0.1:{server.port}/dragoman" in there.run("db", verb).sentence
    assert there.run("db", "migrate").out == "schema   is as it should be\n"
    answer = there.run("db", "psql", "--role", "auditor", given=b"\\pset tuples_only\nselect user")
    assert "dragoman_auditor" in answer.out


@pytest.mark.parametrize(
    ("told", "words", "named"),
    [
        ({"DRAGOMAN_DATABASE": "mysql://a"}, ["db", "status"], "the setting database"),
        ({"DRAGOMAN_DATABASE": "postgresql://me:pw@a"}, ["db", "status"], "no user, password"),
        ({"DRAGOMAN_DATABASE": "postgresql://127.0.0.1:1"}, ["status"], "does not answer"),
        ({}, ["db", "bootstrap"], "makes itself ready"),
        ({"DRAGOMAN_DATABASE": "postgresql://a"}, ["db", "bootstrap"], "--admin-url-env NAME"),
        (
            {"DRAGOMAN_DATABASE": "postgresql://a"},
            ["db", "bootstrap", "--admin-url-env", "NOTHING"],
            "NOTHING is empty",
        ),
        ({"DRAGOMAN_DATABASE_LINE": "postgresql://a"}, ["db", "status"], "database_line goes with"),
    ],
)
def test_what_could_never_work_is_one_sentence(
    tmp_path: Path, told: dict[str, str], words: list[str], named: str
) -> None:
    """Nothing is started, and no password that stood in a setting is repeated."""
    said = Installation(tmp_path, told=told).run(*words).sentence
    assert named in said
    assert "pw" not in said

"""Erasing from the command line: counted, asked, done, and said."""

from __future__ import annotations

import re
from collections.abc import Generator

import psycopg
import pytest

from dragoman.cli.rewrite import HOME, THEY
from dragoman.store.embedded import Server
from tests.cli.installation import Installation, short_folder
from tests.leaks import leaks

CANARY = "Zephyrine-4712"
SCOPE = ("erase", "--home", str(HOME), "--user", str(THEY))
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NOBODY = "people 0, requests 0, jobs 0, messages 0"
ONE = "people 1, requests 1, jobs 1, messages 0"


@pytest.fixture(scope="module")
def here() -> Generator[Installation]:
    """`dragoman up` in a home of its own."""
    with short_folder() as folder:
        here = Installation(folder)
        with here.up():
            yield here


def found(here: Installation) -> list[str]:
    """Where the canary stands, in any column of any table."""
    dsn = Server(here.home / "postgresql").dsn("dragoman_owner")
    with psycopg.connect(dsn, options="-c search_path=dragoman") as owner:
        return leaks(owner, [CANARY], own=())


def test_an_erasure_is_counted_asked_for_and_done(here: Installation) -> None:
    """Without a yes nothing changes; with one no word is left, in a table or in a log."""
    told = here.run("rewrite", "submit", f"{CANARY}! You are so loud!", "--to", "es", "--wait")
    request = re.search(rf"^completed  ({UUID})  job ({UUID})$", told.out, re.MULTILINE)
    assert request, told
    assert found(here)
    asked = here.run(*SCOPE, given=b"n\n")
    assert (asked.code, f"user {THEY} of home {HOME}: {ONE}" in asked.out) == (1, True)
    assert here.run(*SCOPE).code == 1  # nobody is there to be asked
    assert found(here)
    done = here.run(*SCOPE, "--yes")
    assert (done.code, done.err) == (0, "")
    assert f"erased: {ONE}" in done.out
    assert found(here) == []
    assert "there is no rewrite with this id" in here.run("rewrite", "show", request[1]).sentence
    again = here.run(*SCOPE, "--yes")
    assert (again.code, again.out.splitlines()) == (
        0,
        [f"user {THEY} of home {HOME}: {NOBODY}", "there is nothing to erase"],
    )
    logs = [*(here.home / "run").glob("*.log"), *(here.home / "postgresql").glob("*.log*")]
    assert len(logs) > 3
    assert not [path for path in logs if CANARY in path.read_text(errors="replace")]

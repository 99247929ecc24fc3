"""One installation that is up: what its commands say, what its logs keep out, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from dragoman.api.keys import Holder, key_file
from dragoman.cli.roles import DOOR_ROLES, WORKERS
from dragoman.core.text import MAX_CHARACTERS
from dragoman.store.cluster import Cluster
from dragoman.store.embedded import Server
from tests.cli.installation import Done, Installation, processes_in, short_folder
from tests.eventually import eventually

CANARY = "Zephyrine-4711"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NOWHERE = "01a1f5b8-ed80-7c72-a44a-b90a566b40c4"
SMALL = ("sandbox", "default", "sandbox-small")


@pytest.fixture(scope="module")
def here() -> Generator[Installation]:
    """`dragoman up` in a home of its own, whose path is not a plain one; ended by SIGTERM."""
    with short_folder() as folder:
        place = folder / "a folder, ü"
        place.mkdir()
        allowed = json.dumps([f"{place}/"])
        here = Installation(place, told={"DRAGOMAN_REVIEW__ALLOW": allowed})
        with here.up() as process:
            yield here
            process.terminate()
            assert process.wait(30) == 0
            assert processes_in(folder) == {}
        # A path like this one is too odd for a socket, which therefore lay in a folder of its own.
        Cluster(here.home.resolve() / "postgresql").sockets.rmdir()


@pytest.fixture(scope="module")
def rewritten(here: Installation) -> tuple[str, str]:
    """A complaint that was handed in at the command line, and its job; both are completed."""
    told = here.run("rewrite", "submit", f"{CANARY}! You are so loud!", "--to", "es", "--wait")
    assert told.code == 0, told
    found = re.search(rf"^completed  ({UUID})  job ({UUID})$", told.out, re.MULTILINE)
    assert found, told
    assert "(es, written by sandbox/" in told.out
    return found[1], found[2]


def stored(here: Installation) -> tuple[int, int]:
    """How many messages and people the database holds."""
    dsn = Server(here.home / "postgresql").dsn("dragoman_owner")
    with psycopg.connect(dsn, options="-c search_path=dragoman") as owner:
        query = "select (select count(*) from rewrite_request), (select count(*) from member)"
        return owner.execute(query).fetchall()[0]


def test_a_password_stands_in_no_command_line(here: Installation) -> None:
    """It reaches psql by the environment, which nobody else can read."""
    done = here.run("db", "psql", given=b"\\! tr '\\0' ' ' </proc/$PPID/cmdline\n")
    assert "psql" in done.out
    assert "user=dragoman_operator" in done.out
    assert "password" not in done.out


def test_every_process_is_its_role_in_the_database(
    here: Installation, rewritten: tuple[str, str]
) -> None:
    """Pools, lines and each door's pool: whoever is connected has the name of its own role."""
    assert_processes_are_their_roles(
        here, rewritten[0], Server(here.home / "postgresql").dsn("dragoman_operator")
    )


def assert_processes_are_their_roles(here: Installation, request: str, dsn: str) -> None:
    """Each running process has its connections, and each connection its process's role."""
    door = (here.home / "run" / "door.url").read_text().strip()
    paths: dict[str, Holder] = {
        "/healthz": "operator",
        f"/v1/rewrites/{request}/text": "orchestrator",
        "/": "operator",
    }
    for path, holder in paths.items():
        key = {"Authorization": f"Bearer {key_file(here.home, holder).read_text().strip()}"}
        asked = urllib.request.Request(door + path, headers=key)  # noqa: S310 - our own door
        urllib.request.urlopen(asked, timeout=20).close()  # noqa: S310 - as above
    workers = {f"dragoman {role}" for role in WORKERS} | {f"{role} line" for role in WORKERS}
    expected = {(name, "dragoman_worker") for name in (*workers, "wake-up")}
    expected |= {(f"dragoman door {role}", f"dragoman_{role}") for role in DOOR_ROLES}
    running = "".join(processes_in(here.folder).values())
    assert all(f" run {role} " in running for role in (*WORKERS, "door"))
    query = "select application_name, usename from pg_stat_activity where application_name <> ''"
    with psycopg.connect(dsn, application_name="test") as connection:
        found = set(connection.execute(query).fetchall())
    assert found - {("test", "dragoman_operator")} == expected


def test_a_complaint_comes_back(here: Installation, rewritten: tuple[str, str]) -> None:
    """What was handed in is found again by its id, rewritten."""
    shown = here.run("rewrite", "show", rewritten[0])
    assert shown.out.startswith(f"completed  {rewritten[0]}  job {rewritten[1]}\n\n")
    assert shown.code == 0


def test_a_story_is_told_without_its_words(here: Installation, rewritten: tuple[str, str]) -> None:
    """`job` shows every event up to the job's head, in 80 columns, and no word of the message."""
    told = here.run("job", rewritten[1], told={"COLUMNS": "80"})
    assert told.code == 0, told
    for event in ("enqueued", "claimed", "submitted", "completed"):
        assert re.search(rf"^\d+ .* {event} ", told.out, re.MULTILINE), event
    assert "it ends at the job's head" in " ".join(told.out.split())
    assert re.search(r"^lane +cross_language$", told.out, re.MULTILINE)
    assert CANARY not in told.out
    assert " b'" not in told.out


def test_how_everything_stands(here: Installation, rewritten: tuple[str, str]) -> None:
    """`status` accounts for every job, and its row is a sum."""
    told = here.run("status", told={"COLUMNS": "80"})
    assert told.code == 0, told
    row = next(line.split() for line in told.out.splitlines() if line.startswith("rewrite "))
    accepted, *states = map(int, row[1:])
    assert accepted == sum(states) >= 1
    assert max(map(len, told.out.splitlines())) <= 80


def test_a_final_job_is_not_canceled(here: Installation, rewritten: tuple[str, str]) -> None:
    """A late cancel changes nothing, and says so."""
    assert "nothing was changed" in here.run("cancel", rewritten[1]).out
    assert here.run("cancel", NOWHERE).sentence == "there is no job with this id"
    assert here.run("rewrite", "show", rewritten[0]).out.startswith("completed ")


def test_a_job_that_waits_is_canceled(here: Installation) -> None:
    """Canceled before its batch is made, it never comes back with a text."""
    told = here.run("rewrite", "submit", "-", "--to", "de", given=b"You are late with the rent!")
    found = re.search(UUID, told.out)
    assert found, told
    job = re.search(rf"job ({UUID})", here.run("rewrite", "show", found[0]).out)
    assert job, "no job"
    canceled = here.run("cancel", job[1])
    shown = here.run("rewrite", "show", found[0])
    state = "canceled" if canceled.out == "canceled\n" else "completed"
    assert shown.out.startswith(state), shown
    assert ("written by" in shown.out) is (state == "completed")


def test_a_change_is_reviewed_and_told(here: Installation) -> None:
    """A commit on the allow-list is criticised; asked again, it is the same job."""
    repository = here.folder / "shop"
    commit_something(repository)
    words = ("review", "enqueue", str(repository), "HEAD", "--to", "mailto:ann@example.org")
    first, second = here.run(*words), here.run(*words)
    found = re.search(rf"^enqueued  ({UUID})", first.out)
    assert found, first
    assert re.search(rf"^there already  {found[1]}", second.out), second

    def completed() -> Done:
        shown = here.run("review", "show", found[1])
        assert shown.out.startswith("succeeded  "), shown
        return shown

    assert "version 1" in eventually(completed, timeout=40).out


def commit_something(repository: Path) -> None:
    repository.mkdir()
    (repository / "shop.py").write_text("def total(prices, seen=[]):\n    return sum(prices)\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Prices"]):
        subprocess.run(["/usr/bin/env", "git", "-C", str(repository), *who, *words], check=True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("job", NOWHERE), "there is no job with this id"),
        (("cancel", NOWHERE), "there is no job with this id"),
        (("rewrite", "show", NOWHERE), "there is no rewrite with this id"),
        (("review", "show", NOWHERE), "there is no review with this id"),
        (("gate", "open", "sandbox", "default", "gtp"), "there is no such gate; known are sandbox"),
        (("gate", "set", *SMALL), "nothing to set: name a limit"),
        (("gate", "set", *SMALL, "--in-flight", "0"), "--in-flight must be a number from 1 to "),
        (("gate", "set", *SMALL, "--batch-tokens", "1e9"), "--batch-tokens must be a number"),
        (("gate", "pause", *SMALL, "--reason", " "), "the reason must be one line of 1 to 200"),
        (("db", "psql", "--role", "boss"), "there is no role boss; known are "),
        (("up",), "Dragoman is up already in "),
        (("demo",), "Dragoman is up already in "),
        (("db", "stop"), "Dragoman is up in "),
        (("rewrite", "submit", "a", "--to", "klingon!"), "a language is given as a tag"),
        (("review", "enqueue", "/", "HEAD", "--to", "mailto:a@b.example"), "the changelist cannot"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_refusal_is_one_sentence(
    here: Installation, words: tuple[str, ...], sentence: str
) -> None:
    """On standard error, with exit code 1, and the installation goes on as it was."""
    assert here.run(*words).sentence.startswith(sentence)
    assert here.run("db", "status").code == 0


@pytest.mark.parametrize(
    ("message", "given", "sentence"),
    [
        ("", b"", "the message is empty"),
        (" \n", b"", "the message is empty"),
        ("-", b"", "the message is empty"),
        ("-", f"{CANARY}\0".encode(), "the message has a NUL character at position 14"),
        (CANARY.encode() + b"\xff", b"", "the message has a lone surrogate at position 14"),
        ("-", CANARY.encode() + b"\xed\xa0\x80", "the message has a lone surrogate at position 14"),
        ("-", CANARY.encode() * 200_000, "the message has "),
        ("x" * (MAX_CHARACTERS + 1), b"", f"the message has {MAX_CHARACTERS + 1} characters, "),
    ],
    ids=["empty", "blank", "nothing", "NUL", "bytes", "surrogate", "megabytes", "too long"],
)
def test_a_bad_message_is_refused_and_nothing_is_stored(
    here: Installation, message: str | bytes, given: bytes, sentence: str
) -> None:
    """The sentence has facts about the text and none of it; no row is written at all."""
    before = stored(here)
    said = here.run("rewrite", "submit", message, "--to", "pl", given=given).sentence
    assert said.startswith(sentence)
    assert CANARY not in said
    assert stored(here) == before


def test_a_terminal_of_another_time_is_no_obstacle(
    here: Installation, rewritten: tuple[str, str]
) -> None:
    """Letters that cannot be shown become question marks, not a stack trace."""
    told = {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    assert here.run("status", told=told).code == 0
    assert here.run("rewrite", "show", rewritten[0], told=told).code == 0


@pytest.mark.req("R189", "R192")
def test_no_log_holds_a_word_of_a_message(here: Installation, rewritten: tuple[str, str]) -> None:
    """After a rewrite and refusals, the words stand in no file of run/ nor in the server's log."""
    looked_at = [*(here.home / "run").iterdir(), *(here.home / "postgresql").glob("*.log*")]
    assert {"submitter.log", "door.log", "sandbox.state", "server.log"} <= {
        file.name for file in looked_at
    }
    assert not [file.name for file in looked_at if CANARY.encode() in file.read_bytes()]


def test_the_console_is_where_the_command_says(here: Installation) -> None:
    """The address that is printed answers with the console."""
    url = re.search(r"http\S+", (here.folder / "up.out").read_text())
    assert url, "no address"
    with urllib.request.urlopen(url[0], timeout=10) as answer:  # noqa: S310 - our own door
        assert "Dragoman" in answer.read().decode()


def test_a_gate_is_set_closed_and_opened(here: Installation) -> None:
    """Each command says what it did, the list and the status say what is closed, and why."""
    name = "/".join(SMALL)
    done = here.run("gate", "set", *SMALL, "--in-flight", "7", "--tokens-per-minute", "9000")
    assert done.out.startswith(f"{name}: 7 in flight, any requests and 9000 tokens a minute")
    done = here.run("gate", "set", *SMALL, "--tokens-per-minute", "none")
    assert done.out.startswith(f"{name}: 7 in flight, any requests and any tokens a minute")
    assert here.run("gate", "list").code == 0
    assert (
        here.run("gate", "pause", *SMALL, "--reason", "invoice [17]").out == f"{name} is closed\n"
    )
    shown = here.run("gate", "list")
    told = f"{name}  closed by operator (invoice [17]); 0 of 7 in flight\n"
    assert (shown.code, told in shown.out) == (1, True)
    assert f"gate {name} is paused (operator)" in here.run("status").out
    opened = here.run("gate", "open", *SMALL)
    assert opened.out == f"{name} is open; it was closed by operator\n"
    assert here.run("gate", "open", *SMALL).out == f"{name} was open already\n"


def test_a_database_that_dies_comes_back(here: Installation) -> None:
    """Kill -9 of the server: the supervisor starts it again, and what was there is there."""
    before = stored(here)
    server = pid(here)
    os.kill(server, signal.SIGKILL)

    def is_back() -> None:
        assert pid(here) != server

    eventually(is_back, timeout=40)
    assert stored(here) == before
    done = here.run("rewrite", "submit", "You never knock!", "--to", "fr", "--wait")
    assert done.code == 0, done


def pid(here: Installation) -> int:
    done = here.run("db", "status")
    found = re.search(r"^pid +(\d+)$", done.out, re.MULTILINE)
    assert done.code == 0, done
    assert found, done
    return int(found[1])

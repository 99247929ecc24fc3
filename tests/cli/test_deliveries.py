"""Doubts at the command line: what is in doubt, and a person's word about it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator

import psycopg
import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.core.errors import BadInput
from dragoman.store.embedded import Server
from tests.cli.installation import Installation, short_folder
from tests.eventually import eventually

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NOWHERE = "01a1f5b8-ed80-7c72-a44a-b90a566b40c4"
ADDRESS = "ottoline@example.org"


@pytest.fixture
def here() -> Generator[Installation]:
    """`dragoman up` in a home of its own."""
    with short_folder() as folder:
        here = Installation(folder, told={"DRAGOMAN_REVIEW__ALLOW": json.dumps([f"{folder}/"])})
        with here.up():
            yield here


def reviewed(here: Installation) -> str:
    """The id of a message that was sent."""
    repository = here.folder / "shop"
    repository.mkdir()
    (repository / "shop.py").write_text("def total(prices, seen=[]):\n    return sum(prices)\n")
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Prices"]):
        subprocess.run(["/usr/bin/env", "git", "-C", str(repository), *who, *words], check=True)
    words = ("review", "enqueue", str(repository), "HEAD", "--to", f"mailto:{ADDRESS}")
    job = re.search(UUID, here.run(*words).out)
    assert job

    def told() -> None:
        assert here.run("review", "show", job[0]).out.startswith("succeeded")

    eventually(told, timeout=40)
    [(delivery,)] = as_owner(here, "select id::text from delivery")
    return delivery


def as_owner(here: Installation, *statements: str) -> list[tuple]:
    """What the owner does and sees, in one transaction."""
    dsn = Server(here.home / "postgresql").dsn("dragoman_owner")
    with psycopg.connect(dsn, options="-c search_path=dragoman") as owner:
        for statement in statements[:-1]:
            owner.execute(statement.encode())
        return owner.execute(statements[-1].encode()).fetchall()


def lose_evidence(here: Installation, delivery: str) -> None:
    """What no role of ours may do: the mark stays, its proof goes; and the relay finds it."""
    as_owner(
        here,
        "alter table delivery disable trigger user",
        "update delivery set evidence = null",
        "alter table delivery enable trigger user",
        "select 1",
    )

    def found() -> None:
        listed = here.run("deliveries", "list")
        assert (listed.code, listed.out.count("\n")) == (1, 1), listed
        assert listed.out.startswith(f"{delivery}  reconciling since "), listed
        assert "  marked_without_evidence  waits for you  job " in listed.out

    eventually(found, timeout=30)


def test_a_mark_that_nobody_can_explain_is_settled_by_a_person(here: Installation) -> None:
    """It is listed without its address, settled either way, and its alert ends."""
    delivery = reviewed(here)
    assert here.run("deliveries", "list").out == "no message is in doubt\n"
    lose_evidence(here, delivery)
    assert ADDRESS not in here.run("deliveries", "list").out
    assert f"delivery_order_violated {delivery}" in here.run("status").out
    word = ("deliveries", "resolve", delivery, "--evidence", "INC-7")
    assert here.run(*word, "--sent").out == "marked as sent\n"
    assert here.run(*word, "--sent").sentence == "no message with this id is in doubt"
    assert here.run("deliveries", "list").code == 0
    assert "nothing needs you" in here.run("status").out
    [(evidence,)] = as_owner(here, "select notification_id from delivery")
    assert evidence == "INC-7"
    lose_evidence(here, delivery)
    assert here.run("deliveries", "seen", delivery).out == "seen\n"
    assert here.run("deliveries", "seen", delivery).out.startswith("no alert about this message")
    assert here.run(*word, "--not-sent").out == "it will be sent once more\n"

    def sent() -> None:
        query = "select state, attempt_count, notification_id <> 'INC-7' from delivery"
        assert as_owner(here, query) == [("sent", 2, True)]

    eventually(sent, timeout=30)
    assert as_owner(here, "select verb, subject from change where verb = 'seen'") == [
        ("seen", f"delivery {delivery}")
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "say one of --sent and --not-sent"),
        (("--sent", "--not-sent"), "say one of --sent and --not-sent"),
        (("--sent", "--evidence", " "), "the evidence must be one line of 1 to 200 characters"),
        (("--sent", "--evidence", "a\nb"), "the evidence must be one line of 1 to 200 characters"),
        (("--sent", "--evidence", "a" * 8000), "the evidence must be one line of 1 to 200"),
    ],
)
def test_a_word_without_evidence_is_refused(words: tuple[str, ...], sentence: str) -> None:
    """Before anything is asked of a database, and without quoting what was typed."""
    told = ("deliveries", "resolve", NOWHERE, "--evidence", "INC-7", *words)
    refused = CliRunner().invoke(app, [*told])
    assert isinstance(refused.exception, BadInput)
    assert str(refused.exception).startswith(sentence)

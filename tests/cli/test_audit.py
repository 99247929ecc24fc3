"""The auditor's commands in an installation that is up, before and after its owner has forged."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from dragoman.core.anchor import read_private
from dragoman.store.database import open_cell
from dragoman.store.embedded import Server
from dragoman.work.notary import Notary
from tests.cli.installation import Installation, short_folder
from tests.eventually import eventually, eventually_async

CANARY = "Zephyrine-4711"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NOWHERE = "01a1f5b8-ed80-7c72-a44a-b90a566b40c4"


@dataclass(frozen=True)
class Scene:
    """An installation that anchors its history, with one complaint rewritten."""

    here: Installation
    request: str
    job: str

    @property
    def folder(self) -> Path:
        """Where key and anchors are."""
        return self.here.folder

    def dsn(self, role: str) -> str:
        """How a role connects."""
        return Server(self.here.home / "postgresql").dsn(f"dragoman_{role}")


@pytest.fixture(scope="module")
def scene() -> Generator[Scene]:
    """A key first, then `up`, then a complaint."""
    with short_folder() as folder:
        audit = {
            "DRAGOMAN_AUDIT__ANCHOR_FILE": str(folder / "anchors"),
            "DRAGOMAN_AUDIT__KEY_FILE": str(folder / "key"),
        }
        here = Installation(folder, told=audit)
        assert "there is no" not in here.run("audit", "keygen", str(folder / "key")).out
        with here.up():
            told = here.run(
                "rewrite", "submit", f"{CANARY}! You are so loud!", "--to", "es", "--wait"
            )
            found = re.search(rf"^completed  ({UUID})  job ({UUID})$", told.out, re.MULTILINE)
            assert found, told
            yield Scene(here, found[1], found[2])


def forge(scene: Scene, statement: str) -> None:
    """Rewrite history as its owner can."""
    with psycopg.connect(
        scene.dsn("owner"), autocommit=True, options="-c search_path=dragoman"
    ) as owner:
        owner.execute("alter table event disable trigger user")
        assert owner.execute(statement.encode(), {"id": scene.job}).rowcount == 1
        owner.execute("alter table event enable trigger user")


async def anchored(scene: Scene) -> None:
    """Anchor now what the sweeper would anchor a minute later."""
    key = read_private((scene.folder / "key").read_text())
    async with open_cell(scene.dsn("auditor"), size=1) as cell:
        notary = Notary(cell, scene.folder / "anchors", key, every_s=0.1, margin_s=0)

        async def has_written() -> bool:
            return await notary.write_due() > 0

        await eventually_async(has_written)


def test_a_key_is_its_owners_alone_and_never_overwritten(scene: Scene) -> None:
    """0600 beside a public half; a second keygen there is refused, and so is a bad place."""
    key = scene.folder / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert "is there already" in scene.here.run("audit", "keygen", str(key)).sentence
    assert key.read_bytes() == before
    nowhere = scene.folder / "none" / "key"
    assert "cannot be written" in scene.here.run("audit", "keygen", str(nowhere)).sentence


def test_the_sweeper_anchors_where_it_was_told(scene: Scene) -> None:
    """With audit.anchor_file set, `up` has a notary at work."""
    eventually((scene.folder / "anchors").exists, timeout=30)


def test_a_story_is_told_to_the_auditor_without_its_words(scene: Scene) -> None:
    """By job or by request, for a person or a program: every event, verified, and no message."""
    for which in (scene.job, scene.request):
        told = scene.here.run("audit", "show", which, told={"COLUMNS": "200"})
        assert told.code == 0, told
        for event in ("enqueued", "claimed", "submitted", "judged", "completed"):
            assert re.search(rf"^\d+ +\S+Z +{event} ", told.out, re.MULTILINE), event
        assert CANARY not in told.out
        story = json.loads(scene.here.run("audit", "show", which, "--json").out)
        assert (story["job_id"], story["is_sound"]) == (scene.job, True)
        assert story["record"]["rewrite_request_id"] == scene.request
    assert "no job and no request" in scene.here.run("audit", "show", NOWHERE).sentence


def test_the_report_closes(scene: Scene) -> None:
    """One complaint, one pair of languages, no failure; without prices, no money."""
    told = json.loads(scene.here.run("audit", "report", "--json").out)
    (pair,) = told["languages"]
    assert (pair["jobs"], pair["money"]) == (1, None)
    assert [row["failure_rate"] for row in told["outcomes"]] == [0.0]
    shown = scene.here.run("audit", "report", told={"COLUMNS": "160"})
    assert (shown.code, pair["languages"] in shown.out) == (0, True)
    later = scene.here.run("audit", "report", "--since", "2999-01-01")
    assert later.out.split() == "languages: none outcomes: none checks: none".split()


def test_a_forgery_is_named_and_the_exit_code_says_so(scene: Scene) -> None:
    """Sound before; then one reason is rewritten, and job and event stand on the screen."""
    asyncio.run(anchored(scene))
    asked = ("audit", "verify", "--anchors", "anchors", "--key", "key.pub")
    told = scene.here.run(*asked)
    assert told.code == 0, told
    assert told.out.endswith("nothing diverges\n")
    assert re.search(r"^\d+ anchors cover the history until 2\S+Z;", told.out, re.MULTILINE)
    forge(scene, "update event set reason = reason + 1 where job_id = %(id)s and seq = 2")
    for words in (asked, ("audit", "verify"), ("audit", "verify", "--job", scene.job)):
        told = scene.here.run(*words)
        assert told.code == 1
        assert f"job {scene.job}, event 2: its hash does not follow" in told.out
        assert told.out.endswith("1 found\n")
    assert scene.here.run("audit", "show", scene.job).code == 1
    forge(scene, "update event set reason = reason - 1 where job_id = %(id)s and seq = 2")
    forge(scene, "update event set home_id = gen_random_uuid() where job_id = %(id)s and seq = 1")
    assert re.search(
        r"^anchor \d+: the history of this time", scene.here.run(*asked).out, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--anchors", "anchors"), "give both"),
        (("--key", "key.pub"), "give both"),
        (("--anchors", "none", "--key", "key.pub"), "no file of anchors"),
        (("--anchors", "anchors", "--key", "key"), "no public Ed25519 key"),
        (("--anchors", "anchors", "--key", "none"), "cannot be read"),
        (("--anchors", "anchors", "--key", "key.pub", "--job", NOWHERE), "leave --job out"),
        (("--job", NOWHERE), "no job with this id"),
    ],
    ids=str,
)
def test_what_cannot_be_verified_is_refused(
    scene: Scene, words: tuple[str, ...], said: str
) -> None:
    """One sentence that says what is missing."""
    eventually((scene.folder / "anchors").exists, timeout=30)
    assert said in scene.here.run("audit", "verify", *words).sentence


def test_a_key_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Anchors that nobody could sign are a mistake in the settings, told at once."""
    (tmp_path / "key").write_text("a key")
    audit = {"DRAGOMAN_AUDIT__ANCHOR_FILE": "anchors", "DRAGOMAN_AUDIT__KEY_FILE": "key"}
    told = Installation(tmp_path, told=audit).run("up")
    assert "no Ed25519 key" in told.sentence
    assert not (tmp_path / "home").exists()

"""The schedule at the command line: a pace, a pause, and a run now."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from dragoman.cli.schedule import duration, seconds
from dragoman.core.errors import BadInput
from tests.cli.installation import Installation, short_folder
from tests.eventually import eventually

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.mark.parametrize(
    ("told", "value"), [("90", 90), ("90s", 90), ("15m", 900), ("1.5h", 5400), ("31d", 2_678_400)]
)
def test_a_time_is_read_as_people_write_it(told: str, value: float) -> None:
    """A number alone is seconds; what is printed can be typed again."""
    assert seconds(told) == value
    assert seconds(duration(value)) == value


@pytest.mark.parametrize(
    "told", ["", "0", "-1", "0.5s", "32d", "1w", "15 m", "nan", "inf", "1e3", "١٥m", "9" * 8000]
)
def test_a_time_that_is_none_is_refused(told: str) -> None:
    """The sentence says what would be right, and quotes nothing."""
    with pytest.raises(BadInput) as refused:
        seconds(told)
    assert str(refused.value) == "--every takes a time from 1s to 31d, for instance 90s, 15m or 2h"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "now"), "only submitter and collector run on a schedule"),
        (("run", "now", "relay"), "only submitter and collector run on a schedule"),
        (("run", "relay", "submitter"), "only now takes another word: dragoman run now submitter"),
        (("schedule", "pause", "worker"), "only submitter and collector run on a schedule"),
        (("schedule", "set", "submitter", "--every", "soon"), "--every takes a time from 1s to "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_word_is_refused_before_anything_is_asked(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    """Without a database, too, the sentence is about the word."""
    assert Installation(tmp_path).run(*words).sentence.startswith(sentence)


@pytest.fixture
def here() -> Generator[Installation]:
    """`dragoman up` in a home of its own."""
    with short_folder() as folder:
        here = Installation(folder)
        with here.up():
            yield here


@pytest.mark.req("R244")
def test_a_paused_submitter_runs_when_it_is_asked_to(here: Installation) -> None:
    """A complaint waits while the submitter is paused, and leaves soon after `run now`."""

    def listed() -> str:
        told = here.run("schedule", "list", told={"COLUMNS": "100"})
        assert "submitter" in told.out
        assert "collector" in told.out
        return told.out

    assert re.search(r"^submitter +2s +profile +20", eventually(listed), re.MULTILINE)
    assert here.run("schedule", "pause", "submitter").code == 0
    assert here.run("schedule", "set", "collector", "--every", "1h").code == 0
    assert re.search(r"^submitter .* paused *$", listed(), re.MULTILINE)
    assert re.search(r"^collector +1h +operator ", listed(), re.MULTILINE)
    said = here.run("status").out
    assert re.search(
        r"the submitter is paused until: .*schedule resume submitter$", said, re.MULTILINE
    )
    assert "the collector is paused" not in said
    request = re.search(UUID, here.run("rewrite", "submit", "So loud!", "--to", "es").out)
    assert request

    def state() -> str:
        return here.run("rewrite", "show", request[0]).out.split()[0]

    assert state() == "queued"
    before = re.findall(r"^submitter.*", listed(), re.MULTILINE)
    assert re.findall(r"^submitter.*", listed(), re.MULTILINE) == before  # no tick was taken
    assert here.run("run", "now", "submitter").code == 0

    def is_submitted() -> None:
        assert state() == "batch_submitted"

    eventually(is_submitted, timeout=20)
    assert here.run("schedule", "resume", "submitter").code == 0

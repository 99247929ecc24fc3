"""A dead letter at the command line: what failed, what was done, and the replay."""

from __future__ import annotations

import re

from tests.cli.installation import Installation, short_folder
from tests.eventually import eventually
from tests.reviews import shop

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def test_an_operator_takes_a_review_from_its_dead_letter_to_its_end() -> None:
    """The engine may not read the repository, then it may: triage, remedy, replay, resolution."""
    change = shop()
    allowed = {"DRAGOMAN_REVIEW__ALLOW": f'["{change.repository}/"]'}
    with short_folder() as folder:
        here = Installation(folder, told={"DRAGOMAN_REVIEW__ALLOW": "/srv/nothing/"})
        with here.up():
            revisions = change.id.partition("@")[2]
            words = (
                "review",
                "enqueue",
                change.repository,
                revisions,
                "--to",
                "mailto:a@b.org",
            )
            made = here.run(*words, told=allowed)
            job = re.search(UUID, made.out)
            assert job, made

            def is_dead() -> None:
                listed = here.run("letters", "list")
                assert job[0] in listed.out
                assert listed.code == 1

            eventually(is_dead, timeout=30)
            steps = ("letters", "replay", job[0], "--safe-twice")
            assert "is open" in here.run(*steps).sentence
            assert "letters triage" in here.run("letters", "show", job[0]).out
            assert here.run("letters", "triage", job[0], "--category", "auth_config").code == 0
            told = ("--ticket", "OPS-7", "--evidence", "rotated=the allow-list")
            assert here.run("letters", "remediate", job[0], *told).code == 0
        fixed = Installation(folder, told=allowed)
        with fixed.up():
            replayed = fixed.run(*steps)
            assert "from stage fetch" in replayed.out, replayed
            notes = ("letters", "resolve", job[0], "--notes", "the path is allowed now")

            def is_resolved() -> None:
                assert fixed.run(*notes).code == 0

            eventually(is_resolved, timeout=60)
            assert "no dead letter" in fixed.run("letters", "list").out
            assert "resolved" in fixed.run("letters", "list", "--closed").out

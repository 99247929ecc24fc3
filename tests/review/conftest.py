"""What the tests of the review share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.repositories import Repository


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repos" / "shop")
    made.write("a.py", b"one\ntwo\nthree\n")
    made.commit()
    return made

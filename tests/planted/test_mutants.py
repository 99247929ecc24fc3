"""Every planted bug is noticed by the test that is named for it."""

from __future__ import annotations

import pytest

from dragoman.core.errors import DragomanError
from tests.planted.mutants import EVERY, Mutant


@pytest.mark.parametrize("mutant", EVERY, ids=str)
def test_a_planted_bug_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bug in place, the named test fails."""
    mutant.plant(monkeypatch)
    with pytest.raises((AssertionError, DragomanError, pytest.fail.Exception)):
        mutant.notices()

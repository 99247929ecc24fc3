"""Three planted bugs in every run of the suite; `make mutants` plants them all."""

from __future__ import annotations

import pytest

from dragoman.core.errors import DragomanError
from tests.planted.mutants import QUICK, Mutant


@pytest.mark.parametrize("mutant", QUICK, ids=str)
def test_a_planted_bug_is_noticed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bug in place, the named test fails."""
    mutant.plant(monkeypatch)
    with pytest.raises((AssertionError, DragomanError)):
        mutant.notices()

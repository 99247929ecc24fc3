"""Ids that sort by time, and lock keys that belong to a unit and to nothing else."""

from __future__ import annotations

import time
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.ids import unit_lock, uuid7


def test_an_id_carries_its_millisecond() -> None:
    """Version 7, variant RFC 4122, and the first 48 bits are the time of its making."""
    before = time.time_ns() // 1_000_000
    made = uuid7()
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after


def test_ids_are_not_repeated() -> None:
    """74 random bits keep ids of one millisecond apart."""
    made = {uuid7() for _ in range(5000)}
    assert len(made) == 5000
    assert len({one.int & (1 << 62) - 1 for one in made}) == 5000
    assert len({one.int >> 64 & 0xFFF for one in made}) > 1000


def test_later_ids_sort_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order by id is order by time, to the millisecond."""
    made = []
    for stamp in (1, 2, 10**12, 1_800_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda stamp=stamp: stamp * 1_000_000)
        made.append(uuid7())
    assert made == sorted(made)
    assert [str(one)[:13] for one in made] == sorted(str(one)[:13] for one in made)


def test_a_units_lock_is_the_same_in_every_release() -> None:
    """Two versions of a worker that run side by side must exclude each other."""
    assert unit_lock("rewrite", "a:b") == -2560865577124575640


@pytest.mark.req("R051", "R161")
@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_two_units_have_two_locks(one: tuple[str, str], other: tuple[str, str]) -> None:
    """The key is made of pipeline and unit, whole; equal keys are equal units."""
    assert (unit_lock(*one) == unit_lock(*other)) == (
        one == other or "\0".join(one) == "\0".join(other)
    )


@given(st.text(), st.text())
def test_a_lock_is_a_key_that_postgresql_takes(pipeline: str, unit: str) -> None:
    """It is a signed number of eight bytes."""
    assert -(2**63) <= unit_lock(pipeline, unit) < 2**63

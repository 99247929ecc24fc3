"""What an enqueue refuses before the database is asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest
from psycopg import AsyncConnection

from dragoman.core.errors import BadInput, Refused
from dragoman.work.enqueue import MAX_AT_ONCE, Work, enqueue, enqueue_many
from tests.work.shops import HOME, PLAIN, ROUTING, SUMMARIES


def deep() -> dict[str, Any]:
    """JSON that no reader should have to follow."""
    inner: dict[str, Any] = {}
    for _ in range(100_000):
        inner = {"a": inner}
    return inner


BAD: dict[str, dict[str, Any]] = {
    "no unit": {"unit": ""},
    "blank unit": {"unit": "   "},
    "NUL in a unit": {"unit": "a\0b"},
    "surrogate in a unit": {"unit": "a\ud800"},
    "line in a unit": {"unit": "a\u2028b"},
    "8,000 characters": {"unit": "u" * 8000},
    "unit of another type": {"unit": 7},
    "home as text": {"home_id": str(uuid4())},
    "no home": {"home_id": None},
    "no account": {"account": ""},
    "mode as text": {"mode": "sync"},
    "no attempts": {"max_attempts": 0},
    "too many attempts": {"max_attempts": 101},
    "attempts by a bool": {"max_attempts": True},
    "attempts by a float": {"max_attempts": 2.0},
    "priority too high": {"priority": 32_768},
    "negative delay": {"delay_s": -1},
    "endless delay": {"delay_s": float("inf")},
    "delay that is no number": {"delay_s": float("nan")},
    "short digest": {"input_sha256": b"x"},
    "digest as text": {"input_sha256": "0" * 64},
    "routing that is a list": {"routing": []},
    "routing without a provider": {"routing": {"adapter_kind": "a", "model": "m"}},
    "routing without a model": {"routing": {"provider": "p", "adapter_kind": "a"}},
    "routing with an empty adapter": {"routing": {**ROUTING, "adapter_kind": ""}},
    "routing with a number": {"routing": {**ROUTING, "model": 4}},
    "routing with NaN": {"routing": {**ROUTING, "x": float("nan")}},
    "routing with NUL": {"routing": {**ROUTING, "x": "\0"}},
    "routing with a surrogate": {"routing": {**ROUTING, "x": "\ud800"}},
    "routing with bytes": {"routing": {**ROUTING, "x": b""}},
    "deep routing": {"routing": {**ROUTING, "x": deep()}},
    "large routing": {"routing": {**ROUTING, "x": "x" * 9000}},
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_before_the_database_is_asked(what: str) -> None:
    """One of two is wrong: the error names what and which, quotes nothing, and asks nobody."""
    nobody = cast("AsyncConnection[Any]", None)
    lot = [Work("good", HOME, ROUTING), replace(Work("one", HOME, ROUTING), **BAD[what])]
    with pytest.raises(BadInput) as refused:
        asyncio.run(enqueue_many(nobody, SUMMARIES, lot, by="shop"))
    assert "work 1 " in str(refused.value)
    assert len(str(refused.value)) < 120


def test_a_lot_has_a_bound_and_a_caller_a_name() -> None:
    """Too many at once, or by nobody: refused before the database is asked; none is nothing."""
    nobody = cast("AsyncConnection[Any]", None)
    works = [Work("one", HOME)]
    for lot, by in ((works * (MAX_AT_ONCE + 1), "shop"), (works, ""), (works, "a\nb")):
        with pytest.raises(BadInput):
            asyncio.run(enqueue_many(nobody, PLAIN, lot, by=by))
    assert asyncio.run(enqueue_many(nobody, PLAIN, [], by="shop")) == []


@pytest.mark.req("R018")
@pytest.mark.parametrize(("number", "name"), [(1, "mine"), (11, "rewrite"), (2, "review")])
def test_a_rewrite_does_not_come_in_this_way(number: int, name: str) -> None:
    """It is more than its job, so its orchestrator alone enqueues it; neither name nor number."""
    nobody = cast("AsyncConnection[Any]", None)
    with pytest.raises(Refused):
        asyncio.run(
            enqueue(nobody, replace(PLAIN, id=number, name=name), Work("one", HOME), by="shop")
        )

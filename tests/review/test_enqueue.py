"""The way in for a review: one key makes one job, however often and whenever it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

import pytest

from dragoman.core.errors import BadInput, Conflict, QueueFull, Refused
from dragoman.review import store
from dragoman.review.source import Changelist
from tests.reviews import ANN, BOB, Desk, refusal, shop, tell

OTHER = Changelist(shop().repository, shop().head, shop().base)


def written(desk: Desk) -> tuple:
    """How many rows of each kind an enqueue has written."""
    return desk.rows(
        "select (select count(*) from job), (select count(*) from standing),"
        " (select count(*) from event), (select count(*) from review),"
        " (select count(*) from review_input)"
    )[0]


@pytest.mark.req("R347")
def test_a_review_needs_a_key_of_its_callers_and_a_version_from_one_on() -> None:
    """Without a key, or with one that nobody could repeat, nothing is written."""

    async def story(desk: Desk) -> None:
        for key in ("", "  ", "a\nb", "\x00", "k" * 201):
            with pytest.raises(BadInput):
                await desk.enqueue(key)
        for version in (0, -1):
            with pytest.raises(BadInput):
                await desk.enqueue(version=version)
        assert written(desk) == (0, 0, 0, 0, 0)

    tell(story)


@pytest.mark.req("R348", "R378")
def test_the_schema_holds_a_key_once() -> None:
    """A second job under the same key is refused by a unique constraint, whoever inserts it."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        copy = (
            "insert into job (id, pipeline, unit, home_id, mode, account, routing, max_attempts,"
            " queue_keys, created_by, created_at)"
            " select gen_random_uuid(), pipeline, unit, home_id, mode,"
            " account, routing, max_attempts, queue_keys, created_by, created_at from job"
        )
        assert refusal(desk, copy) == "job_unit"

    tell(story)


@pytest.mark.req("R349", "R379", "R380")
def test_the_same_request_again_returns_the_first_job() -> None:
    """A caller who repeats itself gets the record that it made, and no second one."""

    async def story(desk: Desk) -> None:
        first = await desk.enqueue()
        before = written(desk)
        again = await desk.enqueue(recipients=[BOB, ANN, ANN])
        assert (first.is_new, again.is_new, again.job_id) == (True, False, first.job_id)
        assert written(desk) == before == (1, 1, 1, 1, 1)

    tell(story)


@pytest.mark.req("R349", "R379", "R380")
def test_two_creates_at_the_same_moment_make_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either has written: one row, and both are given it."""

    async def story(desk: Desk) -> None:
        await desk.enqueue("push-0", changelist=OTHER)
        hold_both(monkeypatch, "find_by_key")
        made = await asyncio.gather(desk.enqueue(), desk.enqueue())
        assert len({one.job_id for one in made}) == 1
        assert sorted(one.is_new for one in made) == [False, True]
        assert written(desk) == (2, 2, 2, 2, 2)

    tell(story)


def test_two_keys_for_one_version_at_the_same_moment_share_one_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them is in charge; the other caller is given its job, and leaves no row."""

    async def story(desk: Desk) -> None:
        await desk.enqueue("push-0", changelist=OTHER)
        hold_both(monkeypatch, "versions")
        made = await asyncio.gather(desk.enqueue("push-1"), desk.enqueue("push-2"))
        assert len({one.job_id for one in made}) == 1
        assert written(desk) == (2, 2, 2, 2, 2)

    tell(story)


def test_a_key_used_for_something_else_is_a_conflict() -> None:
    """Another version, other recipients, another changelist: refused, and nothing is written."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        before = written(desk)
        changes: list[dict[str, Any]] = [
            {"version": 2, "is_rerun": True},
            {"recipients": [ANN]},
            {"changelist": OTHER},
        ]
        for change in changes:
            with pytest.raises(Conflict):
                await desk.enqueue(**change)
        assert written(desk) == before

    tell(story)


def test_a_new_key_for_a_version_that_is_under_way_returns_the_job_in_charge() -> None:
    """Queued, processing or waiting for its messages: the active job answers for the version."""

    async def story(desk: Desk) -> None:
        first = await desk.enqueue()
        for step in range(3):
            again = await desk.enqueue(f"other-{step}")
            assert (again.job_id, again.is_new) == (first.job_id, False)
            await desk.work()
        assert written(desk)[0] == 1

    tell(story)


def test_nobody_is_handed_the_job_of_another_home() -> None:
    """A key belongs to its home, and so does a changelist: a stranger is refused."""

    async def story(desk: Desk) -> None:
        await desk.enqueue()
        before = written(desk)
        with pytest.raises(Refused):
            await desk.enqueue(home=uuid4())
        assert written(desk) == before

    tell(story)


def hold_both(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Two callers have both looked before either goes on; a later look is not held."""
    looked: Callable[..., Coroutine[Any, Any, object]] = getattr(store, name)
    meet = asyncio.Barrier(2)
    first_looks = iter((True, True))

    async def look(*arguments: object) -> object:
        found = await looked(*arguments)
        if next(first_looks, False):
            await asyncio.wait_for(meet.wait(), 10)
        return found

    monkeypatch.setattr(store, name, look)


def test_a_home_with_too_many_waiting_enqueues_no_review() -> None:
    """Refused by type, and nothing is written; the key of the one that waits still answers."""

    async def story(desk: Desk) -> None:
        desk.rows("update cell set max_waiting_per_home = 1 returning name")
        first = await desk.enqueue("one")
        before = written(desk)
        with pytest.raises(QueueFull):
            await desk.enqueue("two", version=2, is_rerun=True)
        assert (await desk.enqueue("one")).job_id == first.job_id
        assert written(desk) == before

    tell(story)

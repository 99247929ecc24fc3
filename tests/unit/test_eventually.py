"""The poll that every other test waits with can itself fail."""

from __future__ import annotations

import asyncio

import pytest

from tests.eventually import eventually, eventually_async


def test_the_poll_ends_as_soon_as_the_assertion_holds() -> None:
    """It tries again while the assertion fails and gives back what the last try gave."""
    tries = iter(range(10))

    def third() -> int:
        found = next(tries)
        assert found == 2
        return found

    assert eventually(third) == 2
    assert next(tries) == 3


def test_the_poll_gives_up_with_the_last_failure() -> None:
    """After the deadline the test fails with the assertion that never held."""

    def never() -> None:
        assert [] == ["row"]

    with pytest.raises(AssertionError, match="row") as caught:
        eventually(never, timeout=0.05)
    assert caught.value.__notes__ == ["still so after 0.05 s"]


def test_a_plain_false_is_not_taken_for_success() -> None:
    """A condition written as a lambda fails like an assertion."""
    with pytest.raises(AssertionError, match="still false"):
        eventually(lambda: False, timeout=0.05)


def test_the_async_poll_takes_both_kinds_of_assertion() -> None:
    """A coroutine function is awaited, a plain one is called, and either may fail."""

    async def answer() -> str:
        return "done"

    async def all_of_it() -> None:
        assert await eventually_async(answer) == "done"
        assert await eventually_async(lambda: 7) == 7
        with pytest.raises(AssertionError, match="still false"):
            await eventually_async(lambda: False, timeout=0.05)

    asyncio.run(all_of_it())


def test_another_error_is_not_waited_out() -> None:
    """Only a failed assertion may come true later; a bug shows at once."""
    tries = iter(range(10))

    def bug() -> int:
        return 1 // next(tries)

    with pytest.raises(ZeroDivisionError):
        eventually(bug)
    assert next(tries) == 1

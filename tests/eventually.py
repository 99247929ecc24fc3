"""Waiting for something to become true, with a deadline: the one place where tests may sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar, cast

T = TypeVar("T")

PAUSE_S = 0.02


def eventually(assertion: Callable[[], T], timeout: float = 10.0) -> T:
    """Run the assertion until it holds, and give what it gave; after `timeout`, its last failure.

    A plain False counts as not yet, so that `eventually(lambda: server.is_up)` can fail.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _holds(assertion())
        except AssertionError as error:
            _give_up(error, deadline, timeout)
        time.sleep(PAUSE_S)  # noqa: TID251 - this is the poll itself


async def eventually_async(
    assertion: Callable[[], Awaitable[T] | T],
    timeout: float = 10.0,  # noqa: ASYNC109 - it bounds the polling, not one await
) -> T:
    """As `eventually`; the assertion may be a coroutine function or a plain one."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            found = assertion()
            return _holds(cast("T", await found if isawaitable(found) else found))
        except AssertionError as error:
            _give_up(error, deadline, timeout)
        await asyncio.sleep(PAUSE_S)  # noqa: TID251 - this is the poll itself


def _holds(found: T) -> T:
    assert found is not False, "still false"
    return found


def _give_up(error: AssertionError, deadline: float, timeout: float) -> None:
    if time.monotonic() >= deadline:
        error.add_note(f"still so after {timeout:g} s")
        raise error

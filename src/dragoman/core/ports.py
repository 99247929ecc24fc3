"""The two ports through which everything leaves the process: a commit and a network call.

Each crossing has a tag, `submit.create` for instance. Before and after it the process may die,
and the tests make it die there, at every tag. In production nothing is installed and a crossing
costs one comparison.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

Moment: TypeAlias = Literal["before", "after"]
Hook: TypeAlias = Callable[[str, Moment], None]
T = TypeVar("T")

_hook: Hook | None = None


def install(hook: Hook | None) -> None:
    """Let a test see every crossing; it may raise, stop or kill the process there."""
    global _hook  # noqa: PLW0603 - one seam for one process, set by tests alone
    _hook = hook


def at(tag: str, moment: Moment) -> None:
    """Tell the installed hook, if there is one."""
    if _hook is not None:
        _hook(tag, moment)


async def cross(tag: str, call: Awaitable[T]) -> T:
    """Make one network call through its tagged port.

    >>> view = await cross("collect.poll", client.poll(batch_id))  # doctest: +SKIP
    """
    at(tag, "before")
    answer = await call
    at(tag, "after")
    return answer


_monotonic: Callable[[], float] = time.monotonic


def monotonic() -> float:
    """Seconds of this process's own clock: for how long something took, never for when it was."""
    return _monotonic()


def install_clock(clock: Callable[[], float] | None) -> None:
    """Let a test move the process's clock. The database's clock has a seam of its own: clock()."""
    global _monotonic  # noqa: PLW0603 - one seam for one process, set by tests alone
    _monotonic = clock or time.monotonic

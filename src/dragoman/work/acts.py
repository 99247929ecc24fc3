"""The one way out for everything that must not happen twice.

Creating a provider's batch and sending a message cannot be undone, and no answer to them can be
trusted to arrive. So each such act follows one protocol, the one that spec/ explores in full:

    1. commit the intent: key, hash of the payload, deadline         (a crash before: nothing)
    2. check the fence: is this process still the one that may act?  (a crash from here on: doubt)
    3. act, exactly once, with no retry below us
    4. mark with the evidence, in one write

What proves that nothing happened (DNS, refused, TLS, a definite 4xx) gives the work back. A
time-out, a reset and every 5xx are doubt, and doubt is never simply repeated. What settles it
depends on the target alone: one that honours keys gets the same bytes under the same key; one that
can be asked is asked, once nothing can arrive any more; with any other the doubt stays, visibly,
for an operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

from dragoman.channels.base import Channel
from dragoman.core import ports
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.providers.base import Account, Adapter

_GRACE_S = 1.0


class Book(Protocol):
    """Where an act is written down: the four writes of the protocol, each a compare-and-set."""

    async def begin(self, deadline_s: float) -> bool:
        """Commit the intent; False when it is not ours any more."""
        ...

    async def mark(self, happened: Happened) -> None:
        """Write the evidence."""
        ...

    async def give_back(self, failure: Failure) -> None:
        """Nothing happened, provably: the work may be tried again."""
        ...

    async def doubt(self, failure: Failure) -> None:
        """Nobody knows."""
        ...


@dataclass(frozen=True, slots=True)
class Act:
    """One act: its port's tag, what it does, and how long it may take."""

    tag: str
    perform: Callable[[float], Awaitable[Answer]]
    deadline_s: float


def create_batch(
    adapter: Adapter, account: Account, file_id: str, nonce: str, deadline_s: float
) -> Act:
    """The act of creating a provider's batch: exactly one POST."""

    async def perform(left_s: float) -> Answer:
        return await adapter.create(account, file_id, nonce, left_s)

    return Act("submit.create", perform, deadline_s)


def send_message(
    channel: Channel, recipient: str, key: str, payload: bytes, deadline_s: float
) -> Act:
    """The act of sending one message to one recipient."""

    async def perform(left_s: float) -> Answer:
        return await channel.send(recipient, key, payload, left_s)

    return Act("relay.send", perform, deadline_s)


async def act_once(book: Book, act: Act, fence: Callable[[], None]) -> Answer:
    """Run the protocol. LeaseLost: it was not ours, and nothing was done.

    >>> await act_once(book, create_batch(...), line.fence)  # doctest: +SKIP
    """
    began = ports.monotonic()
    if not await book.begin(act.deadline_s + _GRACE_S):
        raise LeaseLost
    fence()
    answer = await _perform(act, began)
    match answer:
        case Happened():
            await book.mark(answer)
        case NothingHappened(failure=failure):
            await book.give_back(failure)
        case Doubt(failure=failure):
            await book.doubt(failure)
        case _:
            assert_never(answer)
    return answer


async def _perform(act: Act, began: float) -> Answer:
    async def in_time() -> Answer:
        # Asked as late as can be: a process that was stopped and continued must not act after its
        # deadline, for others may have settled its doubt.
        left_s = act.deadline_s - (ports.monotonic() - began)
        if left_s <= 0:
            raise LeaseLost
        async with asyncio.timeout(left_s):
            return await act.perform(left_s)

    try:
        return await ports.cross(act.tag, in_time())
    except TimeoutError:
        return Doubt(Failure(FailureClass.NETWORK_TIMEOUT, "deadline"))

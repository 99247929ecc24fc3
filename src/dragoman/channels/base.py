"""What the engine asks of a channel: what it guarantees, one send, and perhaps one question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from dragoman.core.answer import Answer, Happened
from dragoman.core.failure import Failure


class Guarantee(StrEnum):
    """What a target does with doubt; the channel declares it, the console shows it."""

    KEY = "key"  # honours our key for a while: same key, same bytes, no second message
    LOOKUP = "lookup"  # can be asked whether it has the message
    NEITHER = "neither"  # a doubt stays a doubt until an operator decides


@dataclass(frozen=True, slots=True)
class Message:
    """What one recipient is told. Frozen with the delivery row, so a retry sends the same."""

    key: str  # derived from (changelist, recipient, version) alone
    recipient: str  # a URI, mailto:ann@example.org
    subject: str
    body: str
    created_at: datetime


class Channel(Protocol):
    """One way to reach people. Nothing here retries."""

    scheme: str  # of the recipient's URI
    guarantee: Guarantee
    key_window_s: float | None  # how long the target remembers a key; None: it never forgets one

    def render(self, message: Message) -> bytes:
        """The exact bytes that will be sent, now and on every retry."""
        ...

    async def send(self, recipient: str, key: str, rendered: bytes, deadline_s: float) -> Answer:
        """One send. Happened.evidence_id is the id the target gave it."""
        ...


@dataclass(frozen=True, slots=True)
class Absent:
    """The target has no such message now. Proof only once a send can no longer arrive."""


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The target could not be asked, or did not answer clearly. Nothing is sent on this."""

    failure: Failure


Finding: TypeAlias = Happened | Absent | CannotTell


@runtime_checkable
class Asks(Protocol):
    """A channel of guarantee LOOKUP, or one of guarantee KEY whose window has closed."""

    settle_s: float  # how long after the deadline the target may still answer Absent wrongly

    async def lookup(self, recipient: str, key: str) -> Finding:
        """Whether the target has the message of this key; Happened carries its id there."""
        ...

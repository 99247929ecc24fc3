"""What the outside world can say to an act that must not happen twice: yes, no, or unclear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dragoman.core.canonical import JSONObject
from dragoman.core.failure import Failure


@dataclass(frozen=True, slots=True)
class Happened:
    """The other side did it, and this is what it gave us as evidence."""

    evidence_id: str
    facts: JSONObject


@dataclass(frozen=True, slots=True)
class NothingHappened:
    """Proof that nothing happened: DNS, refused, TLS, a definite 4xx. It may be tried again."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Doubt:
    """A time-out, a reset, any 5xx: it may have happened, and is never simply repeated."""

    failure: Failure


Answer: TypeAlias = Happened | NothingHappened | Doubt

"""What a job is, which way it may go, and why.

A job is an intent: one insert-only row that nobody may update. Beside it lies its standing, the one
small row that moves: state, stage, attempts, claim. Every move is one statement that names the
state it expects and the token it holds, and that writes the event of the move as it moves.

    queued ──claim──▶ processing ──submit──▶ batch_submitted
      ▲                   │                        │
      └── retry, defer, release, next stage ◀──────┘
                          │                        │
                          └──▶ completed, failed ◀─┘        cancel: any of these ──▶ canceled

An attempt is a finished, unsuccessful try. A claim, a deferral, a release or an item that the
provider proves it never ran is none. The claim's token is the fence: who does not hold it any more
gets zero rows and must stop without a side effect.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import TypeAlias

from dragoman.core.canonical import JSON, JSONObject
from dragoman.core.failure import Failure
from dragoman.core.ids import HomeId, JobId, Token


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    PROCESSING = "processing"
    BATCH_SUBMITTED = "batch_submitted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing moves any more but the chain's head."""
        return self in TERMINAL


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELED})

EDGES: frozenset[tuple[State, State]] = frozenset(
    {
        (State.QUEUED, State.PROCESSING),
        (State.PROCESSING, State.BATCH_SUBMITTED),
        (State.PROCESSING, State.COMPLETED),
        (State.PROCESSING, State.FAILED),
        (State.PROCESSING, State.QUEUED),
        (State.BATCH_SUBMITTED, State.PROCESSING),
        (State.BATCH_SUBMITTED, State.COMPLETED),
        (State.BATCH_SUBMITTED, State.FAILED),
        (State.BATCH_SUBMITTED, State.QUEUED),
        (State.QUEUED, State.CANCELED),
        (State.PROCESSING, State.CANCELED),
        (State.BATCH_SUBMITTED, State.CANCELED),
    }
)

_LEGACY = {"running": State.PROCESSING, "succeeded": State.COMPLETED}


def read_state(word: str) -> State:
    """A state by its name or by one of the two older names.

    >>> read_state("running").value
    'processing'
    """
    return _LEGACY.get(word) or State(word)


class Mode(StrEnum):
    """How a call is made: now by a worker, or later by submitter and collector."""

    ASYNC = "async"
    BATCH = "batch"


class Kind(IntEnum):
    """What happened to a job; the number enters the hash of the chain and never changes."""

    ENQUEUED = 1
    CLAIMED = 2
    CALLING = 3
    SUBMITTED = 4
    COMPLETED = 5
    FAILED = 6
    RETRIED = 7
    DEFERRED = 8
    RELEASED = 9
    ADVANCED = 10
    CANCELED = 11
    CANCEL_REFUSED = 12
    STALE_REQUEUED = 13
    LATE_RESULT = 14
    SENDING = 15
    SENT = 16
    SEND_UNKNOWN = 17
    SEND_RETRIED = 18
    SEND_FAILED = 19
    SUBMITTING = 20
    SUBMIT_UNKNOWN = 21
    REPLAYED = 22
    TRIAGED = 23
    REMEDIATED = 24
    RESOLVED = 25
    ESCALATED = 26
    ERASED = 27
    RECONCILED = 28
    JUDGED = 29


class Reason(IntEnum):
    """Why; the number enters the hash of the chain and never changes."""

    NONE = 0
    FAILURE = 1
    EXHAUSTED = 2
    NOT_RETRYABLE = 3
    FREE_REQUEUE = 4
    STALE_CLAIM = 5
    OVERFLOW = 6
    RUNTIME_LIMIT = 7
    SHUTDOWN = 8
    NEXT_STAGE = 9
    AWAITING_DELIVERIES = 10
    NEVER_STARTED = 11
    PROVABLY_ABSENT = 12
    ADOPTED = 13
    GATE_CLOSED = 14
    ASKED_BY_OPERATOR = 15
    ALREADY_FINAL = 16
    LOST_LEASE = 17
    NOT_YET_DUE = 18


@dataclass(frozen=True, slots=True)
class Queue:
    """Where a stage waits: what to run, how, and through which gate (provider, account, model)."""

    pipeline: str
    stage: str
    mode: Mode
    provider: str = ""
    account: str = ""
    model: str = ""

    @property
    def key(self) -> int:
        """The number of the queue: the same in every process and cell, without a sequence."""
        parts = (self.pipeline, self.stage, self.mode, self.provider, self.account, self.model)
        digest = hashlib.sha256("\0".join(parts).encode()).digest()
        return int.from_bytes(digest[:4], "big", signed=True)


@dataclass(frozen=True, slots=True)
class Held:
    """A job as its holder knows it: enough to work on it and to let go of it."""

    id: JobId
    token: Token
    state: State
    pipeline: str
    stage: int
    home_id: HomeId
    unit: str
    unit_lock: int
    queue_key: int
    stage_attempts: int
    max_attempts: int
    free_requeues: int
    account: str
    mode: Mode
    group_key: str | None
    routing: JSONObject

    @property
    def attempt(self) -> int:
        """The number of the try that is going on, from 1."""
        return self.stage_attempts + 1


@dataclass(frozen=True, slots=True)
class Done:
    """The stage is done. `result` is values; the pipeline's own statement stores them."""

    result: object
    sha256: bytes = b""
    facts: JSONObject = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Retry:
    """This try failed; another may help, if the budget allows it."""

    failure: Failure
    facts: JSONObject = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Bury:
    """No other try can help."""

    failure: Failure
    frames: tuple[str, ...] = ()
    facts: JSONObject = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class Defer:
    """Not now: nothing was tried, nothing failed."""

    reason: Reason
    until: datetime | None = None
    delay_s: float | None = None


Outcome: TypeAlias = Done | Retry | Bury | Defer


def outcome_of(failure: Failure, frames: tuple[str, ...] = ()) -> Retry | Bury:
    """The outcome that a failure's class asks for."""
    return Retry(failure) if failure.is_retryable else Bury(failure, frames)

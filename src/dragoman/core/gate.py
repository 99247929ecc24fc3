"""What a call must pass: a provider's account and model, its budgets, and why it may be closed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from dragoman.core.call import Call, Reply, Unanswered
from dragoman.core.failure import ACCOUNT_CODES, Failure, FailureClass
from dragoman.core.retry import RETRY_AFTER_CEILING_S

THROTTLED_S = 5.0
ACCOUNT_S = 900.0
BYTES_PER_TOKEN = 4


class Pause(StrEnum):
    """Why a gate is closed."""

    THROTTLED = "throttled"  # a 429: a temporary window
    QUOTA = "quota"  # what the account may use is used up
    CREDIT = "credit"  # what the account has paid for is used up
    AUTH = "auth"  # the provider does not know us, or does not let us in
    OPERATOR = "operator"  # somebody said so


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate by its name. All processes that go through it share its budgets.

    >>> Gate("openai", "default", "gpt").name
    'openai/default/gpt'
    """

    provider: str
    account: str
    model: str

    @property
    def key(self) -> int:
        """The number of the gate: the same in every process and cell, without a sequence."""
        parts = ("gate", self.provider, self.account, self.model)
        digest = hashlib.sha256("\0".join(parts).encode()).digest()
        return int.from_bytes(digest[:4], "big", signed=True)

    @property
    def name(self) -> str:
        """How people and alerts call it."""
        return f"{self.provider}/{self.account}/{self.model}"


@dataclass(frozen=True, slots=True)
class Closing:
    """That a gate should close: why, and for how long."""

    why: Pause
    seconds: float

    @property
    def needs_somebody(self) -> bool:
        """Whether waiting alone is not likely to open it for good."""
        return self.why is not Pause.THROTTLED

    @property
    def is_limit(self) -> bool:
        """Whether a limit of the provider was met."""
        return self.why in (Pause.THROTTLED, Pause.QUOTA, Pause.CREDIT)


def closing_of(failure: Failure) -> Closing | None:
    """What a failure says about the gate it came through; most say nothing.

    >>> closing_of(Failure(FailureClass.THROTTLED, "http_429", retry_after_s=20)).seconds
    20
    """
    if failure.code in _QUOTA_CODES:
        return Closing(Pause.QUOTA, ACCOUNT_S)
    match failure.error_class:
        case FailureClass.THROTTLED:
            asked = failure.retry_after_s or THROTTLED_S
            return Closing(Pause.THROTTLED, min(asked, RETRY_AFTER_CEILING_S))
        case FailureClass.ACCOUNT_BLOCKED:
            return Closing(Pause.CREDIT, ACCOUNT_S)
        case FailureClass.AUTH_DENIED:
            return Closing(Pause.AUTH, ACCOUNT_S)
        case _:
            return None


def failures_of(replies: Sequence[Reply]) -> list[Failure]:
    """Of these replies, those that close a gate; of each reason the one that closes it longest."""
    worst: dict[Pause, tuple[float, Failure]] = {}
    for reply in replies:
        closing = closing_of(reply.failure) if isinstance(reply, Unanswered) else None
        if isinstance(reply, Unanswered) and closing:
            before = worst.get(closing.why)
            if before is None or before[0] < closing.seconds:
                worst[closing.why] = (closing.seconds, reply.failure)
    return [failure for _, failure in worst.values()]


def failure_of_batch(codes: Sequence[str]) -> Failure | None:
    """What a batch that was refused as a whole says about its gate, by the codes of its errors."""
    told = next((code for code in codes if code in _QUOTA_CODES or code in ACCOUNT_CODES), None)
    return Failure(FailureClass.ACCOUNT_BLOCKED, told) if told else None


def tokens_of(calls: Sequence[Call]) -> int:
    """What calls may cost: four bytes to a token, and the longest answer that is allowed."""
    size = sum(len(call.instructions.encode()) + len(call.input.encode()) for call in calls)
    return size // BYTES_PER_TOKEN + sum(call.max_output_tokens for call in calls)


_QUOTA_CODES = frozenset({"insufficient_quota", "token_limit_exceeded"})

"""The table of what can go wrong: a class says whether to try again, a code says what it was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,80}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}")


class FailureClass(StrEnum):
    """Stable names; the dead letter's error_class is one of them."""

    NETWORK_TIMEOUT = "NETWORK_TIMEOUT"  # DNS, connect, read, reset, 408, 425, 502, 503, 504
    THROTTLED = "THROTTLED"  # 429, a temporary window
    UPSTREAM_ERROR = "UPSTREAM_ERROR"  # any other 5xx, internal_error
    CONFLICT = "CONFLICT"  # 409, 412, a lost race of an idempotent act
    STALE_CLAIM = "STALE_CLAIM"  # the worker that held it is gone
    NOT_EXECUTED = "NOT_EXECUTED"  # the provider proves that it never ran
    SCHEMA_INVALID = "SCHEMA_INVALID"  # 400, 422, malformed or missing fields
    OUTPUT_REJECTED = "OUTPUT_REJECTED"  # our own checks refused the model's text
    AUTH_DENIED = "AUTH_DENIED"  # 401, 403
    ACCOUNT_BLOCKED = "ACCOUNT_BLOCKED"  # quota or credit gone: the gate closes
    NOT_FOUND = "NOT_FOUND"  # 404, 410
    POLICY_REJECTED = "POLICY_REJECTED"  # moderation, an explicit deny
    DELIVERY_REJECTED = "DELIVERY_REJECTED"  # a recipient that cannot be reached
    RESULT_MISSING = "RESULT_MISSING"  # completed, yet this item has no line
    RUNTIME_BUG = "RUNTIME_BUG"  # an unknown exception: no retry, page


RETRYABLE = frozenset(
    {
        FailureClass.NETWORK_TIMEOUT,
        FailureClass.THROTTLED,
        FailureClass.UPSTREAM_ERROR,
        FailureClass.CONFLICT,
        FailureClass.STALE_CLAIM,
        FailureClass.NOT_EXECUTED,
        FailureClass.ACCOUNT_BLOCKED,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure in safe scalars: never a body, never an exception's message.

    What does not look like a code or an id is not kept, for it could be somebody's text.

    >>> Failure(FailureClass.UPSTREAM_ERROR, "http_503", http_status=503).is_retryable
    True
    >>> Failure(FailureClass.UPSTREAM_ERROR, "Sorry, not now!").code
    'unreadable_code'
    """

    error_class: FailureClass
    code: str
    http_status: int | None = None
    provider_request_id: str | None = None
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if not _CODE.fullmatch(self.code):
            object.__setattr__(self, "code", "unreadable_code")
        request_id = self.provider_request_id
        if request_id is not None and not _REQUEST_ID.fullmatch(request_id):
            object.__setattr__(self, "provider_request_id", None)

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may help."""
        return self.error_class in RETRYABLE

    def facts(self) -> dict[str, str | int]:
        """What may be written down about it."""
        found: dict[str, str | int | None] = {
            "class": self.error_class.value,
            "code": self.code,
            "http_status": self.http_status,
            "provider_request_id": self.provider_request_id,
        }
        return {name: value for name, value in found.items() if value is not None}


def classify_http(
    status: int,
    *,
    code: str | None = None,
    request_id: str | None = None,
    retry_after_s: float | None = None,
    idempotent: bool = True,
) -> Failure:
    """Class of an HTTP answer that is not a success, by status and code, never by substring."""

    def failure(error_class: FailureClass) -> Failure:
        return Failure(error_class, code or f"http_{status}", status, request_id, retry_after_s)

    if code in ACCOUNT_CODES or status == 402:
        return failure(FailureClass.ACCOUNT_BLOCKED)
    if status in (408, 425, 502, 503, 504) or status == 0:
        return failure(FailureClass.NETWORK_TIMEOUT)
    if status in (409, 412):
        return failure(FailureClass.CONFLICT if idempotent else FailureClass.SCHEMA_INVALID)
    if status == 429:
        return failure(FailureClass.THROTTLED)
    if status in (401, 403):
        return failure(FailureClass.AUTH_DENIED)
    if status in (404, 410):
        return failure(FailureClass.NOT_FOUND)
    if status >= 500:
        return failure(FailureClass.UPSTREAM_ERROR)
    return failure(FailureClass.SCHEMA_INVALID)


ACCOUNT_CODES = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_error",
        "billing_hard_limit_reached",
    }
)

"""The table of failures: by status and code, never by words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.failure import RETRYABLE, Failure, FailureClass, classify_http

FC = FailureClass
STATUS = {
    0: FC.NETWORK_TIMEOUT, 400: FC.SCHEMA_INVALID, 401: FC.AUTH_DENIED, 402: FC.ACCOUNT_BLOCKED,
    403: FC.AUTH_DENIED, 404: FC.NOT_FOUND, 405: FC.SCHEMA_INVALID, 408: FC.NETWORK_TIMEOUT,
    409: FC.CONFLICT, 410: FC.NOT_FOUND, 412: FC.CONFLICT, 413: FC.SCHEMA_INVALID,
    422: FC.SCHEMA_INVALID, 425: FC.NETWORK_TIMEOUT, 429: FC.THROTTLED, 500: FC.UPSTREAM_ERROR,
    501: FC.UPSTREAM_ERROR, 502: FC.NETWORK_TIMEOUT, 503: FC.NETWORK_TIMEOUT,
    504: FC.NETWORK_TIMEOUT, 520: FC.UPSTREAM_ERROR, 529: FC.UPSTREAM_ERROR,
}  # fmt: skip
FINAL = {
    FC.SCHEMA_INVALID, FC.OUTPUT_REJECTED, FC.AUTH_DENIED, FC.NOT_FOUND, FC.POLICY_REJECTED,
    FC.DELIVERY_REJECTED, FC.RESULT_MISSING, FC.RUNTIME_BUG,
}  # fmt: skip


@pytest.mark.req("R300", "R302", "R303", "R305", "R307", "R309")
@pytest.mark.parametrize("status", STATUS)
def test_a_status_has_its_class(status: int) -> None:
    """Time-outs and 5xx may be tried again, a refusal of what was asked may not."""
    found = classify_http(status)
    assert (found.error_class, found.http_status) == (STATUS[status], status)
    assert found.is_retryable == (status in {0, 402, 408, 409, 412, 425, 429} or status >= 500)


@pytest.mark.req("R296")
def test_every_class_is_retryable_or_final() -> None:
    """The two halves together are the whole table."""
    assert set(FC) == RETRYABLE | FINAL
    assert not RETRYABLE & FINAL


@pytest.mark.req("R304", "R303")
@pytest.mark.parametrize("status", [409, 412])
def test_a_conflict_is_tried_again_only_where_that_is_harmless(status: int) -> None:
    """For an act that is not idempotent a conflict is final."""
    assert classify_http(status).is_retryable
    assert not classify_http(status, idempotent=False).is_retryable


@pytest.mark.parametrize(
    "code",
    [
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_error",
        "billing_hard_limit_reached",
    ],
)
def test_an_account_without_money_is_no_busy_moment(code: str) -> None:
    """Quota and credit are the account's, whatever status carries them; they close the gate."""
    for status in (400, 403, 429, 500):
        assert classify_http(status, code=code).error_class is FC.ACCOUNT_BLOCKED
    assert classify_http(429, code="rate_limit_exceeded").error_class is FC.THROTTLED


@given(st.integers(0, 999), st.none() | st.from_regex(r"[a-z0-9_.:-]{1,80}", fullmatch=True))
def test_every_answer_is_a_failure_in_safe_scalars(status: int, code: str | None) -> None:
    """Total: there is one class and a code, and nothing else is written down."""
    found = classify_http(status, code=code, request_id="req-1", retry_after_s=2.0)
    assert found.code == (code or f"http_{status}")
    assert found.retry_after_s == 2.0
    assert found.facts() == {
        "class": found.error_class.value,
        "code": found.code,
        "http_status": status,
        "provider_request_id": "req-1",
    }


def test_what_is_not_known_is_left_out() -> None:
    """Facts hold no empty places."""
    assert Failure(FC.RUNTIME_BUG, "KeyError").facts() == {
        "class": "RUNTIME_BUG",
        "code": "KeyError",
    }


@pytest.mark.parametrize(
    "words", ["try again", "timeout", "rate limit", "503", "insufficient_quota!"]
)
def test_no_class_is_found_in_words(words: str) -> None:
    """A code that merely contains something known changes nothing."""
    assert classify_http(400, code=words).error_class is FC.SCHEMA_INVALID

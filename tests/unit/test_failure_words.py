"""A failure holds codes and ids, whatever a provider sends where a code is expected."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.failure import Failure, FailureClass, classify_http

_ANY_TEXT = st.text() | st.from_regex(r"[\w.:-]{1,90}\s?")
_CODE = st.from_regex(re.compile(r"[A-Za-z0-9_.:-]{1,80}"), fullmatch=True)
_REQUEST_ID = st.from_regex(re.compile(r"[A-Za-z0-9_.:/=+-]{1,128}"), fullmatch=True)
_PLAIN = re.compile(r"[A-Za-z0-9_.:/=+-]+")


@given(_ANY_TEXT, st.none() | _ANY_TEXT)
def test_no_sentence_gets_into_a_failure(code: str, request_id: str | None) -> None:
    """Every word that a failure shows is short and made of plain characters."""
    made = Failure(FailureClass.UPSTREAM_ERROR, code, 500, request_id)
    moved = replace(Failure(FailureClass.THROTTLED, "ok"), code=code)
    judged = classify_http(500, code=code, request_id=request_id)
    for failure in (made, moved, judged):
        words = [str(word) for word in failure.facts().values()]
        assert all(_PLAIN.fullmatch(word) and len(word) <= 128 for word in words)
        assert len(failure.code) <= 80


@given(_CODE, _REQUEST_ID)
def test_codes_and_ids_are_kept_as_they_are(code: str, request_id: str) -> None:
    """What looks like a code or an id says exactly what the provider said."""
    failure = Failure(FailureClass.THROTTLED, code, 429, request_id)
    assert (failure.code, failure.provider_request_id) == (code, request_id)


@pytest.mark.parametrize(
    "text", ["", "two words", "x" * 81, "newline\n", "gemütlich", "<html>", "a/b", "\0", "\ud800"]
)
def test_what_is_no_code_is_called_unreadable(text: str) -> None:
    """The failure keeps its class and status; the text is gone."""
    failure = Failure(FailureClass.AUTH_DENIED, text, 401, f"{text} {text}")
    assert failure == Failure(FailureClass.AUTH_DENIED, "unreadable_code", 401)

"""Every shape of a result line becomes the right reply, and none becomes an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.call import Answered, Unanswered, Usage
from dragoman.core.failure import FailureClass
from dragoman.providers.base import BatchError, BatchStatus, Line
from dragoman.providers.openai_decode import decode_batch, decode_line

CANARY = "Zitronenfalter"
USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
}


def _message(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts), **more}


def _text(text: str = CANARY) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _body(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    entry = {"id": "resp_1", "model": "m-1", "status": "completed", "usage": USAGE}
    return entry | {"output": list(output)} | more


def _line(body: Any, status: Any = 200, error: Any = None) -> bytes:
    response = {"status_code": status, "request_id": "req_1", "body": body}
    entry = {"id": "batch_req_1", "custom_id": "j0", "response": response, "error": error}
    return json.dumps(entry).encode()


def _error(code: str | None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": CANARY, "type": kind, "param": None, "code": code}}


def _not_run(code: Any) -> bytes:
    entry = {"custom_id": "j0", "response": None, "error": {"code": code, "message": CANARY}}
    return json.dumps(entry).encode()


def test_a_finished_answer_is_the_text_with_its_usage() -> None:
    """All text parts of all messages, the provider's counts, model and request id."""
    line = decode_line(_line(_body({"type": "reasoning"}, _message(_text("a"), _text("b")))))
    assert line == Line("j0", Answered("ab", Usage(11, 4, 7), "m-1", "req_1"))


def test_thinking_aloud_is_not_part_of_the_answer() -> None:
    """A commentary message is left out, the final answer is kept."""
    spoken = _body(_message(_text("hm"), phase="commentary"), _message(_text("a")))
    assert decode_line(_line(spoken)).reply == Answered("a", Usage(11, 4, 7), "m-1", "req_1")


@pytest.mark.req("R072")
@pytest.mark.parametrize(
    ("body", "error_class", "code"),
    [
        (
            _body(
                _message(_text()),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
            FailureClass.OUTPUT_REJECTED,
            "truncated",
        ),
        (
            _body(
                _message(_text()),
                status="incomplete",
                incomplete_details={"reason": "content_filter"},
            ),
            FailureClass.POLICY_REJECTED,
            "content_filter",
        ),
        (
            _body(_message(_text()), status="incomplete", incomplete_details=None),
            FailureClass.OUTPUT_REJECTED,
            "incomplete",
        ),
        (
            _body(_message(_text()), _message(_text(), status="incomplete")),
            FailureClass.OUTPUT_REJECTED,
            "truncated",
        ),
        (
            _body(_message(_text(), {"type": "refusal", "refusal": CANARY})),
            FailureClass.POLICY_REJECTED,
            "refused",
        ),
        (_body(), FailureClass.OUTPUT_REJECTED, "empty"),
        (_body(_message(_text(" \n"))), FailureClass.OUTPUT_REJECTED, "empty"),
        (
            _body(status="failed", error={"code": "server_error", "message": CANARY}),
            FailureClass.UPSTREAM_ERROR,
            "server_error",
        ),
        (
            _body(status="failed", error={"code": "rate_limit_exceeded"}),
            FailureClass.THROTTLED,
            "rate_limit_exceeded",
        ),
        (_body(_message(_text()), status="queued"), FailureClass.UPSTREAM_ERROR, None),
        (_body(_message(_text()), status="in_progress"), FailureClass.UPSTREAM_ERROR, None),
        (_body(_message(_text()), status="cancelled"), FailureClass.UPSTREAM_ERROR, None),
        (_body(_message(_text()), status="surprise"), FailureClass.SCHEMA_INVALID, "bad_body"),
        (_body(_message(_text()), status=None), FailureClass.SCHEMA_INVALID, "bad_body"),
        ([_text()], FailureClass.SCHEMA_INVALID, "bad_body"),
        (None, FailureClass.SCHEMA_INVALID, "bad_body"),
    ],
)
def test_a_200_that_is_no_whole_answer_gives_no_text(
    body: Any, error_class: FailureClass, code: str | None
) -> None:
    """Cut, refused, empty, unfinished, failed: a failure with its class, and not a word of it."""
    reply = decode_line(_line(body)).reply
    assert isinstance(reply, Unanswered)
    assert reply.failure.error_class is error_class
    assert reply.failure.code == (code or "response_unfinished")
    assert CANARY not in repr(reply)
    if isinstance(body, dict):
        assert reply.usage == Usage(11, 4, 7)


@pytest.mark.parametrize(
    ("data", "error_class", "code"),
    [
        (
            _line(_error("context_length_exceeded"), 400),
            FailureClass.SCHEMA_INVALID,
            "context_length_exceeded",
        ),
        (_line(_error(None), 400), FailureClass.SCHEMA_INVALID, "invalid_request_error"),
        (_line(_error("rate_limit_exceeded"), 429), FailureClass.THROTTLED, "rate_limit_exceeded"),
        (
            _line(_error("insufficient_quota"), 429),
            FailureClass.ACCOUNT_BLOCKED,
            "insufficient_quota",
        ),
        (
            _line(_error("slow_down", "insufficient_quota"), 429),
            FailureClass.THROTTLED,
            "slow_down",
        ),
        (
            _line(_error("content_policy_violation"), 400),
            FailureClass.POLICY_REJECTED,
            "content_policy_violation",
        ),
        (_line("<html>", 503), FailureClass.NETWORK_TIMEOUT, "http_503"),
        (_line(None, 500), FailureClass.UPSTREAM_ERROR, "http_500"),
        (_line(None, 0), FailureClass.NETWORK_TIMEOUT, "http_0"),
        (_line(None, None), FailureClass.NETWORK_TIMEOUT, "http_0"),
        (_line(None, "200"), FailureClass.NETWORK_TIMEOUT, "http_0"),
        (_line(None, True), FailureClass.NETWORK_TIMEOUT, "http_0"),
        (
            _line(None, 400, {"error": {"message": CANARY, "code": 400}}),
            FailureClass.SCHEMA_INVALID,
            "http_400",
        ),
        (_line(None, 400, CANARY), FailureClass.SCHEMA_INVALID, "http_400"),
        (
            _line(_body(_message(_text())), 200, {"code": "server_error"}),
            FailureClass.UPSTREAM_ERROR,
            "server_error",
        ),
        (_not_run("batch_expired"), FailureClass.NOT_EXECUTED, "batch_expired"),
        (_not_run("batch_cancelled"), FailureClass.NOT_EXECUTED, "batch_cancelled"),
        (
            _not_run("insufficient_quota"),
            FailureClass.ACCOUNT_BLOCKED,
            "insufficient_quota",
        ),
        (_not_run("something_new"), FailureClass.UPSTREAM_ERROR, "something_new"),
        (_not_run(f"{CANARY} is too long"), FailureClass.SCHEMA_INVALID, "bad_line"),
        (_not_run(None), FailureClass.SCHEMA_INVALID, "bad_line"),
        (b'{"custom_id":"j0"}', FailureClass.SCHEMA_INVALID, "bad_line"),
    ],
)
def test_a_failed_item_has_its_class_by_status_and_code(
    data: bytes, error_class: FailureClass, code: str
) -> None:
    """Both shapes of OpenAI's error file, those of others, and never the provider's words."""
    line = decode_line(data)
    assert line.custom_id == "j0"
    assert isinstance(line.reply, Unanswered)
    assert (line.reply.failure.error_class, line.reply.failure.code) == (error_class, code)
    assert CANARY not in repr(line)


_OK = _line(_body(_message(_text())))


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (b"", None),
        (b"null", None),
        (b'"j0"', None),
        (_OK[:-20], None),
        (b"\xff" + _OK, None),
        (_OK + _OK, None),
        (b"[" * 100_000, None),
        (b'{"custom_id":' + b'{"a":' * 100_000, None),
        (b'{"custom_id":"j0","custom_id":"j1"}', None),
        (_OK.replace(b'"j0"', b'"../j0"'), None),
        (_OK.replace(b'"j0"', b'"' + b"j" * 65 + b'"'), None),
        (_OK.replace(b'"j0"', b"17"), None),
        (_OK.replace(b'"m-1"', b'"m-1","model":"m-2"'), "j0"),
        (_OK.replace(CANARY.encode(), b"\\u0000"), "j0"),
        (_OK.replace(CANARY.encode(), b"\\ud800"), "j0"),
        (_OK.replace(b"11", b"NaN"), "j0"),
        (_OK.replace(b"11", b"9" * 3_000), "j0"),
        (_OK.replace(b"11", b"9" * 9_000), None),
    ],
)
def test_a_line_that_is_not_strict_json_is_a_failure_of_its_owner_or_of_nobody(
    data: bytes, owner: str | None
) -> None:
    """Torn, deep, doubled, strange: no text comes through, and the owner is named only if sure."""
    line = decode_line(data)
    assert line.custom_id == owner
    if owner is not None:
        assert isinstance(line.reply, Unanswered)
        assert line.reply.failure.code == "bad_line"
        assert CANARY not in repr(line)


def test_a_carriage_return_at_the_end_changes_nothing() -> None:
    """CRLF files decode as LF files do."""
    assert decode_line(_OK + b"\r") == decode_line(_OK)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary())
def test_any_bytes_become_a_line(data: bytes) -> None:
    """decode_line is total."""
    assert isinstance(decode_line(data), Line)


@given(
    custom_id=_JSON, status=_JSON | st.just(200), body=_JSON, error=_JSON, inner=_JSON, output=_JSON
)
def test_any_json_in_any_place_becomes_a_line(**value: Any) -> None:
    """Whatever stands where a known field should be, the answer is a Line."""
    body = value["body"]
    if isinstance(body, dict):
        body |= {"status": "completed", "usage": value["inner"], "output": [value["output"]]}
    response = {"status_code": value["status"], "request_id": value["inner"], "body": body}
    entry = {"custom_id": value["custom_id"], "response": response, "error": value["error"]}
    assert isinstance(decode_line(json.dumps(entry).encode()), Line)


@given(_JSON)
def test_any_json_becomes_a_batch_or_nothing(value: Any) -> None:
    """decode_batch is total, too."""
    entry = {"id": "batch_1", "created_at": 1, "errors": value, "metadata": value, "status": value}
    assert decode_batch(entry | {"request_counts": value, "output_file_id": value}) is not None
    decode_batch(value)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("validating", BatchStatus.RUNNING),
        ("in_progress", BatchStatus.RUNNING),
        ("finalizing", BatchStatus.RUNNING),
        ("cancelling", BatchStatus.RUNNING),
        ("completed", BatchStatus.COMPLETED),
        ("failed", BatchStatus.FAILED),
        ("expired", BatchStatus.EXPIRED),
        ("cancelled", BatchStatus.CANCELED),
        ("COMPLETED", BatchStatus.UNKNOWN),
        ("paused", BatchStatus.UNKNOWN),
        (None, BatchStatus.UNKNOWN),
    ],
)
def test_a_word_that_is_not_known_is_unknown(raw: str | None, status: BatchStatus) -> None:
    """Only OpenAI's eight words mean something; any other keeps us polling."""
    view = decode_batch({"id": "batch_1", "created_at": 1, "status": raw})
    assert view is not None
    assert view.status is status


def test_a_refused_batch_says_which_lines() -> None:
    """Code and line of each error; an error without a line has none."""
    errors = [{"code": "invalid_json_line", "line": 3}, {"code": "token_limit_exceeded"}, None]
    view = decode_batch(
        {"id": "b", "created_at": 1, "status": "failed", "errors": {"data": errors}}
    )
    assert view is not None
    assert view.errors == (
        BatchError("invalid_json_line", 3),
        BatchError("token_limit_exceeded", None),
        BatchError("unreadable", None),
    )

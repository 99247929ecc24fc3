"""What OpenAI's Responses wire says, in our words: pure, total, and without any of its texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final, TypeAlias, cast

from dragoman.core.call import Answered, Reply, Unanswered, Usage
from dragoman.core.canonical import JSON, JSONObject, read_object
from dragoman.core.errors import BadJSON
from dragoman.core.failure import Failure, FailureClass, classify_http
from dragoman.providers.base import BatchError, BatchStatus, BatchView, Line

_CUSTOM_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_CODE: Final = re.compile(r"[a-z0-9_.-]{1,64}")
_MODEL: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,128}")

_OK: Final = 200
_FAR_FUTURE: Final = 2**40
_MOST: Final = 2**31
_STATUSES: Final = {
    "validating": BatchStatus.RUNNING,
    "in_progress": BatchStatus.RUNNING,
    "finalizing": BatchStatus.RUNNING,
    "cancelling": BatchStatus.RUNNING,
    "completed": BatchStatus.COMPLETED,
    "failed": BatchStatus.FAILED,
    "cancelled": BatchStatus.CANCELED,
    "expired": BatchStatus.EXPIRED,
}

# Codes that say more than the HTTP status beside them, or that come without one.
_CODES: Final = {
    "batch_expired": FailureClass.NOT_EXECUTED,
    "batch_cancelled": FailureClass.NOT_EXECUTED,
    "rate_limit_exceeded": FailureClass.THROTTLED,
    "slow_down": FailureClass.THROTTLED,
    "insufficient_quota": FailureClass.ACCOUNT_BLOCKED,
    "credit_balance_exhausted": FailureClass.ACCOUNT_BLOCKED,
    "billing_hard_limit_reached": FailureClass.ACCOUNT_BLOCKED,
    "invalid_prompt": FailureClass.SCHEMA_INVALID,
    "content_filter": FailureClass.POLICY_REJECTED,
    "content_policy_violation": FailureClass.POLICY_REJECTED,
    "moderation_blocked": FailureClass.POLICY_REJECTED,
}
_REASONS: Final = {
    "max_output_tokens": (FailureClass.OUTPUT_REJECTED, "truncated"),
    "content_filter": (FailureClass.POLICY_REJECTED, "content_filter"),
}
_Where: TypeAlias = "tuple[int | None, str | None]"  # HTTP status and request id


def decode_line(data: bytes) -> Line:
    """One line of an output or error file; whatever it is, it becomes a Line.

    >>> decode_line(b"{").custom_id is None
    True
    """
    try:
        line = read_object(data)
    except BadJSON:
        return Line(_salvage_id(data), _unanswered(FailureClass.SCHEMA_INVALID, "bad_line"))
    return Line(matching(_CUSTOM_ID, line.get("custom_id")), _decode_item(line))


def decode_body(body: JSON, request_id: str | None) -> Reply:
    """A response object that came with status 200, which is not yet a success."""
    if not isinstance(body, dict):
        return _unanswered(FailureClass.SCHEMA_INVALID, "bad_body", (_OK, request_id))
    where = (_OK, request_id or matching(_ID, body.get("id")))
    usage = _usage(body)
    match body.get("status"):
        case "completed":
            return _decode_output(body, usage, where)
        case "incomplete":
            reason = _object(body.get("incomplete_details")).get("reason")
            found = _REASONS.get(reason) if isinstance(reason, str) else None
            error_class, code = found or (FailureClass.OUTPUT_REJECTED, "incomplete")
        case "failed":
            code = error_code(body) or "response_failed"
            error_class = _CODES.get(code, FailureClass.UPSTREAM_ERROR)
        case "queued" | "in_progress" | "cancelled":
            error_class, code = FailureClass.UPSTREAM_ERROR, "response_unfinished"
        case _:
            error_class, code = FailureClass.SCHEMA_INVALID, "bad_body"
    return _unanswered(error_class, code, where, usage)


def decode_batch(data: JSON) -> BatchView | None:
    """A batch object; None when it is not one."""
    if not isinstance(data, dict):
        return None
    batch_id, created_at = identifier(data.get("id")), data.get("created_at")
    if batch_id is None or not isinstance(created_at, (int, float)):
        return None
    if not 0 <= created_at < _FAR_FUTURE:
        return None
    raw_status = matching(_CODE, data.get("status")) or "unreadable"
    files = (identifier(data.get(name)) for name in ("output_file_id", "error_file_id"))
    errors = _object(data.get("errors")).get("data")
    return BatchView(
        provider_batch_id=batch_id,
        status=_STATUSES.get(raw_status, BatchStatus.UNKNOWN),
        raw_status=raw_status,
        created_at=int(created_at),
        total=_count(_object(data.get("request_counts")).get("total")),
        result_files=tuple(file_id for file_id in files if file_id),
        nonce=_text(_object(data.get("metadata")).get("dragoman_nonce")),
        cell=_text(_object(data.get("metadata")).get("dragoman_cell")),
        input_file_id=identifier(data.get("input_file_id")),
        errors=tuple(_batch_error(error) for error in errors) if isinstance(errors, list) else (),
    )


def failure_of(
    status: int, body: JSON, request_id: str | None, retry_after_s: float | None = None
) -> Failure:
    """The failure that an answer without success stands for, by status and code."""
    code = error_code(body)
    failure = classify_http(status, code=code, request_id=request_id, retry_after_s=retry_after_s)
    if code and _CODES.get(code) is FailureClass.POLICY_REJECTED:
        return replace(failure, error_class=FailureClass.POLICY_REJECTED)
    return failure


def error_code(body: JSON) -> str | None:
    """`error.code`, or `error.type` where there is none, if it looks like a code."""
    error = _object(_object(body).get("error"))
    return matching(_CODE, error.get("code")) or matching(_CODE, error.get("type"))


def identifier(value: JSON) -> str | None:
    """The value, if it is an id that can stand in a URL and in a log."""
    return matching(_ID, value)


def matching(pattern: re.Pattern[str], value: JSON) -> str | None:
    """The value, if it is a string that matches as a whole."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def _decode_item(line: JSONObject) -> Reply:
    response = line.get("response")
    if not isinstance(response, dict):
        return _decode_error(line)
    request_id = identifier(response.get("request_id"))
    status, body = response.get("status_code"), response.get("body")
    if not isinstance(status, int) or isinstance(status, bool):
        status = 0
    if status != _OK:
        return Unanswered(failure_of(status, body or line, request_id))
    return decode_body(body, request_id) if line.get("error") is None else _decode_error(line)


def _decode_error(line: JSONObject) -> Unanswered:
    """A line whose own `error` speaks: mostly an item that was never run."""
    code = error_code(line)
    if code is None:
        return _unanswered(FailureClass.SCHEMA_INVALID, "bad_line")
    return _unanswered(_CODES.get(code, FailureClass.UPSTREAM_ERROR), code)


def _decode_output(body: JSONObject, usage: Usage, where: _Where) -> Reply:
    texts: list[str] = []
    for message in _objects(body.get("output")):
        if message.get("type") != "message" or message.get("phase") == "commentary":
            continue
        if message.get("status") == "incomplete":
            return _unanswered(FailureClass.OUTPUT_REJECTED, "truncated", where, usage)
        for part in _objects(message.get("content")):
            if part.get("type") == "refusal":
                return _unanswered(FailureClass.POLICY_REJECTED, "refused", where, usage)
            if part.get("type") == "output_text":
                texts.append(_text(part.get("text")) or "")
    text = "".join(texts)
    if not text.strip():
        return _unanswered(FailureClass.OUTPUT_REJECTED, "empty", where, usage)
    return Answered(text, usage, matching(_MODEL, body.get("model")) or "unknown", where[1])


def _unanswered(
    error_class: FailureClass, code: str, where: _Where = (None, None), usage: Usage | None = None
) -> Unanswered:
    return Unanswered(Failure(error_class, code, where[0], where[1]), usage or Usage())


def _usage(body: JSONObject) -> Usage:
    usage = _object(body.get("usage"))
    cached = _object(usage.get("input_tokens_details")).get("cached_tokens")
    return Usage(
        _count(usage.get("input_tokens")), _count(cached), _count(usage.get("output_tokens"))
    )


def _batch_error(error: JSON) -> BatchError:
    found = _object(error)
    line = _count(found.get("line"))
    return BatchError(matching(_CODE, found.get("code")) or "unreadable", line or None)


def _salvage_id(data: bytes) -> str | None:
    """Whose line this is, if it is JSON that we refuse yet names its owner exactly once."""
    try:
        pairs = cast("object", json.loads(data.decode(), object_pairs_hook=list))
    except (ValueError, RecursionError):
        return None
    if not data.lstrip().startswith(b"{"):
        return None
    found = [value for name, value in cast("list[tuple[str, JSON]]", pairs) if name == "custom_id"]
    return matching(_CUSTOM_ID, found[0]) if len(found) == 1 else None


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _objects(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: JSON) -> int:
    """A count that fits a database column; anything else counts nothing."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value < _MOST else 0

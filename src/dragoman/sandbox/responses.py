"""One answer of the sandbox's model, as OpenAI's Responses API would wrap it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final, cast

import orjson

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.faults import Fault
from dragoman.sandbox.writer import FOREIGN, write

_BYTES_PER_TOKEN: Final = 4
_PLAIN: Final = "This is the sandbox. It answers where a JSON schema is asked for."


@dataclass(frozen=True, slots=True)
class Executed:
    """What running one request gave, and what it would have cost."""

    status: int
    body: JSONObject = field(repr=False)
    input_tokens: int = 0
    output_tokens: int = 0


def execute(request: JSONObject, now: float, fault: Fault | None) -> Executed:
    """Run one request body of /v1/responses, spoilt as the script wants it."""
    do = fault.do if fault else None
    if fault and do == "error":
        status = int(fault.number("status", 500))
        return Executed(status, error_body(status, fault.text("code"), "The item failed."))
    prompt = _prompt(request.get("input"))
    if prompt is None:
        told = "Missing required parameter: 'input'."
        return Executed(400, error_body(400, "missing_required_parameter", told, param="input"))
    instructions = request.get("instructions")
    instructions = instructions if isinstance(instructions, str) else ""
    text = _spoil(_write(request, instructions, prompt, do), do)
    text, is_cut = _cut(text, request.get("max_output_tokens"), do)
    cost = (_tokens(instructions + prompt), _tokens(text))
    body = _response(request, now, cost) | _outcome(text, fault, is_cut=is_cut)
    return Executed(200, body, *cost)


def is_stored(request: JSONObject) -> bool:
    """Whether the provider would keep question and answer: unless it is told not to, it does."""
    return request.get("store") is not False


def error_body(
    status: int,
    code: str | None,
    message: str,
    *,
    kind: str | None = None,
    param: str | None = None,
) -> JSONObject:
    """The one shape of an error."""
    usual = {429: "rate_limit_exceeded"}.get(status, "invalid_request_error")
    kind = kind or ("server_error" if status >= 500 else usual)
    error: JSONObject = {"message": message, "type": kind, "param": param, "code": code}
    return {"error": error}


def _prompt(value: JSON) -> str | None:
    """The text of `input`: a string, or messages made of strings or text parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        return None
    texts: list[str] = []
    for message in value:
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [str(part.get("text") or "") for part in parts if isinstance(part, dict)]
    return "\n".join(texts)


def _write(request: JSONObject, instructions: str, prompt: str, do: str | None) -> str:
    text = request.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return _PLAIN
    schema = form.get("schema")
    answer = write(
        instructions, prompt, str(form.get("name")), schema if isinstance(schema, dict) else {}
    )
    if do != "wrong_language":
        return answer
    declared = _object(answer).get("output_language")
    foreign = FOREIGN["de" if declared != "de" else "en"]
    return _json(_object(answer) | {"rewritten_text": foreign})


def _spoil(text: str, do: str | None) -> str:
    """A good answer, made bad in one named way."""
    answer = _object(text)
    match do:
        case "empty":
            return ""
        case "fenced":
            return f"Here you are:\n```json\n{text}\n```"
        case "bad_schema":
            return _json(dict(list(answer.items())[1:]))
        case "extra_keys":
            return _json(answer | {"remark": "none"})
        case "blank":
            return _json(answer | {"rewritten_text": "   "})
        case "invents_time":
            return _json(answer | {"rewritten_text": f"{answer.get('rewritten_text')} (22:30)"})
        case _:
            return text


def _cut(text: str, limit: JSON, do: str | None) -> tuple[str, bool]:
    """The text within max_output_tokens, and whether something is missing."""
    longest = limit * _BYTES_PER_TOKEN if isinstance(limit, int) else len(text)
    if do == "truncated":
        longest = min(longest, len(text) // 2)
    return text[:longest], len(text) > longest


def _outcome(text: str, fault: Fault | None, *, is_cut: bool) -> JSONObject:
    do = fault.do if fault else None
    if fault and do == "failed":
        error: JSONObject = {"code": fault.text("code", "server_error"), "message": "It failed."}
        return {"status": "failed", "error": error, "output": []}
    status = "incomplete" if is_cut else "completed"
    part: JSONObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    if do == "refusal":
        part = {"type": "refusal", "refusal": "I cannot help with that."}
    message: JSONObject = {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }
    why: JSONObject | None = {"reason": "max_output_tokens"} if is_cut else None
    return {"status": status, "error": None, "incomplete_details": why, "output": [message]}


def _response(request: JSONObject, now: float, cost: tuple[int, int]) -> JSONObject:
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(now),
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": request.get("max_output_tokens"),
        "metadata": request.get("metadata") or {},
        "model": request.get("model"),
        "parallel_tool_calls": True,
        "service_tier": "default",
        "store": is_stored(request),
        "temperature": 1.0,
        "text": request.get("text") or {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage_of(*cost),
    }


def usage_of(input_tokens: int, output_tokens: int) -> JSONObject:
    """Token counts in the provider's shape."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }


def _tokens(text: str) -> int:
    return len(text.encode()) // _BYTES_PER_TOKEN


def _object(text: str) -> JSONObject:
    try:
        value = cast("JSON", orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: JSONObject) -> str:
    return orjson.dumps(value).decode()

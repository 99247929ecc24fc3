"""What the tests of OpenAI's wire share: lines, a client that is OpenAI's own, a finished batch."""

from __future__ import annotations

import json
from typing import Any

import openai
from openai.types import Batch

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.server import Sandbox

MODEL = "sandbox-small"
A_DAY = 86_400


def client(sandbox: Sandbox, key: str = "any") -> openai.OpenAI:
    """OpenAI's SDK, without the retries that would hide what happened."""
    return openai.OpenAI(base_url=sandbox.base_url, api_key=key, max_retries=0, timeout=20)


def body(text: str = "Es ist immer so laut!", **more: Any) -> JSONObject:
    """A rewrite as the pipeline asks for it."""
    task = {"original_text": text, "source_locale": "de", "target_locale": "en"}
    form = {"type": "json_schema", "name": "rewrite_response", "schema": {}, "strict": True}
    return {"model": MODEL, "input": json.dumps(task), "text": {"format": form}, **more}


def line(custom_id: str | None, **change: Any) -> bytes:
    """One line of a batch file."""
    entry = {"custom_id": custom_id, "method": "POST", "url": "/v1/responses", "body": body()}
    return json.dumps(entry | change).encode() + b"\n"


def lines(count: int) -> bytes:
    """A batch file of so many items, j0, j1 and so on."""
    return b"".join(line(f"j{number}") for number in range(count))


def start(sdk: openai.OpenAI, data: bytes, **more: Any) -> Batch:
    """Upload and create."""
    file = sdk.files.create(file=("batch.jsonl", data), purpose="batch")
    return sdk.batches.create(
        input_file_id=file.id, endpoint="/v1/responses", completion_window="24h", **more
    )


def finish(sandbox: Sandbox, sdk: openai.OpenAI, batch: Batch, seconds: float = 200) -> Batch:
    """Let time pass, and look again."""
    sandbox.advance(seconds)
    return sdk.batches.retrieve(batch.id)


def read(sdk: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    """The lines of a result file; none if there is no file."""
    if file_id is None:
        return []
    return [json.loads(row) for row in sdk.files.content(file_id).content.split(b"\n") if row]

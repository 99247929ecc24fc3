"""What the tests of adapters share: an account at a sandbox, calls, and finished batches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.core.answer import Happened
from dragoman.core.call import Call
from dragoman.core.canonical import JSON, JSONObject
from dragoman.providers.base import Account, BatchView, Line
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.providers.transport import Timeouts, Transport
from dragoman.sandbox.server import Sandbox

T = TypeVar("T")
MODEL = "sandbox-small"
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "rewritten_text": {"type": "string"},
        "output_language": {"type": "string"},
    },
    "required": ["rewritten_text", "output_language"],
    "additionalProperties": False,
}


def call(custom_id: str = "j0", text: str = "Es ist immer so laut!") -> Call:
    """One rewrite."""
    task = {"original_text": text, "source_locale": "de", "target_locale": "en"}
    return Call(custom_id, "Rewrite calmly.", json.dumps(task), "rewrite_response", SCHEMA)


def account(base_url: str) -> Account:
    """Whoever we are at that address."""
    return Account("main", base_url, "sk-test")


def with_adapter(
    use: Callable[[OpenAIResponses], Awaitable[T]], *, timeouts: Timeouts | None = None
) -> T:
    """Run one coroutine with an adapter of its own, and close its connections."""

    async def run() -> T:
        transport = Transport({"127.0.0.1"}, timeouts=timeouts)
        try:
            return await use(OpenAIResponses(transport, "cell-a"))
        finally:
            await transport.aclose()

    return asyncio.run(run())


async def start(adapter: OpenAIResponses, who: Account, count: int, nonce: str = "n1") -> str:
    """Upload and create a batch of j0, j1 and so on; its id."""
    lines = [adapter.encode_line(call(f"j{number}"), MODEL) for number in range(count)]
    made = await adapter.create(who, await adapter.upload(who, nonce, lines), nonce, 10.0)
    assert isinstance(made, Happened)
    return made.evidence_id


async def finish(
    adapter: OpenAIResponses, sandbox: Sandbox, count: int, seconds: float = 200
) -> BatchView:
    """A batch that has run, as the adapter sees it."""
    who = account(sandbox.base_url)
    batch_id = await start(adapter, who, count)
    await asyncio.to_thread(sandbox.advance, seconds)
    return await adapter.poll(who, batch_id)


def rows(sandbox: Sandbox, kind: str) -> list[JSON]:
    """One list of the ledger."""
    found = sandbox.ledger()[kind]
    assert isinstance(found, list)
    return found


async def read_lines(adapter: OpenAIResponses, who: Account, files: tuple[str, ...]) -> list[Line]:
    """Every line of these result files, decoded."""
    return [
        adapter.decode_line(line)
        for file_id in files
        async for line in adapter.download(who, file_id)
    ]

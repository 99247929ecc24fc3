"""LLM adapters, one module per adapter_kind: pure encode and decode around a thin transport."""

from __future__ import annotations

from dragoman.core.errors import BadSetting
from dragoman.providers.base import Adapter
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.providers.transport import Transport


def adapter_for(kind: str, transport: Transport, cell: str) -> Adapter:
    """The adapter of this kind; the sandbox speaks OpenAI's wire.

    >>> adapter_for("sandbox", transport, "main").kind  # doctest: +SKIP
    'sandbox'
    """
    match kind:
        case "openai_responses" | "sandbox":
            return OpenAIResponses(transport, cell, kind=kind)
        case _:
            raise BadSetting("no adapter of this kind: known are openai_responses and sandbox")

"""A question to a model and what came back, in words that no provider owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.core.canonical import JSONObject
from dragoman.core.failure import Failure


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a model. `custom_id` names the job and nothing about its people."""

    custom_id: str
    instructions: str
    input: str
    schema_name: str
    schema: JSONObject
    max_output_tokens: int = 2_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """The model finished; `text` is what it said, not yet checked by anybody."""

    text: str
    usage: Usage
    model: str
    provider_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No usable text. NOT_EXECUTED means the provider proves that it never ran."""

    failure: Failure
    usage: Usage = Usage()


Reply: TypeAlias = Answered | Unanswered


def told(replies: Sequence[Reply]) -> JSONObject:
    """What may be written down of the replies to one job's calls: tokens, models, ids.

    >>> told([Answered("So loud!", Usage(9, 0, 4), "gpt")])["output_tokens"]
    4
    """
    spent = [reply.usage for reply in replies]
    answered = [reply for reply in replies if isinstance(reply, Answered)]
    models = sorted({reply.model for reply in answered})
    requests = [reply.provider_request_id for reply in answered if reply.provider_request_id]
    return {
        "calls": len(replies),
        "input_tokens": sum(each.input_tokens for each in spent),
        "cached_tokens": sum(each.cached_tokens for each in spent),
        "output_tokens": sum(each.output_tokens for each in spent),
        "answered_by": [*models],
        "provider_request_ids": [*requests],
    }

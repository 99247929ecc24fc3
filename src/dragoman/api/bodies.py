"""Bodies: read within a bound, parsed strictly from their bytes, checked by name."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from starlette.requests import Request

from dragoman.api.problems import TooLarge, WrongMediaType
from dragoman.core.canonical import canonical, read_object
from dragoman.core.errors import BadInput
from dragoman.core.locale import MAX_TAG

MAX_BODY = 64 * 1024

# What callers may be tempted to send, and Dragoman alone decides.
DECIDED_HERE = frozenset(
    "account adapter_kind base_url batch_group_key classifier_result context_pack execution_mode"
    " home_role intent lane max_attempts model not_before_at policy policy_version preferences"
    " priority prompt prompt_version provider recipient_ids recipient_preference_snapshot_id"
    " recipient_snapshot_id recipients rewrite_strength roles routing_decision source_locale status"
    " target_locale temperature tone topics".split()
)

Tag = Annotated[str, StringConstraints(max_length=MAX_TAG, pattern=r"^[A-Za-z0-9_-]+$")]
Word = Annotated[str, StringConstraints(max_length=64, pattern=r"^[a-z0-9_]+$")]
B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """A body: unknown fields are refused, nothing is coerced, no error shows its input."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class RewriteBody(Body):
    """Who, to whom, what. Nothing about how."""

    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    message: str
    surface: str = Field(default="direct_message", max_length=32)
    rewrite_request_id: UUID | None = None
    sender_locale: Tag | None = None
    recipient_locale: Tag | None = None


class MemberBody(Body):
    """What somebody is in a home, what they read, and what they have answered."""

    role: Literal["owner", "housemate"]
    locale: Tag | None = None
    preferences: dict[Word, Word] = Field(default_factory=dict[str, str], max_length=64)


class ReviewBody(Body):
    """What to review, for whom, and under which key of the caller's."""

    home_id: UUID
    idempotency_key: str = Field(min_length=1, max_length=200)
    changelist_id: str = Field(max_length=2000)
    review_version: int = Field(default=1, ge=1, le=2**31 - 1)
    recipients: list[Annotated[str, StringConstraints(max_length=400)]] = Field(max_length=100)
    rerun: bool = False


async def read_body(request: Request, kind: type[B]) -> B:
    """The body as a checked value, or a typed error that quotes nothing of it."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise WrongMediaType
    value = read_object(await _read_bytes(request))
    try:
        return kind.model_validate_json(canonical(value))
    except ValidationError as error:
        raise BadInput(_explain(kind, error)) from None


async def _read_bytes(request: Request) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > MAX_BODY:
            raise TooLarge
    return bytes(parts)


def _explain(kind: type[Body], error: ValidationError) -> str:
    """Which field, and what is wrong with it; a name that is not ours is never repeated."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return _refuse(kind, name)
    if first["type"] == "missing":
        return f"{name} is missing; nothing was stored"
    return f"{name} is not acceptable ({first['type']}); nothing was stored"


def _refuse(kind: type[Body], name: str) -> str:
    if name in DECIDED_HERE - set(kind.model_fields):
        return f"{name} is decided here and cannot be sent; nothing was stored"
    near = difflib.get_close_matches(name[:64], list(kind.model_fields), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is a field that is not known here{hint}; nothing was stored"


def schema_of(kind: type[Body]) -> dict[str, Any]:  # Any: a JSON schema
    """The body in the API's description; it is read from raw bytes, so FastAPI cannot see it."""
    content = {"application/json": {"schema": kind.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}

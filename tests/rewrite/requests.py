"""Requests and answers to put to the pure half of the rewrite pipeline."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

from dragoman.core.locale import Confidence, lane
from dragoman.rewrite.context import build_context
from dragoman.rewrite.contracts import (
    CLASSIFIER_VERSION,
    CONTEXT_PACK_VERSION,
    ClassifierResult,
    Confidences,
    Intent,
    RewriteRequest,
    RewriteStrength,
    Role,
    RoutingDecision,
    SafetyFlag,
    Surface,
    Topic,
)
from dragoman.rewrite.policy import POLICY_VERSION, decide_policy, power

CANARY = "Zephyrine-4711"
SENDER, RECIPIENT = UUID(int=3), UUID(int=4)


def classified(**changed: object) -> ClassifierResult:
    """A message that was classified without doubt."""
    fields: dict[str, object] = {
        "classifier_version": CLASSIFIER_VERSION,
        "detected_language": "en",
        "topics": (Topic.NOISE,),
        "intent": Intent.REQUEST,
        "rewrite_strength": RewriteStrength.FULL_REFRAME,
        "confidence": Confidences(Confidence.HIGH, Confidence.HIGH, Confidence.HIGH),
        "safety_flags": (SafetyFlag.NONE,),
        "defaulted": (),
    }
    return ClassifierResult(**{**fields, **changed})  # type: ignore[arg-type]


def request(
    text: str = "Your music is far too loud after ten, every single night!",
    *,
    source: str = "en",
    target: str = "en",
    answers: dict[str, str] | None = None,
    sender_role: Role = Role.HOUSEMATE,
    **changed: object,
) -> RewriteRequest:
    """One request as the orchestrator would build it."""
    result = classified()
    roles = power(sender_role, Role.HOUSEMATE)
    pack = build_context(
        recipient_user_id=RECIPIENT,
        target_language=target,
        power=roles,
        topics=result.topics,
        answers=answers or {},
    )
    fields: dict[str, object] = {
        "rewrite_request_id": UUID(int=1),
        "home_id": UUID(int=2),
        "sender_user_id": SENDER,
        "recipient_user_id": RECIPIENT,
        "recipient_snapshot_id": UUID(int=5),
        "recipient_preference_snapshot_id": UUID(int=6),
        "surface": Surface.DIRECT_MESSAGE,
        "original_text": text,
        "topics": result.topics,
        "intent": result.intent,
        "rewrite_strength": result.rewrite_strength,
        "source_locale": source,
        "target_locale": target,
        "lane": lane(source, target),
        "classifier_result": result,
        "context_pack": pack,
        "policy": decide_policy(result, roles.power_mode),
        "classifier_version": CLASSIFIER_VERSION,
        "context_pack_version": CONTEXT_PACK_VERSION,
        "policy_version": POLICY_VERSION,
        "created_at": datetime(2026, 2, 3, tzinfo=UTC),
    }
    return RewriteRequest(**{**fields, **changed})  # type: ignore[arg-type]


DECISION: dict[str, object] = {
    "provider": "openai",
    "adapter_kind": "openai_responses",
    "base_url": "https://api.openai.com/v1",
    "model": "gpt-5.2",
    "prompt_version": "v3",
    "policy_version": "v1",
    "execution_mode": "batch",
    "supports_translation": True,
    "cache_eligible": True,
    "max_retries": 2,
}


def decision(**changed: object) -> RoutingDecision:
    """The decision of the contract's first example, or one that differs in some fields."""
    return RoutingDecision.from_json({**DECISION, **changed})


def answer(text: str, language: str = "en", **extra: object) -> str:
    """What a model would send back."""
    return json.dumps({"rewritten_text": text, "output_language": language, **extra})

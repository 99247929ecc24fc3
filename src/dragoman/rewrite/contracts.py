"""What the parts of the rewrite pipeline hand to each other, word for word as it is stored.

Every type reads itself strictly (`from_json`) and writes itself back (`to_json`); see `Shape`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from dragoman.core.locale import Confidence, Lane, lane, normalize
from dragoman.core.shape import Shape, check
from dragoman.core.text import check_text
from dragoman.rewrite.words import (
    AdapterKind,
    Directness,
    EvalVerdict,
    ExecutionMode,
    Intent,
    LanguageBasis,
    PowerMode,
    RewriteStrength,
    Role,
    SafetyFlag,
    Surface,
    Temperature,
    Tone,
    ToneMultiplier,
    Topic,
    Violation,
    Warned,
)

CLASSIFIER_VERSION = "v1"
CONTEXT_PACK_VERSION = "v1"
PROMPT_VERSION = "v1"
MAX_OUTPUT_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Confidences(Shape):
    """How sure the classifier was of each of its answers."""

    topic: Confidence
    intent: Confidence
    language: Confidence


@dataclass(frozen=True, slots=True)
class ClassifierResult(Shape):
    """ClassifierResultV1, and which of its fields are ours because the model's were unusable."""

    classifier_version: str
    detected_language: str | None
    topics: tuple[Topic, ...]
    intent: Intent
    rewrite_strength: RewriteStrength
    confidence: Confidences
    safety_flags: tuple[SafetyFlag, ...]
    defaulted: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_topics(self.topics)
        flags = self.safety_flags
        is_alone = SafetyFlag.NONE not in flags or len(flags) == 1
        check(bool(flags) and is_alone, "safety_flags are empty, or none does not stand alone")
        _check_detected(self.detected_language)


@dataclass(frozen=True, slots=True)
class RoutingDecision(Shape):
    """RoutingDecisionV1: by whom, over which wire and how a rewrite is made. It holds no text."""

    provider: str
    adapter_kind: AdapterKind
    base_url: str | None
    model: str
    prompt_version: str
    policy_version: str
    execution_mode: ExecutionMode
    supports_translation: bool
    cache_eligible: bool
    max_retries: int | None

    def __post_init__(self) -> None:
        named = (self.provider, self.model, self.prompt_version, self.policy_version)
        check(all(map(str.strip, named)), "a name or version of the routing decision is empty")
        check(self.base_url != "", "base_url is empty; null means the provider's own")
        check((self.max_retries or 0) >= 0, "max_retries is negative")

    def max_attempts(self, explicit: int | None = None) -> int:
        """Attempts including the first: an explicit value wins, without any it is two."""
        check(explicit is None or explicit >= 1, "max_attempts is less than one")
        if explicit is not None:
            return explicit
        return 2 if self.max_retries is None else max(1, self.max_retries)


@dataclass(frozen=True, slots=True)
class Power(Shape):
    """The two roles and what follows from them."""

    sender_role: Role
    recipient_role: Role
    power_mode: PowerMode
    tone_multiplier: ToneMultiplier


@dataclass(frozen=True, slots=True)
class TopicScope(Shape):
    """Which preferences the topics call for, and which of them gave no signal."""

    topics: tuple[Topic, ...]
    included_preference_ids: tuple[str, ...]
    excluded_preference_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Instructions(Shape):
    """How the message is to be said, in words of our own."""

    tone: str
    directness: Directness
    repair_timing: str | None
    framing: tuple[str, ...]
    avoid: tuple[str, ...]
    do_not_add: tuple[str, ...]

    def __post_init__(self) -> None:
        check(bool(self.avoid) and bool(self.do_not_add), "avoid or do_not_add is empty")


@dataclass(frozen=True, slots=True)
class RecipientSignal(Shape):
    """One answered preference as one short instruction."""

    preference_id: str
    value_key: str
    instruction: str


@dataclass(frozen=True, slots=True)
class ContextPack(Shape):
    """RecipientContextPackV1: what the rewriter may know of its recipient."""

    context_version: str
    recipient_user_id: UUID
    target_language: str
    power: Power
    topic_scope: TopicScope
    instructions: Instructions
    recipient_signals: tuple[RecipientSignal, ...]
    safety_notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy(Shape):
    """How gently, how plainly and how coolly a message is rewritten."""

    tone: Tone
    directness: Directness
    emotional_temperature: Temperature
    rewrite_strength: RewriteStrength


@dataclass(frozen=True, slots=True)
class RewriteRequest(Shape):
    """RewriteRequestV1: one message for one recipient. It carries no hint of a provider."""

    rewrite_request_id: UUID
    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    recipient_snapshot_id: UUID
    recipient_preference_snapshot_id: UUID
    surface: Surface
    original_text: str
    topics: tuple[Topic, ...]
    intent: Intent
    rewrite_strength: RewriteStrength
    source_locale: str
    target_locale: str
    lane: Lane
    classifier_result: ClassifierResult
    context_pack: ContextPack
    policy: Policy
    classifier_version: str
    context_pack_version: str
    policy_version: str
    created_at: datetime

    def __post_init__(self) -> None:
        check_text(self.original_text)
        _check_topics(self.topics)
        check_locale(self.source_locale)
        check_locale(self.target_locale)
        check(self.lane is lane(self.source_locale, self.target_locale), "lane is not the pair's")
        pack, result = self.context_pack, self.classifier_result
        is_theirs = pack.recipient_user_id == self.recipient_user_id
        check(is_theirs, "context_pack is another recipient's")
        check(pack.target_language == self.target_locale, "context_pack is for another language")
        check(pack.context_version == self.context_pack_version, "context_pack_version differs")
        check(result.classifier_version == self.classifier_version, "classifier_version differs")
        check(bool(self.policy_version.strip()), "policy_version is empty")


@dataclass(frozen=True, slots=True)
class EvalResult(Shape):
    """What the checks found; without a lexicon for the language lexicon_pass is null."""

    schema_valid: bool
    lexicon_pass: bool | None
    tone_safety: EvalVerdict
    intent_preserved: EvalVerdict
    violations: tuple[Violation, ...]
    warnings: tuple[Warned, ...]
    language_basis: LanguageBasis
    dataset_version: str


@dataclass(frozen=True, slots=True)
class RewriteOutput(Shape):
    """A RewriteResponse before the database has put its time on it."""

    rewrite_request_id: UUID
    recipient_user_id: UUID
    rewritten_text: str
    output_language: str
    prompt_version: str
    policy_version: str
    lexicon_version: str
    eval_result: EvalResult

    def __post_init__(self) -> None:
        check_text(self.rewritten_text, limit=MAX_OUTPUT_CHARACTERS)
        check_locale(self.output_language)

    def at(self, created_at: datetime) -> RewriteResponse:
        """The response as it was stored at that time."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return RewriteResponse(**values, created_at=created_at)


@dataclass(frozen=True, slots=True)
class RewriteResponse(RewriteOutput):
    """RewriteResponseV1: a rewritten text that passed, as it is stored."""

    created_at: datetime


def check_locale(tag: str) -> None:
    """Refuse a locale that is unknown or not in its one form."""
    check(bool(tag) and normalize(tag) == tag, "a locale is unknown or not normalised")


def batch_group_key(decision: RoutingDecision, lane: Lane, source: str, target: str) -> str:
    """The eight things that calls of one batch have in common, in the order of the contract.

    No two different groups share a key: a separator inside a name is escaped.
    """
    check_locale(source)
    check_locale(target)
    parts = (
        decision.provider,
        decision.model,
        decision.prompt_version,
        decision.policy_version,
        decision.execution_mode,
        lane,
        source,
        target,
    )
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts)


def can_microbatch(key: str, other_key: str, *, supports: bool) -> bool:
    """Whether two calls may share a prompt call: the provider can, and the group is the same.

    >>> can_microbatch("a|b", "a|b", supports=False)
    False
    """
    return supports and key == other_key


def _check_topics(topics: tuple[Topic, ...]) -> None:
    is_ok = 1 <= len(topics) <= 3 and len(set(topics)) == len(topics)
    check(is_ok, "topics are not one to three different ones")


def _check_detected(tag: str | None) -> None:
    if tag is not None:
        check_locale(tag)

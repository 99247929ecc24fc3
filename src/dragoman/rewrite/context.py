"""What the rewriter may know of a recipient: chosen by topic, from their snapshot, in our words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from dragoman.core.errors import BadInput
from dragoman.rewrite.contracts import (
    CONTEXT_PACK_VERSION,
    ContextPack,
    Directness,
    Instructions,
    Power,
    PowerMode,
    RecipientSignal,
    Topic,
    TopicScope,
)

FRAMING = ("use_impact_language", "use_optional_requests", "use_specific_but_non_accusatory")
AVOID = (
    "authority_language",
    "rules_language",
    "enforcement_language",
    "preference_disclosure",
    "norms_reference",
    "medical_or_diagnosis_language",
)
DO_NOT_ADD = ("new_complaints", "new_facts", "exact_times_if_not_provided")

# Also said when the recipient never answered how plainly they want to be spoken to.
SOFTLY = "Ask softly and leave room for a no."

_DIRECTNESS = "communication_directness"
_REPAIR = "conflict_resolution_style"
_COMMUNICATION = ("communication_channel", _DIRECTNESS, _REPAIR)
_QUIET_HOURS = "schedule_quiet_hours_preference"
_BY_TOPIC: dict[Topic, tuple[str, ...]] = {
    Topic.NOISE: ("environment_noise_tolerance", _QUIET_HOURS),
    Topic.CLEANLINESS: ("cleanliness_shared_space_tolerance", "routine_planning_style"),
    Topic.PRIVACY: ("privacy_room_entry", "privacy_notifications"),
    Topic.GUESTS: ("social_hosting_frequency", "social_togetherness"),
    Topic.SCHEDULE: (_QUIET_HOURS, "routine_planning_style"),
    Topic.COMMUNICATION: (),
    Topic.OTHER: (),
}

# preference: answered value -> (value key, instruction). What is not listed gives no signal.
_SIGNALS: dict[str, dict[str, tuple[str, str]]] = {
    _DIRECTNESS: {
        "gentle": ("soft", SOFTLY),
        "balanced": ("balanced", "Say it plainly and kindly."),
        "direct": ("balanced", "Say it plainly and kindly."),
    },
    _REPAIR: {
        "cool_off": ("cool_off", "Leave time before an answer is expected."),
        "talk_soon": ("talk_soon", "Offer to talk about it soon."),
        "mediate": ("check_in", "Suggest a short check-in between the two."),
    },
    "communication_channel": {
        "text": ("text", "Let it stand on its own as a written message."),
        "call": ("call", "A short call may be offered."),
        "in_person": ("in_person", "A talk face to face may be offered."),
    },
    "environment_noise_tolerance": {
        "low": ("low", "Sound can be named as it is felt, without dwelling on it."),
        "medium": ("medium", "Describe when the sound gets in the way."),
        "high": ("high", "Explain the effect of the sound; it may go unnoticed."),
    },
    _QUIET_HOURS: {
        "early_evening": ("early_evening", "Speak of quiet in the evening only in general."),
        "late_evening_or_night": (
            "late_evening_or_night",
            "Speak of quiet late in the day only in general.",
        ),
        "none": ("none", "Do not take any quiet time as agreed."),
    },
    "routine_planning_style": {
        "planner": ("planner", "A plan made ahead may be offered."),
        "mixed": ("mixed", "Offer a loose plan that can change."),
        "spontaneous": ("spontaneous", "Keep the request light, without a timetable."),
    },
    "privacy_room_entry": {
        "always_ask": ("always_ask", "Treat personal rooms with care."),
    },
    "privacy_notifications": {
        "none": ("none", "Do not ask for an immediate answer."),
    },
    "cleanliness_shared_space_tolerance": {
        "low": ("low", "Be brief about the mess; its effect is understood."),
        "high": ("high", "Explain the effect of the mess; it may go unnoticed."),
    },
    "social_togetherness": {
        "mostly_solo": ("mostly_solo", "Respect time alone when you suggest anything."),
        "balanced": ("balanced", "Something done together may be offered, lightly."),
        "mostly_together": ("mostly_together", "A warm mention of time together is welcome."),
    },
    "social_hosting_frequency": {
        "rare": ("rare", "Do not suggest having more visitors."),
        "sometimes": ("sometimes", "Treat visitors as welcome now and then."),
        "often": ("often", "Treat having visitors as something good."),
    },
}
PREFERENCES = frozenset(_SIGNALS)


def preference_ids(topics: Iterable[Topic]) -> tuple[str, ...]:
    """The preferences that these topics call for; for `other` alone there are none.

    >>> preference_ids([Topic.PRIVACY])[-2:]
    ('privacy_notifications', 'privacy_room_entry')
    """
    chosen = set(topics)
    if chosen <= {Topic.OTHER}:
        return ()
    found = {preference for topic in chosen for preference in _BY_TOPIC[topic]}
    return tuple(sorted(found | set(_COMMUNICATION)))


def build_context(
    *,
    recipient_user_id: UUID,
    target_language: str,
    power: Power,
    topics: tuple[Topic, ...],
    answers: Mapping[str, str],
) -> ContextPack:
    """The context pack, from the recipient's snapshot of answers and nothing else.

    Only what was answered is told, and only what the topics call for. The same input gives the
    same pack.
    """
    if not answers.keys() <= PREFERENCES:
        raise BadInput("the preference snapshot has an unknown preference")
    asked = preference_ids(topics)
    signals = tuple(s for s in (_signal(name, answers.get(name)) for name in asked) if s)
    told = {signal.preference_id: signal for signal in signals}
    return ContextPack(
        context_version=CONTEXT_PACK_VERSION,
        recipient_user_id=recipient_user_id,
        target_language=target_language,
        power=power,
        topic_scope=TopicScope(topics, tuple(told), tuple(n for n in asked if n not in told)),
        instructions=_instructions(told, power.power_mode),
        recipient_signals=signals,
        safety_notes=_safety_notes(power.power_mode),
    )


def _signal(preference: str, answer: str | None) -> RecipientSignal | None:
    found = _SIGNALS[preference].get(answer or "")
    return RecipientSignal(preference, *found) if found else None


def _instructions(told: Mapping[str, RecipientSignal], mode: PowerMode) -> Instructions:
    directness, repair = told.get(_DIRECTNESS), told.get(_REPAIR)
    commands = ("commands",) if mode is PowerMode.HIGHER_SENDER else ()
    return Instructions(
        tone="warm_clear",
        directness=Directness(directness.value_key) if directness else Directness.SOFT,
        repair_timing=repair.value_key if repair else None,
        framing=FRAMING,
        avoid=AVOID + commands,
        do_not_add=DO_NOT_ADD,
    )


def _safety_notes(mode: PowerMode) -> tuple[str, ...]:
    return ("no_demands",) if mode is PowerMode.HIGHER_RECIPIENT else ()

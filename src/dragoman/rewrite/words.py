"""The closed vocabularies of the rewrite pipeline, exactly as they are stored."""

from __future__ import annotations

from enum import StrEnum

from dragoman.core.errors import BadInput


class Surface(StrEnum):
    """Where the message was written; `weekly_feedback` is another name of weekly_harmony."""

    WEEKLY_HARMONY = "weekly_harmony"
    DIRECT_MESSAGE = "direct_message"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> Surface | None:
        return cls.WEEKLY_HARMONY if value == "weekly_feedback" else None


class Topic(StrEnum):
    """What a complaint is about."""

    NOISE = "noise"
    CLEANLINESS = "cleanliness"
    PRIVACY = "privacy"
    GUESTS = "guests"
    SCHEDULE = "schedule"
    COMMUNICATION = "communication"
    OTHER = "other"


class Intent(StrEnum):
    """What the sender wants; a message that leaves it open is a concern."""

    REQUEST = "request"
    BOUNDARY = "boundary"
    CONCERN = "concern"
    CLARIFICATION = "clarification"


class RewriteStrength(StrEnum):
    """How much has to change: a calm message is touched lightly, a sharp one reframed."""

    LIGHT_TOUCH = "light_touch"
    FULL_REFRAME = "full_reframe"


class SafetyFlag(StrEnum):
    """What the classifier warns of; `none` stands alone."""

    NONE = "none"
    EMOTIONAL_INTENSITY = "emotional_intensity"
    AMBIGUOUS_INTENT = "ambiguous_intent"


class Tone(StrEnum):
    """The tone a rewrite takes."""

    GENTLE = "gentle"
    NEUTRAL = "neutral"
    CALM = "calm"


class Directness(StrEnum):
    """How plainly a rewrite asks; never harder than balanced."""

    SOFT = "soft"
    BALANCED = "balanced"


class Temperature(StrEnum):
    """Whether heat has to be taken out of the message."""

    COOL_DOWN = "cool_down"
    STEADY = "steady"


class Role(StrEnum):
    """What somebody is in a home."""

    OWNER = "owner"
    HOUSEMATE = "housemate"


class PowerMode(StrEnum):
    """Who of the two has more say in the home."""

    HIGHER_SENDER = "higher_sender"
    HIGHER_RECIPIENT = "higher_recipient"
    PEER = "peer"


class ToneMultiplier(StrEnum):
    """How much gentler the difference in power makes the tone."""

    EXTRA_GENTLE = "extra_gentle"
    GENTLE = "gentle"
    NEUTRAL = "neutral"


class AdapterKind(StrEnum):
    """The wires a rewrite can be sent over."""

    OPENAI_RESPONSES = "openai_responses"
    OPENAI_CHAT = "openai_chat"
    GEMINI_GENERATE = "gemini_generate"
    ANTHROPIC_MESSAGES = "anthropic_messages"
    SANDBOX = "sandbox"


class ExecutionMode(StrEnum):
    """How a call is made."""

    ASYNC = "async"
    BATCH = "batch"


class Violation(StrEnum):
    """Why a text is refused; each is final. The order is that of gravity."""

    NON_TARGET_LOCALE = "non_target_locale"
    SLUR = "slur"
    VULGARITY = "vulgarity"
    PERSONAL_ATTACK = "personal_attack"
    BLAME = "blame"
    AUTHORITY = "authority"
    PREFERENCE_DISCLOSURE = "preference_disclosure"
    MEDICAL = "medical"
    NEW_FACT = "new_fact"


class Warned(StrEnum):
    """What is stored with a text that passed."""

    SARCASM = "sarcasm_warn"
    HEDGE = "hedge_warn"
    NOT_JUDGED = "not_judged"
    SIBLING_LANGUAGE = "sibling_language"
    LANGUAGE_DECLARED = "language_declared"


class EvalVerdict(StrEnum):
    """The outcome of one question put to a text."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    WARN = "warn"
    FAIL = "fail"


class LanguageBasis(StrEnum):
    """Whether the output language was measured, or taken as declared for want of letters."""

    MEASURED = "measured"
    DECLARED = "declared"


def read_surface(name: object) -> Surface:
    """The surface by any of its names; the routing key uses the one that is stored.

    >>> read_surface("weekly_feedback")
    <Surface.WEEKLY_HARMONY: 'weekly_harmony'>
    """
    try:
        return Surface(name)
    except ValueError:
        pass  # raised below, without the value
    raise BadInput(f"surface is not one of {', '.join(Surface)}")

"""How gently a message is rewritten, decided by rule and never by a model."""

from __future__ import annotations

from dragoman.rewrite.contracts import (
    ClassifierResult,
    Confidence,
    Directness,
    Policy,
    Power,
    PowerMode,
    RewriteStrength,
    Role,
    SafetyFlag,
    Temperature,
    Tone,
    ToneMultiplier,
)

POLICY_VERSION = "v1"

_MULTIPLIER = {
    PowerMode.HIGHER_SENDER: ToneMultiplier.EXTRA_GENTLE,
    PowerMode.HIGHER_RECIPIENT: ToneMultiplier.GENTLE,
    PowerMode.PEER: ToneMultiplier.NEUTRAL,
}


def power(sender_role: Role, recipient_role: Role) -> Power:
    """What the two roles mean for the tone.

    >>> power(Role.OWNER, Role.HOUSEMATE).tone_multiplier
    <ToneMultiplier.EXTRA_GENTLE: 'extra_gentle'>
    """
    if sender_role is recipient_role:
        mode = PowerMode.PEER
    elif sender_role is Role.OWNER:
        mode = PowerMode.HIGHER_SENDER
    else:
        mode = PowerMode.HIGHER_RECIPIENT
    return Power(sender_role, recipient_role, mode, _MULTIPLIER[mode])


def decide_policy(result: ClassifierResult, mode: PowerMode) -> Policy:
    """The policy for a classified message.

    A full reframe, low confidence or a sender with more say makes it gentle and soft; strong
    feelings cool it down.
    """
    is_unsure = Confidence.LOW in (result.confidence.topic, result.confidence.intent)
    is_reframed = result.rewrite_strength is RewriteStrength.FULL_REFRAME
    is_gentle = is_reframed or is_unsure or mode is PowerMode.HIGHER_SENDER
    is_heated = SafetyFlag.EMOTIONAL_INTENSITY in result.safety_flags
    calm = Tone.CALM if is_heated else Tone.NEUTRAL
    return Policy(
        tone=Tone.GENTLE if is_gentle else calm,
        directness=Directness.SOFT if is_gentle else Directness.BALANCED,
        emotional_temperature=Temperature.COOL_DOWN if is_heated else Temperature.STEADY,
        rewrite_strength=result.rewrite_strength,
    )

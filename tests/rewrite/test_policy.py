from __future__ import annotations

from itertools import product

import pytest

from dragoman.core.locale import Confidence
from dragoman.rewrite.contracts import (
    Confidences,
    Directness,
    PowerMode,
    RewriteStrength,
    Role,
    SafetyFlag,
    Temperature,
    Tone,
    ToneMultiplier,
)
from dragoman.rewrite.policy import decide_policy, power
from tests.rewrite.requests import classified

LIGHT = classified(rewrite_strength=RewriteStrength.LIGHT_TOUCH)


@pytest.mark.parametrize(
    ("sender", "recipient", "mode", "multiplier"),
    [
        (Role.OWNER, Role.HOUSEMATE, PowerMode.HIGHER_SENDER, ToneMultiplier.EXTRA_GENTLE),
        (Role.HOUSEMATE, Role.OWNER, PowerMode.HIGHER_RECIPIENT, ToneMultiplier.GENTLE),
        (Role.HOUSEMATE, Role.HOUSEMATE, PowerMode.PEER, ToneMultiplier.NEUTRAL),
        (Role.OWNER, Role.OWNER, PowerMode.PEER, ToneMultiplier.NEUTRAL),
    ],
)
def test_roles_decide_the_power_mode(
    sender: Role, recipient: Role, mode: PowerMode, multiplier: ToneMultiplier
) -> None:
    """The more say the sender has, the gentler the tone."""
    found = power(sender, recipient)
    assert (found.power_mode, found.tone_multiplier) == (mode, multiplier)


def test_a_calm_message_between_peers_stays_neutral() -> None:
    """Nothing asks for more."""
    policy = decide_policy(LIGHT, PowerMode.PEER)
    assert (policy.tone, policy.directness) == (Tone.NEUTRAL, Directness.BALANCED)
    assert policy.emotional_temperature is Temperature.STEADY


@pytest.mark.parametrize(
    ("result", "mode"),
    [
        (classified(), PowerMode.PEER),
        (LIGHT, PowerMode.HIGHER_SENDER),
        (
            classified(
                rewrite_strength=RewriteStrength.LIGHT_TOUCH,
                confidence=Confidences(Confidence.HIGH, Confidence.LOW, Confidence.HIGH),
            ),
            PowerMode.PEER,
        ),
    ],
)
def test_reframes_power_and_doubt_make_it_gentle(result: object, mode: PowerMode) -> None:
    """A full reframe, a sender with more say, or low confidence: gentle and soft."""
    policy = decide_policy(result, mode)  # type: ignore[arg-type]
    assert (policy.tone, policy.directness) == (Tone.GENTLE, Directness.SOFT)


def test_strong_feelings_are_cooled_down() -> None:
    """Emotional intensity lowers the temperature, and calms even a light touch."""
    heated = (SafetyFlag.EMOTIONAL_INTENSITY,)
    light = classified(rewrite_strength=RewriteStrength.LIGHT_TOUCH, safety_flags=heated)
    policy = decide_policy(light, PowerMode.PEER)
    assert (policy.tone, policy.emotional_temperature) == (Tone.CALM, Temperature.COOL_DOWN)


def test_more_power_is_never_harder() -> None:
    """Over all strengths, the sender with more say is never more direct than a peer."""
    for strength, flag in product(RewriteStrength, SafetyFlag):
        result = classified(rewrite_strength=strength, safety_flags=(flag,))
        above, peer = (
            decide_policy(result, mode) for mode in (PowerMode.HIGHER_SENDER, PowerMode.PEER)
        )
        assert above.directness is Directness.SOFT or peer.directness is Directness.BALANCED
        assert above.tone is Tone.GENTLE
        assert above.rewrite_strength is strength

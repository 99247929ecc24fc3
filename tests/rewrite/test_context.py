from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import BadInput
from dragoman.rewrite.context import PREFERENCES, build_context, preference_ids
from dragoman.rewrite.contracts import ContextPack, Directness, Role, Topic
from dragoman.rewrite.policy import power
from tests.rewrite.requests import CANARY

COMMUNICATION = {
    "communication_channel",
    "communication_directness",
    "conflict_resolution_style",
}
BY_TOPIC = {
    Topic.NOISE: {"environment_noise_tolerance", "schedule_quiet_hours_preference"},
    Topic.PRIVACY: {"privacy_room_entry", "privacy_notifications"},
    Topic.CLEANLINESS: {"cleanliness_shared_space_tolerance", "routine_planning_style"},
    Topic.GUESTS: {"social_hosting_frequency", "social_togetherness"},
    Topic.SCHEDULE: {"schedule_quiet_hours_preference", "routine_planning_style"},
    Topic.COMMUNICATION: set[str](),
}
VALUES = ["gentle", "direct", "mediate", "low", "none", "text", "planner", "often", "bogus"]
ANSWERS = st.dictionaries(st.sampled_from(sorted(PREFERENCES)), st.sampled_from(VALUES))


def pack_of(
    topics: tuple[Topic, ...],
    answers: dict[str, str],
    sender: Role = Role.HOUSEMATE,
    recipient: Role = Role.HOUSEMATE,
) -> ContextPack:
    """A pack for these topics, answers and roles."""
    return build_context(
        recipient_user_id=UUID(int=4),
        target_language="en",
        power=power(sender, recipient),
        topics=topics,
        answers=answers,
    )


def pack(topic: Topic, **answers: str) -> ContextPack:
    """A pack for one topic between peers."""
    return pack_of((topic,), answers)


@pytest.mark.parametrize("topic", BY_TOPIC)
def test_a_topic_asks_for_its_preferences(topic: Topic) -> None:
    """Its own, and how the recipient likes to be spoken to."""
    assert set(preference_ids([topic])) == BY_TOPIC[topic] | COMMUNICATION


def test_other_alone_asks_for_nothing() -> None:
    """Exactly [other] forwards no preference; other beside a topic does."""
    assert preference_ids([Topic.OTHER]) == ()
    assert set(preference_ids([Topic.OTHER, Topic.COMMUNICATION])) == COMMUNICATION


def test_two_topics_ask_for_the_union_once() -> None:
    """What both call for is asked once."""
    found = preference_ids([Topic.NOISE, Topic.SCHEDULE])
    assert len(found) == len(set(found)) == 6


@pytest.mark.parametrize(
    ("preference", "answer", "key"),
    [
        ("communication_directness", "direct", "balanced"),
        ("communication_directness", "gentle", "soft"),
        ("conflict_resolution_style", "mediate", "check_in"),
        ("conflict_resolution_style", "cool_off", "cool_off"),
        ("environment_noise_tolerance", "medium", "medium"),
    ],
)
def test_an_answer_becomes_one_instruction(preference: str, answer: str, key: str) -> None:
    """Values are mapped, never harder than asked for, and never to a third person."""
    (signal,) = pack(Topic.NOISE, **{preference: answer}).recipient_signals
    assert (signal.preference_id, signal.value_key) == (preference, key)
    assert signal.instruction


@given(ANSWERS)
def test_only_what_was_answered_and_asked_is_told(answers: dict[str, str]) -> None:
    """Included is a part of what was answered, and with excluded it is all that was asked."""
    scope = pack(Topic.GUESTS, **answers).topic_scope
    assert set(scope.included_preference_ids) <= answers.keys()
    told = {*scope.included_preference_ids, *scope.excluded_preference_ids}
    assert told == set(preference_ids([Topic.GUESTS]))


def test_an_answer_outside_the_topics_is_not_told() -> None:
    """A complaint about guests says nothing of the recipient's noise tolerance."""
    assert pack(Topic.GUESTS, environment_noise_tolerance="low").recipient_signals == ()


def test_a_value_without_an_instruction_gives_no_signal() -> None:
    """Nothing is invented for an answer that we have no words for."""
    found = pack(Topic.CLEANLINESS, cleanliness_shared_space_tolerance="medium")
    assert found.recipient_signals == ()
    assert "cleanliness_shared_space_tolerance" in found.topic_scope.excluded_preference_ids


def test_an_unknown_preference_is_refused() -> None:
    """A snapshot that we do not understand gives no pack, and is not quoted."""
    with pytest.raises(BadInput) as refused:
        pack(Topic.NOISE, **{CANARY: "low"})
    assert CANARY not in str(refused.value)


@given(ANSWERS, st.lists(st.sampled_from(Topic), min_size=1, max_size=3, unique=True))
def test_the_guards_are_always_there(answers: dict[str, str], topics: list[Topic]) -> None:
    """Neither avoid nor do_not_add is ever empty, and the same input gives the same pack."""
    found = pack_of(tuple(topics), answers)
    assert {"authority_language", "preference_disclosure"} <= set(found.instructions.avoid)
    assert "new_facts" in found.instructions.do_not_add
    assert found == pack_of(tuple(topics), answers)
    assert ContextPack.from_json(found.to_json()) == found


def test_directness_is_soft_unless_answered() -> None:
    """Silence is read as the softer way."""
    assert pack(Topic.NOISE).instructions.directness is Directness.SOFT
    balanced = pack(Topic.NOISE, communication_directness="direct")
    assert balanced.instructions.directness is Directness.BALANCED


def test_power_adds_its_own_guards() -> None:
    """An owner gives no commands; nobody makes demands of an owner."""
    assert "commands" in pack_of((Topic.NOISE,), {}, sender=Role.OWNER).instructions.avoid
    assert pack_of((Topic.NOISE,), {}, recipient=Role.OWNER).safety_notes == ("no_demands",)
    assert "commands" not in pack(Topic.NOISE).instructions.avoid

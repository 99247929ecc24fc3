from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.canonical import canonical, read_object
from dragoman.core.errors import BadInput
from dragoman.core.locale import Lane
from dragoman.core.shape import Shape
from dragoman.rewrite.contracts import (
    EvalResult,
    EvalVerdict,
    LanguageBasis,
    RewriteOutput,
    RewriteRequest,
    RewriteResponse,
    RoutingDecision,
    Surface,
    Warned,
    batch_group_key,
    can_microbatch,
)
from dragoman.rewrite.words import read_surface
from tests.rewrite.requests import CANARY, DECISION, classified, decision, request

OUTPUT = RewriteOutput(
    rewrite_request_id=UUID(int=1),
    recipient_user_id=UUID(int=4),
    rewritten_text="Could the music be softer in the evening?",
    output_language="en",
    prompt_version="v1",
    policy_version="v1",
    lexicon_version="1",
    eval_result=EvalResult(
        schema_valid=True,
        lexicon_pass=None,
        tone_safety=EvalVerdict.PASS,
        intent_preserved=EvalVerdict.WARN,
        violations=(),
        warnings=(Warned.NOT_JUDGED,),
        language_basis=LanguageBasis.MEASURED,
        dataset_version="none",
    ),
)
RESPONSE = OUTPUT.at(datetime(2026, 2, 3, 4, 5, tzinfo=UTC))
EVERY = [request(answers={"communication_channel": "text"}), decision(), classified(), RESPONSE]
SAME = (Lane.SAME_LANGUAGE, "en", "en")
FIVE = [
    {"provider": "other"},
    {"model": "gpt-5.3"},
    {"prompt_version": "v4"},
    {"policy_version": "v2"},
    {"execution_mode": "async"},
]


def key(
    lane: Lane = Lane.SAME_LANGUAGE, source: str = "en", target: str = "en", **d: object
) -> str:
    """The group key of the contract's first example, changed where a test says so."""
    return batch_group_key(decision(**d), lane, source, target)


def other_keys() -> list[str]:
    """One key for each of the eight fields, different in that field alone."""
    return [
        *(batch_group_key(decision(**change), *SAME) for change in FIVE),
        key(Lane.CROSS_LANGUAGE),
        key(source="de"),
        key(target="es"),
    ]


@pytest.mark.req("R041")
@pytest.mark.parametrize("value", EVERY, ids=lambda value: type(value).__name__)
def test_a_contract_reads_back_what_it_wrote(value: Shape) -> None:
    """Through JSON and back every field is equal, adapter_kind and base_url among them."""
    written = read_object(canonical(value.to_json()))
    assert type(value).from_json(written) == value


@pytest.mark.parametrize("value", EVERY, ids=lambda value: type(value).__name__)
def test_every_field_is_needed_and_no_other_is_taken(value: Shape) -> None:
    """A missing key, an unknown one and a wrong type are refused at every place."""
    written = value.to_json()
    for name in written:
        without = {other: inner for other, inner in written.items() if other != name}
        wrong = {**written, name: {CANARY: CANARY}}
        for bad in (without, wrong, {**written, CANARY: 1}, [written], CANARY, None):
            with pytest.raises(BadInput) as refused:
                type(value).from_json(bad)
            assert CANARY not in str(refused.value)


@pytest.mark.req("R237")
@pytest.mark.parametrize("name", DECISION)
def test_a_routing_decision_has_every_field(name: str) -> None:
    """A decision without one of its fields is refused; base_url may be null, not absent."""
    with pytest.raises(BadInput, match=name):
        RoutingDecision.from_json({n: v for n, v in DECISION.items() if n != name})
    assert decision(base_url=None).base_url is None


@pytest.mark.req("R239")
@pytest.mark.parametrize("name", ["original_text", "message", "prompt", "text"])
def test_a_routing_decision_has_no_room_for_text(name: str) -> None:
    """An unknown key is refused, and neither it nor its value is repeated."""
    with pytest.raises(BadInput) as refused:
        decision(**{name: CANARY})
    assert CANARY not in str(refused.value)
    assert name not in str(refused.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"execution_mode": "later"},
        {"adapter_kind": "telex"},
        {"base_url": ""},
        {"model": " "},
        {"max_retries": -1},
        {"max_retries": True},
    ],
)
def test_an_impossible_decision_is_refused(bad: dict[str, object]) -> None:
    """Unknown modes and wires, empty names and negative numbers are no decision."""
    with pytest.raises(BadInput):
        decision(**bad)


@pytest.mark.req("R236")
@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 1), (2, 2), (4, 4), (None, 2)])
def test_max_attempts_come_from_the_routing(retries: int | None, attempts: int) -> None:
    """At least one, two without a word from the routing; an explicit value wins."""
    assert decision(max_retries=retries).max_attempts() == attempts
    assert decision(max_retries=retries).max_attempts(7) == 7
    with pytest.raises(BadInput):
        decision(max_retries=retries).max_attempts(0)


@pytest.mark.req("R232")
def test_a_surface_has_three_stored_names() -> None:
    """weekly_feedback is read as weekly_harmony; anything else is refused without being quoted."""
    assert {str(surface) for surface in Surface} == {"weekly_harmony", "direct_message", "other"}
    assert read_surface("weekly_feedback") is read_surface("weekly_harmony")
    assert RewriteRequest.from_json({**request().to_json(), "surface": "weekly_feedback"})
    for bad in (CANARY, "", None, 3, ["other"]):
        with pytest.raises(BadInput) as refused:
            read_surface(bad)
        assert CANARY not in str(refused.value)


@pytest.mark.req("R233")
@pytest.mark.parametrize("strength", ["medium", "FULL_REFRAME", "", None, True])
def test_a_strength_is_one_of_two(strength: object) -> None:
    """Only light_touch and full_reframe are read."""
    with pytest.raises(BadInput, match="rewrite_strength"):
        RewriteRequest.from_json({**request().to_json(), "rewrite_strength": strength})


@pytest.mark.parametrize(
    "changed",
    [
        {"lane": "cross_language"},
        {"source_locale": "en-US"},
        {"target_locale": "unknown"},
        {"original_text": "  "},
        {"original_text": "a" * 1_501},
        {"original_text": "a\0b"},
        {"original_text": "a\ud800b"},
        {"recipient_user_id": str(UUID(int=9))},
        {"topics": []},
        {"topics": ["noise", "noise"]},
        {"topics": ["noise", "guests", "privacy", "other"]},
        {"classifier_version": "v2"},
        {"context_pack_version": "v2"},
        {"policy_version": ""},
        {"created_at": "2026-02-03T00:00:00"},
        {"created_at": "0001-01-01T00:00:00+14:00"},
        {"home_id": "{00000000-0000-0000-0000-000000000002}"},
        {"provider": "openai"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_request_that_contradicts_itself_is_refused(changed: dict[str, object]) -> None:
    """Locales, lane, recipient, versions, text, ids and times have to agree and be well formed."""
    with pytest.raises(BadInput):
        RewriteRequest.from_json({**request().to_json(), **changed})


def test_a_contract_cannot_be_changed() -> None:
    """What was decided stays as it was decided."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        request().lane = Lane.CROSS_LANGUAGE  # type: ignore[misc]


def test_a_response_is_an_output_with_its_time() -> None:
    """The time comes from outside; everything else is the output's."""
    assert RESPONSE.to_json() == {**OUTPUT.to_json(), "created_at": "2026-02-03T04:05:00+00:00"}
    assert isinstance(RESPONSE, RewriteResponse)


@pytest.mark.req("R068", "R147", "R203")
def test_the_group_key_is_the_formula_of_the_contract() -> None:
    """Eight parts in order; two jobs of example A share it."""
    assert key() == "openai|gpt-5.2|v3|v1|batch|same_language|en|en"
    assert can_microbatch(key(), key(), supports=True)


@pytest.mark.req("R067", "R146")
def test_one_different_field_is_enough_to_stay_apart() -> None:
    """Each of the eight fields alone forbids a shared prompt, and all keys differ."""
    others = other_keys()
    assert len({key(), *others}) == 9
    assert not any(can_microbatch(key(), other, supports=True) for other in others)


@pytest.mark.req("R070", "R204")
def test_different_targets_are_never_in_one_prompt() -> None:
    """Example B: es and en do not share a key."""
    assert not can_microbatch(key(), key(target="es"), supports=True)


@pytest.mark.req("R205")
def test_different_prompt_versions_are_never_in_one_prompt() -> None:
    """Example C: v3 and v4 do not share a key."""
    assert not can_microbatch(key(), key(prompt_version="v4"), supports=True)


@pytest.mark.req("R145")
def test_without_the_capability_nothing_is_grouped() -> None:
    """Equal keys are not enough: the provider has to support it."""
    assert not can_microbatch(key(), key(), supports=False)


NAMES = st.text(st.sampled_from("a|\\"), min_size=1, max_size=4)


@pytest.mark.req("R068")
@given(NAMES, NAMES)
def test_no_separator_in_a_name_merges_two_groups(provider: str, model: str) -> None:
    """Wherever the two names could be cut apart otherwise, the other two have another key."""
    joined = f"{provider}|{model}"
    for at, letter in enumerate(joined):
        other = joined[:at], joined[at + 1 :]
        if letter == "|" and all(other) and other != (provider, model):
            assert key(provider=other[0], model=other[1]) != key(provider=provider, model=model)


@pytest.mark.req("R068")
def test_a_backslash_in_a_name_merges_no_groups_either() -> None:
    r"""The escape is escaped: a\ and b|c is not a|b\ and c."""
    assert key(provider="a\\", model="b|c") != key(provider="a|b\\", model="c")


def test_a_raw_locale_is_no_part_of_a_key() -> None:
    """Only normalised locales make a key, so en-US and en cannot become two groups."""
    for source, target in product(["en-US", "unknown", ""], ["en"]):
        with pytest.raises(BadInput):
            key(source=source, target=target)


def test_the_key_is_the_same_in_every_process() -> None:
    """It depends on the values alone, not on how the JSON was written."""
    again = RoutingDecision.from_json(json.loads(json.dumps(DECISION, sort_keys=True)))
    assert batch_group_key(again, Lane.SAME_LANGUAGE, "en", "en") == key()

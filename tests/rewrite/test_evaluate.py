from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.failure import Failure, FailureClass
from dragoman.rewrite.contracts import (
    EvalVerdict,
    LanguageBasis,
    RewriteOutput,
    RewriteRequest,
    Violation,
    Warned,
)
from dragoman.rewrite.evaluate import Passed, evaluate
from tests.rewrite.requests import CANARY, answer, request

CALM = "I find it hard to sleep when the music is loud. Could it be softer in the evening?"
RUHIG = "Ich schlafe schlecht, wenn die Musik laut ist. Könnte sie abends etwas leiser sein?"
REQUEST = request()


def passed(one: RewriteRequest, text: str) -> RewriteOutput:
    """The output of an answer that must pass."""
    found = evaluate(one, text)
    assert isinstance(found, Passed), found
    return found.output


def refused(one: RewriteRequest, text: str) -> str:
    """The code of an answer that must fail for good, without a word of it in the failure."""
    found = evaluate(one, text)
    assert isinstance(found, Failure)
    assert not found.is_retryable
    assert CANARY not in repr(found)
    return found.code


def test_a_calm_polite_request_passes() -> None:
    """The output is the unit's, in the target locale, with the versions it was made by."""
    output = passed(REQUEST, answer(CALM))
    assert output.rewritten_text == CALM
    assert (output.output_language, output.lexicon_version) == ("en", "1")
    assert (output.prompt_version, output.policy_version) == ("v1", REQUEST.policy_version)
    assert output.rewrite_request_id == REQUEST.rewrite_request_id
    assert output.recipient_user_id == REQUEST.recipient_user_id


def test_what_was_checked_stands_in_the_result() -> None:
    """Schema and lexicon always, the language as measured, and intent never as preserved."""
    result = passed(REQUEST, answer(CALM)).eval_result
    assert (result.schema_valid, result.lexicon_pass) == (True, True)
    assert result.language_basis is LanguageBasis.MEASURED
    assert (result.tone_safety, result.intent_preserved) == (EvalVerdict.PASS, EvalVerdict.WARN)
    assert (result.violations, result.warnings) == ((), (Warned.NOT_JUDGED,))


@pytest.mark.req("R057", "R075")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        CALM,
        json.dumps({"rewritten_text": CALM}),
        json.dumps({"output_language": "en"}),
        json.dumps({"rewritten_text": CALM, "output_language": None}),
        json.dumps({"rewritten_text": [CALM], "output_language": "en"}),
        answer(CALM, note=CANARY),
        answer(CALM) + answer(CALM),
        "```json\n" + answer(CALM) + "\n```",
        "\ufeff" + answer(CALM),
        '{"rewritten_text":"a","rewritten_text":"b","output_language":"en"}',
        '{"rewritten_text":NaN,"output_language":"en"}',
        '{"rewritten_text":"a\\u0000b","output_language":"en"}',
        '{"rewritten_text":"a\\ud800b","output_language":"en"}',
        answer("a\ud800b"),
        "\ud800",
        "{" * 100_000,
        '{"rewritten_text":' + "[" * 100_000,
        '{"rewritten_text":' + "[" * 10_000,
        '{"rewritten_text":"' + "a" * 5_000_000,
        answer(CALM) + " " * 50_000,
    ],
    ids=range(23),
)
def test_whatever_is_not_the_schema_fails_at_once(text: str) -> None:
    """Missing, extra, doubled or mistyped fields, hostile bytes: SCHEMA_INVALID, never retried."""
    assert refused(REQUEST, text) == "schema_invalid"
    found = evaluate(REQUEST, text)
    assert isinstance(found, Failure)
    assert found.error_class is FailureClass.SCHEMA_INVALID


@pytest.mark.req("R072")
@pytest.mark.parametrize("cut", [1, 2, 25, 60])
def test_a_cut_answer_is_no_answer(cut: int) -> None:
    """Truncated JSON fails whole: no part of it is kept."""
    assert refused(REQUEST, answer(CALM)[:-cut]) == "schema_invalid"


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "👍", "22:00!", "\u2028"])
def test_a_text_without_letters_is_empty(text: str) -> None:
    """Blanks, emoji and numbers alone say nothing."""
    assert refused(REQUEST, answer(text)) == "empty"


def test_a_text_has_an_upper_bound() -> None:
    """3,000 characters pass, one more does not."""
    text = (CALM + " ") * 40
    assert passed(REQUEST, answer(text[:3_000]))
    assert refused(REQUEST, answer(text[:3_001])) == "too_long"


def test_a_line_separator_is_an_ordinary_character() -> None:
    """U+2028 is kept as it came."""
    text = CALM.replace(". ", ".\u2028")
    assert passed(REQUEST, answer(text)).rewritten_text == text


@pytest.mark.req("R032", "R056")
@pytest.mark.parametrize("declared", ["en", "de"])
def test_another_language_fails_in_the_same_lane(declared: str) -> None:
    """It is measured: that the model declares the target does not help."""
    assert refused(REQUEST, answer(RUHIG, declared)) == "non_target_locale"


@pytest.mark.req("R033", "R056")
@pytest.mark.parametrize("text", [CALM, f"{RUHIG} {CALM}", f"{CALM} {RUHIG}"])
def test_the_source_language_fails_in_the_cross_lane(text: str) -> None:
    """Left in the source, or in both languages: refused though it declares the target."""
    crossing = request(source="en", target="de")
    assert refused(crossing, answer(text, "de")) == "non_target_locale"
    assert passed(crossing, answer(RUHIG, "de")).output_language == "de"


def test_a_wrong_declaration_of_a_measured_text_does_no_harm() -> None:
    """The text is in the target language; what the model calls it is of no interest."""
    assert passed(REQUEST, answer(CALM, "fr")).output_language == "en"


@pytest.mark.parametrize(("declared", "is_fine"), [("it", True), ("it-IT", True), ("en", False)])
def test_a_short_text_is_taken_as_declared(declared: str, *, is_fine: bool) -> None:
    """Too short to measure: the declaration decides, and the result says so."""
    text, italian = answer("Grazie mille", declared), request(source="it", target="it")
    if is_fine:
        result = passed(italian, text).eval_result
        assert result.language_basis is LanguageBasis.DECLARED
        assert Warned.LANGUAGE_DECLARED in result.warnings
    else:
        assert refused(italian, text) == "non_target_locale"


@pytest.mark.parametrize(("declared", "is_fine"), [("nb", True), ("no", True), ("da", False)])
def test_a_sibling_language_needs_the_right_declaration(declared: str, *, is_fine: bool) -> None:
    """Danish or Norwegian: flagged if declared as the target, refused if declared otherwise."""
    text = answer("Jeg har svært ved at sove, når bassen går gennem væggen.", declared)
    norwegian = request(source="en", target="nb")
    if is_fine:
        assert Warned.SIBLING_LANGUAGE in passed(norwegian, text).eval_result.warnings
    else:
        assert refused(norwegian, text) == "non_target_locale"


@pytest.mark.req("R058", "R075")
@pytest.mark.parametrize(
    ("target", "text", "code"),
    [
        ("en", f"{CALM} You never listen, {CANARY}.", "blame"),
        ("en", f"{CALM} This is bullshit.", "vulgarity"),
        ("de", f"{RUHIG} So eine Scheiße.", "vulgarity"),
        ("de", f"{RUHIG} Du bist faul.", "personal_attack"),
        ("en", f"{CALM} I know you prefer silence.", "preference_disclosure"),
    ],
)
def test_a_hard_violation_in_the_target_language_fails(target: str, text: str, code: str) -> None:
    """The list of the target locale decides; the failure is final and carries the code alone."""
    assert refused(request(target=target), answer(text, target)) == code


@pytest.mark.req("R058")
def test_the_list_is_the_targets_and_not_the_sources() -> None:
    """A word that the source's list refuses is an ordinary one in the target."""
    text = "Le retard du ménage me pèse un peu. Est-ce qu'on peut en parler calmement ce soir ?"
    assert passed(request(source="en", target="fr"), answer(text, "fr"))


def test_warnings_alone_pass_and_are_kept() -> None:
    """Hedging lowers the tone to warn; the text is stored with it."""
    result = passed(REQUEST, answer(f"Sorry to bother you. {CALM}")).eval_result
    assert result.tone_safety is EvalVerdict.WARN
    assert result.warnings == (Warned.HEDGE, Warned.NOT_JUDGED)
    assert result.lexicon_pass is True


def test_a_language_without_a_list_is_not_called_clean() -> None:
    """Finnish has no list: lexicon_version none and lexicon_pass null."""
    text = "Minun on vaikea nukkua, kun musiikki soi kovaa. Voisiko se olla illalla hiljaisempi?"
    output = passed(request(target="fi"), answer(text, "fi"))
    assert (output.lexicon_version, output.eval_result.lexicon_pass) == ("none", None)


@pytest.mark.parametrize(
    ("source", "original", "target", "text"),
    [
        ("en", "Loud after 10 pm again!", "en", "Could it be softer after 22:00? I would sleep."),
        (
            "en",
            "Loud after ten again!",
            "en",
            "Could it be softer after 10:00? I would sleep well.",
        ),
        ("de", "Ab 22 Uhr ist Ruhe!", "en", "Could it be quiet from 10 pm? I would sleep better."),
        ("de", "Ab 22 Uhr ist Ruhe!", "en", "Could it be quiet from 10 p.m.? I would sleep well."),
        ("en", "Quiet after 10:30 pm!", "de", "Könnte es nach 22:30 Uhr bitte leiser sein?"),
        ("en", "After 10 pm!", "it", "Potresti abbassare la musica dopo le 22, per favore?"),
        ("en", "You owe me 1,50 euro", "en", "Could you give me the 1.50 euros when you can?"),
        ("en", "Loud every Monday!", "de", "Könnte die Musik am Montag bitte etwas leiser sein?"),
        ("fi", "Joka maanantai!", "en", "Could the music be a little softer every Monday?"),
    ],
)
def test_the_senders_own_numbers_and_days_may_be_said_otherwise(
    source: str, original: str, target: str, text: str
) -> None:
    """A time keeps its meaning in another notation, a day in another language."""
    assert passed(request(original, source=source, target=target), answer(text, target))


@pytest.mark.parametrize(
    ("original", "text"),
    [
        ("Too loud at night!", "Could it be softer after 22:00? I would sleep better."),
        ("Too loud at 10!", "Could it be softer after 10:30? I would sleep much better."),
        ("Too loud!", "Could it be softer? I have asked 3 times, and I would sleep better."),
        ("Too loud!", "Could it be softer after ٢٢:٠٠ ? I would sleep much better then."),
        ("Too loud on Monday!", "Could it be softer on Monday and Tuesday? I would sleep."),
    ],
)
def test_an_invented_number_time_or_day_fails(original: str, text: str) -> None:
    """What the sender did not give is a new fact, in any digits."""
    assert refused(request(original), answer(text)) == "new_fact"


def test_an_instruction_that_leaks_fails() -> None:
    """A sentence or an id of the context pack in the text discloses a preference."""
    private = request(answers={"environment_noise_tolerance": "high"})
    (signal,) = private.context_pack.recipient_signals
    for leak in (signal.instruction.upper(), signal.preference_id):
        assert refused(private, answer(f"{CALM} {leak}")) == "preference_disclosure"


def test_the_gravest_violation_names_the_failure() -> None:
    """The language comes first, then slurs, then the rest; one code is enough."""
    both = f"{CALM} You never listen. Only a retard does this at 23:00."
    assert refused(REQUEST, answer(both)) == Violation.SLUR
    assert refused(REQUEST, answer(f"{RUHIG} Fuck you, idiot.")) == "non_target_locale"


@settings(max_examples=150)
@given(
    st.text(max_size=120)
    | st.builds(answer, st.text(max_size=300), st.text(max_size=8))
    | st.builds(answer, st.text(st.sampled_from("aé1٢:.* \n\u2028昼ю"), max_size=80)),
    st.sampled_from(
        [("en", "en"), ("de", "en"), ("en", "zh-Hant"), ("fi", "mi"), ("en", "sr-Latn")]
    ),
)
def test_evaluation_never_raises(text: str, pair: tuple[str, str]) -> None:
    """Any answer to any request is an output in the target locale or a final failure."""
    found = evaluate(request(source=pair[0], target=pair[1]), text)
    if isinstance(found, Passed):
        assert found.output.output_language == pair[1]
        assert RewriteOutput.from_json(found.output.to_json()) == found.output
    else:
        assert not found.is_retryable

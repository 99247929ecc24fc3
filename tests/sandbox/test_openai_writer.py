"""What the sandbox writes without a model is modest, calm, and honest about its language."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.classifier import classify, detect
from dragoman.sandbox.critic import criticise
from dragoman.sandbox.generate import generate
from dragoman.sandbox.phrases import PHRASES
from dragoman.sandbox.topics import TOPICS
from dragoman.sandbox.writer import rewrite, write

_ALL = [
    (language, sentence)
    for language, phrases in PHRASES.items()
    for sentence in (
        *phrases.opens,
        *phrases.closes,
        *(pair for pairs in phrases.topics.values() for pair in pairs),
    )
]


@pytest.mark.parametrize("language", sorted(PHRASES))
def test_every_language_has_every_topic_in_three_ways(language: str) -> None:
    """No topic is served by fewer than three texts, and no text has a digit."""
    phrases = PHRASES[language]
    assert set(phrases.topics) == set(TOPICS)
    assert all(len(set(pairs)) >= 3 for pairs in phrases.topics.values())


def test_every_sentence_is_in_the_language_it_is_listed_under() -> None:
    """A language check that asks py3langid, sentence by sentence, finds nothing foreign."""
    strangers = [
        (language, piece)
        for language, sentence in _ALL
        for piece in sentence.replace("?", ".").split(". ")
        if detect(piece)[0] != language
    ]
    assert strangers == []
    assert not any(letter.isdigit() for _, sentence in _ALL for letter in sentence)


def _rewrite(text: str, target: str = "en", **more: object) -> JSONObject:
    task = {"original_text": text, "source_locale": "de", "target_locale": target, **more}
    answer = json.loads(write("", json.dumps(task), "rewrite_response", {}))
    assert set(answer) == {"rewritten_text", "output_language"}
    return answer


@given(st.text(max_size=200), st.sampled_from(sorted(PHRASES)))
def test_a_rewrite_adds_no_digit_and_is_the_same_every_time(text: str, target: str) -> None:
    """Whatever the complaint, the answer is in the target language and invents no number."""
    answer = rewrite({"original_text": text, "target_locale": target})
    assert answer == rewrite({"original_text": text, "target_locale": target})
    assert answer["output_language"] == target
    assert not any(letter.isdigit() for letter in str(answer["rewritten_text"]))


def test_a_rewrite_speaks_of_the_topic_of_its_source() -> None:
    """Topic by the list that was handed over, or by the words when that says nothing."""
    phrases = PHRASES["fr"].topics
    said = str(_rewrite("Die Musik ist viel zu laut!", "fr-CA")["rewritten_text"])
    assert any(text in said for text in phrases["noise"])
    said = str(_rewrite("Die Musik ist zu laut!", "fr", topics=["guests"])["rewritten_text"])
    assert any(text in said for text in phrases["guests"])


def test_strengths_differ_and_texts_vary() -> None:
    """full_reframe opens differently from light_touch; other complaints get other words."""
    full = _rewrite("Es ist laut!", rewrite_strength="full_reframe")
    assert full != _rewrite("Es ist laut!", rewrite_strength="light_touch")
    assert len({str(_rewrite(f"Es ist laut, {n}")) for n in range(20)}) > 3


def test_a_language_it_does_not_know_is_declared_as_english() -> None:
    """It does not pretend: the text is English and says so."""
    answer = _rewrite("Es ist laut!", "th")
    assert answer["output_language"] == "en"
    assert detect(str(answer["rewritten_text"]))[0] == "en"


def test_a_classifier_result_has_the_contract_s_words() -> None:
    """Sharp shouting is a full reframe with a flag; a calm request is a light touch without."""
    sharp = classify({"message": "DU BIST IMMER SO LAUT!!! Die Musik nervt.", "surface": "other"})
    assert sharp["classifier_version"] == "v1"
    assert sharp["rewrite_strength"] == "full_reframe"
    assert "emotional_intensity" in sharp["safety_flags"]  # pyright: ignore[reportOperatorIssue]
    calm = classify({"message": "Could we please keep the kitchen a little cleaner together?"})
    assert calm == {
        "classifier_version": "v1",
        "detected_language": "en",
        "topics": ["cleanliness"],
        "intent": "request",
        "rewrite_strength": "light_touch",
        "confidence": {"topic": "high", "intent": "medium", "language": "high"},
        "safety_flags": ["none"],
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Die Musik ist jede Nacht viel zu laut für mich", ("de", "high")),
        ("音楽がうるさくて眠れません", ("ja", "high")),
        ("ok", None),
        ("", None),
    ],
)
def test_the_language_s_confidence_follows_length_and_probability(
    text: str, found: tuple[str, str] | None
) -> None:
    """Few letters are never more than low; dense scripts count their letters three times."""
    assert detect(text) == found if found else detect(text)[1] == "low"


_DIFF = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,4 +1,11 @@
 import os
-old = 1
+def add(item, seen=[]):
+    print(item)
+    if item == None:
+        return eval(item)
+    try:
+        pass
+    except:
+        pass
 end = 2
 last = 3
--- a/other.py
+++ b/other.py
@@ -10,2 +10,4 @@ def f():
 context
+password = "hunter22"
+# TODO: later
 end
"""


def test_a_review_names_the_line_of_the_new_file() -> None:
    """Each heuristic fires once, at its line, in a file that was changed."""
    result = criticise({"changed_files": ["app.py", "other.py"], "diff": _DIFF})
    found = [
        (finding["file"], finding["line"], finding["rule_id"])
        for finding in result["findings"]  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
        if isinstance(finding, dict)
    ]
    assert found == [
        ("app.py", 2, "mutable-default"),
        ("app.py", 3, "debug-output"),
        ("app.py", 4, "none-comparison"),
        ("app.py", 5, "eval"),
        ("app.py", 8, "bare-except"),
        ("app.py", 9, "swallowed-exception"),
        ("other.py", 11, "hardcoded-secret"),
        ("other.py", 12, "todo"),
    ]
    assert "hunter22" not in json.dumps(result)


def test_a_review_speaks_of_changed_files_only_and_may_find_nothing() -> None:
    """A file that was not named is not judged; a clean or broken diff gives no findings."""
    assert criticise({"changed_files": ["x.py"], "diff": _DIFF})["findings"] == []
    for diff in ("", "@@ -1 +1,9 @@\n+x", None, 3):
        assert criticise({"changed_files": ["app.py"], "diff": diff})["findings"] == []


def test_any_other_schema_gets_a_value_that_fits() -> None:
    """Objects, arrays, enums, references and bounds are obeyed, the same for the same seed."""
    schema: JSONObject = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "names": {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/name"}},
            "count": {"type": "integer", "minimum": 5},
            "maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        },
        "$defs": {"name": {"type": "string", "minLength": 9}},
    }
    value = generate(schema, "seed")
    assert isinstance(value, dict)
    assert value["kind"] in ("a", "b")
    assert isinstance(value["names"], list)
    assert [len(str(name)) >= 9 for name in value["names"]] == [True, True]
    assert value["count"] == 5
    assert value["maybe"] in (None, True, False)
    assert generate(schema, "seed") == value

"""The sandbox as a classifier: language, topics, intent and strength of a complaint."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any, Final, Protocol

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.topics import intent_of, is_sharp, topics_of

_DENSE: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


def classify(task: JSONObject) -> JSONObject:
    """A ClassifierResult for `message`.

    >>> classify({"message": "Könntest du bitte die Musik etwas leiser machen?"})["topics"]
    ['noise']
    """
    text = str(task.get("message") or "")
    language, language_confidence = detect(text)
    topics, intent, sharp = topics_of(text), intent_of(text), is_sharp(text)
    topic_confidence = "low" if topics == ["other"] else "high" if len(topics) == 1 else "medium"
    intent_confidence = "medium" if intent in ("request", "boundary") else "low"
    flags: list[JSON] = ["emotional_intensity"] if sharp else []
    if intent_confidence == "low":
        flags.append("ambiguous_intent")
    unsure = "low" in (topic_confidence, language_confidence)
    confidence: JSONObject = {
        "topic": topic_confidence,
        "intent": intent_confidence,
        "language": language_confidence,
    }
    return {
        "classifier_version": "v1",
        "detected_language": language,
        "topics": list[JSON](topics),
        "intent": intent,
        "rewrite_strength": "full_reframe" if sharp or unsure else "light_touch",
        "confidence": confidence,
        "safety_flags": flags or ["none"],
    }


def detect(text: str) -> tuple[str, str]:
    """The language of a text, and how sure that is: low, medium or high."""
    language, sure = _identifier().classify(text)
    sure = float(sure)
    letters = sum(letter.isalpha() for letter in text) + 2 * len(_DENSE.findall(text))
    if sure >= 0.85 and letters >= 20:
        return language, "high"
    if (sure >= 0.6 and letters >= 12) or (sure >= 0.95 and letters >= 6):
        return language, "medium"
    return language, "low"


class Identifier(Protocol):
    """What we use of py3langid, which has no types of its own."""

    def classify(self, text: str) -> tuple[str, float]:
        """The most likely language and its probability."""
        ...


@cache
def _identifier() -> Identifier:
    """The model; it takes half a second to load and stays."""
    langid: Any = importlib.import_module("py3langid.langid")
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)

"""Which language a text is in, measured: detection of a source, verification of a target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal, Protocol

from dragoman.core.locale import Confidence, normalize, primary
from dragoman.core.script import (
    LATIN,
    WRITTEN,
    chinese_script,
    dense,
    fits,
    letters,
    serbian_script,
)

Basis = Literal["measured", "declared"]

LONG_ENOUGH = 12  # letters; below this a text is too short to be judged by the model alone

SUPPORTED = WRITTEN  # the languages whose script we know are those that are told apart
_MODEL_LABEL = {"nb": "no", "fil": "tl"}
_TAG_OF = {label: tag for tag, label in _MODEL_LABEL.items()}
_SIBLINGS = tuple(map(frozenset, (("id", "ms"), ("hr", "sr", "bs"), ("nb", "da", "nn"))))


@dataclass(frozen=True, slots=True)
class Detected:
    """What a text seems to be written in; None when it has no letters."""

    language: str | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text is in the language it should be in, and how we know. Never any text.

    `declared` means nothing could be measured: the caller has to trust what was declared.
    """

    ok: bool
    reason: str
    is_sibling: bool = False
    basis: Basis = "measured"


def detect(text: str) -> Detected:
    """The language of a text and how far to trust it.

    >>> detect("Could you please turn the music down after ten in the evening?")
    Detected(language='en', confidence=<Confidence.HIGH: 'high'>)
    """
    plain = _plain(text)[:4_000]
    weight = _weight(plain)
    if not weight:
        return Detected(None, Confidence.LOW)
    best, chance = next(iter(_chances(plain).items()))
    if chance >= 0.85 and weight >= 20:
        confidence = Confidence.HIGH
    elif (chance >= 0.6 and weight >= 12) or (chance >= 0.95 and weight >= 6):
        confidence = Confidence.MEDIUM
    else:
        confidence = Confidence.LOW
    return Detected(_with_script(best, plain), confidence)


def verify(text: str, target: str, source: str) -> Verdict:
    """Check that a text is in `target` as a whole, in each sentence and inside sentences.

    A confident mismatch anywhere fails. Languages that no detector tells apart are flagged, not
    failed. A text that is too short to be judged is taken as declared, and the verdict says so.

    >>> verify("Bitte stell die Musik nach zehn Uhr leiser.", "en", "de").reason
    'wrong_language'
    """
    plain = _plain(text)
    weight = _weight(plain)
    if not weight:
        return Verdict(ok=True, reason="no_letters", basis="declared")
    if weight >= 6 and not fits(plain, target):
        return Verdict(ok=False, reason="wrong_script")
    language = primary(target)
    if language not in SUPPORTED:
        return Verdict(ok=True, reason="unsupported_language", basis="declared")
    if weight < LONG_ENOUGH:
        return _verify_short(plain, language, weight)
    reason = _mismatch(plain, target, language, primary(source))
    if reason:
        return Verdict(ok=False, reason=reason)
    is_sibling = next(iter(_chances(plain))) != language
    return Verdict(ok=True, reason="sibling" if is_sibling else "match", is_sibling=is_sibling)


def _verify_short(plain: str, language: str, weight: int) -> Verdict:
    chances = _chances(plain)
    best, chance = next(iter(chances.items()))
    if weight >= 6 and chance >= 0.95 and best not in _family(language):
        return Verdict(ok=False, reason="wrong_language")
    return Verdict(ok=True, reason="too_short", basis="declared")


def _mismatch(plain: str, target: str, language: str, source: str) -> str | None:
    needed = 0.2 if letters(plain) >= 25 else 0.1
    if _share(_chances(plain), language) < needed:
        return "wrong_language"
    for sentence in _SENTENCE_END.split(plain):
        if _weight(sentence) < LONG_ENOUGH:
            continue
        if not fits(sentence, target) or _share(_chances(sentence), language) < 0.05:
            return "mixed_languages"
        if language in LATIN and _has_foreign_clause(sentence, language, {source, "en"}):
            return "mixed_languages"
    return None


def _has_foreign_clause(sentence: str, language: str, others: set[str]) -> bool:
    """Whether six words in a row belong to the source or to English instead."""
    foreign = (others & LATIN & SUPPORTED) - _family(language)
    words = sentence.split()
    if not foreign or len(words) < 6:
        return False
    for start in range(0, len(words) - 5, 3):
        chances = _chances(" ".join(words[start : start + 6]))
        away = sum(chances[other] for other in foreign)
        if away > 0.97 * (away + _share(chances, language)):
            return True
    return False


def _share(chances: dict[str, float], language: str) -> float:
    return sum(chances[sibling] for sibling in _family(language))


@cache
def _family(language: str) -> frozenset[str]:
    return next((group for group in _SIBLINGS if language in group), frozenset({language}))


def _chances(text: str) -> dict[str, float]:
    """Probability of each supported language, the best first."""
    return {_TAG_OF.get(label, label): chance for label, chance in _model().rank(text)}


class _Model(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...

    def set_languages(self, langs: list[str]) -> None: ...


@cache
def _model() -> _Model:
    # Loaded on first use: half a second and 100 MB that most processes never need.
    langid = import_module("py3langid.langid")
    model: _Model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    model.set_languages([_MODEL_LABEL.get(tag, tag) for tag in SUPPORTED])
    return model


def _with_script(language: str, text: str) -> str | None:
    if language == "zh":
        return chinese_script(text)
    return serbian_script(text) if language == "sr" else normalize(language)


_NOT_LANGUAGE = re.compile(r"https?://\S+|\S+@\S+|@\w+|\d+")
_SENTENCE_END = re.compile(r"[.!?…。！？؟।;\n\u2028\u2029]+")


def _plain(text: str) -> str:
    return _NOT_LANGUAGE.sub(" ", text)


def _weight(text: str) -> int:
    """Letters, where one of a script that writes syllables or words counts as three."""
    return letters(text) + 2 * dense(text)

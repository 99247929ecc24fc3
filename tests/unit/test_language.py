from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.language import detect, verify
from dragoman.core.locale import Confidence

# The same two sentences in each language: a request, and a reason.
SENTENCES = {
    "en": (
        "Could you please keep the music down after ten in the evening?",
        "I find it hard to sleep when the bass comes through the wall.",
    ),
    "de": (
        "Könntest du die Musik nach zehn Uhr abends bitte etwas leiser stellen?",
        "Ich kann schlecht schlafen, wenn der Bass durch die Wand kommt.",
    ),
    "es": (
        "¿Podrías bajar un poco la música después de las diez de la noche?",
        "Me cuesta dormir cuando el bajo atraviesa la pared.",
    ),
    "fr": (
        "Pourrais-tu baisser un peu la musique après dix heures du soir ?",
        "J'ai du mal à dormir quand les basses passent à travers le mur.",
    ),
    "it": (
        "Potresti abbassare un po' la musica dopo le dieci di sera?",
        "Faccio fatica a dormire quando i bassi passano attraverso il muro.",
    ),
    "nl": (
        "Zou je de muziek na tien uur 's avonds wat zachter willen zetten?",
        "Ik slaap slecht als de bas door de muur komt.",
    ),
    "pl": (
        "Czy możesz trochę ściszyć muzykę po dziesiątej wieczorem?",
        "Trudno mi zasnąć, kiedy basy słychać przez ścianę.",
    ),
    "ru": (
        "Не мог бы ты делать музыку потише после десяти вечера?",
        "Мне трудно заснуть, когда через стену слышны басы.",
    ),
    "ar": (
        "هل يمكنك خفض صوت الموسيقى بعد العاشرة مساءً من فضلك؟",
        "يصعب علي النوم عندما يصل الصوت عبر الجدار.",
    ),
    "hi": (
        "क्या आप रात दस बजे के बाद संगीत की आवाज़ थोड़ी कम कर सकते हैं?",
        "दीवार से आवाज़ आने पर मुझे सोने में कठिनाई होती है।",
    ),
    "ja": (
        "夜十時を過ぎたら音楽の音量を少し下げてもらえますか？",
        "低音が壁を通って聞こえると眠りにくいです。",
    ),
    "ko": (
        "밤 열 시 이후에는 음악 소리를 조금 줄여 줄 수 있을까요?",
        "저음이 벽을 통해 들리면 잠들기가 어려워요.",
    ),
    "zh-Hans": (
        "晚上十点以后可以请你把音乐声音调小一点吗？",
        "低音穿过墙壁的时候我很难入睡。",
    ),
    "zh-Hant": (
        "晚上十點以後可以請你把音樂聲音調小一點嗎？",
        "低音穿過牆壁的時候我很難入睡。",
    ),
    "sr-Latn": (
        "Da li bi mogao da utišaš muziku posle deset uveče?",
        "Teško mi je da zaspim kada bas prolazi kroz zid.",
    ),
}
PAIRS = [(one, other) for one in SENTENCES for other in SENTENCES if one != other]


@pytest.mark.parametrize("language", SENTENCES)
def test_a_language_is_detected_surely(language: str) -> None:
    """Two ordinary sentences are enough for high confidence."""
    found = detect(" ".join(SENTENCES[language]))
    assert (found.language, found.confidence) == (language, Confidence.HIGH)


@pytest.mark.parametrize("text", ["ok", "ja!", "👍", "22:00", "", "ngl lol"])
def test_what_is_too_short_is_detected_without_confidence(text: str) -> None:
    """A word or two never outvotes the sender's profile."""
    assert detect(text).confidence is Confidence.LOW


@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_in_its_target_passes(language: str) -> None:
    """The right language is accepted, measured, and not flagged."""
    verdict = verify(" ".join(SENTENCES[language]), language, "en")
    assert (verdict.ok, verdict.basis, verdict.is_sibling) == (True, "measured", False)


@pytest.mark.parametrize(("target", "other"), PAIRS)
def test_a_text_in_another_language_fails(target: str, other: str) -> None:
    """Every pair of languages of the sample is told apart, simplified from traditional too."""
    assert not verify(" ".join(SENTENCES[other]), target, "en").ok


@pytest.mark.parametrize(("target", "other"), PAIRS)
def test_a_text_in_two_languages_fails(target: str, other: str) -> None:
    """One sentence each: caught, in either order, though the whole would pass for one of them."""
    ask, _ = SENTENCES[target]
    _, reason = SENTENCES[other]
    assert not verify(f"{ask} {reason}", target, other).ok
    assert not verify(f"{reason} {ask}", target, other).ok


@pytest.mark.parametrize(
    ("target", "other"), [("de", "fr"), ("es", "nl"), ("ru", "ar"), ("en", "it")]
)
def test_one_foreign_sentence_among_three_is_caught(target: str, other: str) -> None:
    """Even in a language that is neither the source nor English."""
    ask, reason = SENTENCES[target]
    assert not verify(f"{ask} {SENTENCES[other][1]} {reason}", target, "pl").ok


@pytest.mark.parametrize("target", ["de", "es", "fr", "it", "nl", "pl"])
def test_a_change_of_language_inside_a_sentence_is_caught(target: str) -> None:
    """The first half in the target, the second in English, without a full stop between them."""
    half = SENTENCES[target][0].rstrip(" ?")
    text = f"{half} because I find it hard to sleep when the bass comes through the wall"
    assert not verify(text, target, "en").ok


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Könntest du bitte das Wi-Fi im Homeoffice nicht ausschalten? Danke dir!", "de"),
        ("Wi-Fi を夜に切らないでもらえると助かります。", "ja"),
        ("¿Podrías dejar de usar el Thermomix de noche? Gracias, María.", "es"),
        ("Schau mal hier: https://example.org/how-to-use-the-dishwasher – hilft das dir?", "de"),
    ],
)
def test_brands_loanwords_and_links_do_no_harm(text: str, target: str) -> None:
    """A foreign word or an address is not a foreign language."""
    assert verify(text, target, "en").ok


@pytest.mark.parametrize(("text", "target"), [("Grazie mille", "it"), ("OK", "ja"), ("👍", "de")])
def test_what_is_too_short_is_taken_as_declared(text: str, target: str) -> None:
    """Nothing could be measured, and the verdict says so."""
    verdict = verify(text, target, "en")
    assert (verdict.ok, verdict.basis) == (True, "declared")


def test_a_short_text_in_a_foreign_script_still_fails() -> None:
    """The script of six letters is evidence enough."""
    assert verify("Спасибо", "en", "ru").reason == "wrong_script"


def test_an_unsupported_language_is_taken_as_declared() -> None:
    """A language that the detector does not know cannot be measured."""
    verdict = verify("E mihi ana ki a koe mo to awhina mai.", "mi", "en")
    assert (verdict.ok, verdict.reason, verdict.basis) == (True, "unsupported_language", "declared")


def test_a_sibling_language_is_flagged_and_not_failed() -> None:
    """Danish for Norwegian: no detector can be sure, so a person may look."""
    text = "Jeg har svært ved at sove, når bassen går gennem væggen."
    verdict = verify(text, "nb", "en")
    assert (verdict.ok, verdict.is_sibling, verdict.reason) == (True, True, "sibling")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.sampled_from([*SENTENCES, "mi"]), st.sampled_from(["en", "mi"]))
def test_any_text_gets_a_verdict_without_its_words(text: str, target: str, source: str) -> None:
    """Neither function raises, and no verdict carries more than a code."""
    assert detect(text).confidence in Confidence
    assert re.fullmatch("[a-z_]+", verify(text, target, source).reason)


@pytest.mark.parametrize("text", ["\ud800" * 50, "\0" * 50, "\u2028" * 50, "a" * 50_000])
def test_hostile_characters_get_a_verdict(text: str) -> None:
    """Lone surrogates, NUL, line separators and very long words are measured like any other."""
    assert detect(text).confidence in Confidence
    assert verify(text, "de", "en").reason

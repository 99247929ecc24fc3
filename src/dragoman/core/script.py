"""Which script a text is written in, and whether its language is written so."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Literal

from dragoman.core.locale import primary

_WRITTEN_IN = {
    "ARABIC": "ar fa ur pa",
    "ARMENIAN": "hy",
    "BENGALI": "bn",
    "CJK": "zh ja",
    "CYRILLIC": "be bg kk mk mn ru sr uk uz",
    "DEVANAGARI": "hi mr ne",
    "GEORGIAN": "ka",
    "GREEK": "el",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    "LATIN": "af az bs ca cs cy da de en es et eu fi fil fr ga gl hr hu id is it lt lv ms nb nl nn"
    " pl pt ro sk sl sq sr sv sw tr uz vi",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
}
WRITTEN = frozenset(tag for tags in _WRITTEN_IN.values() for tag in tags.split())
LATIN = frozenset(_WRITTEN_IN["LATIN"].split())
_DENSE = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"})


def letters(text: str) -> int:
    """How many letters a text has.

    >>> letters("Wi-Fi 5!")
    4
    """
    return sum(map(str.isalpha, text))


def dense(text: str) -> int:
    """How many of them stand for a syllable or a word.

    >>> dense("静かに please")
    3
    """
    return _count(text, _DENSE)


def fits(text: str, target: str) -> bool:
    """Whether the letters are those the target language is written in.

    >>> fits("Тише, пожалуйста", "en"), fits("請小聲一點", "zh-Hans")
    (False, False)
    """
    text = unicodedata.normalize("NFKC", text)
    language = primary(target)
    # Households that write Hindi use many Latin words; every other language needs most letters.
    needed = 0.4 if language == "hi" else 0.6
    scripts = _scripts(target)
    if scripts and _count(text, scripts) < needed * letters(text):
        return False
    if language == "ja":
        return _count(text, _KANA) > 0
    return language != "zh" or _fits_chinese(text, target)


def chinese_script(text: str) -> Literal["zh-Hans", "zh-Hant"]:
    """Simplified or traditional, by the characters that only one of them uses.

    >>> chinese_script("請把音樂關小聲")
    'zh-Hant'
    """
    simplified, traditional = _chinese_evidence(text)
    return "zh-Hant" if traditional > simplified else "zh-Hans"


def serbian_script(text: str) -> Literal["sr-Cyrl", "sr-Latn"]:
    """Cyrillic or Latin, whichever has more letters.

    >>> serbian_script("molim te")
    'sr-Latn'
    """
    is_latin = _count(text, {"LATIN"}) > _count(text, {"CYRILLIC"})
    return "sr-Latn" if is_latin else "sr-Cyrl"


_KANA = frozenset({"HIRAGANA", "KATAKANA"})


def _fits_chinese(text: str, target: str) -> bool:
    if _count(text, _KANA) > 0.1 * letters(text):
        return False
    simplified, traditional = _chinese_evidence(text)
    own, other = (simplified, traditional) if target == "zh-Hans" else (traditional, simplified)
    return other < 2 or other <= own


@cache
def _scripts(target: str) -> frozenset[str]:
    if target.startswith("sr-"):
        return frozenset({"LATIN" if target == "sr-Latn" else "CYRILLIC"})
    return frozenset(s for s, tags in _WRITTEN_IN.items() if primary(target) in tags.split())


def _count(text: str, scripts: frozenset[str] | set[str]) -> int:
    return sum(_script_of(letter) in scripts for letter in text if letter.isalpha())


@lru_cache(8_192)
def _script_of(letter: str) -> str:
    # The name of a letter starts with its script: "LATIN SMALL LETTER A", "CJK UNIFIED ...".
    return unicodedata.name(letter, "").partition(" ")[0]


def _chinese_evidence(text: str) -> tuple[int, int]:
    simplified, traditional = _only_simplified_or_traditional()
    return sum(c in simplified for c in text), sum(c in traditional for c in text)


@cache
def _only_simplified_or_traditional() -> tuple[frozenset[str], frozenset[str]]:
    # GB 2312 holds the simplified forms, Big5 the traditional ones; what both hold says nothing.
    every = [chr(code) for code in range(0x4E00, 0xA000)]
    simplified = {letter for letter in every if _encodes(letter, "gb2312")}
    traditional = {letter for letter in every if _encodes(letter, "big5")}
    return frozenset(simplified - traditional), frozenset(traditional - simplified)


def _encodes(letter: str, encoding: str) -> bool:
    try:
        letter.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True

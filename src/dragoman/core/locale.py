"""Language tags in one form, and what follows from them: source, target, lane."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

import langcodes

from dragoman.core.errors import BadInput

FALLBACK = "en"
MAX_TAG = 35


class Lane(StrEnum):
    """Whether a rewrite stays in its language or crosses into another."""

    SAME_LANGUAGE = "same_language"
    CROSS_LANGUAGE = "cross_language"


class Confidence(StrEnum):
    """How sure a classifier or detector is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


# BCP 47 as it is used: language, extended language, script, region, variants, extensions.
_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(-[a-z]{3}){0,3}(-(?P<script>[a-z]{4}))?"
    r"(-(?P<region>[a-z]{2}|[0-9]{3}))?(-([a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*"
    r"(-[a-wyz0-9](-[a-z0-9]{2,8})+)*(-x(-[a-z0-9]{1,8})+)?",
    re.ASCII,
)
_UNDETECTED = re.compile(r"und|mul|zxx|mis|q[a-t][a-z]", re.ASCII)
_SAME_AS = {"cmn": "zh", "arb": "ar", "no": "nb", "tl": "fil"}
_SCRIPTS = {"zh": ("Hans", "Hant"), "sr": ("Cyrl", "Latn")}


def normalize(tag: str | None) -> str | None:
    """The primary language of a tag, or None when it names no language.

    Only zh and sr keep a script, because their readers need it; regions collapse.

    >>> normalize("en_US"), normalize("zh-TW"), normalize("sr"), normalize("unknown")
    ('en', 'zh-Hant', 'sr-Cyrl', None)
    """
    if tag is None or len(tag) > MAX_TAG or not tag.isascii():
        return None
    return _normalize(tag)


@lru_cache(4096)
def _normalize(tag: str) -> str | None:
    found = _TAG.fullmatch(tag.strip().lower().replace("_", "-"))
    if found is None or _UNDETECTED.fullmatch(found["language"]):
        return None
    # langcodes sees two or three letters at most: its own caches have no bound.
    known = langcodes.Language.get(found["language"])
    language = known.language or ""
    language = _SAME_AS.get(language, language)
    if not known.is_valid() or _UNDETECTED.fullmatch(language):
        return None
    if language not in _SCRIPTS:
        return language
    return f"{language}-{_script(language, found['script'] or known.script, found['region'])}"


def _script(language: str, script: str | None, region: str | None) -> str:
    named = (script or "").title()
    if named in _SCRIPTS[language]:
        return named
    likely = langcodes.Language.get(f"{language}-{region}" if region else language).maximize()
    return likely.script if likely.script in _SCRIPTS[language] else _SCRIPTS[language][0]


def resolve_source(detected: str | None, confidence: Confidence, profile: str | None) -> str:
    """The sender's language: detected if we are sure, else the profile's, else en.

    >>> resolve_source("es-MX", Confidence.MEDIUM, "de"), resolve_source("fr", Confidence.LOW, "de")
    ('es', 'de')
    """
    sure = normalize(detected) if confidence is not Confidence.LOW else None
    return sure or normalize(profile) or FALLBACK


def resolve_target(recipient: str | None) -> str:
    """The recipient's language, en when it is missing or unknown.

    >>> resolve_target("pt-BR"), resolve_target(None)
    ('pt', 'en')
    """
    return normalize(recipient) or FALLBACK


def lane(source: str, target: str) -> Lane:
    """The lane of a language pair: equal after normalisation or not.

    >>> lane("en-US", "en-GB")
    <Lane.SAME_LANGUAGE: 'same_language'>
    """
    pair = normalize(source), normalize(target)
    if None in pair:
        raise BadInput("a locale of the language pair is unknown")
    return Lane.SAME_LANGUAGE if pair[0] == pair[1] else Lane.CROSS_LANGUAGE


def primary(tag: str) -> str:
    """The tag without its script.

    >>> primary("zh-Hant")
    'zh'
    """
    return tag.partition("-")[0]


def language_name(tag: str) -> str:
    """The language's English name for a prompt, or the tag when we know no name.

    >>> language_name("zh-Hant"), language_name("mi")
    ('Chinese (traditional characters)', 'mi')
    """
    return _NAMES.get(tag) or tag


_NAMES = {
    "af": "Afrikaans",
    "ar": "Arabic",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "bs": "Bosnian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fil": "Filipino",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "ms": "Malay",
    "nb": "Norwegian Bokmål",
    "ne": "Nepali",
    "nl": "Dutch",
    "nn": "Norwegian Nynorsk",
    "pa": "Punjabi",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr-Cyrl": "Serbian (Cyrillic script)",
    "sr-Latn": "Serbian (Latin script)",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh-Hans": "Chinese (simplified characters)",
    "zh-Hant": "Chinese (traditional characters)",
}

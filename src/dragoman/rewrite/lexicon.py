"""What must not be said, word by word, in the languages we have a list for.

The lists are ours, one TOML file per language, and short on purpose: a hit is final, so a word
stands there only if it cannot be meant well. Words match whole, after Unicode folding.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias, cast

import ahocorasick_rs

from dragoman.rewrite.contracts import Violation, Warned

LEXICON_VERSION = "1"
NO_LEXICON = "none"
LOCALES = frozenset({"de", "en", "es", "fr", "it", "nl", "pl", "pt"})

Kind: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Which kinds of forbidden or doubtful words a text holds; never the words."""

    lexicon_version: str
    violations: tuple[Violation, ...]
    warnings: tuple[Warned, ...]

    @property
    def lexicon_pass(self) -> bool | None:
        """Whether nothing forbidden was found; None without a list for the language."""
        return None if self.lexicon_version == NO_LEXICON else not self.violations


def scan(text: str, locale: str) -> Scan:
    """Look a text up in its own language's list, and in no other.

    >>> scan("You never clean, you are so lazy!", "en").violations
    (<Violation.PERSONAL_ATTACK: 'personal_attack'>, <Violation.BLAME: 'blame'>)
    >>> scan("Scheiße", "fi").lexicon_version
    'none'
    """
    words = _lexicon(locale)
    if words is None:
        return Scan(NO_LEXICON, (), ())
    found = words.kinds(text)
    return Scan(
        LEXICON_VERSION,
        tuple(kind for kind in Violation if (kind.value,) in found),
        tuple(kind for kind in Warned if (kind.value,) in found),
    )


def days_in(text: str, locale: str) -> frozenset[str] | None:
    """The week days that a text names, or None when we cannot tell in this language.

    >>> days_in("Nicht am Montag", "de")
    frozenset({'monday'})
    """
    words = _lexicon(locale)
    if words is None or not words.has_days:
        return None
    return frozenset(kind[1] for kind in words.kinds(text) if kind[0] == "days")


def numbers_in(text: str, locale: str) -> frozenset[int]:
    """The numbers that a text spells out, as far as we know its language's words.

    >>> numbers_in("after ten", "en")
    frozenset({10})
    """
    words = _lexicon(locale)
    found = words.kinds(text) if words else frozenset[Kind]()
    return frozenset(int(kind[1]) for kind in found if kind[0] == "numbers")


def fold(text: str) -> str:
    r"""One form for words that look alike: NFKC, no case, plain apostrophes, single spaces.

    >>> fold("YOU\u200b\u2019re   Straße")
    "you're strasse"
    """
    plain = unicodedata.normalize("NFKC", text).translate(_ALIKE).casefold()
    return " ".join(unicodedata.normalize("NFKC", plain).split())


_ALIKE = {0x2019: "'", 0x02BC: "'", **dict.fromkeys([0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD])}

# A word that hides itself behind stars: its first letters, or a single one.
_MASKED = re.compile(r"(?<![\w*])(?:[^\W\d_]{1,8}\*+[^\W\d_]|[^\W\d_]\*{2,}(?!\w))")


@dataclass(frozen=True, slots=True)
class _Hit:
    kind: Kind
    start: int
    end: int


class _Lexicon:
    """The list of one language, ready to be matched in one pass."""

    def __init__(self, table: dict[str, object]) -> None:
        self.has_days = "days" in table
        self._fillers = frozenset(map(fold, cast("list[str]", table.pop("fillers"))))
        pairs = cast("list[dict[str, list[str]]]", table.pop("pairs"))
        self._pair_kinds: list[str] = [str(pair.pop("kind")) for pair in pairs]
        table["pairs"] = {str(at): pair for at, pair in enumerate(pairs)}
        self._kinds: dict[str, list[Kind]] = {}
        for kind, word in _walk(table, ()):
            self._kinds.setdefault(fold(word), []).append(kind)
        self._words = list(self._kinds)
        self._automaton = ahocorasick_rs.AhoCorasick(self._words)

    def kinds(self, text: str) -> frozenset[Kind]:
        """Every kind of word in the text; a pair counts when its halves stand together."""
        folded = fold(text)
        hits = list(self._hits(folded))
        found = {hit.kind for hit in hits if hit.kind[0] != "pairs"}
        found.update((kind,) for kind in self._pairs(folded, hits))
        if _MASKED.search(folded):
            found.add((Violation.VULGARITY.value,))
        return frozenset(found)

    def _hits(self, folded: str) -> Iterator[_Hit]:
        matches = self._automaton.find_matches_as_indexes(folded, overlapping=True)
        for index, start, end in matches:
            before, after = folded[start - 1 : start], folded[end : end + 1]
            if not before.isalnum() and not after.isalnum():
                yield from (_Hit(kind, start, end) for kind in self._kinds[self._words[index]])

    def _pairs(self, folded: str, hits: Iterable[_Hit]) -> Iterator[str]:
        halves = [hit for hit in hits if hit.kind[0] == "pairs"]
        for first in halves:
            for then in halves:
                is_pair = first.kind[1] == then.kind[1] and first.end < then.start
                is_ordered = (first.kind[2], then.kind[2]) == ("first", "then")
                between = folded[first.end : then.start]
                if is_pair and is_ordered and self._fillers.issuperset(between.split()):
                    yield self._pair_kinds[int(first.kind[1])]


def _walk(node: object, path: Kind) -> Iterator[tuple[Kind, str]]:
    """Every word with the keys that lead to it: ("days", "monday"), "mondays"."""
    if isinstance(node, dict):
        for key, inner in cast("dict[str, object]", node).items():
            yield from _walk(inner, (*path, key))
    else:
        for word in cast("list[str]", node):
            yield path, word


@cache
def _lexicon(locale: str) -> _Lexicon | None:
    if locale not in LOCALES:
        return None
    file = files("dragoman.rewrite").joinpath("data", "lexicon", f"{locale}.toml")
    return _Lexicon(tomllib.loads(file.read_text(encoding="utf-8")))

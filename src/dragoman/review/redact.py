"""Take secrets out of a text before a model sees it, and out of what the model says.

The same text and key give the same result, and redacting that again changes nothing. No line is
added or lost and the first letter of a diff's line stays, so a hunk's arithmetic holds. This lowers
a risk and is no guarantee: a secret of a form nobody wrote down passes. What it can promise is that
a text whose redaction failed reaches nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.core.errors import BadSetting, DragomanError
from dragoman.review.secrets import RULE_SET_VERSION, Found, Pattern, Rule, gate, pattern, rules

MAX_CHARACTERS = 8_000_000
MAX_PASSES = 5

_PLACEHOLDER = re.compile(r"\[REDACTED:[a-z]{1,24}:[0-9a-f]{8}\]")
_AROUND = re.compile(r"(?i)\b(?:bearer|basic|digest|token|apikey)\b|[\s:;,=\"'`]")
_HOST_SUFFIX = re.compile(r"(?:[a-z0-9-]{1,63}\.){0,8}[a-z0-9-]{1,63}")

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{1,40}-----|\bPrivate-Lines: \d")
_END = re.compile(r"-----END [A-Z0-9 ]{1,40}-----")
_BODY = pattern(
    r"^[+\- ]?[\s#*/]*[\"'`]?([A-Za-z0-9+/]+={0,2})(?:\\r)?(?:\\n)?[\"'`]?[\s+,\\;.)]*$"
)
_PEM_HEADER = re.compile(r"[+\- ]?\s*(?:[A-Za-z-]{1,30}: .{0,80})?\s*")
_HEX = re.compile(r"[0-9a-fA-F]+")


class RedactionFailed(DragomanError):
    """The text could not be redacted; it must not be shown to anybody."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text that passed redaction. Only a Redactor makes one, so a prompt asks for this type."""

    text: str = field(repr=False)
    counts: tuple[tuple[str, int], ...]
    rule_set_version: str = RULE_SET_VERSION


class Redactor:
    """One run's redactor: under one key equal secrets have equal placeholders.

    >>> Redactor(b"k" * 16).redact("token = 'hunter2hunter2'").text
    "token = '[REDACTED:assigned:da0da2a5]'"
    """

    def __init__(
        self,
        key: bytes,
        *,
        hosts: Sequence[str] = (),
        with_emails: bool = True,
        budget_s: float = 10.0,
    ) -> None:
        if len(key) < 16:
            raise BadSetting("the redaction key has fewer than 16 bytes")
        suffixes = [host.removeprefix(".").lower() for host in hosts]
        for place, suffix in enumerate(suffixes, start=1):
            if not _HOST_SUFFIX.fullmatch(suffix):
                raise BadSetting(f"internal host suffix {place} is not a host name")
        self._key = key
        self._rules = rules(suffixes, with_emails=with_emails)
        self._gate = gate(self._rules)
        self._budget_s = budget_s

    def redact(self, text: str) -> Redacted:
        """The text without its secrets, or RedactionFailed for whatever reason."""
        try:
            return self._redact(text)
        except Exception:  # noqa: BLE001 - whatever it was, its message may quote the text
            raise RedactionFailed from None

    def _redact(self, text: str) -> Redacted:
        """Pass after pass until a pass changes nothing: that pass is the proof."""
        if len(text) > MAX_CHARACTERS:
            raise RedactionFailed
        run = _Run(self._key, self._rules, self._gate, time.monotonic() + self._budget_s)
        lines = text.split("\n")
        for _ in range(MAX_PASSES):
            changed = run.redact(lines)
            if changed == lines:
                return Redacted("\n".join(lines), tuple(sorted(run.counts.items())))
            if len(changed) != len(lines):
                raise RedactionFailed
            lines = changed
        raise RedactionFailed


class _Run:
    def __init__(self, key: bytes, of: Sequence[Rule], opens: Pattern, deadline: float) -> None:
        self.counts: Counter[str] = Counter()
        self._key = key
        self._rules = of
        self._gate = opens
        self._deadline = deadline
        self._clean: set[str] = set()  # the proving pass meets nearly all lines again

    def redact(self, lines: list[str]) -> list[str]:
        return [self._line(line) for line in self._blocks(lines)]

    def _line(self, line: str) -> str:
        if line in self._clean:
            return line
        if time.monotonic() > self._deadline:
            raise RedactionFailed
        mark = line[:1] if line.startswith(("+", "-", " ")) else ""
        body = line[len(mark) :]
        if self._gate.search(body) is not None:
            for rule in self._rules:
                body = self._apply(rule, body)
        if mark + body == line:
            self._clean.add(line)
        return mark + body

    def _apply(self, rule: Rule, body: str) -> str:
        kept: list[str] = []
        end = 0
        for match in rule.pattern.finditer(body):
            start, stop = match.span(rule.pattern.groups)
            secret = body[start:stop]
            before = body[max(0, start - 60) : start]
            found = Found(body[match.span()[0] : start], secret, before, body[stop : stop + 1])
            if not _is_done(secret) and rule.is_secret(found):
                kept += body[end:start], self._placeholder(rule.kind, secret)
                end = stop
        return "".join(kept) + body[end:]

    def _placeholder(self, kind: str, secret: str) -> str:
        self.counts[kind] += 1
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"[REDACTED:{kind}:{digest.hex()[:8]}]"

    def _blocks(self, lines: list[str]) -> list[str]:
        """Bodies of keys that go over several lines, and parts of one that a hunk cut off."""
        found = list(lines)
        at = 0
        while at < len(lines):
            bodies = _bodies(lines, at)
            if bodies:
                secret = "".join(lines[n][start:stop] for n, start, stop in bodies)
                placeholder = self._placeholder("pem", secret)
                for n, start, stop in bodies:
                    found[n] = lines[n][:start] + placeholder + lines[n][stop:]
                at = bodies[-1][0]
            at += 1
        return found


def _is_done(secret: str) -> bool:
    """Whether nothing but placeholders is left; a placeholder with more beside it is not enough."""
    rest, count = _PLACEHOLDER.subn("", secret)
    return count > 0 and not _AROUND.sub("", rest)


def _bodies(lines: list[str], at: int) -> list[tuple[int, int, int]]:
    """Line, start and end of each part of a key's body that begins at this line."""
    opens = _BEGIN.search(lines[at]) is not None and _END.search(lines[at]) is None
    if not opens and not (_is_dense(lines[at]) and _goes_on(lines, at + 1)):
        return []
    found: list[tuple[int, int, int]] = []
    last = at + 1 if opens else at
    while last < len(lines) and _END.search(lines[last]) is None:
        part = _body(lines[last])
        if part is None and not (opens and _PEM_HEADER.fullmatch(lines[last])):
            break
        if part is not None:
            found.append((last, *part))
        last += 1
    is_closed = last < len(lines) and _END.search(lines[last]) is not None
    return found if is_closed else _without_prose(lines, found)


def _without_prose(
    lines: list[str], bodies: list[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Where no end was found, keep full lines and the shorter one that may follow them."""
    kept: list[tuple[int, int, int]] = []
    for n, start, stop in bodies:
        is_last = bool(kept) and _is_dense(lines[n - 1]) and not lines[n][start:stop].islower()
        if not _is_dense(lines[n], 24) and not is_last:
            break
        kept.append((n, start, stop))
    return kept


def _goes_on(lines: list[str], at: int) -> bool:
    return at < len(lines) and (_is_dense(lines[at]) or _END.search(lines[at]) is not None)


def _body(line: str) -> tuple[int, int] | None:
    found = _BODY.search(line) if len(line) <= 200 else None
    return found.span(1) if found else None


def _is_dense(line: str, least: int = 60) -> bool:
    """A line of Base64 that is no digest and no word."""
    part = _body(line) if len(line) >= least else None
    text = line[part[0] : part[1]] if part else ""
    kinds = (str.islower, str.isupper, str.isdigit)
    return len(text) >= least and not _HEX.fullmatch(text) and all(any(map(k, text)) for k in kinds)

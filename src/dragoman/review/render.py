"""What recipients are told, and the names under which each is told once."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.core.canonical import canonical, sha256
from dragoman.core.errors import BadInput
from dragoman.review.result import Finding, Reason, ReviewResult, Severity

MAX_BODY = 50_000
MAX_SUBJECT = 120
MAX_NOT_REVIEWED = 50
MAX_RECIPIENTS = 100
MAX_URI = 320

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}):(?P<rest>[!-~]+)")
_MAIL = re.compile(
    r"(?P<local>[A-Za-z0-9!#$&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$&'*+/=?^_`{|}~-]+)*)"
    r"@(?P<domain>(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)"
)


@dataclass(frozen=True, slots=True)
class Review:
    """A finished review as its recipients get it."""

    changelist_id: str
    version: int
    result: ReviewResult
    files: int = 0  # how many were reviewed
    not_reviewed: tuple[tuple[str, str], ...] = ()  # path and reason


def check_recipients(recipients: Sequence[str]) -> tuple[str, ...]:
    """Trim, bring into one spelling and collapse; one person by two ways stays two recipients.

    An error names the place in the list and never the address.

    >>> check_recipients([" mailto:Ann@Example.org", "MAILTO:Ann@example.org"])
    ('mailto:Ann@example.org',)
    """
    if isinstance(recipients, str) or not 1 <= len(recipients) <= MAX_RECIPIENTS:
        raise BadInput(f"name 1 to {MAX_RECIPIENTS} recipients")
    found = [_recipient(place, one) for place, one in enumerate(recipients, start=1)]
    return tuple(dict.fromkeys(found))


def delivery_key(changelist_id: str, recipient: str, version: int, cell: str) -> str:
    """The name of "this recipient was told of this changelist's version", the same for ever.

    A JSON list keeps its parts apart, so that no two tuples share a key.
    """
    parts = ["dragoman delivery", 1, cell, changelist_id, recipient, version]
    return sha256(canonical(parts)).hex()


def render_mail(review: Review, recipient: str, link: str | None = None) -> tuple[str, str]:
    """Subject and body in plain text. Equal input gives equal bytes, so a retry sends the same."""
    findings = sorted(review.result.findings, key=_order)
    parts = [[_line(f"Changelist: {review.changelist_id}"), f"Review version: {review.version}"]]
    if link:
        parts[0].append(_line(f"Review: {link}"))
    parts.append([_verdict(review, findings)])
    if review.result.summary:
        parts.append([_line(review.result.summary)])
    parts += [_finding(number, one) for number, one in enumerate(findings, start=1)]
    parts.append(_not_reviewed(review))
    foot = _line(f"You get this because {recipient} was named for this review.")
    body = _cut(["\n".join(part) for part in parts if part], MAX_BODY - len(foot))
    return _subject(review, findings), f"{body}\n\n-- \n{foot}\n"


def _recipient(place: int, recipient: object) -> str:
    if not isinstance(recipient, str):
        raise BadInput(f"recipient {place} is not text")
    found = _URI.fullmatch(recipient.strip(" \t\r\n"))
    if found is None or len(found[0]) > MAX_URI:
        raise BadInput(f"recipient {place} is not a URI such as mailto:name@example.org")
    scheme, rest = found["scheme"].lower(), found["rest"]
    return f"mailto:{_address(place, rest)}" if scheme == "mailto" else f"{scheme}:{rest}"


def _address(place: int, address: str) -> str:
    """One plain address: a list, a header or an encoding could reach somebody nobody named."""
    found = _MAIL.fullmatch(address)
    if found is None or len(found["local"]) > 64 or "?" in address or "%" in address:
        raise BadInput(f"recipient {place} is not one plain mail address")
    return f"{found['local']}@{found['domain'].lower()}"


def _order(finding: Finding) -> tuple[int, str, int, str]:
    return (list(Severity).index(finding.severity), finding.file, finding.line, finding.id)


def _subject(review: Review, findings: Sequence[Finding]) -> str:
    what = _counts(findings) or ("not reviewed" if not review.files else "nothing to report")
    name = _line(review.changelist_id)
    room = MAX_SUBJECT - len(what) - len("Review v: ") - len(str(review.version)) - 2
    short = name if len(name) <= room else f"...{name[3 - room :]}"
    return f"Review v{review.version}: {what}: {short}"


def _counts(findings: Iterable[Finding]) -> str:
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(f"{counted[one]} {one}" for one in Severity if counted[one])


def _verdict(review: Review, findings: Sequence[Finding]) -> str:
    """Nothing found is said only of what was looked at."""
    if not review.files:
        return "No file of this changelist could be reviewed."
    files = "1 file" if review.files == 1 else f"{review.files} files"
    if review.not_reviewed:
        files += f" (of {review.files + len(review.not_reviewed)})"
    if findings:
        return f"Findings: {_counts(findings)} in {files} reviewed."
    if any(one.reason is Reason.ALL_FINDINGS_DROPPED for one in review.result.diagnostics):
        return f"No usable finding in {files} reviewed: all that the model reported were dropped."
    return f"Nothing to report in {files} reviewed."


def _finding(number: int, finding: Finding) -> list[str]:
    end = f"-{finding.end_line}" if finding.end_line not in (None, finding.line) else ""
    facts = [finding.category.value]
    facts += [f"confidence {finding.confidence.value}"] if finding.confidence else []
    facts += [_line(finding.rule_id)] if finding.rule_id else []
    lines = [
        f"{number}. {finding.severity.upper()}: {_line(finding.title)}",
        f"   {_line(finding.file)}:{finding.line}{end} ({', '.join(facts)})",
        *_indented(finding.message),
    ]
    if finding.suggestion:
        lines += ["   Suggestion:", *_indented(finding.suggestion)]
    return lines


def _not_reviewed(review: Review) -> list[str]:
    if not review.not_reviewed:
        return []
    lines = [f"- {_line(path)} ({reason})" for path, reason in sorted(review.not_reviewed)]
    more = len(lines) - MAX_NOT_REVIEWED
    rest = [f"- and {more} more"] if more > 0 else []
    return [f"Not reviewed ({len(lines)}):", *lines[:MAX_NOT_REVIEWED], *rest]


def _indented(text: str) -> list[str]:
    return [f"   {_shown(line)}".rstrip() for line in text.splitlines()]


def _line(text: str) -> str:
    return _shown(text).strip()


def _shown(text: str) -> str:
    """One line that shows what it holds: no control character, no change of direction."""
    return "".join(" " if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _cut(parts: Sequence[str], room: int) -> str:
    """Whole parts as far as they fit, and how many did not."""
    kept: list[str] = []
    used = 100
    for part in parts:
        used += len(part) + 2
        if used > room:
            break
        kept.append(part)
    left_out = len(parts) - len(kept)
    if left_out:
        kept.append(f"[{left_out} more parts do not fit into this message.]")
    return "\n\n".join(kept)

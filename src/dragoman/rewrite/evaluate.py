"""The checks between a model's answer and the database: pure, total, in a fixed order.

schema, form, language, lexicon, content, tone. The first that fails ends it, for good: no failure
here is tried again, and nothing of the text is kept. What passes carries its warnings along.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from dragoman.core.canonical import read_object
from dragoman.core.errors import BadJSON
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.language import Verdict, verify
from dragoman.core.locale import normalize, primary
from dragoman.core.script import letters
from dragoman.rewrite.contracts import (
    MAX_OUTPUT_CHARACTERS,
    PROMPT_VERSION,
    EvalResult,
    EvalVerdict,
    LanguageBasis,
    RewriteOutput,
    RewriteRequest,
    Violation,
    Warned,
)
from dragoman.rewrite.lexicon import Scan, days_in, fold, numbers_in, scan

MAX_ANSWER = 40_000  # characters of JSON; the longest text fits even if all of it is escaped
_KEYS = {"rewritten_text", "output_language"}


@dataclass(frozen=True, slots=True)
class Passed:
    """The output as it may be stored, and never shown in a log."""

    output: RewriteOutput


Evaluation: TypeAlias = Passed | Failure


def evaluate(
    request: RewriteRequest, text: str, prompt_version: str = PROMPT_VERSION
) -> Evaluation:
    """Judge a model's answer to a request. Whatever the answer is, this does not raise.

    The output language is measured; what the model declares counts only for a text that is too
    short to be measured, or in a language that no detector tells from its sibling.
    """
    answer = _read(text)
    if isinstance(answer, Failure):
        return answer
    rewritten, declared = answer
    verdict = verify(rewritten, request.target_locale, request.source_locale)
    found = scan(rewritten, request.target_locale)
    violation = _violation(request, rewritten, declared, verdict, found)
    if violation is not None:
        return Failure(FailureClass.OUTPUT_REJECTED, violation.value)
    return Passed(
        RewriteOutput(
            rewrite_request_id=request.rewrite_request_id,
            recipient_user_id=request.recipient_user_id,
            rewritten_text=rewritten,
            output_language=request.target_locale,
            prompt_version=prompt_version,
            policy_version=request.policy_version,
            lexicon_version=found.lexicon_version,
            eval_result=_result(verdict, found),
        )
    )


def _read(text: str) -> tuple[str, str] | Failure:
    """The two fields of the answer, in a form that can be stored."""
    if len(text) > MAX_ANSWER:
        return _invalid("schema_invalid")
    try:
        given = read_object(text.encode())
    except (BadJSON, UnicodeEncodeError):
        return _invalid("schema_invalid")
    rewritten, declared = given.get("rewritten_text"), given.get("output_language")
    if given.keys() != _KEYS or not isinstance(rewritten, str) or not isinstance(declared, str):
        return _invalid("schema_invalid")
    if letters(rewritten) == 0:
        return _invalid("empty")
    if len(rewritten) > MAX_OUTPUT_CHARACTERS:
        return _invalid("too_long")
    return rewritten, declared


def _invalid(code: str) -> Failure:
    return Failure(FailureClass.SCHEMA_INVALID, code)


def _violation(
    request: RewriteRequest, rewritten: str, declared: str, verdict: Verdict, found: Scan
) -> Violation | None:
    """The first violation in the order of the checks."""
    if not _is_target(request.target_locale, declared, verdict):
        return Violation.NON_TARGET_LOCALE
    if found.violations:
        return found.violations[0]
    if _discloses(request, rewritten):
        return Violation.PREFERENCE_DISCLOSURE
    return Violation.NEW_FACT if _adds_a_fact(request, rewritten) else None


def _is_target(target: str, declared: str, verdict: Verdict) -> bool:
    if verdict.basis == "measured" and not verdict.is_sibling:
        return verdict.ok
    tag = normalize(declared)
    # The script of zh and sr shows in the letters; a declaration may leave it out.
    return verdict.ok and tag is not None and primary(tag) == primary(target)


def _discloses(request: RewriteRequest, rewritten: str) -> bool:
    """Whether an instruction or an id from the context pack shows up word for word."""
    folded = fold(rewritten)
    secrets = [
        word
        for signal in request.context_pack.recipient_signals
        for word in (signal.instruction, signal.preference_id)
    ]
    return any(fold(secret) in folded for secret in secrets)


_CLOCK = re.compile(
    r"(?<!\d)(?P<hour>\d{1,2})"
    r"(?:\s?[:.h]\s?(?P<minute>\d{2})(?!\d)"
    r"|\s?(?:(?:h|uhr|uur|am|pm|heures?|horas?|ore)\b|[ap]\.m\.|o['’]clock))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")


def _adds_a_fact(request: RewriteRequest, rewritten: str) -> bool:
    """Whether a number, a time or a week day stands there that the sender did not give.

    A time may change its notation (10 pm, 22 Uhr); spelled-out numbers of the source count where
    we know its words.
    """
    source, locale = request.original_text, request.source_locale
    given = _numbers(source) | numbers_in(source, locale)
    given |= {(int(clock["hour"]) + 12) % 24 for clock in _CLOCK.finditer(source)}
    hours = given | {(number + 12) % 24 for number in given if number <= 24}
    for clock in _CLOCK.finditer(rewritten):
        if int(clock["hour"]) not in hours or int(clock["minute"] or 0) not in given | {0}:
            return True
    if not _numbers(_CLOCK.sub(" ", rewritten)) <= given:
        return True
    before, after = days_in(source, locale), days_in(rewritten, request.target_locale)
    return before is not None and after is not None and not after <= before


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(digits) for digits in _NUMBER.findall(text))


def _result(verdict: Verdict, found: Scan) -> EvalResult:
    """What is stored beside a text that passed; intent is never called preserved unjudged."""
    is_declared = verdict.basis == "declared"
    warnings = [*found.warnings, Warned.NOT_JUDGED]
    if verdict.is_sibling:
        warnings.append(Warned.SIBLING_LANGUAGE)
    if is_declared:
        warnings.append(Warned.LANGUAGE_DECLARED)
    return EvalResult(
        schema_valid=True,
        lexicon_pass=found.lexicon_pass,
        tone_safety=EvalVerdict.WARN if found.warnings else EvalVerdict.PASS,
        intent_preserved=EvalVerdict.WARN,
        violations=(),
        warnings=tuple(warnings),
        language_basis=LanguageBasis.DECLARED if is_declared else LanguageBasis.MEASURED,
        dataset_version="none",
    )

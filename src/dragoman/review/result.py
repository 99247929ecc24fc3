"""Read what a model said about a changelist: take it as it is, bring it into form, or drop it.

The order is fixed: parse, top level, versions, each finding, its file. What makes the whole answer
unusable refuses it; what makes one finding unusable drops that finding. Nothing is dropped or
changed in silence: each time a diagnostic says what and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar, cast

from dragoman.core.canonical import JSON, JSONObject, read_json
from dragoman.core.errors import BadJSON
from dragoman.core.failure import Failure, FailureClass

SCHEMA_VERSION = "1.0"
PROMPT_VERSION = "1.0"
MAX_LINE = 10_000_000

E = TypeVar("E", bound=StrEnum)
V = TypeVar("V", str, int)


class Severity(StrEnum):
    """How bad it is, the worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class Category(StrEnum):
    """What kind of fault it is."""

    CORRECTNESS = "correctness"
    SECURITY = "security"
    PERFORMANCE = "performance"
    RELIABILITY = "reliability"
    MAINTAINABILITY = "maintainability"
    STYLE = "style"
    TEST = "test"


class Confidence(StrEnum):
    """How sure the model is."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Reason(StrEnum):
    """Why something was refused, dropped, changed or noted."""

    INVALID_JSON = "invalid_json"
    SCHEMA_MISMATCH = "schema_mismatch"
    MISSING_REQUIRED_FIELD = "missing_required_field"
    INVALID_ENUM_VALUE = "invalid_enum_value"
    INVALID_LINE_RANGE = "invalid_line_range"
    FILE_NOT_IN_CHANGED_FILES = "file_not_in_changed_files"
    INCOMPATIBLE_VERSION = "incompatible_version"
    ALL_FINDINGS_DROPPED = "all_findings_dropped"


class Action(StrEnum):
    """What was done about it. A refusal is no diagnostic: it is the Failure that comes back."""

    REJECT = "reject"
    DROP = "drop"
    COERCE = "coerce"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault at one place."""

    id: str
    severity: Severity
    category: Category
    title: str = field(repr=False)
    file: str
    line: int
    message: str = field(repr=False)
    end_line: int | None = None
    suggestion: str | None = field(default=None, repr=False)
    confidence: Confidence | None = None
    rule_id: str | None = None

    def to_json(self) -> JSONObject:
        """The finding without what it does not say."""
        found = {name: cast("JSON", getattr(self, name)) for name in (*_REQUIRED, *_OPTIONAL)}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What was done to which part of the answer. `old` tells kind and size, never the value."""

    reason: Reason
    action: Action
    finding: int | None = None  # counted from 0, in the answer's order
    field: str | None = None
    old: str | None = None
    new: str | int | None = None

    def to_json(self) -> JSONObject:
        """The diagnostic without what it does not say."""
        names = ("reason", "action", "finding", "field", "old", "new")
        found = {name: cast("JSON", getattr(self, name)) for name in names}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ReviewResult:
    """A checked answer. No findings and no diagnostics: there was nothing to say."""

    schema_version: str
    prompt_version: str
    findings: tuple[Finding, ...]
    summary: str | None = field(default=None, repr=False)
    meta: JSONObject | None = field(default=None, repr=False)
    diagnostics: tuple[Diagnostic, ...] = ()

    def to_json(self) -> JSONObject:
        """The form in which it is stored."""
        found: dict[str, JSON] = {
            "schema_version": self.schema_version,
            "prompt_version": self.prompt_version,
            "findings": [finding.to_json() for finding in self.findings],
            "summary": self.summary,
            "meta": self.meta,
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
        }
        return {name: value for name, value in found.items() if value is not None}


def read_review(text: str, changed_files: Collection[str]) -> ReviewResult | Failure:
    """Check a model's answer against the files that it was shown.

    >>> read_review("not JSON", []).code
    'invalid_json'
    """
    try:
        answer = read_json(text.encode())
    except (BadJSON, UnicodeEncodeError):
        return _refusal(Reason.INVALID_JSON)
    try:
        return _Reader(frozenset(changed_files)).read(answer)
    except _Bad as bad:
        return _refusal(bad.reason)


def redact_findings(result: ReviewResult, redact: Callable[[str], str]) -> ReviewResult:
    """The same result with every text of the model redacted again: it quotes what it was shown."""

    def text(value: str | None) -> str | None:
        return None if value is None else redact(value)

    def finding(one: Finding) -> Finding:
        return replace(
            one,
            id=redact(one.id),
            title=redact(one.title),
            message=redact(one.message),
            suggestion=text(one.suggestion),
            rule_id=text(one.rule_id),
        )

    def diagnostic(one: Diagnostic) -> Diagnostic:
        return replace(one, new=redact(one.new)) if isinstance(one.new, str) else one

    return replace(
        result,
        findings=tuple(map(finding, result.findings)),
        summary=text(result.summary),
        meta=cast("JSONObject | None", _redact_json(result.meta, redact)),
        diagnostics=tuple(map(diagnostic, result.diagnostics)),
    )


class _Bad(Exception):
    """One value cannot be used."""

    def __init__(self, reason: Reason, name: str | None = None) -> None:
        super().__init__()
        self.reason = reason
        self.name = name


class _Reader:
    def __init__(self, changed_files: frozenset[str]) -> None:
        self._changed_files = changed_files
        self._diagnostics: list[Diagnostic] = []
        self._is_newer = False
        self._index: int | None = None

    def read(self, answer: JSON) -> ReviewResult:
        if not isinstance(answer, dict):
            raise _Bad(Reason.SCHEMA_MISMATCH)
        for name in ("schema_version", "prompt_version", "findings"):
            if name not in answer:
                raise _Bad(Reason.MISSING_REQUIRED_FIELD)
        schema = self._version(answer, "schema_version", _TWO)
        prompt = self._version(answer, "prompt_version", _TWO_OR_THREE)
        listed, meta = answer["findings"], answer.get("meta")
        if not isinstance(listed, list) or not isinstance(meta, dict | None):
            raise _Bad(Reason.SCHEMA_MISMATCH)
        summary = self._optional_text(answer, "summary")
        self._is_newer = _is_newer(schema, prompt)
        self._only(answer, _TOP)
        findings = tuple(self._findings(listed))
        if listed and not findings:
            self._note(Reason.ALL_FINDINGS_DROPPED, Action.WARN)
        return ReviewResult(schema, prompt, findings, summary, meta, tuple(self._diagnostics))

    def _findings(self, listed: list[JSON]) -> list[Finding]:
        found: list[Finding] = []
        for index, value in enumerate(listed):
            self._index = index
            try:
                found.append(self._finding(value))
            except _Bad as bad:
                self._note(bad.reason, Action.DROP, bad.name)
        self._index = None
        return found

    def _finding(self, value: JSON) -> Finding:
        if not isinstance(value, dict):
            raise _Bad(Reason.SCHEMA_MISMATCH)
        for name in _REQUIRED:
            if name not in value:
                raise _Bad(Reason.MISSING_REQUIRED_FIELD, name)
        self._only(value, frozenset((*_REQUIRED, *_OPTIONAL)))
        line = self._line(value, "line")
        found = Finding(
            id=self._text(value, "id"),
            severity=self._enum(value, "severity", Severity),
            category=self._enum(value, "category", Category),
            title=self._text(value, "title"),
            file=self._text(value, "file"),
            line=line,
            message=self._text(value, "message"),
            end_line=self._end_line(value, line),
            suggestion=self._optional_text(value, "suggestion"),
            confidence=self._confidence(value),
            rule_id=self._optional_text(value, "rule_id"),
        )
        return replace(found, file=self._file(found.file))

    def _version(self, answer: JSONObject, name: str, form: re.Pattern[str]) -> str:
        version = answer[name]
        if not isinstance(version, str):
            raise _Bad(Reason.SCHEMA_MISMATCH, name)
        trimmed = self._coerced(name, version, version.strip())
        if not form.fullmatch(trimmed):
            raise _Bad(Reason.SCHEMA_MISMATCH, name)
        return trimmed

    def _only(self, value: JSONObject, known: frozenset[str]) -> None:
        """A newer minor may know more keys than we do; they are left out and noted."""
        unknown = value.keys() - known
        if unknown and not self._is_newer:
            raise _Bad(Reason.SCHEMA_MISMATCH)
        for _ in unknown:
            self._note(Reason.SCHEMA_MISMATCH, Action.WARN)

    def _text(self, value: JSONObject, name: str) -> str:
        text = value[name]
        if not isinstance(text, str):
            raise _Bad(Reason.SCHEMA_MISMATCH, name)
        trimmed = self._coerced(name, text, text.strip())
        if not trimmed:
            raise _Bad(Reason.MISSING_REQUIRED_FIELD, name)
        return trimmed

    def _optional_text(self, value: JSONObject, name: str) -> str | None:
        """A strict schema cannot leave a key out, so null and blank say that there is nothing."""
        text = value.get(name)
        if isinstance(text, str):
            return self._coerced(name, text, text.strip()) or None
        if text is not None:
            raise _Bad(Reason.SCHEMA_MISMATCH, name)
        return None

    def _enum(self, value: JSONObject, name: str, kind: type[E]) -> E:
        text = value[name]
        trimmed = self._coerced(name, text, text.strip()) if isinstance(text, str) else ""
        if trimmed not in [one.value for one in kind]:
            raise _Bad(Reason.INVALID_ENUM_VALUE, name)
        return kind(trimmed)

    def _confidence(self, value: JSONObject) -> Confidence | None:
        return (
            None if value.get("confidence") is None else self._enum(value, "confidence", Confidence)
        )

    def _end_line(self, value: JSONObject, line: int) -> int | None:
        if value.get("end_line") is None:
            return None
        end_line = self._line(value, "end_line")
        if end_line < line:
            raise _Bad(Reason.INVALID_LINE_RANGE, "end_line")
        return end_line

    def _line(self, value: JSONObject, name: str) -> int:
        """True is no line, 10.0 neither; " 10 " is one."""
        line = value[name]
        if isinstance(line, str) and _DIGITS.fullmatch(line.strip()):
            line = self._coerced(name, line, int(line.strip()))
        if not isinstance(line, int) or isinstance(line, bool) or not 1 <= line <= MAX_LINE:
            raise _Bad(Reason.INVALID_LINE_RANGE, name)
        return line

    def _file(self, text: str) -> str:
        file = self._coerced("file", text, text.replace("\\", "/"))
        if file not in self._changed_files:
            file = self._coerced("file", file, file.removeprefix("./"))
        if file not in self._changed_files:
            raise _Bad(Reason.FILE_NOT_IN_CHANGED_FILES, "file")
        return file

    def _coerced(self, name: str, old: str, new: V) -> V:
        if new != old:
            shape = f"[REDACTED: {len(old)} characters]"
            self._note(Reason.SCHEMA_MISMATCH, Action.COERCE, name, shape, new)
        return new

    def _note(
        self,
        reason: Reason,
        action: Action,
        name: str | None = None,
        old: str | None = None,
        new: str | int | None = None,
    ) -> None:
        self._diagnostics.append(Diagnostic(reason, action, self._index, name, old, new))


def _is_newer(schema: str, prompt: str) -> bool:
    """Whether a later minor of our schema answers our prompt; another major is incompatible."""
    ours, theirs = _numbers(SCHEMA_VERSION), _numbers(schema)
    if theirs[0] != ours[0] or _numbers(prompt)[:2] != _numbers(PROMPT_VERSION)[:2]:
        raise _Bad(Reason.INCOMPATIBLE_VERSION)
    return theirs > ours


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _redact_json(value: JSON, redact: Callable[[str], str]) -> JSON:
    match value:
        case str():
            return redact(value)
        case list():
            return [_redact_json(one, redact) for one in value]
        case dict():
            return {redact(name): _redact_json(one, redact) for name, one in value.items()}
        case _:
            return value


def _refusal(reason: Reason) -> Failure:
    return Failure(FailureClass.SCHEMA_INVALID, reason.value)


_REQUIRED = ("id", "severity", "category", "title", "file", "line", "message")
_OPTIONAL = ("end_line", "suggestion", "confidence", "rule_id")
_TOP = frozenset({"schema_version", "prompt_version", "findings", "summary", "meta"})
_TWO = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_TWO_OR_THREE = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?")
_DIGITS = re.compile(r"[0-9]{1,9}")

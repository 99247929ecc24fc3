from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.failure import Failure, FailureClass
from dragoman.review.result import (
    Action,
    Category,
    Confidence,
    Diagnostic,
    Finding,
    Reason,
    ReviewResult,
    Severity,
    read_review,
    redact_findings,
)

FILES = ["a.py", "src/b.py"]


def finding(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "f1",
        "severity": "high",
        "category": "security",
        "title": "A title",
        "file": "a.py",
        "line": 3,
        "message": "A message",
    }
    return {name: value for name, value in (whole | changes).items() if value is not ...}


def answer(*findings: Any, **changes: Any) -> str:
    whole = {"schema_version": "1.0", "prompt_version": "1.0", "findings": list(findings)}
    return json.dumps({k: v for k, v in (whole | changes).items() if v is not ...})


def read(text: str) -> ReviewResult:
    found = read_review(text, FILES)
    assert isinstance(found, ReviewResult), found
    return found


def notes(result: ReviewResult) -> list[tuple[str, str, int | None, str | None]]:
    return [(one.reason, one.action, one.finding, one.field) for one in result.diagnostics]


def test_a_good_answer_is_taken_as_it_is() -> None:
    """Required and optional fields arrive typed, and nothing is noted."""
    more = {"end_line": 9, "suggestion": "Do", "confidence": "low", "rule_id": "R1"}
    text = answer(finding(**more), summary="Short", meta={"a": [1, {"b": None}]})
    found = read(text)
    assert found == ReviewResult(
        schema_version="1.0",
        prompt_version="1.0",
        findings=(
            Finding(
                id="f1",
                severity=Severity.HIGH,
                category=Category.SECURITY,
                title="A title",
                file="a.py",
                line=3,
                message="A message",
                end_line=9,
                suggestion="Do",
                confidence=Confidence.LOW,
                rule_id="R1",
            ),
        ),
        summary="Short",
        meta={"a": [1, {"b": None}]},
    )
    assert found.to_json() == json.loads(text) | {"diagnostics": []}


def test_a_clean_empty_review_is_no_warning() -> None:
    """Nothing found is a result, not a doubt."""
    assert read(answer()).diagnostics == ()


@pytest.mark.req("R305")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "invalid_json"),
        ("```json\n{}\n```", "invalid_json"),
        ('{"findings": [], "findings": []}', "invalid_json"),
        ('{"a": NaN}', "invalid_json"),
        ('{"a": "\\u0000"}', "invalid_json"),
        ("\ud800", "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        (answer() + answer(), "invalid_json"),
        ("[]", "schema_mismatch"),
        ("null", "schema_mismatch"),
        (answer(schema_version=...), "missing_required_field"),
        (answer(prompt_version=...), "missing_required_field"),
        (answer(findings=...), "missing_required_field"),
        (answer(findings={}), "schema_mismatch"),
        (answer(findings=None), "schema_mismatch"),
        (answer(schema_version=1.0), "schema_mismatch"),
        (answer(schema_version="1"), "schema_mismatch"),
        (answer(schema_version="v1.0"), "schema_mismatch"),
        (answer(schema_version="1.0.0"), "schema_mismatch"),
        (answer(schema_version="\u0661.0"), "schema_mismatch"),
        (answer(prompt_version="1"), "schema_mismatch"),
        (answer(prompt_version="1.0.0.0"), "schema_mismatch"),
        (answer(summary=5), "schema_mismatch"),
        (answer(meta=[]), "schema_mismatch"),
        (answer(extra=1), "schema_mismatch"),
        (answer(schema_version="2.0"), "incompatible_version"),
        (answer(schema_version="0.9", extra=1), "incompatible_version"),
        (answer(prompt_version="1.1"), "incompatible_version"),
        (answer(prompt_version="2.0.0"), "incompatible_version"),
    ],
)
def test_what_makes_the_answer_unusable_refuses_it(text: str, code: str) -> None:
    """Bad JSON, a bad top level and another version are final: no retry, no text in the failure."""
    found = read_review(text, FILES)
    assert found == Failure(FailureClass.SCHEMA_INVALID, code)
    assert isinstance(found, Failure)
    assert not found.is_retryable


def test_a_patch_of_the_prompt_is_the_same_prompt() -> None:
    """Only major and minor decide."""
    assert read(answer(prompt_version="1.0.7")).prompt_version == "1.0.7"


@pytest.mark.parametrize(
    ("bad", "reason", "name"),
    [
        ("text", "schema_mismatch", None),
        (finding(extra=1), "schema_mismatch", None),
        (finding(title=5), "schema_mismatch", "title"),
        (finding(message=None), "schema_mismatch", "message"),
        (finding(suggestion=[]), "schema_mismatch", "suggestion"),
        *((finding(**{name: ...}), "missing_required_field", name) for name in finding()),
        (finding(title="  "), "missing_required_field", "title"),
        (finding(severity="blocker"), "invalid_enum_value", "severity"),
        (finding(severity="High"), "invalid_enum_value", "severity"),
        (finding(severity=1), "invalid_enum_value", "severity"),
        (finding(category="bug"), "invalid_enum_value", "category"),
        (finding(confidence="certain"), "invalid_enum_value", "confidence"),
        (finding(line=0), "invalid_line_range", "line"),
        (finding(line=-1), "invalid_line_range", "line"),
        (finding(line=True), "invalid_line_range", "line"),
        (finding(line=10.0), "invalid_line_range", "line"),
        (finding(line="10.0"), "invalid_line_range", "line"),
        (finding(line="ten"), "invalid_line_range", "line"),
        (finding(line="\u0661"), "invalid_line_range", "line"),
        (finding(line=None), "invalid_line_range", "line"),
        (finding(line=10**30), "invalid_line_range", "line"),
        (finding(end_line=2), "invalid_line_range", "end_line"),
        (finding(end_line=True), "invalid_line_range", "end_line"),
        (finding(file="c.py"), "file_not_in_changed_files", "file"),
        (finding(file="A.py"), "file_not_in_changed_files", "file"),
        (finding(file="../a.py"), "file_not_in_changed_files", "file"),
        (finding(file="/a.py"), "file_not_in_changed_files", "file"),
        (finding(file="b.py"), "file_not_in_changed_files", "file"),
    ],
)
def test_what_makes_one_finding_unusable_drops_that_one(bad: Any, reason: str, name: str) -> None:
    """The others stay, and the diagnostic says which one went and why."""
    found = read(answer(finding(id="first"), bad, finding(id="last")))
    assert [one.id for one in found.findings] == ["first", "last"]
    assert [note for note in notes(found) if note[1] == "drop"] == [(reason, "drop", 1, name)]


def test_that_all_findings_were_dropped_is_a_warning() -> None:
    """A review whose findings all went is told from one that found nothing."""
    found = read(answer(finding(line=0)))
    assert found.findings == ()
    assert notes(found)[-1] == ("all_findings_dropped", "warn", None, None)


def test_coercions_are_made_and_noted() -> None:
    """Blanks, backslashes, a leading ./ and numbers in strings are brought into form."""
    found = read(
        answer(
            finding(
                id=" f1\n",
                severity="high ",
                file=" .\\src\\b.py ",
                line=" 10 ",
                end_line="12",
                title="\tA title",
            )
        )
    )
    [one] = found.findings
    assert (one.id, one.severity, one.file, one.line, one.end_line, one.title) == (
        "f1",
        Severity.HIGH,
        "src/b.py",
        10,
        12,
        "A title",
    )
    changes = [(note.field, note.new) for note in found.diagnostics]
    assert changes == [
        ("line", 10),
        ("id", "f1"),
        ("severity", "high"),
        ("title", "A title"),
        ("file", ".\\src\\b.py"),
        ("end_line", 12),
        ("file", "./src/b.py"),
        ("file", "src/b.py"),
    ]
    assert {note.action for note in found.diagnostics} == {Action.COERCE}
    assert {note.finding for note in found.diagnostics} == {0}


def test_the_old_value_of_a_coercion_is_redacted() -> None:
    """A diagnostic shows the size of what was there, not what was there."""
    found = read(answer(finding(file=".\\a.py", title=" hunter2 ")))
    assert {note.old for note in found.diagnostics} == {
        "[REDACTED: 9 characters]",
        "[REDACTED: 6 characters]",
    }


def test_a_newer_minor_may_know_more_keys() -> None:
    """Its unknown optional keys are left out and noted; its unknown words drop a finding."""
    text = answer(
        finding(id="kept", cwe="79"), finding(severity="fatal"), schema_version="1.4", score=7
    )
    found = read(text)
    assert [one.id for one in found.findings] == ["kept"]
    assert notes(found) == [
        ("schema_mismatch", "warn", None, None),
        ("schema_mismatch", "warn", 0, None),
        ("invalid_enum_value", "drop", 1, "severity"),
    ]


def test_a_newer_minor_must_still_have_the_required_fields() -> None:
    """Only unknown keys are forgiven."""
    found = read_review(answer(schema_version="1.4", findings=...), FILES)
    assert found == Failure(FailureClass.SCHEMA_INVALID, "missing_required_field")


def test_the_texts_are_redacted_again_before_anybody_sees_them() -> None:
    """A model quotes what it saw; every text of its answer goes through the redactor."""
    secret = "hunter2"
    one = finding(id=f"{secret} ", title=secret, message=secret, suggestion=secret, rule_id=secret)
    found = read(answer(one, summary=secret, meta={secret: [secret, 1, None, {"a": secret}]}))
    redacted = redact_findings(found, lambda text: text.replace(secret, "***"))
    assert secret in json.dumps(found.to_json())
    assert secret not in json.dumps(redacted.to_json())
    assert redacted.findings[0].file == "a.py"
    assert redacted.meta == {"***": ["***", 1, None, {"a": "***"}]}


def test_no_text_of_the_model_is_in_a_repr() -> None:
    """A result that is logged by mistake shows places, not words."""
    found = read(answer(finding(title="secretive", message="secretive", suggestion="secretive")))
    assert "secretive" not in repr(found)


def test_a_diagnostic_is_json() -> None:
    """It is stored without what it does not say."""
    note = Diagnostic(Reason.INVALID_LINE_RANGE, Action.DROP, 0, "line")
    assert note.to_json() == {
        "reason": "invalid_line_range",
        "action": "drop",
        "finding": 0,
        "field": "line",
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys((*finding(), "end_line", "x"), JSON)))
def test_whatever_a_finding_holds_it_is_kept_whole_or_dropped(changes: dict) -> None:
    """Any JSON in any field ends in a valid finding or in a diagnostic, never in an error."""
    text = answer(finding(**changes), finding(id="last"))
    if "\\u0000" in text or "\\ud" in text.lower():
        return
    found = read(text)
    assert found.findings[-1].id == "last"
    for one in found.findings:
        assert one.file in FILES
        assert isinstance(one.line, int)
        assert one.line >= 1
    dropped = [note for note in found.diagnostics if note.action is Action.DROP]
    assert len(found.findings) + len(dropped) == 2

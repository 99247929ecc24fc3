"""The sandbox as a critic: a few honest heuristics over the added lines of a unified diff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from dragoman.core.canonical import JSON, JSONObject

_LONGEST: Final = 140


@dataclass(frozen=True, slots=True)
class Rule:
    """What one added line is looked at for."""

    rule_id: str
    pattern: str
    severity: str
    category: str
    title: str
    message: str
    suggestion: str


_RULES: Final = (
    Rule(
        "hardcoded-secret",
        r"(?i)\b\w*(?:password|passwd|secret|api_?key|token)\w*[\"']?\s*[:=]\s*[\"'][^\"'\s]{4,}[\"']",
        "high",
        "security",
        "A secret stands in the source",
        "Whoever can read the repository can read this value, and it stays in the history.",
        "Read it from the environment or from a secret store, and replace the value.",
    ),
    Rule(
        "eval",
        r"\beval\s*\(",
        "high",
        "security",
        "eval runs whatever it is given",
        "If any part of the argument comes from outside, this executes foreign code.",
        "Parse the value with a parser made for its format.",
    ),
    Rule(
        "swallowed-exception",
        r"^\s*except\b[^:]*:\s*pass\b",
        "medium",
        "reliability",
        "An exception is swallowed",
        "The failure leaves no trace, so nobody can find out later why the result is wrong.",
        "Handle the failure, or let it rise.",
    ),
    Rule(
        "bare-except",
        r"^\s*except\s*:(?! pass$)",
        "medium",
        "reliability",
        "A bare except catches everything",
        "It also catches KeyboardInterrupt and SystemExit and hides mistakes in the code.",
        "Name the exceptions that are expected here.",
    ),
    Rule(
        "mutable-default",
        r"\bdef\s+\w+\([^)]*=\s*(?:\[\]|\{\}|(?:list|dict|set)\(\))",
        "medium",
        "correctness",
        "A default argument is shared between calls",
        "The default is made once; what one call adds to it, the next call sees.",
        "Use None as the default and make the value inside the function.",
    ),
    Rule(
        "none-comparison",
        r"[!=]=\s*None\b",
        "low",
        "correctness",
        "None is compared with ==",
        "A class may define == in its own way, and then this test is wrong.",
        "Compare with `is None` or `is not None`.",
    ),
    Rule(
        "debug-output",
        r"^\s*(?:(?:print|console\.log|breakpoint|pdb\.set_trace)\s*\(|debugger\b|import pdb\b)",
        "low",
        "maintainability",
        "Debug output was left in",
        "It writes to the standard output of whoever runs the code, or stops it.",
        "Remove it, or use the project's logger.",
    ),
    Rule(
        "todo",
        r"\b(?:TODO|FIXME|XXX)\b",
        "info",
        "maintainability",
        "Work was left for later",
        "The note will be forgotten once the change is merged.",
        "Finish it now, or open an issue and name it here.",
    ),
    Rule(
        "long-line",
        rf"^.{{{_LONGEST + 1},}}",
        "info",
        "style",
        "A very long line",
        f"A line of more than {_LONGEST} characters is hard to read and to compare.",
        "Break it where its meaning breaks.",
    ),
)


def criticise(task: JSONObject) -> JSONObject:
    """A ReviewResult for `diff`, about nothing but `changed_files`."""
    changed, diff = task.get("changed_files"), task.get("diff")
    allowed = changed if isinstance(changed, list) else []
    findings: list[JSON] = []
    for added in _added_lines(diff if isinstance(diff, str) else ""):
        if added.file in allowed:
            for rule in _RULES:
                if re.search(rule.pattern, added.text):
                    findings.append(_finding(rule, added, number=len(findings) + 1))
    count = len(findings)
    summary = f"{count} remark{'s' if count > 1 else ''}." if count else "Nothing to remark."
    return {
        "schema_version": "1.0",
        "prompt_version": "1.0",
        "findings": findings,
        "summary": summary,
    }


@dataclass(frozen=True, slots=True)
class Added:
    """One added line at its place in the new file; a lone `pass` stands with what is before it."""

    file: str
    line: int
    text: str


def _added_lines(diff: str) -> list[Added]:
    try:
        patch = PatchSet(diff)
    except UnidiffParseError:
        return []
    found: list[Added] = []
    for file in patch:
        for hunk in file:
            before = ""
            for line in hunk:
                text = line.value.rstrip("\n")
                if line.is_added and line.target_line_no is not None:
                    seen = f"{before.strip()} pass" if text.strip() == "pass" else text
                    found.append(Added(file.path, line.target_line_no, seen))
                before = before if line.is_removed else text
    return found


def _finding(rule: Rule, added: Added, *, number: int) -> JSONObject:
    return {
        "id": f"f{number}",
        "severity": rule.severity,
        "category": rule.category,
        "title": rule.title,
        "file": added.file,
        "line": added.line,
        "message": rule.message,
        "suggestion": rule.suggestion,
        "confidence": "high" if rule.severity in ("high", "low") else "medium",
        "rule_id": rule.rule_id,
    }

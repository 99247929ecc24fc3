from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import BadInput
from dragoman.review.render import (
    MAX_BODY,
    MAX_SUBJECT,
    Review,
    check_recipients,
    delivery_key,
    render_mail,
)
from dragoman.review.result import (
    Action,
    Category,
    Confidence,
    Diagnostic,
    Finding,
    Reason,
    ReviewResult,
    Severity,
)

CHANGE = f"git:/srv/repos/shop@{'a' * 40}..{'b' * 40}"
ANN = "mailto:ann@example.org"


def finding(number: int = 1, **changes) -> Finding:
    whole = {
        "id": f"f{number}",
        "severity": Severity.HIGH,
        "category": Category.SECURITY,
        "title": "Token in the log",
        "file": "src/a.py",
        "line": 3,
        "message": "The token is written to the log.",
    }
    return Finding(**(whole | changes))


def review(*findings: Finding, files: int = 2, version: int = 3, **more) -> Review:
    parts = {name: more.pop(name) for name in ("summary", "diagnostics") if name in more}
    return Review(CHANGE, version, ReviewResult("1.0", "1.0", findings, **parts), files, **more)


# Mail


@pytest.mark.req("R357")
def test_a_mail_says_all_there_is_to_say_in_one_fixed_form() -> None:
    """Changelist, version, counts, findings by severity with place, what was not reviewed."""
    minor = finding(2, severity=Severity.LOW, category=Category.STYLE, title="Long line", line=9)
    major = finding(
        end_line=5, confidence=Confidence.HIGH, rule_id="LOG1", suggestion="if x:\n    log(id)"
    )
    told = review(
        minor, major, summary="Small change.", not_reviewed=(("logo.png", "binary"), ("a", "x"))
    )
    subject, body = render_mail(told, ANN, "https://reviews.example.org/7")
    assert subject.startswith("Review v3: 1 high, 1 low: ...")
    assert subject.endswith("b" * 40)
    assert (
        body
        == f"""\
Changelist: {CHANGE}
Review version: 3
Review: https://reviews.example.org/7

Findings: 1 high, 1 low in 2 files (of 4) reviewed.

Small change.

1. HIGH: Token in the log
   src/a.py:3-5 (security, confidence high, LOG1)
   The token is written to the log.
   Suggestion:
   if x:
       log(id)

2. LOW: Long line
   src/a.py:9 (style)
   The token is written to the log.

Not reviewed (2):
- a (x)
- logo.png (binary)

--{" "}
You get this because mailto:ann@example.org was named for this review.
"""
    )


@pytest.mark.req("R357")
def test_the_order_in_which_a_model_reports_changes_nothing() -> None:
    """Equal reviews give equal bytes."""
    several = [finding(n, severity=severity) for n, severity in enumerate(Severity)]
    assert render_mail(review(*several), ANN) == render_mail(review(*reversed(several)), ANN)


def test_nothing_to_say_is_said_only_of_what_was_reviewed() -> None:
    """No findings, no usable findings and no files are three different answers."""
    dropped = (Diagnostic(Reason.ALL_FINDINGS_DROPPED, Action.WARN),)
    bodies = [
        render_mail(review(), ANN)[1],
        render_mail(review(diagnostics=dropped), ANN)[1],
        render_mail(review(files=0, not_reviewed=(("a.png", "binary"),)), ANN)[1],
    ]
    assert "Nothing to report in 2 files reviewed." in bodies[0]
    assert "No usable finding in 2 files reviewed" in bodies[1]
    assert "No file of this changelist could be reviewed." in bodies[2]
    assert "Nothing to report" not in bodies[1] + bodies[2]
    assert "- a.png (binary)" in bodies[2]
    assert render_mail(review(files=0), ANN)[0].startswith("Review v3: not reviewed: ")


def test_a_mail_has_a_greatest_length_and_says_what_it_leaves_out() -> None:
    """Whole findings, the worst first, as far as they fit."""
    many = [finding(n, message="x" * 1_000) for n in range(200)]
    paths = tuple((f"{n}.png", "binary") for n in range(1_000))
    subject, body = render_mail(review(*many, not_reviewed=paths), ANN)
    assert len(body) <= MAX_BODY
    assert len(subject) <= MAX_SUBJECT
    shown = body.count("HIGH: Token")
    assert f"[{201 - shown} more parts do not fit into this message.]" in body
    assert "in 2 files (of 1002) reviewed" in body
    assert len(render_mail(review(not_reviewed=paths), ANN)[1]) < 5_000


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_can_forge_a_line_a_header_or_a_direction(title: str, path: str) -> None:
    """A title or a path stays on its line, and control and direction characters are gone."""
    plain = render_mail(review(finding(title="x", file="x")), ANN)[1]
    subject, body = render_mail(review(finding(title=title, file=path)), ANN)
    assert len(body.split("\n")) == len(plain.split("\n"))
    assert not set("\r\t\0\x1b\u202e\u2066\u2028\x85") & set(subject + body)


# Recipients


@pytest.mark.req("R354")
def test_one_recipient_named_twice_is_one() -> None:
    """Blanks, the case of scheme and host, and repeats collapse; the first place is kept."""
    named = ["mailto:Ann@Example.org", " MAILTO:Ann@example.ORG\n", "slack:C1", ANN, "slack:C1"]
    assert check_recipients(named) == ("mailto:Ann@example.org", "slack:C1", ANN)


def test_one_person_by_two_ways_is_two_recipients() -> None:
    """The way is part of who is told."""
    assert len(check_recipients(["mailto:ann@example.org", "slack:ann@example.org"])) == 2


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "ann@example.org",
        "mailto:",
        "mailto:ann",
        "mailto:@example.org",
        "mailto:ann@",
        "mailto:ann@example..org",
        "mailto:ann@-example.org",
        "mailto:.ann@example.org",
        "mailto:ann@example.org,bob@example.org",
        "mailto:ann@example.org;bob@example.org",
        "mailto:ann@example.org?bcc=bob@example.org",
        "mailto:ann%40example.org",
        "mailto:ann%0abcc@example.org",
        "mailto:ann@example.org\nBcc: bob@example.org",
        "mailto:<ann@example.org>",
        "mailto:änn@example.org",
        "mailto:ann@example.org\0",
        "mailto:" + "a" * 65 + "@example.org",
        "mailto:ann@" + "a" * 64 + ".org",
        "slack:C 1",
        "slack:\ud800",
        "1x:y",
        "slack:" + "x" * 400,
        None,
        7,
    ],
)
def test_a_bad_recipient_is_refused_by_its_place(bad) -> None:
    """The error says which one it was and never repeats the address."""
    with pytest.raises(BadInput) as caught:
        check_recipients([ANN, bad])
    assert "recipient 2" in str(caught.value)
    assert "ann@" not in str(caught.value)
    assert "bob" not in str(caught.value)


@pytest.mark.parametrize("bad", [[], ANN, [ANN] * 101])
def test_a_review_has_one_to_a_hundred_recipients(bad) -> None:
    """None, one bare string and a flood are refused."""
    with pytest.raises(BadInput):
        check_recipients(bad)


# The key


@pytest.mark.req("R357", "R385")
def test_the_key_of_a_delivery_never_changes() -> None:
    """Fixed by the tuple alone: a change of this value would tell everybody twice."""
    key = delivery_key(CHANGE, ANN, 3, "main")
    assert key == "9b768ea4377bd0e89530170608e2401ed88d4796809e83d93f293b19c429d107"


@pytest.mark.req("R385", "R387")
def test_every_part_of_the_tuple_makes_another_key() -> None:
    """Another changelist, recipient, version or cell is another intent, however they join."""
    keys = {
        delivery_key(*parts)
        for parts in [
            ("a", "b", 1, "c"),
            ("a", "b", 2, "c"),
            ("ab", "", 1, "c"),
            ("", "ab", 1, "c"),
            ("a", "b", 1, "d"),
            ("b", "a", 1, "c"),
            ('a","b', "b", 1, "c"),
            ("a", "b", 11, "c"),
            ("c", "b", 1, "a"),
        ]
    }
    assert len(keys) == 9
    assert all(len(key) == 64 for key in keys)

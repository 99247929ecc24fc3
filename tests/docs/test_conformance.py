"""The conformance page tells the truth: every claim is a test, every row follows from them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.conformance import BadClaim, judge, load_rules, main, read_claims, render

ROOT = Path(__file__).resolve().parents[2]
RULES = """
[[rule]]
id = "R001"
seed = "S0"
section = "1"
level = "M"
rule = "Work is done once"
check = "one row"
dup_of = []

[[rule]]
id = "R002"
seed = "S1"
section = "1"
level = "N"
rule = "Work is not done twice"
check = "dup of R001"
dup_of = ["R001"]

[[rule]]
id = "R003"
seed = "S1"
section = "2"
level = "M"
rule = "Both"
check = "dup of R001, R004"
dup_of = ["R001", "R004"]

[[rule]]
id = "R004"
seed = "S1"
section = "3"
level = "M"
rule = "Said privately"
check = "canary"
dup_of = []
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """An empty repository with four rules."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs" / "rules.toml").write_text(RULES, encoding="utf-8")
    return tmp_path


def plant(house: Path, code: str, name: str = "test_planted.py") -> Path:
    file = house / "tests" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"import pytest\n{code}", encoding="utf-8")
    return house


def statuses(house: Path) -> dict[str, str]:
    rules = load_rules(house / "docs" / "rules.toml")
    return {v.rule.id: v.status for v in judge(rules, read_claims(house, rules))}


def refusal(house: Path) -> str:
    with pytest.raises(BadClaim) as caught:
        statuses(house)
    return str(caught.value)


def test_a_rule_is_open_until_a_test_names_it(house: Path) -> None:
    """Without a mark nothing is proved; with one exactly the named rule is."""
    assert set(statuses(house).values()) == {"open"}
    plant(house, "@pytest.mark.req('R001')\ndef test_once(): ...\n")
    assert statuses(house) == {"R001": "proved", "R002": "open", "R003": "open", "R004": "open"}


def test_a_twin_is_proved_only_by_a_test_that_names_both(house: Path) -> None:
    """A rule that repeats another stays open when only one of the two is named."""
    plant(house, "@pytest.mark.req('R001')\ndef test_a(): ...\n")
    plant(house, "@pytest.mark.req('R002')\ndef test_b(): ...\n", "test_other.py")
    assert statuses(house)["R002"] == "open"
    plant(house, "@pytest.mark.req('R001', 'R002')\nasync def test_b(): ...\n", "test_other.py")
    assert statuses(house)["R002"] == "proved by twin R001"


def test_a_twin_of_two_rules_needs_both(house: Path) -> None:
    """Half of what a rule repeats does not prove it."""
    plant(house, "@pytest.mark.req('R001', 'R003')\ndef test_a(): ...\n")
    assert statuses(house)["R003"] == "open"
    plant(house, "@pytest.mark.req('R004', 'R003')\ndef test_b(): ...\n", "test_other.py")
    assert statuses(house)["R003"] == "proved by twin R001, R004"


def test_a_mark_in_a_class_or_on_a_parameter_counts_for_its_test(house: Path) -> None:
    """Methods of test classes are tests, and a case may carry the mark."""
    plant(
        house,
        "class TestOne:\n"
        "    @pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.req('R004'))])\n"
        "    def test_x(self, x): ...\n",
    )
    rules = load_rules(house / "docs" / "rules.toml")
    (claim,) = read_claims(house, rules)
    assert claim.test == "tests/test_planted.py::TestOne::test_x"
    assert claim.ids == {"R004"}


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("@pytest.mark.req('R999')\ndef test_a(): ...\n", "R999 is not a rule"),
        ("@pytest.mark.req('R001')\ndef prepare(): ...\n", "a claim without a test"),
        ("pytestmark = pytest.mark.req('R001')\n", "a claim without a test"),
        ("@pytest.mark.req('R001')\nclass TestA:\n    def test_a(self): ...\n", "without a test"),
        ("@pytest.mark.req\ndef test_a(): ...\n", "plain strings"),
        ("@pytest.mark.req()\ndef test_a(): ...\n", "plain strings"),
        ("RULE = 'R001'\n@pytest.mark.req(RULE)\ndef test_a(): ...\n", "plain strings"),
        ("@pytest.mark.skip\n@pytest.mark.req('R001')\ndef test_a(): ...\n", "proves nothing"),
        ("@pytest.mark.xfail()\n@pytest.mark.req('R001')\ndef test_a(): ...\n", "proves nothing"),
    ],
)
def test_a_claim_that_proves_nothing_is_refused(house: Path, code: str, complaint: str) -> None:
    """An unknown id, a mark without a test, an unreadable mark and a skipped test all fail."""
    assert complaint in refusal(plant(house, code))
    assert main([], house) == 1
    assert not (house / "docs" / "conformance.md").exists()


@pytest.mark.parametrize("folder", ["planted", "torture"])
def test_a_claim_outside_the_suite_is_refused(house: Path, folder: str) -> None:
    """A rule is proved by what make test runs."""
    plant(house, "@pytest.mark.req('R001')\ndef test_a(): ...\n", f"{folder}/test_a.py")
    assert "make test" in refusal(house)


def test_the_page_names_rule_status_and_test(house: Path) -> None:
    """A proved rule's row ends with its tests, and the totals add up per seed."""
    plant(house, "@pytest.mark.req('R001', 'R002')\ndef test_once(): ...\n")
    rules = load_rules(house / "docs" / "rules.toml")
    page = render(judge(rules, read_claims(house, rules)))
    test = "`tests/test_planted.py::test_once`"
    assert f"| R001 | M | Work is done once | proved | {test} |" in page
    assert f"| R002 | N | Work is not done twice | proved by twin R001 | {test} |" in page
    assert "| S1 | 3 | 0 | 1 | 2 |" in page
    assert "| all | 4 | 1 | 1 | 2 |" in page


def test_a_page_out_of_date_is_noticed(house: Path) -> None:
    """The check fails before the page is written and after a test is added, and changes nothing."""
    page = house / "docs" / "conformance.md"
    assert main(["--check"], house) == 1
    assert not page.exists()
    assert main([], house) == 0
    assert main(["--check"], house) == 0
    plant(house, "@pytest.mark.req('R001')\ndef test_once(): ...\n")
    written = page.read_text(encoding="utf-8")
    assert main(["--check"], house) == 1
    assert page.read_text(encoding="utf-8") == written


def test_the_rules_are_whole() -> None:
    """Every number from R001 to R390 stands once, and a twin's twins are rules of their own."""
    rows = tomllib.loads((ROOT / "docs" / "rules.toml").read_text(encoding="utf-8"))["rule"]
    rules = load_rules(ROOT / "docs" / "rules.toml")
    assert [row["id"] for row in rows] == [f"R{number:03}" for number in range(1, 391)]
    assert {row["seed"] for row in rows} == {"S0", "S1", "S2", "S3", "found later"}
    assert {row["level"] for row in rows} == set("MNSYI")
    for rule in rules.values():
        assert all(not rules[twin].dup_of for twin in rule.dup_of), rule.id
    for row in rows:
        assert row["check"].startswith("dup of ") == bool(row["dup_of"]), row["id"]


def test_every_claim_is_a_test_that_pytest_collects() -> None:
    """A claim cannot hide behind a skipped module, a wrong name or a file that is not collected."""
    rules = load_rules(ROOT / "docs" / "rules.toml")
    claims = {claim.test for claim in read_claims(ROOT, rules)}
    assert claims - collected_tests() == set()


def collected_tests() -> set[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "-o", "addopts=--import-mode=importlib", "tests"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}

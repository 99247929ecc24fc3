"""Every command: its help, the way it refuses, and the pages that name it."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dragoman.cli import app as cli
from dragoman.cli.app import app
from tests.cli.installation import ROOT, Installation

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOWHERE = "01a1f5b8-ed80-7c72-a44a-b90a566b40c4"


def commands(group: object, name: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    inner = getattr(group, "commands", None)
    if inner is None:
        yield name
        return
    for word, command in inner.items():
        yield from commands(command, (*name, word))


COMMANDS = list(commands(typer.main.get_command(app)))


@pytest.fixture
def nothing(tmp_path: Path) -> Installation:
    """A home in which nothing was ever started."""
    return Installation(tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    """--help answers with the usage and a sentence, and starts nothing."""
    shown = CliRunner().invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert f"{' '.join(command)} [OPTIONS]" in shown.output
    assert re.search(r"\n +[A-Z][^\n]+[.,;][ \n]", shown.output), "no sentence"


@pytest.mark.parametrize(
    "group",
    [
        (),
        ("rewrite",),
        ("review",),
        ("gate",),
        ("schedule",),
        ("letters",),
        ("deliveries",),
        ("db",),
        ("audit",),
    ],
    ids=" ".join,
)
def test_a_bare_group_shows_its_commands(group: tuple[str, ...]) -> None:
    """Who types too little sees what there is."""
    shown = CliRunner().invoke(app, [*group])
    assert shown.exit_code == 2
    below = {command[len(group)] for command in COMMANDS if command[: len(group)] == group}
    assert below
    assert not [word for word in below if f" {word} " not in shown.output]


@pytest.mark.parametrize(
    "group",
    [(), ("rewrite",), ("review",), ("gate",), ("schedule",), ("db",), ("audit",)],
    ids=" ".join,
)
def test_no_line_of_a_list_of_commands_is_cut(group: tuple[str, ...]) -> None:
    """At 80 columns each command's line is a whole sentence."""
    shown = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "80"})
    below = shown.output.partition("Commands:")[2].strip().splitlines()
    assert below
    assert not [line for line in below if not line.endswith(".") or line.endswith("...")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_name_commands_that_exist(page: Path) -> None:
    """What a page prints as a command of ours is one, with options that it has."""
    known = set(COMMANDS)
    for line in printed(page.read_text(encoding="utf-8")):
        words = tuple(line.split())
        command = next((words[:n] for n in (2, 1) if words[:n] in known), None)
        assert command, f"{page.name}: {line}"
        shown = CliRunner().invoke(app, [*command, "--help"]).output
        for option in re.findall(r"(?<= )--[a-z-]+", line):
            assert option in shown, f"{page.name}: {line}"


def printed(text: str) -> list[str]:
    """The commands in a page's code: `dragoman WORDS`, in spans and in blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in blocks for line in block.splitlines()] + spans
    found = [re.search(r"(?:^|[ /])dragoman ([a-z][^#]*)$", line) for line in lines]
    return [match[1] for match in found if match]


def test_the_readme_prints_commands() -> None:
    """The test above has something to look at."""
    assert len(printed((ROOT / "README.md").read_text(encoding="utf-8"))) >= 5


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("job", NOWHERE),
        ("cancel", NOWHERE),
        ("erase", "--home", NOWHERE),
        ("rewrite", "submit", "So loud!", "--to", "es"),
        ("rewrite", "show", NOWHERE),
        ("review", "enqueue", ".", "HEAD", "--to", "mailto:ann@example.org"),
        ("review", "show", NOWHERE),
        ("deliveries", "list"),
        ("deliveries", "resolve", NOWHERE, "--sent", "--evidence", "INC-7"),
        ("deliveries", "seen", NOWHERE),
        ("db", "psql"),
    ],
    ids=" ".join,
)
def test_without_a_database_a_command_says_how_to_start(
    nothing: Installation, words: tuple[str, ...]
) -> None:
    """One sentence that ends in a command, exit code 1, and no file made by asking."""
    assert nothing.run(*words).sentence == (
        "the database is absent: there are no data yet. Start everything with: dragoman up"
    )
    assert not nothing.home.exists()


def test_the_hint_is_typed_like_the_command(nothing: Installation, tmp_path: Path) -> None:
    """Called by a path that is not on PATH, the command names itself by that path."""
    script = tmp_path / "a place" / "dragoman"
    script.parent.mkdir()
    script.write_text("import sys\nfrom dragoman.cli import main\nmain()\n")
    nothing.command = [nothing.command[0], str(script)]
    assert nothing.run("status").sentence.endswith(f"Start everything with: '{script}' up")


def test_asking_for_the_database_is_no_refusal(nothing: Installation) -> None:
    """`db status` answers on standard output, and its exit code says whether it is ready."""
    done = nothing.run("db", "status")
    assert (done.code, done.err) == (1, "")
    assert re.search(r"^state +absent$", done.out, re.MULTILINE)
    assert nothing.run("db", "stop").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("job",),
        ("job", "4711"),
        ("erase",),
        ("erase", "--home", "4711"),
        ("demo", "--complaints", "0"),
        ("rewrite", "submit"),
        ("rewrite", "submit", "a", "--nonsense"),
        ("deliveries", "resolve", NOWHERE, "--sent"),
        ("review", "enqueue", ".", "HEAD"),
        ("review", "enqueue", ".", "HEAD", "--to", "x", "--version", "0"),
    ],
    ids=" ".join,
)
def test_a_wrong_usage_is_code_2(words: tuple[str, ...]) -> None:
    """A typing mistake is told from a refusal by its exit code."""
    assert CliRunner().invoke(app, [*words]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "told", "sentence"),
    [
        (("run", "boss"), {}, "there is no role boss; known are submitter, collector, "),
        (("up",), {"DRAGOMAN_PROFILE": "fast"}, "profile must be one of default, dev, "),
        (
            ("up",),
            {"DRAGOMAN_DATABASE": "mysql://x"},
            "the setting database is not acceptable: it must be embedded, or a URL",
        ),
        (("up",), {"DRAGOMAN_DATABASE": "postgresql://x"}, "There is no password in "),
        (
            ("up",),
            {"DRAGOMAN_PROVIDER__API_KEY_ENV": "NO_SUCH_KEY"},
            "the environment variable NO_SUCH_KEY is empty; it should hold a secret",
        ),
        (
            ("up",),
            {"DRAGOMAN_MAIL__PASSWORD_FILE": "/nowhere/password"},
            "the secret file /nowhere/password cannot be read",
        ),
        (
            ("up",),
            {"DRAGOMAN_PROVIDER__NAME": "acme"},
            "provider.base_url is needed for the provider acme",
        ),
        (("up",), {"DRAGOMAN_REVIEW__ALLOW": "/srv/git"}, "prefix 1 of the allow-list does not"),
        (("demo",), {"DRAGOMAN_REVIEW__ALLOW": "[1"}, "DRAGOMAN_REVIEW__ALLOW is neither a list"),
        (("up",), {"DRAGOMAN_DOOR__HOST": "192.0.2.1"}, "the door cannot listen at door.host 192."),
        (("demo",), {"PATH": "/nowhere"}, "the demonstration needs git: "),
        (("status",), {"DRAGOMAN_DOR__PORT": "1"}, "there is no setting dor; did you mean door?"),
        (("db", "stop"), {"DRAGOMAN_CONFIG": "/nowhere/d.toml"}, "the settings file /nowhere/d."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, (tuple, dict)) else "",
)
def test_what_could_never_work_is_refused_before_anything_starts(
    nothing: Installation, words: tuple[str, ...], told: dict[str, str], sentence: str
) -> None:
    """One sentence that names the setting, exit code 1, and no data directory."""
    assert nothing.run(*words, told=told).sentence.startswith(sentence)
    assert not (nothing.home / "postgresql").exists()


def test_a_home_that_cannot_be_made_is_said(nothing: Installation, tmp_path: Path) -> None:
    """The sentence names the folder, and the variable that would name another one."""
    (tmp_path / "file").touch()
    said = nothing.run("up", told={"DRAGOMAN_HOME": str(tmp_path / "file" / "home")}).sentence
    assert said.startswith(f"{tmp_path}/file/home cannot be made or written by this user (ENOTDIR)")
    assert "DRAGOMAN_HOME" in said


def test_what_a_command_logs_does_not_stand_in_what_it_prints(tmp_path: Path) -> None:
    """A classifier that is silent is logged to standard error; the output is the answer alone."""
    program = (
        "import structlog\nfrom dragoman.cli.doing import do\n"
        "async def work():\n"
        "    structlog.get_logger('dragoman').warning('classifier_silent', code='deadline')\n"
        "    print('queued')\n    return 0\n"
        "do(work())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True
    )
    assert said.stdout == b"queued\n"
    assert b"classifier_silent" in said.stderr


def test_a_full_disk_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that cannot be written ends in a stack trace."""

    def full() -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(cli, "app", full)
    assert cli.run() == 1
    assert capsys.readouterr().err == "dragoman: the disk is full; make room, and type it again\n"

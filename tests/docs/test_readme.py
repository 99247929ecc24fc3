"""The README's commands, typed as they are printed, by somebody who has just come."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.cli.installation import ROOT, Installation, end, processes_in, short_folder
from tests.eventually import eventually

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [block.strip() for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]
DEMO, TEST, SUBMIT, SHOW = BLOCKS
SITE = sysconfig.get_path("purelib")
NEEDED = f"import sys; sys.path.append({SITE!r}); import psycopg, pydantic, re2, uvicorn"
SAME = f"{NEEDED}; assert sys.version_info[:2] == {sys.version_info[:2]}"
NOT_COPIED = (".git", ".venv", "__pycache__", ".*cache", ".hypothesis", "dist", "build")


def somebody() -> tuple[list[str], str] | None:
    """An ordinary account, and a Python that it can run and that sees the packages."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        user, group = f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}"
        prefix = [shutil.which("setpriv") or "setpriv", user, group, "--clear-groups"]
    for python in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        # Through a shell: setpriv gives its rights up only with the first program that it runs.
        if can_run([*prefix, "/bin/sh", "-c", 'exec "$0" "$@"', python, "-c", SAME]):
            return prefix, python
    return None


def can_run(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60, cwd="/")
    except OSError:
        return False
    return done.returncode == 0


SOMEBODY = somebody()


@pytest.fixture(scope="module")
def tree() -> Generator[Installation]:
    """A copy of the tree in an empty folder, with an environment that needs no network."""
    prefix, python = SOMEBODY or ([], sys.executable)
    with short_folder() as folder:
        copy = folder / "dragoman"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        install(copy, python)
        if prefix:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, pwd.getpwnam("nobody").pw_uid, -1, follow_symlinks=False)
        home = folder / ".local" / "share" / "dragoman"  # for an ordinary user, where it is anyway
        told = {"HOME": str(folder), "PYTHONPATH": "", "DRAGOMAN_HOME": str(home)}
        yield Installation(copy, ["/bin/sh", "-c"], prefix, told)


def install(copy: Path, python: str) -> None:
    """What `make setup` makes, out of packages that are here already."""
    make = [python, "-m", "venv", "--without-pip", str(copy / ".venv")]
    subprocess.run(make, check=True, timeout=60)
    site = next((copy / ".venv" / "lib").glob("python*/site-packages"))
    (site / "here.pth").write_text(f"{copy / 'src'}\n{SITE}\n")
    script = copy / ".venv" / "bin" / "dragoman"
    script.write_text(f"#!{copy}/.venv/bin/python\nfrom dragoman.cli import main\nmain()\n")
    script.chmod(0o755)
    (copy / ".venv" / ".ready").touch()


def test_the_readme_prints_these_commands() -> None:
    """Four blocks: the demonstration, the suite, a complaint of one's own, and how to see it."""
    assert [DEMO, TEST] == ["make demo", "make test"]
    assert SUBMIT.startswith('.venv/bin/dragoman rewrite submit "')
    assert SHOW == ".venv/bin/dragoman rewrite show ID"
    assert "`.venv/bin/dragoman up`" in README


def test_an_ordinary_user_tries_it() -> None:
    """The tests below run as somebody who is not root."""
    if SOMEBODY is None:
        pytest.skip("the README was tried as root: no ordinary user can run this Python's packages")
    assert SOMEBODY[0] or os.geteuid() != 0


def test_the_suite_is_run_by_the_printed_command(tree: Installation) -> None:
    """`make test` runs pytest over the whole tree, and installs nothing that is there already."""
    said = tree.run(TEST.replace("make", "make -n"))
    assert (said.code, said.err) == (0, "")
    lines = [line for line in said.out.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert re.fullmatch(r"\.venv/bin/python -m pytest( -n \d+)?", lines[0])


def test_the_demonstration_ends_by_itself_without_a_terminal(tree: Installation) -> None:
    """`make demo`: 60 complaints, a review told to two, every sum closes, no process is left."""
    said = tree.run(DEMO)
    assert said.code == 0, said
    assert re.search(r"The sum closes: 60 accepted = \d+ completed", said.out), said
    assert "2 of 2 recipients told, each once." in said.out
    assert not [line for line in said.out.splitlines() if len(line) > 80]
    assert processes_in(tree.folder.parent) == {}


def missed(told: dict[int, str]) -> list[str]:
    """The processes that the README's pkill does not reach; the server's own end with it."""
    printed = re.search(r"`pkill -9 -f '([^']+)'`", README)
    assert printed, "the README does not say how to kill everything"
    assert not re.search(printed[1], "vim dragoman.toml")
    assert len(told) >= 10
    return [
        words
        for words in told.values()
        if not words.startswith("postgres: ") and not re.search(printed[1], words)
    ]


def test_a_complaint_survives_a_kill_of_everything(tree: Installation) -> None:
    """Submitted, everything killed, started again: the id answers with its one rewrite."""
    up = Installation(
        tree.folder, [str(tree.folder / ".venv/bin/dragoman")], tree.prefix, tree.told
    )
    with up.up():
        said = tree.run(SUBMIT)
        found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", said.out)
        assert found, said
        assert f".venv/bin/dragoman rewrite show {found[0]}" in said.out
        assert missed(processes_in(tree.folder.parent)) == []
        end(tree.folder.parent)
    eventually(lambda: not processes_in(tree.folder.parent), timeout=20)

    def rewritten() -> None:
        shown = tree.run(SHOW.replace("ID", found[0]))
        assert shown.out.startswith(f"completed  {found[0]}"), shown
        assert shown.out.count("(es, written by sandbox/") == 1

    with up.up():
        eventually(rewritten, timeout=60)
    assert processes_in(tree.folder.parent) == {}

"""The wheel: built, installed into an empty environment, and run from an empty folder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest

import dragoman
from tests.cli.installation import ROOT, Installation, processes_in, short_folder

SHIPPED = {".sql", ".html", ".css", ".js", ".svg", ".toml", ".conf", ".typed"}


@pytest.fixture(scope="module")
def place() -> Generator[Path]:
    """A folder that outlives the tests of this file, and no process."""
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def wheel(place: Path) -> Path:
    """The wheel of this tree."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=100)
    return next((place / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(place: Path, wheel: Path) -> Installation:
    """An environment with the dependencies and the wheel, but not the source."""
    environment, empty = place / "environment", place / "empty"
    empty.mkdir()
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=100, cwd=place)
    here = next((environment / "lib").glob("python*/site-packages"))
    # As a path of its own, this does not run the .pth file that brings the editable source.
    (here / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return Installation(empty, [str(environment / "bin" / "dragoman")], told={"PYTHONPATH": ""})


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_everything_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """SQL, templates, styles, word lists and py.typed travel along; every source file does."""
    source = ROOT / "src"
    wanted = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {Path(name).suffix for name in wanted} >= SHIPPED
    assert wanted - files_in(wheel) == set()


def test_nothing_else_is_in_the_wheel(wheel: Path) -> None:
    """No test, no tool, no cache: the package and its metadata alone."""
    assert {name.split("/")[0].partition("-")[0] for name in files_in(wheel)} == {"dragoman"}
    assert not [name for name in files_in(wheel) if name.endswith(".pyc")]


def test_the_command_answers_from_an_empty_folder(installed: Installation) -> None:
    """It is called dragoman, knows its version, and explains itself."""
    assert installed.run("version").out == f"{dragoman.__version__}\n"
    told = installed.run("--help")
    assert told.code == 0
    assert "said privately" in told.out


def test_the_package_is_the_installed_one(installed: Installation, place: Path) -> None:
    """What is imported lies in the new environment, not in the tree that it was built from."""
    python = str(Path(installed.command[0]).with_name("python"))
    told = Installation(installed.folder, [python], told={"PYTHONPATH": ""}).run(
        "-c", "import dragoman.cli.app, dragoman; print(dragoman.__file__)"
    )
    assert Path(told.out.strip()).is_relative_to(place / "environment"), told


def test_the_demonstration_runs_from_the_wheel(installed: Installation) -> None:
    """Without a terminal it ends by itself, its sum closes, and no process is left."""
    told = installed.run("demo", "--complaints", "8")
    assert told.code == 0, told
    assert "The sum closes: 8 accepted = 8 completed, in " in told.out, told
    assert "2 of 2 recipients told, each once." in told.out
    assert "\x1b" not in told.out
    assert processes_in(installed.folder) == {}

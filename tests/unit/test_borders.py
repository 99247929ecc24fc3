"""Who knows of whom: what the asynchronous half must not decide it cannot even reach."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import dragoman

SOURCE = Path(dragoman.__file__).parent
DECIDING = {
    f"dragoman.rewrite.{name}"
    for name in ("advisor", "classifier", "context", "orchestrator", "policy", "routing", "words")
}


def modules(*packages: str) -> list[str]:
    """Every module of these packages."""
    found = [
        ".".join(("dragoman", *path.relative_to(SOURCE).with_suffix("").parts))
        for package in packages
        for path in sorted((SOURCE / package).rglob("*.py"))
    ]
    return [name.removesuffix(".__init__") for name in found]


def tree(module: str) -> ast.Module:
    """A module's source."""
    path = SOURCE.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def imports(module: str) -> frozenset[str]:
    """What a module names in its imports, wherever they stand; a package, and what it takes."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def called(module: str, name: str) -> bool:
    """Whether a module speaks of a name, as its own or as another's attribute."""
    return any(
        (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == name)
        for node in ast.walk(tree(module))
    )


def speakers(name: str) -> set[str]:
    """The modules that speak of a name."""
    every = modules(*(path.name for path in SOURCE.iterdir() if path.is_dir()))
    return {module.removeprefix("dragoman.") for module in every if called(module, name)}


def starting_with(names: Iterable[str], *starts: str) -> Iterator[str]:
    """The names that are one of these or lie below it."""
    return (name for name in names if any(f"{name}.".startswith(f"{one}.") for one in starts))


WRITING = ("dragoman.work", "dragoman.store", "dragoman.rewrite", "dragoman.review")
ASYNC_HALF = modules("work", "providers", "channels")


@pytest.mark.parametrize("module", ASYNC_HALF)
@pytest.mark.req("R003", "R089", "R099", "R180", "R194", "R198", "R200", "R195")
def test_who_works_on_jobs_knows_nothing_of_who_decides_about_them(module: str) -> None:
    """No module imports how messages are classified, routed or put into their context."""
    known = imports(module)
    assert list(starting_with(known, "dragoman.rewrite", "dragoman.review", "dragoman.api")) == []
    words = ("classifier", "eligib", "reveal", "preference", "membership", "policy", "norms")
    spoken = {name for name in known for word in words if word in name.lower()}
    assert {name for name in spoken if not name.endswith("RetryPolicy")} == set()


def test_the_look_finds_what_it_looks_for() -> None:
    """The orchestrator, which decides, would be found out."""
    assert list(starting_with(imports("dragoman.rewrite.orchestrator"), *DECIDING))
    assert "dragoman.work.worker" in ASYNC_HALF
    assert len(ASYNC_HALF) > 20


@pytest.mark.req("R195", "R194", "R200")
def test_the_stage_of_a_rewrite_decides_nothing_either() -> None:
    """It reads what was decided and judges the answer: no classifier, no policy, no routes."""
    for module in ("dragoman.rewrite.stage", "dragoman.rewrite.evaluate"):
        assert list(starting_with(imports(module), *DECIDING)) == [], module


@pytest.mark.req("R201", "R082")
def test_a_rewrite_knows_of_no_way_to_deliver() -> None:
    """No module of the rewrite pipeline imports a channel, the outbox or the one way out."""
    ways = ("dragoman.channels", "dragoman.store.deliveries", "dragoman.work.acts")
    ways += ("dragoman.work.relay", "smtplib")
    for module in modules("rewrite"):
        assert list(starting_with(imports(module), *ways)) == [], module


@pytest.mark.req("R199", "R096")
def test_when_a_sender_may_see_it_is_nobodys_business_here() -> None:
    """No statement of the kernel or of the pipelines writes the table that says so."""
    statements = [
        *(SOURCE / "store" / "sql").rglob("*.sql"),
        *(SOURCE / "review").rglob("*.sql"),
        *(SOURCE / "rewrite" / "sql").rglob("*.sql"),
    ]
    running = [path for path in statements if path.parent.name != "migrations"]
    assert len(running) > 80
    for path in running:
        assert "reveal" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.req("R225")
def test_the_submission_alone_hands_a_job_over_to_a_provider() -> None:
    """One statement writes `batch_submitted`, one function runs it, one module calls that."""
    folder = SOURCE / "store" / "sql"
    writing = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.sql")
        if path.parent.name != "migrations"
        and "state = 'batch_submitted'" in _set_clauses(path.read_text(encoding="utf-8"))
    }
    assert writing == {"batch/record_submitted.sql"}
    assert speakers("record_submitted") == {"work.submission"}
    speaking = speakers("BATCH_SUBMITTED")
    assert "core.job" in speaking
    assert list(starting_with({f"dragoman.{name}" for name in speaking}, *WRITING)) == []


def _set_clauses(sql: str) -> str:
    """What a statement writes into rows that are there, without the conditions on them."""
    parts = sql.split("update standing")[1:]
    return " ".join(part.split("where")[0] for part in parts)


@pytest.mark.req("R138")
def test_an_output_is_stored_by_a_finish_and_by_nothing_else() -> None:
    """The statement has one caller, that is a stage's `store`, and only `finish` calls those."""
    assert speakers("store_outputs") == {"rewrite.stage"}
    stage = tree("dragoman.rewrite.stage")
    (generate,) = [
        node for node in stage.body if isinstance(node, ast.ClassDef) and node.name == "Generate"
    ]
    storing = [
        node.name
        for node in generate.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and "store_outputs" in ast.dump(node)
    ]
    assert storing == ["store"]
    callers = {
        module
        for module in modules("work", "rewrite", "api", "cli", "console")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "store"
    }
    assert callers == {"dragoman.work.finish"}

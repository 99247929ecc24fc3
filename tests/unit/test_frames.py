from __future__ import annotations

import pytest

from dragoman.core.errors import BadJSON
from dragoman.core.frames import MAX_ERRORS, MAX_FRAMES, frames

SECRETS = (
    "sk-proj-9aZ4kQ7wL2mX8vB3nC6d",
    "postgresql://ann:hunter2@db.internal/x",
    "ann.smith@example.org",
    "Your loud music kept me awake.",
)


def caught(raise_it) -> BaseException:
    """The error that a call raises."""
    try:
        raise_it()
    except BaseException as error:  # noqa: BLE001 - a chain may start with any error
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.req("R334")
@pytest.mark.parametrize("secret", SECRETS)
def test_no_message_argument_local_or_source_line_is_in_the_chain(secret: str) -> None:
    """An error, its cause, its notes and its locals may hold a secret; the frames hold none."""

    def inner() -> None:
        local = secret
        raise KeyError(local, {"body": secret})

    def outer() -> None:
        try:
            inner()
        except KeyError as error:
            error.add_note(secret)
            raise RuntimeError(f"calling with {secret}") from error

    text = "\n".join(frames(caught(outer)))
    assert "RuntimeError" in text
    assert "KeyError" in text
    assert not any(part in text for part in (secret, *secret.split("@"), "raise ", "local ="))


@pytest.mark.req("R334")
def test_a_name_made_at_run_time_cannot_carry_a_secret_path_or_line() -> None:
    """Code compiled under a strange file name shows no folder and no strange character."""
    code = compile("def f():\n 1/0\n", "/home/ann smith/key=hunter2;x.py", "exec")
    space: dict = {"__package__": None}
    exec(code, space)  # noqa: S102 - the point of the test
    [kind, _, place] = frames(caught(space["f"]))
    assert kind == "ZeroDivisionError"
    assert place == "  key_hunter2_x.py f 2"


def test_each_error_has_its_type_and_its_places() -> None:
    """A line of the chain is a type's full name, or file, function and line number."""

    def outer() -> None:
        raise BadJSON("no")

    found = frames(caught(outer))
    assert found[0] == "dragoman.core.errors.BadJSON"
    line = outer.__code__.co_firstlineno + 1
    assert found[-1].endswith(
        "test_frames.py test_each_error_has_its_type_and_its_places.<locals>.outer " + str(line)
    )
    assert not any(line.lstrip().startswith("/") for line in found)


def test_the_folder_is_the_package_and_not_the_machine() -> None:
    """A frame of ours is shown under dragoman/core, wherever the package is installed."""
    from dragoman.core.canonical import read_json  # noqa: PLC0415 - named beside its use

    found = frames(caught(lambda: read_json(b"\xff")))
    assert any(line.startswith("  dragoman/core/canonical.py read_json ") for line in found)


def test_what_was_hidden_on_purpose_stays_hidden() -> None:
    """`raise ... from None` ends the chain, as it does in a traceback."""

    def hides() -> None:
        try:
            {}["x"]
        except KeyError:
            raise ValueError("y") from None

    assert not any("KeyError" in line for line in frames(caught(hides)))


def test_a_group_shows_what_it_gathers() -> None:
    """Every error of a task group is in the chain."""

    def gathers() -> None:
        raise ExceptionGroup("two", [KeyError("a"), OSError("b")])

    found = frames(caught(gathers))
    assert {"ExceptionGroup", "KeyError", "OSError"} <= set(found)


def test_a_chain_that_returns_to_itself_ends() -> None:
    """An error whose cause is caused by it is shown once."""
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert frames(first) == ["ValueError", "KeyError"]


def test_endless_chains_and_deep_stacks_are_cut() -> None:
    """A chain has at most eight errors and an error its twelve innermost frames."""

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError(n)

    found = frames(caught(lambda: deep(50)))
    assert len(found) == MAX_FRAMES + 2
    assert found[1].startswith("  ... ")

    def long(n: int) -> None:
        try:
            if n:
                long(n - 1)
        finally:
            raise ValueError(n)

    names = [line for line in frames(caught(lambda: long(50))) if not line.startswith(" ")]
    assert len(names) == MAX_ERRORS

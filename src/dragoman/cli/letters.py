"""The commands about dead letters and their options; what they do stands in `remedies`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from dragoman.cli.doing import do

letters = typer.Typer(
    help="Dead letters, from triage to a verified replay.",
    no_args_is_help=True,
)
_Letter = Annotated[UUID, typer.Argument(metavar="ID", help="A dead letter, or the failed job.")]


@letters.command("list")
def letters_list(
    closed: Annotated[bool, typer.Option("--closed", help="With those that are resolved.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Every dead letter that is not resolved, the oldest first; the exit code is 1 if any is."""
    from dragoman.cli.remedies import show_letters  # noqa: PLC0415 - see doing

    do(show_letters(closed_too=closed))


@letters.command("show")
def letters_show(letter: _Letter) -> None:
    """One dead letter: what failed, what is known of it, and what the next step needs."""
    from dragoman.cli.remedies import show_letter  # noqa: PLC0415 - see doing

    do(show_letter(letter))


@letters.command("triage")
def letters_triage(
    letter: _Letter,
    category: Annotated[str, typer.Option(help="transient, data, auth_config or defect")],
    sign_off: Annotated[
        str | None, typer.Option(help="Who of engineering agreed; an escalated one needs it.")
    ] = None,
) -> None:
    """Confirm what failed, and say what it is put down to."""
    from dragoman.cli.remedies import triage  # noqa: PLC0415 - see doing

    do(triage(letter, category, sign_off))


@letters.command("remediate")
def letters_remediate(
    letter: _Letter,
    ticket: Annotated[str, typer.Option(help="The ticket or incident that has the evidence.")],
    evidence: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=WORDS", help="What was done, for each name that show asks."),
    ] = None,
) -> None:
    """Record what was done about the cause."""
    from dragoman.cli.remedies import remediate  # noqa: PLC0415 - see doing

    do(remediate(letter, ticket, evidence or []))


@letters.command("replay")
def letters_replay(
    letter: _Letter,
    safe_twice: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--safe-twice", help="I checked: its effects may happen twice.")
    ] = False,
    full_restart: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--full-restart", help="Begin at fetch, not where it failed.")
    ] = False,
) -> None:
    """Enqueue a new job that goes on where the old one failed."""
    from dragoman.cli.remedies import replay_letter  # noqa: PLC0415 - see doing

    do(replay_letter(letter, is_safe_twice=safe_twice, full_restart=full_restart))


@letters.command("resolve")
def letters_resolve(
    letter: _Letter, notes: Annotated[str, typer.Option(help="How it ended, in one line.")]
) -> None:
    """Close a dead letter; after a replay only once everybody was told."""
    from dragoman.cli.remedies import resolve  # noqa: PLC0415 - see doing

    do(resolve(letter, notes))


@letters.command("escalate")
def letters_escalate(
    letter: _Letter, why: Annotated[str, typer.Option(help="What engineering has to decide.")]
) -> None:
    """Hand a dead letter to engineering."""
    from dragoman.cli.remedies import escalate  # noqa: PLC0415 - see doing

    do(escalate(letter, why))

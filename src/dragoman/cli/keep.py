"""The commands about what is kept: the database, and the audit of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dragoman.cli.doing import do

db = typer.Typer(help="The database.", no_args_is_help=True)
audit = typer.Typer(
    help="What happened, and the proof that nobody rewrote it.", no_args_is_help=True
)


@db.command("status")
def db_status() -> None:
    """How the database stands."""
    from dragoman.cli.db import show_status as show  # noqa: PLC0415 - see doing

    raise typer.Exit(show())


@db.command("start", short_help="Start the embedded server.")
def db_start() -> None:
    """Start the embedded server, with its roles and the newest schema."""
    from dragoman.cli.db import start  # noqa: PLC0415 - see doing

    start()


@db.command("stop")
def db_stop() -> None:
    """Stop the embedded server."""
    from dragoman.cli.db import stop  # noqa: PLC0415 - see doing

    stop()


@db.command("migrate", short_help="Bring the schema up to date.")
def db_migrate() -> None:
    """Bring the schema up to date, as its owner; workers of before go on meanwhile."""
    from dragoman.cli.db import bring_up_to_date  # noqa: PLC0415 - see doing

    bring_up_to_date()


@db.command("bootstrap", short_help="Make ready a server that is not ours.")
def db_bootstrap(
    admin_url_env: Annotated[
        str | None, typer.Option(help="The variable that holds the admin's URL.")
    ] = None,
    admin_url_file: Annotated[
        Path | None, typer.Option(help="The file that holds the admin's URL.")
    ] = None,
    new_passwords: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option(help="Give every role a new password, whatever it was.")
    ] = False,
) -> None:
    """Make database, roles and schema on the server that the setting `database` names."""
    from dragoman.cli.db import make_ready  # noqa: PLC0415 - see doing

    make_ready(admin_url_env, admin_url_file, anew=new_passwords)


@db.command("backup", short_help="Write a sealed backup while everything runs.")
def db_backup(
    target: Annotated[Path, typer.Argument(help="A file that is not there yet, or a folder.")],
    unencrypted: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--unencrypted", help="Leave every text in it readable for everybody.")
    ] = False,
) -> None:
    """Write a backup while everything runs, sealed with the key of the settings."""
    from dragoman.cli.backup import backup  # noqa: PLC0415 - see doing

    backup(target, may_lie_open=unencrypted)


@db.command("restore", short_help="Put a backup into this home.")
def db_restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    replace: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--replace", help="Move the data that are there aside.")
    ] = False,
) -> None:
    """Put a backup into this home; the engine starts held, until you release it."""
    from dragoman.cli.backup import restore  # noqa: PLC0415 - see doing

    restore(file, may_replace=replace)


@db.command("psql")
def db_psql(
    role: Annotated[
        str,
        typer.Option(
            help="Whose eyes: owner, orchestrator, worker, operator, frontend, auditor or eraser."
        ),
    ] = "operator",
) -> None:
    """Open psql as one of the roles."""
    from dragoman.cli.db import open_psql  # noqa: PLC0415 - see doing

    open_psql(role)


@audit.command("verify", short_help="Compute every chain again from its events.")
def audit_verify(
    job: Annotated[UUID | None, typer.Option(help="Only this job's chain.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="Only what has moved since then (UTC)."),
    ] = None,
    anchors: Annotated[
        Path | None, typer.Option(help="Compare the history with the anchors in this file.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The file with the anchors' public key.")] = None,
) -> None:
    """Compute every chain again from its events; the exit code is 1 when anything is wrong."""
    from dragoman.cli.audit import Asked, show_verdict  # noqa: PLC0415 - see doing

    moved = since.replace(tzinfo=UTC) if since else None
    do(show_verdict(Asked(job, moved, anchors, key)))


@audit.command("show", short_help="The story of one job, each event verified.")
def audit_show(
    id: Annotated[UUID, typer.Argument(help="A job, or the request that it was made for.")],  # noqa: A002 - the word on the help page
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """The whole story of one job, each event verified, without one word of anybody's message."""
    from dragoman.cli.story import show_story  # noqa: PLC0415 - see doing

    do(show_story(id, as_json=as_json))


@audit.command("report", short_help="Tokens, money, failures and checks.")
def audit_report(
    since: Annotated[
        datetime | None, typer.Option(help="Only what was enqueued since then (UTC).")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A TOML file with what a million tokens cost.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Tokens and money by language pair, failures by model, checks by prompt."""
    from dragoman.cli.report import show_report  # noqa: PLC0415 - see doing

    moved = since.replace(tzinfo=UTC) if since else None
    do(show_report(moved, prices, as_json=as_json))


@audit.command("keygen", short_help="Make a key that signs anchors.")
def audit_keygen(
    file: Annotated[Path, typer.Argument(help="Where the key goes; FILE.pub is its public half.")],
) -> None:
    """Make a key that signs anchors, and the one that checks them."""
    from dragoman.cli.audit import make_key  # noqa: PLC0415 - see doing

    make_key(file)

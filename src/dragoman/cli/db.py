"""The database, from the command line: the embedded one, or one by URL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import TypeAlias

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dragoman.cli.alone import is_up
from dragoman.cli.held import held_line
from dragoman.cli.hint import hint
from dragoman.core.errors import BadSetting, DatabaseError, NotFound, Refused
from dragoman.settings import Settings, read_secret, read_settings
from dragoman.store.cluster import installed
from dragoman.store.database import Cell, open_cell
from dragoman.store.embedded import Server, State
from dragoman.store.incarnation import NAME, check_incarnation, note_progress
from dragoman.store.migrate import migrate
from dragoman.store.preflight import Expected, preflight, unknown_risks
from dragoman.store.remote import Remote
from dragoman.store.restore import refuse_half_restored
from dragoman.store.roles import OWNER, ROLES, Secrets

Database: TypeAlias = Server | Remote


def database_of(settings: Settings) -> Database:
    """The embedded server of this installation, or the one that its URL names."""
    if settings.database == "embedded":
        if settings.database_line is not None:
            raise BadSetting("database_line goes with a database by URL; ours has no pooler")
        refuse_half_restored(settings.home / "postgresql")
        return Server(settings.home / "postgresql")
    secrets = Secrets(settings.database_secrets or settings.home / "secrets")
    return Remote(settings.database, secrets, settings.database_line)


def server_of(settings: Settings) -> Server:
    """The embedded server; a database by URL is nobody's to start or to stop here."""
    database = database_of(settings)
    if isinstance(database, Remote):
        raise Refused(f"the database is {database.place}, which is not started or stopped here")
    return database


def dsn_of(settings: Settings, role: str) -> str:
    """How a role connects."""
    return database_of(settings).dsn(f"dragoman_{role}")


def line_dsn_of(settings: Settings, role: str) -> str:
    """How a role connects for a session of its own, past a pooler."""
    database = database_of(settings)
    name = f"dragoman_{role}"
    return database.line_dsn(name) if isinstance(database, Remote) else database.dsn(name)


def cell_of(
    settings: Settings, role: str, application: str = "dragoman cli"
) -> AbstractAsyncContextManager[Cell]:
    """The installation's cell, as one role sees it."""
    return open_cell(
        dsn_of(settings, role),
        name=settings.cell,
        role=application,
        is_pooled=settings.database_line is not None,
    )


async def check_cell(settings: Settings, cell: Cell, role: str) -> list[str]:
    """Refuse a database that this role cannot work on; the risks that were accepted."""
    unknown = unknown_risks(settings.accept_server_log_risk)
    if unknown:
        raise BadSetting(f"accept_server_log_risk names {unknown[0]}, which is no risk we know")
    expected = Expected(
        f"dragoman_{role}",
        frozenset(settings.accept_server_log_risk),
        max(settings.pace.max_jobs_per_run, settings.pace.claim_batch),
    )
    return await preflight(cell, expected)


async def check_roles(settings: Settings, roles: Sequence[str]) -> None:
    """The same for each of these roles, on connections of their own."""
    for role in roles:
        async with cell_of(settings, role, "dragoman check") as cell:
            await check_cell(settings, cell, role)


def require_running(settings: Settings) -> Database:
    """The database, if it answers; else a sentence that says what to do."""
    database = database_of(settings)
    if isinstance(database, Remote):
        if not database.is_there():
            raise BadSetting(f"the database does not answer at {database.place}")
        return database
    status = database.status()
    if status.state in {State.STARTING, State.RECOVERING}:
        raise BadSetting(f"the database is {status.state}: {status.why}. Try again in a moment")
    if status.state is not State.READY:
        what_to_do = f"Start everything with: {hint('up')}"
        raise BadSetting(f"the database is {status.state}: {status.why}. {what_to_do}")
    return database


def prepare(settings: Settings) -> list[str]:
    """A running server with its roles and the newest schema; the migrations that were applied."""
    database = database_of(settings)
    if isinstance(database, Server):
        database.bootstrap()
    applied = migrate(line_dsn_of(settings, "owner"), cell=settings.cell, tell=_warn)
    if isinstance(database, Server):
        check_incarnation(database.dsn(OWNER), database.home / NAME, settings.cell)
    return applied


def leave(database: Database) -> None:
    """Note how far our own data are; where that cannot be done, the last note stays true."""
    if not isinstance(database, Server):
        return
    with suppress(DatabaseError, NotFound, OSError):
        note_progress(database.dsn(OWNER), database.home / NAME)


def show_status() -> int:
    """Print how the database stands; 0 when it is ready."""
    settings = read_settings()
    database = database_of(settings)
    if isinstance(database, Remote):
        return _show_remote(database)
    status = database.status()
    facts = {
        "state": status.state,
        "why": status.why,
        "version": status.version,
        "pid": status.pid,
        "data": status.data,
    }
    for name, value in facts.items():
        if value is not None:
            typer.echo(f"{name:8} {value}")
    if status.state is State.READY and (held := held_line(settings)):
        typer.echo(f"engine   {held}")
    return 0 if status.state is State.READY else 1


def _show_remote(database: Remote) -> int:
    is_there = database.is_there()
    typer.echo(f"{'state':8} {State.READY if is_there else State.STOPPED}")
    typer.echo(f"{'why':8} it {'takes' if is_there else 'does not take'} connections")
    typer.echo(f"{'at':8} {database.place}")
    return 0 if is_there else 1


def start() -> None:
    """Start it."""
    settings = read_settings()
    server_of(settings)
    prepare(settings)
    show_status()


def stop() -> None:
    """Stop it."""
    settings = read_settings()
    server = server_of(settings)
    if is_up(settings.home):
        raise Refused(f"Dragoman is up in {settings.home}; Ctrl-C there stops the database as well")
    leave(server)
    server.stop()
    show_status()


def bring_up_to_date() -> None:
    """Apply the migrations that are missing, as the owner."""
    settings = read_settings()
    require_running(settings)
    _tell_applied(prepare(settings))


def make_ready(env: str | None, file: Path | None, *, anew: bool) -> None:
    """Make database, roles, passwords and schema on a server by URL, and say what was done."""
    from dragoman.store.bootstrap import bootstrap  # noqa: PLC0415 - this command alone needs it

    settings = read_settings()
    database = database_of(settings)
    if isinstance(database, Server):
        raise Refused(f"the embedded database makes itself ready: {hint('db start')}")
    admin = read_secret(env, file)
    if not admin:
        raise BadSetting("name the admin's URL: --admin-url-env NAME or --admin-url-file FILE")
    bootstrap(admin, database, typer.echo, anew=anew)
    _tell_applied(prepare(settings))


def _tell_applied(applied: list[str]) -> None:
    for name in applied:
        typer.echo(f"schema   {name} applied")
    if not applied:
        typer.echo("schema   is as it should be")


def _warn(line: str) -> None:
    typer.echo(line, err=True)


def open_psql(role: str) -> None:
    """Become psql."""
    settings = read_settings()
    name = f"dragoman_{role}"
    if name not in ROLES:
        raise BadSetting(
            f"there is no role {role}; known are "
            + ", ".join(known.removeprefix("dragoman_") for known in ROLES)
        )
    database = require_running(settings)
    told = conninfo_to_dict(line_dsn_of(settings, role))
    os.environ["PGOPTIONS"] = "-c search_path=dragoman"
    os.environ["PGPASSWORD"] = str(told.pop("password"))  # a command line is everybody's to read
    where = make_conninfo("", **told)
    os.execv(_psql(database), ["psql", where])  # noqa: S606 - psql itself, no shell


def _psql(database: Database) -> Path:
    if isinstance(database, Server):
        return database.psql_path
    found = shutil.which("psql")  # the one that comes along knows no TLS
    return Path(found) if found else installed() / "bin" / "psql"

"""The embedded database, from the command line."""

from __future__ import annotations

import os
from contextlib import suppress

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dragoman.cli.alone import is_up
from dragoman.cli.held import held_line
from dragoman.cli.hint import hint
from dragoman.core.errors import BadSetting, DatabaseError, NotFound, Refused
from dragoman.settings import Settings, read_settings
from dragoman.store.embedded import Server, State
from dragoman.store.incarnation import NAME, check_incarnation, note_progress
from dragoman.store.migrate import migrate
from dragoman.store.restore import refuse_half_restored
from dragoman.store.roles import OWNER, ROLES


def server_of(settings: Settings) -> Server:
    """The embedded server of this installation."""
    if settings.database != "embedded":
        raise BadSetting("the setting database must be embedded: no other one is supported yet")
    refuse_half_restored(settings.home / "postgresql")
    return Server(settings.home / "postgresql")


def dsn_of(settings: Settings, role: str) -> str:
    """How a role connects."""
    return server_of(settings).dsn(f"dragoman_{role}")


def require_running(settings: Settings) -> Server:
    """The server, if it answers; else a sentence that says what to do."""
    server = server_of(settings)
    status = server.status()
    if status.state in {State.STARTING, State.RECOVERING}:
        raise BadSetting(f"the database is {status.state}: {status.why}. Try again in a moment")
    if status.state is not State.READY:
        what_to_do = f"Start everything with: {hint('up')}"
        raise BadSetting(f"the database is {status.state}: {status.why}. {what_to_do}")
    return server


def prepare(settings: Settings) -> Server:
    """A running server with its roles and the newest schema."""
    server = server_of(settings)
    server.bootstrap()
    migrate(server.dsn(OWNER), cell=settings.cell)
    check_incarnation(server.dsn(OWNER), server.home / NAME, settings.cell)
    return server


def leave(server: Server) -> None:
    """Note how far the data are; where that cannot be done, the last note stays true."""
    with suppress(DatabaseError, NotFound, OSError):
        note_progress(server.dsn(OWNER), server.home / NAME)


def show_status() -> int:
    """Print how the server stands; 0 when it is ready."""
    settings = read_settings()
    status = server_of(settings).status()
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
    if status.state is State.READY and (held := held_line(server_of(settings), settings.cell)):
        typer.echo(f"engine   {held}")
    return 0 if status.state is State.READY else 1


def start() -> None:
    """Start it."""
    prepare(read_settings())
    show_status()


def stop() -> None:
    """Stop it."""
    settings = read_settings()
    if is_up(settings.home):
        raise Refused(f"Dragoman is up in {settings.home}; Ctrl-C there stops the database as well")
    server = server_of(settings)
    leave(server)
    server.stop()
    show_status()


def open_psql(role: str) -> None:
    """Become psql."""
    settings = read_settings()
    name = f"dragoman_{role}"
    if name not in ROLES:
        raise BadSetting(
            f"there is no role {role}; known are "
            + ", ".join(known.removeprefix("dragoman_") for known in ROLES)
        )
    server = require_running(settings)
    told = conninfo_to_dict(server.dsn(name))
    os.environ["PGOPTIONS"] = "-c search_path=dragoman"
    os.environ["PGPASSWORD"] = str(told.pop("password"))  # a command line is everybody's to read
    where = make_conninfo("", **told)
    os.execv(server.psql_path, ["psql", where])  # noqa: S606 - our own psql, no shell

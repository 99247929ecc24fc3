"""A database by URL, made ready by its admin: roles, passwords, database, settings of the roles.

The admin needs no superuser: CREATEROLE and CREATEDB are enough, as on a managed server. Whatever
stops it, it can be run again: everything is looked at before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import psycopg
from psycopg import Connection, sql

from dragoman.core.errors import BadSetting, DatabaseDown, Refused
from dragoman.store.database import mapped
from dragoman.store.preflight import ADVICE, OLDEST, SILENT, TIMED
from dragoman.store.remote import Remote
from dragoman.store.roles import (
    OWNER,
    ROLES,
    Secrets,
    make_database,
    make_role,
    set_password,
)

_BUILTIN = 170000  # the first version whose sort order depends on no library of the machine
_ME = """
select current_user::text, rolsuper, current_setting('server_version_num')::int, pg_is_in_recovery()
  from pg_catalog.pg_roles where rolname = current_user
"""
_MAY_SET = """
select name from pg_catalog.pg_settings
 where name = any(%s) and (context = 'user' or has_parameter_privilege(name, 'set'))
"""
_QUIET = {name: good for name, good in {**SILENT, **TIMED}.items() if "." not in name}
_ENCODING = "select pg_encoding_to_char(encoding) from pg_catalog.pg_database where datname = %s"

Tell = Callable[[str], None]


def bootstrap(
    admin_url: str, remote: Remote, tell: Tell, *, schema: str = "dragoman", anew: bool = False
) -> None:
    """Make what is missing on the server; `anew` gives every role a new password.

    >>> bootstrap(os.environ["ADMIN_URL"], remote, print)  # doctest: +SKIP
    """
    with _admin(admin_url) as connection:
        is_superuser = _refuse_unfit(connection)
        pins = _pins(connection)
        for role in ROLES:
            tell(_role(connection, role, pins, remote.secrets, anew=anew))
        tell(_told_of_pins(connection, pins))
        with _membership(connection, is_needed=not is_superuser):
            tell(_database(connection, remote.database))
            for role in ROLES:
                _search_here(connection, role, remote.database, schema)


@contextmanager
def _admin(url: str) -> Generator[Connection]:
    """The admin's connection; its errors become sentences, for they would quote its URL."""
    with mapped():
        try:
            connection = psycopg.connect(url, autocommit=True, connect_timeout=5)
        except psycopg.Error:
            raise DatabaseDown from None
        with connection:
            try:
                yield connection
            except psycopg.errors.InsufficientPrivilege:
                raise Refused(
                    "the admin may not do this: it needs CREATEROLE and CREATEDB, and roles of "
                    "ours that exist must have been made by it"
                ) from None


def _refuse_unfit(connection: Connection) -> bool:
    """Refuse an old server or a replica; whether the admin is a superuser."""
    row = connection.execute(_ME).fetchone()
    if row is None or row[2] < OLDEST:
        raise BadSetting("this PostgreSQL is too old: 15 or newer is needed")
    if row[3]:
        raise BadSetting("this server is a replica: name its primary")
    return bool(row[1])


def _pins(connection: Connection) -> dict[str, str]:
    """The settings of the server's log that this admin may fix for our roles."""
    allowed = connection.execute(_MAY_SET, (list(_QUIET),)).fetchall()
    return {name: _QUIET[name][0] for (name,) in allowed}


def _told_of_pins(connection: Connection, pins: dict[str, str]) -> str:
    """What of the server's log only its own settings can fix, and is not right there."""
    rows = connection.execute(
        "select name, current_setting(name) from unnest(%s::text[]) name",
        ([name for name in _QUIET if name not in pins],),
    ).fetchall()
    loud = [f"{name} = {_QUIET[name][0]}" for name, value in rows if value not in _QUIET[name]]
    if not loud:
        return "log      no value of a statement reaches the server's log from our roles"
    return f"log      values of statements would reach it until you set {', '.join(loud)} {ADVICE}"


def _role(
    connection: Connection, role: str, pins: dict[str, str], secrets: Secrets, *, anew: bool
) -> str:
    known = connection.execute("select from pg_catalog.pg_roles where rolname = %s", (role,))
    if known.rowcount and not secrets.has(role) and not anew:
        raise Refused(
            f"the role {role} exists and {secrets.folder} has no password of it: bring the file "
            "here, or give every role a new password with --new-passwords"
        )
    if anew:
        secrets.renew(role)
    secrets.ensure(role)
    with connection.transaction():
        make_role(connection, role, {**pins, **ROLES[role]})
        set_password(connection, role, secrets.read(role))
    return f"role     {role} {'is as it should be' if known.rowcount else 'made'}"


@contextmanager
def _membership(connection: Connection, *, is_needed: bool) -> Generator[None]:
    """Be a member of the owner for as long as its database is made: only a superuser need not."""
    owner = sql.Identifier(OWNER)
    row = connection.execute("select pg_has_role(%s, 'usage')", (OWNER,)).fetchone()
    if not is_needed or row == (True,):
        yield
        return
    connection.execute(sql.SQL("grant {} to current_user").format(owner))
    try:
        yield
    finally:
        connection.execute(sql.SQL("revoke {} from current_user").format(owner))


def _database(connection: Connection, name: str) -> str:
    version = connection.info.server_version
    locale = "locale 'C'"
    if version >= _BUILTIN:
        locale += " locale_provider builtin builtin_locale 'C.UTF-8'"
    is_new = make_database(
        connection, name, "template0", locale=sql.SQL(f"encoding 'UTF8' {locale}")
    )
    if connection.execute(_ENCODING, (name,)).fetchone() != ("UTF8",):
        raise BadSetting(f"the database {name} must have the encoding UTF8: name another one")
    return f"database {name} {'made' if is_new else 'is there'}"


def _search_here(connection: Connection, role: str, database: str, schema: str) -> None:
    """Behind a pooler no session is ours: its role finds the schema by itself."""
    connection.execute(
        sql.SQL("alter role {} in database {} set search_path = {}").format(
            sql.Identifier(role), sql.Identifier(database), sql.Identifier(schema)
        )
    )

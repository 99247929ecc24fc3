"""Plain SQL against the guards: what a statement of ours would never say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from tests import postgres

OWNER, WORKER = "dragoman_owner", "dragoman_worker"
DENIED = ("42501", None)


def connect(database: str, role: str = OWNER) -> psycopg.Connection:
    """A connection of one role."""
    options = "-c search_path=dragoman"
    return psycopg.connect(postgres.dsn(role, database), autocommit=True, options=options)


def refusal(
    connection: psycopg.Connection, statement: str, params: Mapping[str, Any] | None = None
) -> tuple[str | None, str | None] | None:
    """SQLSTATE and constraint of a refused statement, None if it is allowed; nothing stays done."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode(), params)
            connection.execute("set constraints all immediate")
    except psycopg.Error as error:
        return error.sqlstate, error.diag.constraint_name
    return None


def guard(name: str) -> tuple[str, str]:
    """What one of our triggers says."""
    return "DR001", name


def columns(connection: psycopg.Connection, table: str) -> list[str]:
    """The columns of a table."""
    rows = connection.execute(
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0"
        " and not attisdropped order by attnum",
        (table,),
    )
    return [row[0] for row in rows]


def copied(connection: psycopg.Connection, table: str, changed: Mapping[str, str]) -> str:
    """A statement that copies a row under a new key, with some columns changed."""
    names = columns(connection, table)
    new = {"id": "gen_random_uuid()", **changed}
    values = ", ".join(new.get(name, name) for name in names)
    return f"insert into {table} ({', '.join(names)}) select {values} from {table} limit 1"

"""The schema, brought up to date by its owner: numbered files, one transaction each, one lock."""

from __future__ import annotations

from importlib import resources
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from dragoman.core.canonical import sha256
from dragoman.core.errors import Invariant
from dragoman.core.ids import uuid7
from dragoman.core.job import Kind, Reason
from dragoman.store.database import mapped

_LOCK = 0x647261676F6D616E  # "dragoman"


def migrate(owner_dsn: str, *, cell: str = "main", schema: str = "dragoman") -> list[str]:
    """Apply what is missing and return its names. Safe to run twice and by two at once.

    >>> migrate(server.dsn("dragoman_owner"))  # doctest: +SKIP
    ['0001_kernel', '0002_rewrite', '0003_review', '0004_roles']
    """
    options = f"-c search_path={schema} -c lock_timeout=2s -c client_min_messages=warning"
    with mapped(), psycopg.connect(owner_dsn, autocommit=True, options=options) as connection:
        connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        _prepare(connection, schema)
        done = _applied(connection)
        missing = [each for each in _files() if each[0] not in done]
        for name, text in missing:
            with connection.transaction():
                connection.execute(sql.SQL(text))
                connection.execute(
                    "insert into migration values (%s, %s, clock_timestamp())",
                    (name, sha256(text.encode())),
                )
        with connection.transaction():
            _fill(connection, cell)
        return [name for name, _ in missing]


def known_migrations() -> dict[str, str]:
    """The schema's files, each with its sha256 in hexadecimal.

    >>> "0001_kernel" in known_migrations()
    True
    """
    return {name: sha256(text.encode()).hex() for name, text in _files()}


def _prepare(connection: psycopg.Connection, schema: str) -> None:
    if connection.execute("select to_regnamespace(%s)", (schema,)).fetchone() == (None,):
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    connection.execute(
        "create table if not exists migration"
        " (name text primary key, sha256 bytea not null, applied_at timestamptz not null)"
    )


def _applied(connection: psycopg.Connection) -> set[str]:
    known: dict[str, str] = dict(_files())
    found = connection.execute("select name, sha256 from migration").fetchall()
    for name, digest in found:
        if name not in known:
            raise Invariant(
                f"the database is newer than this program, it has migration {name}: "
                "use the version that made it"
            )
        if bytes(digest) != sha256(known[name].encode()):
            raise Invariant(
                f"migration {name} differs from the one that made this database: it belongs to "
                "another version of Dragoman; use that one, or set another home"
            )
    return {name for name, _ in found}


def _files() -> list[tuple[str, LiteralString]]:
    folder = resources.files("dragoman.store").joinpath("sql", "migrations")
    files = sorted(
        (path for path in folder.iterdir() if path.name.endswith(".sql")),
        key=lambda path: path.name,
    )
    return [
        (path.name.removesuffix(".sql"), cast("LiteralString", path.read_text(encoding="utf-8")))
        for path in files
    ]


def _fill(connection: psycopg.Connection, cell: str) -> None:
    words = [("kind", kind.value, kind.name.lower()) for kind in Kind]
    words += [("reason", reason.value, reason.name.lower()) for reason in Reason]
    with connection.cursor() as cursor:
        cursor.executemany("insert into word values (%s, %s, %s) on conflict do nothing", words)
    connection.execute(
        "insert into cell (name, incarnation, created_at) values (%s, %s, clock_timestamp())"
        " on conflict do nothing",
        (cell, uuid7()),
    )

"""The schema, brought up to date by its owner: numbered files, one lock, resumed where it stopped.

A file is one transaction, so a crash anywhere in it leaves nothing of it. A file that begins with
`-- no transaction:` is a row of steps, each under a line `-- step`: a step and its record are one
transaction, and an index made concurrently, which cannot be, is looked at before it is made again.
A file that takes away what an older program still uses has `_contract_` in its name.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from dragoman.core.canonical import sha256
from dragoman.core.errors import Invariant, TryAgain
from dragoman.core.ids import uuid7
from dragoman.core.job import Kind, Reason
from dragoman.store.database import mapped

_LOCK = 0x647261676F6D616E  # "dragoman"
_LOCK_TIMEOUT = "2s"  # nobody queues for longer behind a statement that waits for its lock
_PATIENCE_S = 60.0
_CONCURRENT = re.compile(
    r"\s*(?:create(?: unique)? index concurrently if not exists|drop index concurrently if exists)"
    r" (?P<name>[a-z0-9_]+)\b[^;]*;\s*"
)
_TABLES = """
create table if not exists migration
  (name text primary key, sha256 bytea not null, applied_at timestamptz not null);
create table if not exists migration_step
  (migration text not null, step int not null, sha256 bytea not null,
   applied_at timestamptz not null, primary key (migration, step));
"""

_INVALID = """
select 1 from pg_index join pg_class on oid = indexrelid
 where relname = %s and relnamespace = current_schema()::regnamespace and not indisvalid
"""

Tell = Callable[[str], None]


class MigrationWaits(TryAgain):
    """A lock that a migration needs is held by somebody else."""

    def __init__(self, what: str) -> None:
        super().__init__("55P03")
        why = "waits for a lock that somebody else holds, and has given up; nothing is half done"
        what_to_do = "End long transactions (pg_stat_activity has their xact_start), then try again"
        self.args = (f"{what} {why}. {what_to_do}",)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    name: str
    text: LiteralString

    @property
    def digest(self) -> bytes:
        """What is kept of it, to see that it was not changed."""
        return sha256(self.text.encode())

    @property
    def is_contraction(self) -> bool:
        """Whether a program that does not know it can no longer work."""
        return is_contraction(self.name)

    @property
    def steps(self) -> list[LiteralString]:
        """Its steps; a file that is one transaction has none."""
        if not self.text.startswith("-- no transaction:"):
            return []
        found = re.split(r"^-- step\b.*\n", self.text, flags=re.MULTILINE)[1:]
        return [cast("LiteralString", step) for step in found]


def migrate(
    owner_dsn: str,
    *,
    cell: str = "main",
    schema: str = "dragoman",
    tell: Tell = lambda _: None,
    patience_s: float = _PATIENCE_S,
    folder: Traversable | None = None,
) -> list[str]:
    """Apply what is missing and return its names. Safe to run twice and by two at once.

    >>> migrate(server.dsn("dragoman_owner"))  # doctest: +SKIP
    ['0001_kernel', '0002_rewrite', '0003_review', '0004_roles']
    """
    known = migrations(folder)
    with mapped(), psycopg.connect(owner_dsn, autocommit=True) as connection:
        migrator = _Migrator(connection, tell, patience_s)
        migrator.open(schema)
        done = _applied(connection, known)
        missing = [each for each in known if each.name not in done]
        for each in missing:
            migrator.apply(each)
        migrator.fill(cell)
        return [each.name for each in missing]


def migrations(folder: Traversable | None = None) -> list[Migration]:
    """Every migration that this program knows, in order."""
    place = folder or resources.files("dragoman.store").joinpath("sql", "migrations")
    files = sorted(
        (path for path in place.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name
    )
    return [
        Migration(
            path.name.removesuffix(".sql"),
            cast("LiteralString", path.read_text(encoding="utf-8")),
        )
        for path in files
    ]


def known_migrations() -> dict[str, str]:
    """The schema's files, each with its sha256 in hexadecimal.

    >>> "0001_kernel" in known_migrations()
    True
    """
    return {each.name: each.digest.hex() for each in migrations()}


def is_contraction(name: str) -> bool:
    """Whether a migration takes away what an older program uses; its name says so.

    >>> is_contraction("0012_contract_route")
    True
    """
    return "_contract_" in name


@dataclass(frozen=True, slots=True)
class _Migrator:
    """One connection of the owner's, and how long it waits for others."""

    connection: psycopg.Connection
    tell: Tell
    patience_s: float

    def open(self, schema: str) -> None:
        """Be the only one who migrates, and have the tables in which it is written down."""
        self._set("search_path", schema)
        self._set("lock_timeout", _LOCK_TIMEOUT)
        self._set("statement_timeout", "0")
        self._set("client_min_messages", "warning")
        self._patiently("this migration", self._lock)
        found = self.connection.execute("select to_regnamespace(%s)", (schema,)).fetchone()
        if found == (None,):
            self.connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
        self.connection.execute(_TABLES)

    def apply(self, migration: Migration) -> None:
        """Apply one, from where it was left."""
        steps = migration.steps
        for number in range(self._steps_done(migration), len(steps)):
            self._patiently(
                f"{migration.name}, step {number + 1},", partial(self._step, migration, number)
            )
        self._patiently(migration.name, partial(self._finish, migration))

    def fill(self, cell: str) -> None:
        """The words behind numbers, the cell's row, and room for the months to come."""
        with self.connection.transaction():
            _fill(self.connection, cell)
        self._patiently("the history", self._make_room)

    def _lock(self) -> None:
        # Not the form that waits: its snapshot would hold up an index that is made concurrently.
        row = self.connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
        if row != (True,):
            raise psycopg.errors.LockNotAvailable

    def _finish(self, migration: Migration) -> None:
        """Write down that a migration is done, in the transaction that does it if it has one."""
        with self.connection.transaction():
            if not migration.steps:
                self.connection.execute(sql.SQL(migration.text))
            self.connection.execute(
                "insert into migration (name, sha256, applied_at)"
                " values (%s, %s, clock_timestamp())",
                (migration.name, migration.digest),
            )

    def _steps_done(self, migration: Migration) -> int:
        rows = self.connection.execute(
            "select sha256 from migration_step where migration = %s", (migration.name,)
        ).fetchall()
        if any(bytes(digest) != migration.digest for (digest,) in rows):
            raise _changed(migration.name)
        return len(rows)

    def _step(self, migration: Migration, number: int) -> None:
        step = migration.steps[number]
        concurrent = _CONCURRENT.fullmatch(step)
        if concurrent:
            self._run_concurrently(step, concurrent["name"])
        with self.connection.transaction():
            if not concurrent:
                self.connection.execute(sql.SQL(step))
            self.connection.execute(
                "insert into migration_step values (%s, %s, %s, clock_timestamp())",
                (migration.name, number, migration.digest),
            )

    def _run_concurrently(self, step: LiteralString, index: str) -> None:
        """Run what may stop halfway: an index that was left invalid is dropped first."""
        # While it waits for old transactions nobody queues behind it, so it may wait longer.
        self._set("lock_timeout", f"{self.patience_s:.0f}s")
        try:
            if self.connection.execute(_INVALID, (index,)).fetchone():
                drop = sql.SQL("drop index concurrently {}").format(sql.Identifier(index))
                self.connection.execute(drop)
            self.connection.execute(sql.SQL(step))
        finally:
            if not self.connection.broken:
                self._set("lock_timeout", _LOCK_TIMEOUT)

    def _make_room(self) -> None:
        self.connection.execute("select ensure_partitions()")

    def _set(self, name: str, value: str) -> None:
        self.connection.execute("select set_config(%s, %s, false)", (name, value))

    def _patiently(self, what: str, act: Callable[[], None]) -> None:
        """Try again, later each time, while somebody else holds a lock."""
        until = time.monotonic() + self.patience_s
        pause = 0.5
        while True:
            try:
                return act()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if time.monotonic() >= until:
                    raise MigrationWaits(what) from None
            self.tell(f"{what} waits for a lock that somebody else holds")
            threading.Event().wait(pause)  # nobody tells when a lock is free
            pause = min(pause * 2, 8.0)


def _applied(connection: psycopg.Connection, known: Sequence[Migration]) -> set[str]:
    digests = {each.name: each.digest for each in known}
    found = connection.execute("select name, sha256 from migration").fetchall()
    for name, digest in found:
        if name not in digests:
            raise Invariant(
                f"the database is newer than this program, it has migration {name}: "
                "use the version that made it"
            )
        if bytes(digest) != digests[name]:
            raise _changed(name)
    return {name for name, _ in found}


def _changed(name: str) -> Invariant:
    return Invariant(
        f"migration {name} differs from the one that made this database: it belongs to "
        "another version of Dragoman; use that one, or set another home"
    )


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

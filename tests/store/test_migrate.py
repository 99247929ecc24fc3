"""Migrations: one at a time, whole wherever they are cut, and never ahead of an older program."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest

from dragoman.core.errors import DatabaseDown, DataRefused, Invariant
from dragoman.store.cluster import installed
from dragoman.store.migrate import MigrationWaits, is_contraction, migrate, migrations
from dragoman.store.roles import ADMIN, OWNER, make_database
from tests import postgres
from tests.store.attack import connect
from tests.unit.test_repository import without_comments

SHIPPED = migrations()
STEPWISE = """-- no transaction: an index on a table in use; expects job; returns nothing.
-- step: any index
create unique index concurrently if not exists job_made on job (id, created_at);
-- step: what a transaction may hold
create table made (id int primary key);
insert into made values (1);
-- step: another index
create index concurrently if not exists job_home on job (home_id);
"""

# Kills whoever migrates after so many commands; the counter survives the rollback.
_KILLER = """
create schema killer;
create sequence killer.ran;
create table killer.plan (after int not null);
insert into killer.plan values (0);
create function killer.kill() returns event_trigger language plpgsql security definer as $$
begin
  if nextval('killer.ran') = (select after from killer.plan) then
    perform pg_terminate_backend(pg_backend_pid());
  end if;
end $$;
create event trigger kill on ddl_command_end execute function killer.kill();
"""


@pytest.fixture
def empty() -> Generator[str]:
    """A database without a schema."""
    with made() as name:
        yield name


@contextmanager
def made() -> Generator[str]:
    """An empty database; gone afterwards."""
    name = f"test_{uuid4().hex}"
    with _admin("postgres") as connection:
        make_database(connection, name)
    try:
        yield name
    finally:
        postgres.drop(name)


@contextmanager
def _admin(database: str) -> Generator[psycopg.Connection]:
    with psycopg.connect(postgres.dsn(ADMIN, database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped migrations, where a test may add its own."""
    for each in SHIPPED:
        (tmp_path / f"{each.name}.sql").write_text(each.text)
    return tmp_path


def owner(database: str) -> str:
    """How the owner connects."""
    return postgres.dsn(OWNER, database)


def schema_of(database: str) -> str:
    """The schema and the words in it, as pg_dump writes them."""
    argv = [installed() / "bin" / "pg_dump", "--schema=dragoman", "--no-comments", owner(database)]
    data = ["--exclude-table-data=dragoman.migration*", "--exclude-table-data=dragoman.cell"]
    done = subprocess.run([*argv, *data], capture_output=True, check=True, text=True)
    assert "create table" in done.stdout.lower()
    return re.sub(r"^\\.*\n", "", done.stdout, flags=re.MULTILINE)  # a random word per dump


def names(database: str) -> list[str]:
    """What is written down as done."""
    with connect(database) as connection:
        return [row[0] for row in connection.execute("select name from migration order by name")]


class Killer:
    """Ends the migrating backend after a number of commands."""

    def __init__(self, database: str) -> None:
        self._database = database
        with _admin(database) as connection:
            connection.execute(_KILLER)

    def after(self, commands: int) -> None:
        """Kill after so many commands from now on; 0 kills nobody."""
        with _admin(self._database) as connection:
            connection.execute("update killer.plan set after = %s", (commands,))
            connection.execute("select setval('killer.ran', 1, false)")

    def leave(self) -> None:
        """Nothing of it stays."""
        with _admin(self._database) as connection:
            connection.execute("drop event trigger kill")
            connection.execute("drop schema killer cascade")


def killed_everywhere(database: str, folder: Path) -> int:
    """Migrate, killed after each command of each file once; how often that was."""
    killer, kills, after, known = Killer(database), 0, 0, -1
    while True:
        with connect(database) as connection:
            there = connection.execute("select to_regclass('migration_step')").fetchone()
        done = 0 if there == (None,) else _progress(database)
        after = 1 if done != known else after + 1
        known = done
        killer.after(after)
        try:
            migrate(owner(database), folder=folder)
        except DatabaseDown:
            kills += 1
            continue
        killer.leave()
        return kills


def _progress(database: str) -> int:
    with connect(database) as connection:
        row = connection.execute(
            "select (select count(*) from migration) + (select count(*) from migration_step)"
        ).fetchone()
    assert row
    return int(row[0])


def test_a_migration_killed_after_any_command_goes_on_from_there(empty: str, folder: Path) -> None:
    """Whatever statement the server dies at, the next run ends with the same schema."""
    (folder / "9001_made.sql").write_text(STEPWISE)
    kills = killed_everywhere(empty, folder)
    commands = sum(
        len(re.findall(r"^(?:create|grant|revoke|alter)\b", each.text, re.MULTILINE))
        for each in migrations(folder)
    )
    assert kills >= commands
    with made() as undisturbed:
        migrate(owner(undisturbed), folder=folder)
        assert names(empty) == names(undisturbed) == [each.name for each in migrations(folder)]
        assert schema_of(empty) == schema_of(undisturbed)
    assert migrate(owner(empty), folder=folder) == []


def test_an_index_that_was_left_invalid_is_made_again(empty: str, folder: Path) -> None:
    """A concurrent index that could not be finished is dropped, and made once its cause is gone."""
    (folder / "9001_rows.sql").write_text(
        "create table made (n int); insert into made values (1), (1);"
    )
    (folder / "9002_index.sql").write_text(
        "-- no transaction: a table in use; expects made; returns nothing.\n-- step: once\n"
        "create unique index concurrently if not exists made_n on made (n);\n"
    )
    with pytest.raises(DataRefused, match="23505"):
        migrate(owner(empty), folder=folder)
    with connect(empty) as connection:
        query: LiteralString = (
            "select indisvalid from pg_index where indexrelid = 'made_n'::regclass"
        )
        assert connection.execute(query).fetchall() == [(False,)]
        connection.execute("delete from made")
        assert migrate(owner(empty), folder=folder) == ["9002_index"]
        assert connection.execute(query).fetchall() == [(True,)]


def test_two_who_migrate_at_once_apply_each_file_once(empty: str) -> None:
    """Between them they do it all, and neither fails."""
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(migrate, [owner(empty)] * 2))
    assert sorted(done[0] + done[1]) == [each.name for each in SHIPPED]


def test_a_change_that_waits_does_not_hold_up_the_others(empty: str, folder: Path) -> None:
    """Behind a long reader it gives its place up, says so, and comes again when he is gone."""
    migrate(owner(empty), folder=folder)
    (folder / "9001_alter.sql").write_text("alter table queue add column made int;")
    told: list[str] = []
    with connect(empty) as reader, connect(empty) as writer, ThreadPoolExecutor() as pool:
        with reader.transaction():
            reader.execute("select * from queue")
            waiting = pool.submit(migrate, owner(empty), folder=folder, tell=told.append)
            writer.execute("set statement_timeout = '10s'")
            while not told:
                writer.execute("insert into queue_delta select now(), key, 'queued', 0 from queue")
        assert waiting.result(60) == ["9001_alter"]
    assert set(told) == {"9001_alter waits for a lock that somebody else holds"}


def test_a_lock_that_never_comes_ends_in_a_sentence(empty: str, folder: Path) -> None:
    """After its patience the migration says which it is and what to do; nothing is half done."""
    migrate(owner(empty), folder=folder)
    (folder / "9001_alter.sql").write_text(
        "create table made (id int); alter table queue add column made int;"
    )
    with connect(empty) as reader, reader.transaction():
        reader.execute("select * from queue")
        with pytest.raises(MigrationWaits, match=r"9001_alter .*nothing is half done.*End long"):
            migrate(owner(empty), folder=folder, patience_s=0)
        assert reader.execute("select to_regclass('made')").fetchone() == (None,)


@pytest.mark.parametrize("again", [True, False], ids=["the same", "another"])
def test_another_versions_database_is_left_alone(empty: str, folder: Path, again: bool) -> None:
    """A migration we do not know, or know differently, is refused by its name."""
    (folder / "9001_made.sql").write_text(STEPWISE)
    migrate(owner(empty), folder=folder)
    if again:
        (folder / "9001_made.sql").write_text(STEPWISE.replace("values (1)", "values (2)"))
    else:
        (folder / "9001_made.sql").unlink()
    with pytest.raises(Invariant, match="9001_made"):
        migrate(owner(empty), folder=folder)


def test_a_file_that_changed_between_its_steps_is_refused(empty: str, folder: Path) -> None:
    """What was begun by one text is not finished by another."""
    migrate(owner(empty), folder=folder)
    changing = folder / "9001_made.sql"
    changing.write_text(STEPWISE.replace("on job (home_id)", "on job (nothing)"))
    with pytest.raises(DataRefused, match="42703"):
        migrate(owner(empty), folder=folder)
    changing.write_text(STEPWISE)
    with pytest.raises(Invariant, match="9001_made"):
        migrate(owner(empty), folder=folder)


# What was taken away again before any release had it.
NEVER_RELEASED = {"0011_privacy": ["revoke select on rewrite_status from dragoman_"]}
CONTRACTS = re.compile(
    r"\bdrop\s+(?:column|table|view|function|type|schema)\b|\brename\b|\bset\s+not\s+null\b"
    r"|\balter\s+column\s+\w+\s+(?:set\s+data\s+)?type\b|\brevoke\b.*\bfrom\s+dragoman_"
    r"|\badd\s+column\b(?![^,;]*\bdefault\b)[^,;]*\bnot\s+null\b",
    re.IGNORECASE,
)


def contracting(text: str) -> list[str]:
    """What a program of before could no longer use."""
    return [match[0] for match in CONTRACTS.finditer(without_comments(text))]


def test_a_migration_takes_nothing_away_from_an_older_program() -> None:
    """Expand first: only a file that says so in its name may contract."""
    wrong = {each.name: contracting(each.text) for each in SHIPPED if not is_contraction(each.name)}
    assert {name: found for name, found in wrong.items() if found} == NEVER_RELEASED


@pytest.mark.parametrize(
    "text",
    [
        "alter table job drop column unit",
        "alter table job rename unit to work",
        "drop view history",
        "alter table job alter column unit type bytea",
        "alter table job alter column lane set not null",
        "alter table job add column made int not null",
        "revoke select on job from dragoman_worker",
    ],
)
def test_a_contraction_is_found(text: str) -> None:
    """The search itself bites."""
    assert contracting(f"{text};")


@pytest.mark.parametrize(
    "text",
    [
        "alter table job add column made int not null default 0",
        "alter table job add column made int default 0 not null",
        "alter table job add column made int; create table t (n int not null)",
        "revoke execute on function f from public",
        "drop trigger known_edge on standing",
    ],
)
def test_an_expansion_is_none(text: str) -> None:
    """The search bites only where it should."""
    assert contracting(f"{text};") == []


def test_a_file_without_a_transaction_has_steps_that_can_be_repeated() -> None:
    """What runs concurrently says `if not exists`, alone in its step: it may have run before."""
    for each in SHIPPED:
        loose = re.findall(
            r"\b(?:create|drop)\b[^;]*\bconcurrently\b[^;]*", without_comments(each.text)
        )
        assert bool(loose) <= bool(each.steps), each.name
        assert all(re.search(r"concurrently if (?:not )?exists", one) for one in loose), each.name

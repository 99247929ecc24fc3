"""A backup and its way back: every row, no secret, and nothing touched by a file that is wrong."""

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from dragoman.core.errors import BadSetting, Refused
from dragoman.core.job import State as JobState
from dragoman.store import archive, backup
from dragoman.store.archive import BackupFailed, BadBackup, RestoreFailed, open_archive
from dragoman.store.backup import take_backup
from dragoman.store.embedded import Server, State
from dragoman.store.restore import refuse_half_restored, restore
from dragoman.store.roles import OWNER, ROLES
from tests import postgres, stand
from tests.embedded.servers import SOURCES, as_root, folder, mode
from tests.store.kernel import KEY, bring, build_plain, check_books, crew_of
from tests.store.rewrites import Request

SECRET = "a key that nobody guesses"
CANARY = "canary Zephyrine"  # the text of every request that rewrites.py writes
ODD = "\u202e \U0001f600\u2028\ttab 'quoted' \\N \x7f 中文 e\u0301"
# What a restore changes on purpose.
OWN_LIFE = {"cell", "hold", "change", "alert", "actor"}


@dataclass(frozen=True)
class Kept:
    """A database in use, and a backup of it."""

    database: str
    file: Path

    def copy(self, name: str, change: bytes | int | None) -> Path:
        """The file cut to a length, or with one bit turned."""
        data = bytearray(self.file.read_bytes())
        if isinstance(change, int):
            data[change] ^= 1
        made = self.file.with_name(name)
        made.write_bytes(data if change is not None else data[: len(data) // 2])
        return made


@pytest.fixture(scope="module")
def kept() -> Generator[Kept]:
    """Jobs in every state, texts of every kind, and a backup that was taken meanwhile."""
    database = postgres.clone(postgres.template_database(build_plain))

    async def fill() -> None:
        async with crew_of(database) as crew:
            for state in JobState:
                await bring(crew, state, KEY)
                await bring(crew, state, KEY)

    asyncio.run(fill())
    request = Request().write(database)
    with stand.owner(database) as connection:
        connection.execute("create table odd (line text)")
        connection.execute("insert into odd values (%s)", (ODD,))
        connection.execute(
            "update rewrite_request set failure_code = 'x' where id = %s", [request.id]
        )
    with folder() as made:
        dsn = postgres.dsn(OWNER, database)
        file, _ = take_backup(dsn, postgres.shared_server().bin_dir, made, SECRET)
        yield Kept(database, file)
    postgres.drop(database)


@contextmanager
def restored(file: Path, key: str = SECRET) -> Generator[tuple[Server, Path]]:
    """A home into which a backup was put; its server is stopped at last."""
    with folder() as made:
        home = made / "home"
        with open_archive(file) as opened:
            restore(home, opened, key, cell="main", may_replace=False)
        server = Server(home)
        try:
            yield server, home
        finally:
            server.stop()


@pytest.fixture(scope="module")
def again(kept: Kept) -> Generator[Server]:
    """The same data in a home of their own, running."""
    with restored(kept.file) as (server, _):
        server.bootstrap()
        yield server


def contents(dsn: str) -> dict[str, list[str]]:
    """Every row of every table, in an order that does not depend on where it lies."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "select relname from pg_class where relnamespace = 'dragoman'::regnamespace"
            " and relkind in ('r', 'p') and not relispartition"
        ).fetchall()
        found: dict[str, list[str]] = {}
        for (name,) in tables:
            query = sql.SQL("select t::text from dragoman.{} t order by t::text")
            rows = connection.execute(query.format(sql.Identifier(name))).fetchall()
            found[name] = [row[0] for row in rows]
    return found


def schema(dsn: str) -> list[str]:
    """Every rule, guard, index and grant; how the server nests its brackets does not count."""
    with psycopg.connect(dsn, options="-c search_path=dragoman") as connection:
        rows = connection.execute(
            "select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal"
            " union all select pg_get_constraintdef(oid) from pg_constraint"
            " where connamespace = 'dragoman'::regnamespace"
            " union all select indexdef from pg_indexes where schemaname = 'dragoman'"
            " union all select pg_get_functiondef(oid) from pg_proc"
            " where pronamespace = 'dragoman'::regnamespace"
            " union all select policies::text from pg_policies policies"
            " union all select concat(relname, relrowsecurity, reloptions,"
            " (select array_agg(a::text order by 1)"
            " from unnest(relacl) a)) from pg_class where relnamespace = 'dragoman'::regnamespace"
            " order by 1"
        )
        return sorted(re.sub("[()]", "", row[0]) for row in rows)


def test_every_row_comes_back_as_it_was(kept: Kept, again: Server) -> None:
    """Jobs in every state, their chains hash for hash, and texts letter for letter."""
    check_books(kept.database)
    before, after = contents(postgres.dsn(OWNER, kept.database)), contents(again.dsn(OWNER))
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} <= OWN_LIFE
    assert len(before["standing"]) == 2 * len(JobState)
    assert any(ODD.split(" ")[1] in row for row in after["odd"])


def test_every_guard_and_grant_comes_back(kept: Kept, again: Server) -> None:
    """What the schema forbids before, it forbids after; nobody has another right."""
    assert schema(postgres.dsn(OWNER, kept.database)) == schema(again.dsn(OWNER))


def test_a_restored_engine_is_held_and_lives_another_life(kept: Kept, again: Server) -> None:
    """There is another incarnation, in the database and beside it, and a hold since the backup."""
    with psycopg.connect(again.dsn(OWNER), options="-c search_path=dragoman") as connection:
        ((incarnation,),) = connection.execute("select incarnation::text from cell").fetchall()
        held = connection.execute("select why, data_at, incarnation::text from hold").fetchall()
        told = connection.execute("select verb from change_history").fetchall()
    assert incarnation in (again.home / "incarnation").read_text()
    with open_archive(kept.file) as opened:
        about = opened.about
    assert held == [("restored", about.taken_at, str(about.incarnation))]
    assert incarnation != str(about.incarnation)
    assert told == [("hold",)]


def test_every_role_has_a_new_password(again: Server) -> None:
    """A backup brings no password along, and each role comes in with the home's own."""
    for role in ROLES:
        psycopg.connect(again.dsn(role)).close()


def test_a_backup_holds_no_secret_and_shows_no_text(kept: Kept) -> None:
    """Nothing readable in the file but whose it is; inside no role, no password, no verifier."""
    sealed = kept.file.read_bytes()
    assert mode(kept.file) == 0o600
    assert CANARY.encode() not in sealed
    assert b"rewrite_request" not in sealed
    with open_archive(kept.file) as opened:
        dump = b"".join(opened.read(SECRET))
    program = postgres.shared_server().bin_dir / "pg_restore"
    script = subprocess.run(
        [program, "-f", "-"], input=dump, capture_output=True, check=True
    ).stdout
    assert CANARY.encode() in script
    for secret in (b"SCRAM-SHA-256", b"create role", b"password"):
        assert secret.lower() not in script.lower()


@pytest.mark.parametrize("where", ["magic", "header", "frame", "digest", "cut", "empty"])
def test_a_cut_or_changed_file_is_refused_and_nothing_made(kept: Kept, where: str) -> None:
    """One bit anywhere, or a missing end: one sentence that names the file, and no home."""
    size = kept.file.stat().st_size
    places = {"magic": 3, "header": 40, "frame": size // 2, "digest": size - 1, "cut": None}
    file = kept.copy(f"bad-{where}", places.get(where))
    if where == "empty":
        file.write_bytes(b"")
    with folder() as made:
        with (
            pytest.raises(BadBackup, match=r"is cut or was changed|is no backup") as raised,
            open_archive(file) as opened,
        ):
            restore(made / "home", opened, SECRET, cell="main", may_replace=False)
        assert str(file) in str(raised.value)
        assert list(made.iterdir()) == []


def test_a_wrong_key_is_told_from_a_changed_file(kept: Kept) -> None:
    """The digest needs no key, so the sentence can say which of the two it is."""
    with folder() as made, open_archive(kept.file) as opened:
        with pytest.raises(BadBackup, match="sealed with another key"):
            restore(made / "home", opened, SECRET + "!", cell="main", may_replace=False)
        assert list(made.iterdir()) == []


def test_frames_cannot_be_exchanged(kept: Kept) -> None:
    """Who has no key cannot even put a true digest under a changed file."""
    file = kept.copy("forged", kept.file.stat().st_size // 2)
    data = file.read_bytes()[:-32]
    file.write_bytes(data + hashlib.sha256(data).digest())
    with open_archive(file) as opened, pytest.raises(BadBackup):
        opened.check(SECRET)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cell": "other"}, "is of the cell other"),
        ({"postgres": 99}, "is of PostgreSQL 99, and this is 18"),
        ({"migrations": (("0001_kernel", "00"),)}, "another version of Dragoman"),
    ],
    ids=["cell", "postgres", "migrations"],
)
def test_a_backup_that_does_not_fit_is_refused(
    kept: Kept, change: dict[str, object], sentence: str
) -> None:
    """Another cell, a later PostgreSQL or a schema of another version: refused before anything."""
    with open_archive(kept.file) as opened:
        about = archive.About(**{**asdict(opened.about), **change})
    file = kept.file.with_name("stranger")
    archive.write_archive(file, about, SECRET, [b"never read"])
    with folder() as made:
        with open_archive(file) as opened, pytest.raises(BadBackup, match=sentence):
            restore(made / "home", opened, SECRET, cell="main", may_replace=False)
        assert list(made.iterdir()) == []


def test_data_are_never_overwritten(kept: Kept) -> None:
    """A running server and data that are there refuse; replaced data are moved and still open."""
    with restored(kept.file) as (server, home), open_archive(kept.file) as opened:
        server.ensure_running()
        with pytest.raises(Refused, match="stop it first"):
            restore(home, opened, SECRET, cell="main", may_replace=True)
        server.stop()
        with pytest.raises(Refused, match="--replace"):
            restore(home, opened, SECRET, cell="main", may_replace=False)
        done = restore(home, opened, SECRET, cell="main", may_replace=True)
        assert done.aside is not None
        old = Server(done.aside)
        try:
            old.ensure_running()
            assert contents(old.dsn(OWNER))["standing"]
        finally:
            old.stop()


RESTORE_AND_DIE = """
from dragoman.store import restore as module
from dragoman.store.archive import open_archive
def die(*_):
    os.kill(os.getpid(), 9)
setattr(module, sys.argv[3], die)
with open_archive(Path(sys.argv[1])) as opened:
    module.restore(Path(sys.argv[2]), opened, sys.argv[4], cell="main", may_replace=True)
"""


@pytest.mark.parametrize("moment", ["load_dump", "_put_in_place"])
def test_a_restore_that_was_killed_says_so_and_is_done_again(kept: Kept, moment: str) -> None:
    """No half database is ever in the place: it is refused, and the next restore works."""
    with folder() as made:
        home = made / "home"
        code = "import os, sys\nfrom pathlib import Path\n" + RESTORE_AND_DIE
        killed = subprocess.run(
            (sys.executable, "-c", code, kept.file, home, moment, SECRET),
            env={"PYTHONPATH": SOURCES, "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        assert Server(home).status().state is State.ABSENT
        with pytest.raises(BadSetting, match="has not come to its end"):
            refuse_half_restored(home)
        with open_archive(kept.file) as opened:
            restore(home, opened, SECRET, cell="main", may_replace=False)
        refuse_half_restored(home)
        assert Server(home).status().state is State.STOPPED
        assert [path.name for path in made.iterdir()] == ["home"]


def test_a_dump_that_ends_early_leaves_no_file(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """If PostgreSQL's program fails there is no backup, rather than half of one."""
    programs = kept.file.parent / "programs"
    programs.mkdir()
    broken = programs / "pg_dump"
    broken.write_text("#!/bin/sh\necho half of it\nexit 3\n")
    broken.chmod(0o755)
    target = kept.file.with_name("half")
    with pytest.raises(BackupFailed, match="pg_dump ended with 3"):
        take_backup(postgres.dsn(OWNER, kept.database), programs, target, SECRET)
    assert not [path for path in kept.file.parent.iterdir() if "half" in path.name]


def test_a_backup_is_never_written_over_another_file(kept: Kept) -> None:
    """A name that is taken is refused, and the file stays."""
    before = kept.file.read_bytes()
    with pytest.raises(BadSetting, match="exists already"):
        take_backup(
            postgres.dsn(OWNER, kept.database),
            postgres.shared_server().bin_dir,
            kept.file,
            SECRET,
        )
    assert kept.file.read_bytes() == before


def test_a_backup_is_of_one_moment(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed after its snapshot is not in it, though it was there before the dump."""
    took = backup._place

    def meanwhile(target: Path, about: archive.About) -> Path:
        with stand.owner(kept.database) as connection:
            connection.execute("insert into odd values ('too late')")
        return took(target, about)

    monkeypatch.setattr(backup, "_place", meanwhile)
    target = kept.file.with_name("moment")
    dsn, programs = postgres.dsn(OWNER, kept.database), postgres.shared_server().bin_dir
    take_backup(dsn, programs, target, "")
    with open_archive(target) as opened:
        dump = b"".join(opened.read(""))
    script = subprocess.run(
        [programs / "pg_restore", "--table=odd", "-f", "-"],
        input=dump,
        capture_output=True,
        check=True,
    ).stdout
    assert b"quoted" in script
    assert b"too late" not in script


@as_root
def test_a_full_disk_leaves_no_file_and_no_place(kept: Kept) -> None:
    """On a disk without room a backup and a restore each end in one sentence; nothing is left."""
    with folder() as made:
        subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", made], check=True)
        try:
            with pytest.raises(BackupFailed, match="ENOSPC"):
                take_backup(
                    postgres.dsn(OWNER, kept.database),
                    postgres.shared_server().bin_dir,
                    made,
                    SECRET,
                )
            assert list(made.iterdir()) == []
            with open_archive(kept.file) as opened, pytest.raises(RestoreFailed):
                restore(made / "home", opened, SECRET, cell="main", may_replace=False)
            assert list(made.iterdir()) == []
        finally:
            subprocess.run(["/bin/umount", "-l", made], check=True)
    assert kept.file.exists()

"""Backup, restore, hold and release, typed as an operator would; and a data folder put back."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from dragoman.store.embedded import Server
from tests.cli.installation import Installation, short_folder
from tests.embedded.servers import SOURCES, as_root
from tests.eventually import eventually

KEY = {"DRAGOMAN_BACKUP__KEY_ENV": "THE_KEY", "THE_KEY": "a key that nobody guesses"}
CANARY = "Zephyrine-4711"
HELD = r"held since [0-9-]+ [0-9:]+ UTC, because "


def _as(account: str) -> list[str]:
    return ["/usr/bin/setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups"]


def _interpreter(account: str) -> str:
    """An interpreter that an ordinary account can start, and which starts itself."""
    again = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import psycopg'])"
    for each in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        done = subprocess.run(
            [*_as(account), each, "-c", f"{again}.check_returncode()"],
            env={"PYTHONPATH": SOURCES},
            cwd="/",
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return each
    pytest.skip("no interpreter here can be started by an ordinary account")


@pytest.fixture
def here() -> Generator[Installation]:
    """A home in which nothing was started."""
    with short_folder() as folder:
        yield Installation(folder, told=KEY)


@pytest.fixture
def ordinary() -> Generator[Installation]:
    """The same of an account without any privilege."""
    interpreter = _interpreter("daemon")
    with short_folder() as folder:
        shutil.chown(folder, "daemon", "daemon")
        command = [interpreter, "-m", "dragoman.cli"]
        told = {**KEY, "PYTHONPATH": SOURCES}
        yield Installation(folder, command, _as("daemon"), told)


def state_of(here: Installation) -> str:
    """What `db status` says."""
    return here.run("db", "status").out


def test_a_backup_goes_there_and_back(here: Installation) -> None:
    """Taken while everything runs; restored held; released once the providers were asked."""
    _there_and_back(here)


@as_root
def test_an_ordinary_user_backs_up_and_restores(ordinary: Installation) -> None:
    """The same without root, whose server would run as another account."""
    _there_and_back(ordinary)


def _there_and_back(here: Installation) -> None:
    with here.up():
        done = here.run("rewrite", "submit", f"{CANARY}! You are so loud!", "--to", "es", "--wait")
        assert done.code == 0, done
        told = here.run("db", "backup", ".")
        assert re.fullmatch(r"\S+\.backup: [\d,]+ bytes, sealed; 1 jobs of .* UTC\n", told.out), (
            told
        )
        (file,) = here.folder.glob("*.backup")
        assert CANARY.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600
        refused = here.run("db", "restore", str(file), "--replace").sentence
        assert refused.startswith("Dragoman is up already in ")
        assert here.run("release").sentence == "the engine is not held"
    refused = here.run("db", "restore", str(file)).sentence
    assert "with --replace they are moved aside" in refused
    wrong = {"THE_KEY": "another key that nobody guesses"}
    refused = here.run("db", "restore", str(file), "--replace", told=wrong).sentence
    assert refused == f"{file} was sealed with another key"
    done = here.run("db", "restore", str(file), "--replace")
    assert done.code == 0, done
    assert re.search(HELD + "its data come from a backup", done.out)
    assert len(list(here.home.glob("postgresql.replaced-*/data/PG_VERSION"))) == 1
    with here.up():
        said = (here.folder / "up.out").read_text()
        assert re.search(HELD, said), said
        assert re.search(HELD, state_of(here))
        assert re.search(HELD, here.run("status").out)
        eventually(lambda: here.run("release").code == 0, timeout=40)
        assert not re.search(HELD, state_of(here))


def test_without_a_key_nothing_is_written(here: Installation) -> None:
    """A backup is sealed, or it is asked for by name that it is not; a short key is refused."""
    assert here.run("db", "start").code == 0
    none = {"DRAGOMAN_BACKUP__KEY_ENV": "", "DRAGOMAN_BACKUP__KEY_FILE": "/nowhere/key"}
    assert "is empty; it should hold a secret" in here.run("db", "backup", ".", told=none).sentence
    short = here.run("db", "backup", ".", told={"THE_KEY": "short"}).sentence
    assert short.startswith("the key of backups has less than 16 characters")
    assert list(here.folder.glob("*.backup")) == []
    assert "NOT sealed" in here.run("db", "backup", "open.backup", "--unencrypted").out
    assert here.run("db", "stop").code == 0
    done = here.run("db", "restore", "open.backup", "--replace")
    assert done.code == 0, done


def test_a_data_folder_that_was_put_back_is_noticed(here: Installation) -> None:
    """A copy of yesterday's folder is a healthy database; the file beside it knows better."""
    assert here.run("db", "start").code == 0
    assert here.run("db", "stop").code == 0
    data, kept = here.home / "postgresql" / "data", here.folder / "yesterday"
    server = Server(here.home / "postgresql")
    shutil.copytree(data, kept)
    assert here.run("db", "start").code == 0
    assert not re.search(HELD, state_of(here))
    with psycopg.connect(_owner(here, server), autocommit=True) as connection:
        connection.execute("create table dragoman.later as select generate_series(1, 10000)")
    assert here.run("db", "stop").code == 0
    owner = data.stat()
    data.rename(here.folder / "today")
    kept.rename(data)
    for path in (data, *data.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    assert here.run("db", "start").code == 0
    why = "its data are older than those that stood here last"
    assert re.search(HELD + why, state_of(here))
    assert here.run("db", "stop").code == 0
    (here.home / "postgresql" / "incarnation").unlink()
    assert here.run("db", "start").code == 0
    assert re.search(HELD + why, state_of(here)), "still the same hold"
    assert here.run("db", "stop").code == 0


def _owner(here: Installation, server: Server) -> str:
    """How the owner connects, though the home may be another account's."""
    secret = server.home / "secrets" / "dragoman_owner"
    return make_conninfo(
        host=str(here.home / "postgresql" / "run"),
        user="dragoman_owner",
        dbname="dragoman",
        password=secret.read_text(),
    )


def test_an_operator_holds_and_is_refused_twice(here: Installation) -> None:
    """`hold` is an event with its actor, and says how to go on."""
    assert here.run("db", "start").code == 0
    done = here.run("hold")
    assert re.match("the engine is " + HELD + "an operator asked for it", done.out), done
    assert here.run("hold").sentence == "the engine is held already"
    assert "have not told yet" in here.run("release").sentence
    assert here.run("db", "stop").code == 0

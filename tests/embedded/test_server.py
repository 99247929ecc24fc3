from __future__ import annotations

import os
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from dragoman.core.errors import BadSetting
from dragoman.store import cluster
from dragoman.store.cluster import Account
from dragoman.store.embedded import Server, State
from dragoman.store.roles import OWNER
from tests.embedded.servers import (
    BECOME,
    CONNECT,
    START,
    STRANGER,
    WORKER,
    admin,
    as_root,
    mode,
    pid_of,
    processes_of,
    python,
    said,
    stopped_at_last,
)


def test_a_first_start_makes_a_private_server_and_a_second_one_attaches(server: Server):
    """The first start ends with a server that answers; later ones use that same process."""
    again = Server(server.home)
    again.ensure_running()
    assert again.status().state is State.READY
    assert pid_of(again) == pid_of(server)
    assert (server.psql_path.name, server.psql_path.parent) == ("psql", server.bin_dir)


def test_the_states_before_and_after_a_server(base: Path):
    """Without data a server is absent; stopped, it says so; both without changing anything."""
    server = Server(base / "home")
    assert server.status().state is State.ABSENT
    server.stop()
    assert not server.home.exists()
    server.ensure_running()
    server.stop()
    assert server.status().state is State.STOPPED
    assert processes_of(server) == []


def test_nobody_else_can_enter(shared: Server):
    """Home, data, socket and passwords are closed to others, and nothing listens on a network."""
    home = shared.home
    assert mode(home) & 0o067 == 0
    assert [mode(home / part) for part in ("data", "run", "secrets")] == [0o700] * 3
    assert {mode(path) for path in (home / "secrets").iterdir()} == {0o600}
    assert mode(home / "run" / ".s.PGSQL.5432") == 0o700
    assert mode(shared.log) == 0o600
    hba = (home / "conf" / "pg_hba.conf").read_text()
    assert hba == "local all all scram-sha-256\n"


@as_root
def test_another_user_of_the_machine_cannot_connect(shared: Server):
    """Even with the right password a stranger does not reach the socket; the owner does."""
    dsn = shared.dsn(WORKER)
    assert said(python(BECOME.format(STRANGER) + CONNECT, dsn)) == "refused"
    shared_run = shared.home / "run"
    shared_run.chmod(0o711)
    shared.home.chmod(0o711)
    (shared_run / ".s.PGSQL.5432").chmod(0o777)
    try:
        assert (
            said(python(BECOME.format(STRANGER) + CONNECT, dsn)) == "connected"
        )  # the control: it was the rights
    finally:
        shared.home.chmod(0o710)
        shared_run.chmod(0o700)
        (shared_run / ".s.PGSQL.5432").chmod(0o700)


@as_root
def test_root_hands_the_server_to_an_unprivileged_account(server: Server):
    """Started by root the server is another's, without root's groups; passwords stay root's."""
    server.stop()
    pid = said(python("os.setgroups([4])\n" + START, server.home))
    runs_as = Path("/proc", pid).stat().st_uid
    assert runs_as != 0
    assert (server.home / "data").stat().st_uid == runs_as
    assert {path.stat().st_uid for path in (server.home / "secrets").iterdir()} == {0}
    assert "Groups:\t \n" in Path("/proc", pid, "status").read_text()


@as_root
def test_an_ordinary_user_runs_the_server_as_itself(base: Path):
    """Without root, home and server belong to the one who started it; root then keeps out."""
    own = base / "own"
    own.mkdir()
    os.chown(own, STRANGER, STRANGER)
    if not cluster._runs(cluster.installed() / "bin", Account("stranger", STRANGER, STRANGER)):
        pytest.skip("the virtual environment lies where no other account can read it")
    code = (
        BECOME.format(STRANGER) + START + "print(os.stat(f'/proc/{server.status().pid}').st_uid)\n"
    )
    code += "server.stop(); print(server.status().state)"
    assert said(python(code, own / "home")).split()[1:] == [str(STRANGER), "stopped"]
    with pytest.raises(BadSetting):
        Server(own / "home").ensure_running()


def test_no_locale_and_no_home_directory_are_needed(base: Path):
    """With neither LANG nor HOME the server knows Unicode, by its own tables, and checks pages."""
    with stopped_at_last(base / "home") as server:
        assert said(python(START, server.home)).isdigit()
        with admin(server) as connection:
            found = connection.execute(
                "select lower('ÄÉ'), datlocprovider, datlocale, current_setting('data_checksums')"
                " from pg_database where datname = 'dragoman'"
            ).fetchone()
    assert found == ("äé", "b", "C.UTF-8", "on")


def test_the_settings_are_in_force(shared: Server):
    """What keeps commits and hides texts is pinned, and cannot be changed by ALTER SYSTEM."""
    wanted = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "log_error_verbosity": "terse",
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_parameter_max_length": "0",
        "log_parameter_max_length_on_error": "0",
        "log_min_duration_statement": "-1",
        "log_statement": "none",
        "max_wal_size": "1GB",
        "min_wal_size": "128MB",
        "max_connections": "100",
        "max_locks_per_transaction": "256",
        "idle_in_transaction_session_timeout": "30s",
        "jit": "off",
        "shared_buffers": "128MB",
        "restart_after_crash": "on",
        "password_encryption": "scram-sha-256",
    }
    with admin(shared) as connection:
        names = list(wanted)
        found = connection.execute(
            "select name, current_setting(name) from pg_settings where name = any(%s)", (names,)
        )
        assert dict(found.fetchall()) == wanted
        with pytest.raises(psycopg.Error) as refused:
            connection.execute("alter system set fsync = off")
    assert refused.value.sqlstate == "0A000"


def test_a_dsn_notices_a_dead_line_and_never_a_replica(shared: Server):
    """Every role's connection string has the time-outs and asks for a server that writes."""
    found = conninfo_to_dict(shared.dsn(WORKER, "other"))
    assert (found["user"], found["dbname"]) == (WORKER, "other")
    assert (found["connect_timeout"], found["tcp_user_timeout"]) == ("5", "5000")
    keepalives = ("keepalives_idle", "keepalives_interval", "keepalives_count")
    assert [found[key] for key in keepalives] == ["5", "2", "3"]
    assert found["target_session_attrs"] == "read-write"
    with pytest.raises(BadSetting):
        shared.dsn("postgres")


@pytest.mark.req("R084", "R189", "R284")
@pytest.mark.parametrize(
    "statement",
    [
        "select %s::int",
        "insert into pg_temp.t values (%s)",
        "do $$ begin raise exception 'CANARY'; end $$",
        "select 'CANARY'::int",
    ],
)
def test_no_value_of_a_failing_statement_reaches_the_log(shared: Server, statement: LiteralString):
    """A refused value stands nowhere in the server's log; with the setting undone it does."""
    values = ("CANARY",) if "%s" in statement else None

    def fail(connection: psycopg.Connection) -> None:
        connection.execute("create temp table t (a text check (length(a) < 2))")
        with pytest.raises(psycopg.Error):
            connection.execute(statement, values)

    with psycopg.connect(shared.dsn(OWNER), autocommit=True) as connection:
        before = shared.log.stat().st_size
        fail(connection)
    assert b"CANARY" not in shared.log.read_bytes()[before:]
    with admin(shared) as connection:
        before = shared.log.stat().st_size
        connection.execute("set log_min_messages = error")
        connection.execute("set log_error_verbosity = 'default'")
        connection.execute("set log_min_error_statement = error")
        connection.execute("set log_parameter_max_length_on_error = -1")
        fail(connection)
    assert b"CANARY" in shared.log.read_bytes()[before:]


def test_the_log_stays_bounded(server: Server):
    """A log over its bound is put aside, and the running server writes on in the emptied file."""
    with server.log.open("ab") as log:
        log.truncate(9 * 1024 * 1024)
    server.ensure_running()
    assert server.log.stat().st_size == 0
    assert mode(server.home / "server.log.1") == 0o600
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn(WORKER), password="wrong")
    assert 0 < server.log.stat().st_size < 10_000

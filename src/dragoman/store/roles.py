"""The roles of the database, their passwords, and the database itself.

The files say what each password is and the server follows them: bootstrap sets every role's
verifier from its file. Only the admin's own password can lock us out, so it changes in three steps
(`propose`, alter role, `adopt`) and `settle` finishes a change that a crash has cut short.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from psycopg import Connection, sql

from dragoman.core.errors import BadSetting, NotFound
from dragoman.store.files import sync_folder, write_file

ADMIN = "dragoman_admin"
OWNER = "dragoman_owner"
DATABASE = "dragoman"

# A network that swallows packets is noticed in seconds, and a replica never decides.
HOW_TO_CONNECT: Mapping[str, str | int] = {
    "connect_timeout": 5,
    "tcp_user_timeout": 5000,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",
}

_SHORT = {
    "statement_timeout": "15s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}
_VIEWER = {"statement_timeout": "15s", "idle_in_transaction_session_timeout": "30s"}

ROLES: Mapping[str, Mapping[str, str]] = {
    OWNER: {},
    "dragoman_orchestrator": _SHORT,
    # The claim is prepared once and its arguments never change the plan that is right for it. And a
    # plan made while a table was empty reads all of it for ever after: a guard's cost was tenfold.
    "dragoman_worker": {
        **_SHORT,
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
    },
    "dragoman_operator": _VIEWER,
    "dragoman_frontend": _VIEWER,
    "dragoman_auditor": _VIEWER,
    "dragoman_eraser": {},
}


_RIGHTS = """
select rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls
  from pg_catalog.pg_roles where rolname = %s
"""
_AS_THE_TEMPLATE = sql.SQL("")


class Secrets:
    """One 0600 file per role, in a directory that nobody else can enter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, role: str) -> str:
        """The password of a role."""
        if role != ADMIN and role not in ROLES:
            raise BadSetting(f"There is no role {role!r}; there are {', '.join((ADMIN, *ROLES))}.")
        try:
            return (self.folder / role).read_text(encoding="ascii").strip()
        except FileNotFoundError:
            raise NotFound(
                f"There is no password in {self.folder / role}: bootstrap first."
            ) from None
        except (OSError, UnicodeDecodeError):
            raise BadSetting(f"The password in {self.folder / role} cannot be read.") from None

    def has(self, role: str) -> bool:
        """Whether there is a password of this role."""
        return (self.folder / role).exists()

    def ensure(self, role: str) -> None:
        """Make a password where there is none."""
        if not self.has(role):
            self.renew(role)

    def renew(self, role: str) -> None:
        """A new random password."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self.folder / role, secrets.token_urlsafe(32), 0o600)

    def propose(self) -> str:
        """The admin's next password, kept beside the one in force."""
        self.renew(f"{ADMIN}.next")
        return self._next.read_text(encoding="ascii")

    def adopt(self) -> None:
        """The proposed password is in force now."""
        self._next.replace(self.folder / ADMIN)
        sync_folder(self.folder)

    def settle(self, is_right: Callable[[str], bool]) -> None:
        """After a crash: keep whichever of the admin's two passwords the server accepts."""
        if not self._next.exists():
            return
        if is_right(self.read(ADMIN)):
            self._next.unlink()
        elif is_right(self._next.read_text(encoding="ascii")):
            self.adopt()

    @property
    def _next(self) -> Path:
        return self.folder / f"{ADMIN}.next"


def set_password(connection: Connection, role: str, password: str) -> None:
    """Store the verifier of a password; the password itself never leaves this process."""
    verifier = connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    ).decode()
    connection.execute(
        sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(verifier))
    )


def make_role(connection: Connection, role: str, settings: Mapping[str, str]) -> None:
    """Create a role if it is absent; whatever it was, it ends with our rights and settings.

    An admin without superuser may not even repeat what a role is already, so nothing is repeated.
    """
    name = sql.Identifier(role)
    rights = connection.execute(_RIGHTS, (role,)).fetchone()
    if rights is None:
        connection.execute(sql.SQL("create role {} login").format(name))
    elif rights != (True, False, False, False, False, False):
        connection.execute(
            sql.SQL(
                "alter role {} with login nosuperuser nocreatedb nocreaterole noreplication"
                " nobypassrls"
            ).format(name)
        )
    connection.execute(sql.SQL("alter role {} reset all").format(name))
    for key, value in settings.items():
        connection.execute(
            sql.SQL("alter role {} set {} = {}").format(name, sql.Identifier(key), value)
        )


def make_database(
    connection: Connection,
    name: str,
    template: str = "template1",
    strategy: str = "wal_log",
    locale: sql.Composable = _AS_THE_TEMPLATE,
) -> bool:
    """Create a database of the owner's if it is absent, and let our roles alone connect to it."""
    database = sql.Identifier(name)
    known = connection.execute("select from pg_catalog.pg_database where datname = %s", (name,))
    if not known.rowcount:
        connection.execute(
            sql.SQL("create database {} owner {} template {} strategy {} {}").format(
                database,
                sql.Identifier(OWNER),
                sql.Identifier(template),
                sql.Identifier(strategy),
                locale,
            )
        )
    close_database(connection, name)
    connection.execute(
        sql.SQL("grant connect on database {} to {}").format(
            database, sql.SQL(", ").join(map(sql.Identifier, ROLES))
        )
    )
    return not known.rowcount


def close_database(connection: Connection, name: str) -> None:
    """Take from everybody what PostgreSQL gives to everybody."""
    connection.execute(
        sql.SQL("revoke all on database {} from public").format(sql.Identifier(name))
    )

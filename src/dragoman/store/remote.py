"""A PostgreSQL server that somebody else runs, named by its URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dragoman.core.errors import BadSetting
from dragoman.store.roles import DATABASE, HOW_TO_CONNECT, Secrets

_PRIMARY = {"read-write", "primary"}
_HERE = {"localhost", "127.0.0.1", "::1"}
_PING_S = 3


@dataclass(frozen=True, slots=True)
class Remote:
    """A database by URL. Several hosts may stand in it: whichever is the primary is used.

    >>> remote = Remote("postgresql://a,b/dragoman", Secrets(folder))  # doctest: +SKIP
    >>> psycopg.connect(remote.dsn("dragoman_worker"))  # doctest: +SKIP
    """

    url: str
    secrets: Secrets
    line_url: str | None = None  # past the pooler, if `url` leads to one

    def __post_init__(self) -> None:
        """Refuse a URL that could never work before anything is done with it."""
        for url in (self.url, self.line_url):
            if url is not None:
                read_url(url)

    def dsn(self, role: str) -> str:
        """How a role connects; it holds the password, so it belongs in no log."""
        return self._dsn(self.url, role)

    def line_dsn(self, role: str) -> str:
        """How a role connects for a session of its own: past the pooler, if there is one."""
        return self._dsn(self.line_url or self.url, role)

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler stands between, so that no session is ours for longer than a commit."""
        return self.line_url is not None

    @property
    def database(self) -> str:
        """The database's name."""
        return read_url(self.line_url or self.url)["dbname"]

    @property
    def place(self) -> str:
        """Where it is, for people."""
        told = read_url(self.url)
        hosts = told.get("host", "the local socket").split(",")
        ports = told.get("port", "").split(",")
        ports = ports if len(ports) == len(hosts) else ports * len(hosts)
        named = [
            f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)
        ]
        return f"{','.join(named)}/{told['dbname']}"

    def is_there(self) -> bool:
        """Whether it takes connections; nobody has to log in for that."""
        told = {**read_url(self.url), "connect_timeout": str(_PING_S)}
        return pq.PGconn.ping(make_conninfo("", **told).encode()) == pq.Ping.OK

    def ensure_running(self) -> None:
        """Somebody else sees to that."""

    def stop(self) -> None:
        """It is not ours: it runs on."""

    def _dsn(self, url: str, role: str) -> str:
        return make_conninfo("", **read_url(url), user=role, password=self.secrets.read(role))


def read_url(url: str) -> Mapping[str, str]:
    """The parts of a URL, with what we add: a bound on every wait, the primary only, and TLS.

    >>> read_url("postgresql://db.example.org")["sslmode"]
    'require'
    """
    try:
        told = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        raise BadSetting("the database's URL cannot be read: postgresql://host/dragoman") from None
    if told.keys() & {"user", "password", "passfile", "options"}:
        raise BadSetting(
            "the database's URL names servers only: no user, password, passfile or options; each "
            "role has its password in a file of its own, in the folder database_secrets"
        )
    if any(port and not port.isdecimal() for port in told.get("port", "").split(",")):
        raise BadSetting("the database's URL has a port that is no number")
    if told.get("target_session_attrs", "primary") not in _PRIMARY:
        raise BadSetting("the database's URL may ask for no replica: target_session_attrs=primary")
    hosts = told.get("host", "").split(",") + told.get("hostaddr", "").split(",")
    is_far = any(host and host not in _HERE and not host.startswith("/") for host in hosts)
    ours = {name: str(value) for name, value in HOW_TO_CONNECT.items()}
    ours |= {"dbname": DATABASE, **({"sslmode": "require"} if is_far else {})}
    return {**ours, **told}

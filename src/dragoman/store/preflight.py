"""What a process proves of its database before it starts, each refusal with what to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from psycopg import AsyncConnection

from dragoman.core.errors import DatabaseDown
from dragoman.store.changes import lock_changes, record_change
from dragoman.store.database import Cell, Tx, mapped
from dragoman.store.migrate import is_contraction, migrations
from dragoman.store.workers import raise_alert

OLDEST = 150000
ADVICE = "in postgresql.conf, or in the server's parameter group"

# What would lose answered work, and what each must be.
DURABLE: Mapping[str, tuple[str, ...]] = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply", "remote_write"),
}

# What would write values of statements to the server's log; the first is what we pin.
SILENT: Mapping[str, tuple[str, ...]] = {
    "log_min_messages": ("log", "fatal", "panic"),  # an error's own words may quote a value
    "log_min_error_statement": ("panic", "fatal"),
    "log_statement": ("none", "ddl"),
    "log_parameter_max_length_on_error": ("0",),
    "debug_print_parse": ("off",),
    "debug_print_rewritten": ("off",),
    "debug_print_plan": ("off",),
    "pgaudit.log_parameter": ("off",),
}

# These write the values of statements unless log_parameter_max_length is 0.
TIMED: Mapping[str, tuple[str, ...]] = {
    "log_min_duration_statement": ("-1",),
    "log_min_duration_sample": ("-1",),
    "log_transaction_sample_rate": ("0",),
}
_LENGTH = "log_parameter_max_length"
_EXPLAIN = ("auto_explain.log_min_duration", "auto_explain.log_parameter_max_length")
_LOCKS = ("max_locks_per_transaction", "max_connections", "max_prepared_transactions")
_NAMES = [*DURABLE, *SILENT, *TIMED, _LENGTH, *_EXPLAIN, *_LOCKS]
_CHUNK = 200  # jobs whose units one transaction may lock, at least
_AT_ONCE = 2  # a worker finishes some while it claims others


class Unfit(DatabaseDown):
    """The database answers, and Dragoman could not keep its promises on it."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.args = (why,)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server told of itself and of our session."""

    user: str
    login: str
    version: int
    is_replica: bool
    is_read_only: bool
    schema: str | None
    has_schema: bool
    settings: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Schema:
    """What the schema told of itself."""

    name: str
    migrations: list[str]
    months: int


@dataclass(frozen=True, slots=True)
class Writers:
    """How many processes move jobs."""

    writers: int


@dataclass(frozen=True, slots=True)
class Expected:
    """Who we mean to be, and which risks were accepted by name."""

    role: str
    accepted: frozenset[str] = frozenset()
    chunk: int = _CHUNK
    is_durable: bool = True  # False for a server of tests alone, which may lose what it answered


async def preflight(cell: Cell, expected: Expected) -> list[str]:
    """Refuse a database on which we could not keep our promises; the risks that were accepted.

    >>> await preflight(cell, Expected("dragoman_worker"))  # doctest: +SKIP
    []
    """
    async with cell.transaction("preflight") as tx:
        facts = await _server(tx)
        _refuse(server_faults(facts, expected))
        if not facts.has_schema:
            raise Unfit(
                f"the database has no schema of ours, or an older one ({facts.schema or 'none'}): "
                "run dragoman db migrate"
            )
        schema = (await tx.fetch(Schema, "server/tell_cell"))[0]
        _refuse(schema_faults(schema, cell.name))
        if expected.role == "dragoman_worker":
            writers = (await tx.fetch(Writers, "server/count_writers"))[0].writers
            _refuse(lock_faults(facts, max(expected.chunk, _CHUNK), writers))
    if schema.months < 3 and expected.role == "dragoman_worker":
        await raise_alert(cell, "partitions_short", "event", "act", {"months": schema.months})
    return risks(facts)


async def prove_role(connection: AsyncConnection, role: str) -> None:
    """Refuse a session that is not who it should be; for the worker's line."""
    with mapped():
        cursor = await connection.execute("select current_user::text, pg_is_in_recovery()")
        row = await cursor.fetchone()
    if row != (role, False):
        raise Unfit(f"the worker's line should be {role} on a primary, and is not")


async def accept_risks(cell: Cell, actor: UUID, accepted: list[str]) -> None:
    """Write down each risk that was accepted, once."""
    async with cell.transaction("accept_risks") as tx:
        await lock_changes(tx)
        for risk in accepted:
            subject = f"server log {risk}"
            known = await tx.tuples("change/was_recorded", verb="accept", subject=subject)
            if not known[0][0]:
                await record_change(tx, actor, "accept", subject)


async def _server(tx: Tx) -> Facts:
    return (await tx.fetch(Facts, "server/tell_server", names=_NAMES))[0]


def _refuse(faults: Iterator[str]) -> None:
    found = list(faults)
    if found:
        raise Unfit("; ".join(found))


def server_faults(facts: Facts, expected: Expected) -> Iterator[str]:
    """What is wrong with the server and with our session on it."""
    if facts.version < OLDEST:
        yield f"PostgreSQL {facts.version // 10000} is too old: 15 or newer is needed"
    if facts.user != expected.role or facts.login != expected.role:
        yield (
            f"we should be {expected.role} and are {facts.user}: a pooler that makes everybody one "
            "user takes away the boundary between the roles"
        )
    if facts.is_replica or facts.is_read_only:
        yield "this server is a replica or read-only; we decide on a primary alone"
    if expected.is_durable:
        yield from _durability_faults(facts.settings)
    refused = [risk for risk in risks(facts) if risk.partition("=")[0] not in expected.accepted]
    if refused:
        yield (
            f"the server's log would keep values of statements, messages among them: "
            f"{', '.join(refused)}. Set {_right(refused)} {ADVICE}, or for our roles by "
            "dragoman db bootstrap, or accept it by name in accept_server_log_risk"
        )


def _durability_faults(settings: Mapping[str, str | None]) -> Iterator[str]:
    for name, good in DURABLE.items():
        if settings[name] not in good:
            yield (
                f"the server may lose what it has answered, {name} is {settings[name]}: "
                f"set {name} = {good[0]} {ADVICE}"
            )


def risks(facts: Facts) -> list[str]:
    """Settings of the server's log that would write values, as name=value."""
    told = facts.settings
    bad = {name: good for name, good in SILENT.items() if told[name] not in {None, *good}}
    if told[_LENGTH] != "0":
        bad |= {name: good for name, good in TIMED.items() if told[name] not in {None, *good}}
    minimum, length = _EXPLAIN
    if told[minimum] not in {None, "-1"} and told[length] != "0":
        bad[minimum] = ("-1",)
    return [f"{name}={told[name]}" for name in bad]


def unknown_risks(names: Iterable[str]) -> list[str]:
    """Names that are no setting of a server's log that we look at."""
    return sorted(set(names) - {*SILENT, *TIMED, _EXPLAIN[0]})


def _right(found: list[str]) -> str:
    good = {**SILENT, **TIMED, _EXPLAIN[0]: ("-1",)}
    names = [risk.partition("=")[0] for risk in found]
    return ", ".join(f"{name} = {good[name][0]}" for name in names)


def schema_faults(schema: Schema, cell: str) -> Iterator[str]:
    """What is wrong with the schema: another cell's, another program's, or without room."""
    if schema.name != cell:
        yield f"this database is cell {schema.name}, and the setting cell says {cell}"
    known = {each.name for each in migrations()}
    missing = sorted(known - set(schema.migrations))
    if missing:
        yield f"the database is older than this program, it lacks {missing[0]}: dragoman db migrate"
    newer = [name for name in schema.migrations if name not in known and is_contraction(name)]
    if newer:
        yield f"the database is newer than this program, it has {newer[0]}: use a newer Dragoman"
    if schema.months < 2:
        yield "the history has no room past this month: run dragoman db migrate"


def lock_faults(facts: Facts, chunk: int, writers: int) -> Iterator[str]:
    """Whether all writers together could fill half of the server's table of locks."""
    most, connections, prepared = (int(facts.settings[name] or 0) for name in _LOCKS)
    needed = chunk * (writers + 1) * _AT_ONCE
    if needed * 2 > most * (connections + prepared):
        wanted = -(-needed * 2 // (connections + prepared))
        yield (
            f"{writers + 1} worker processes may hold {needed} locks, more than half of what the "
            f"server has room for: set max_locks_per_transaction = {wanted} {ADVICE}"
        )

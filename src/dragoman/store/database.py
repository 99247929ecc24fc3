"""The pool of one cell, its transactions, and the one map of the driver's errors."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import AsyncRowFactory, class_row, dict_row, tuple_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from dragoman.core import ports
from dragoman.core.errors import (
    CommitUnknown,
    DatabaseDown,
    DatabaseError,
    DataRefused,
    TryAgain,
)
from dragoman.store.pack import (
    Row,
    Rows,
    Shape,
    columns,
    read_shapes,
    register_dumpers,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_IDLE_S = 1.0
_BUSY = ("40", "55P03", "57014")
_DOWN = ("08", "53", "57", "58", "XX001", "XX002", "25006", "25P03", "25P04")


@functools.cache
def statement(name: str, package: str = "dragoman.store") -> LiteralString:
    """The text of sql/<name>.sql: statements come from files, never from strings at run time."""
    text = resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return cast("LiteralString", text)


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """A queue that jobs may wait in."""

    key: int
    pipeline: str
    stage: int
    mode: str
    provider: str
    account: str
    model: str


@dataclass(frozen=True, slots=True)
class Intake:
    """How jobs come in: the distance that a home's jobs keep, or None for by age; and a bound."""

    fair_every_s: float | None
    max_waiting_per_home: int


@dataclass(slots=True)
class Cell:
    """One schema of one database: what every store function takes first."""

    name: str
    pool: AsyncConnectionPool[AsyncConnection]
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])
    queues: dict[int, OpenQueue] = field(default_factory=dict[int, OpenQueue])
    intake: Intake | None = None
    hinted_at: float = float("-inf")  # when this process last woke the workers

    def rows(self, shape: str, rows: Sequence[Row]) -> Rows:
        """Rows of a composite type of this cell, ready to be bound."""
        return Rows(self.shapes[shape], rows)

    def values(self, shape: str, values: Sequence[DataclassInstance]) -> Rows:
        """The same of frozen values, whose fields stand in the order of the type's columns."""
        return Rows(self.shapes[shape], [columns(type(value))(value) for value in values])

    @asynccontextmanager
    async def transaction(self, tag: str) -> AsyncGenerator[Tx]:
        """One transaction whose commit is a port: a test can stop or kill the process around it."""
        with mapped():
            async with self.pool.connection() as connection:
                try:
                    yield Tx(self, connection)
                except BaseException:
                    await _rollback(connection)
                    raise
                await _commit(connection, tag)

    @asynccontextmanager
    async def at_once(self, tag: str) -> AsyncGenerator[Tx]:
        """A transaction of one statement: one message to the server instead of three."""
        with mapped():
            async with self.pool.connection() as connection:
                await connection.set_autocommit(True)
                try:
                    ports.at(f"db.{tag}", "before")
                    yield Tx(self, connection)
                    ports.at(f"db.{tag}", "after")
                finally:
                    if not connection.closed:
                        await connection.set_autocommit(False)

    async def fetch(
        self, kind: type[T], name: str, /, _package: str = "dragoman.store", **params: object
    ) -> list[T]:
        """Rows of a statement that only reads."""
        async with self.transaction("read") as tx:
            return await tx.fetch(kind, name, _package, **params)


@dataclass(slots=True)
class Tx:
    """One open transaction."""

    cell: Cell
    connection: AsyncConnection

    def cursor(self, row_factory: AsyncRowFactory[Any]) -> AsyncCursor[Any]:
        """What every statement of this transaction goes through. Any: rows of each kind."""
        return self.connection.cursor(row_factory=row_factory, binary=True)

    async def run(
        self, name: str, /, _package: str = "dragoman.store", **params: object
    ) -> AsyncCursor[Any]:
        """Run a statement by its file's name."""
        return await self.cursor(tuple_row).execute(statement(name, _package), params)

    async def fetch(
        self, kind: type[T], name: str, /, _package: str = "dragoman.store", **params: object
    ) -> list[T]:
        """Rows as frozen values: the columns returned are the fields of `kind`."""
        async with self.cursor(class_row(kind)) as cursor:
            await cursor.execute(statement(name, _package), params)
            return await cursor.fetchall()

    async def tuples(
        self, name: str, /, _package: str = "dragoman.store", **params: object
    ) -> list[Row]:
        """Rows as tuples, for the hot loop."""
        async with self.cursor(tuple_row) as cursor:
            await cursor.execute(statement(name, _package), params)
            return await cursor.fetchall()

    async def dicts(
        self, name: str, /, _package: str = "dragoman.store", **params: object
    ) -> list[dict[str, Any]]:
        """Rows as dictionaries, for pages and reports."""
        async with self.cursor(dict_row) as cursor:
            await cursor.execute(statement(name, _package), params)
            return await cursor.fetchall()

    async def count(self, name: str, /, _package: str = "dragoman.store", **params: object) -> int:
        """How many rows a statement touched or returned."""
        return (await self.run(name, _package, **params)).rowcount


async def _commit(connection: AsyncConnection, tag: str) -> None:
    ports.at(f"db.{tag}", "before")
    try:
        await connection.commit()
    except psycopg.errors.Error as error:
        if error.sqlstate and not error.sqlstate.startswith(("08", "57P")):
            raise
        raise CommitUnknown(error.sqlstate) from None
    ports.at(f"db.{tag}", "after")


async def _rollback(connection: AsyncConnection) -> None:
    """Undo; a connection that cannot even do that is thrown away by the pool."""
    try:
        await connection.rollback()
    except psycopg.Error:
        await connection.close()


@contextmanager
def mapped() -> Generator[None]:
    """Turn the driver's errors into ours: SQLSTATE and constraint, never detail or cause."""
    try:
        with _translated():
            yield
    except DatabaseError as ours:
        # `from None` only hides the driver's error, which quotes values; this lets go of it.
        ours.__context__ = None
        raise


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except PoolTimeout:
        raise DatabaseDown from None
    except psycopg.Error as error:
        raise translate(error) from None
    except UnicodeEncodeError:
        raise DataRefused("22021") from None


def translate(error: psycopg.Error) -> DatabaseError:
    """Our error for one of the driver's.

    A server that is full, read-only, stopping or gone says nothing about the values it was given:
    only what is left when those are taken away is a refusal of them.
    """
    code = error.sqlstate
    if code is None:
        return DatabaseDown() if isinstance(error, psycopg.OperationalError) else DataRefused()
    if code.startswith(_BUSY):
        return TryAgain(code)
    if code.startswith(_DOWN):
        return DatabaseDown(code)
    return DataRefused(code, error.diag.constraint_name)


@asynccontextmanager
async def open_cell(
    dsn: str,
    *,
    name: str = "main",
    schema: str = "dragoman",
    role: str = "dragoman",
    size: int = 4,
    is_pooled: bool = False,
) -> AsyncGenerator[Cell]:
    """A pool on one cell; proven by a statement before it is handed out.

    Behind a pooler (`is_pooled`) each transaction may run in another session: nothing is prepared,
    and the role's own settings in its database name the schema.
    """
    proven: WeakKeyDictionary[AsyncConnection, float] = WeakKeyDictionary()

    async def configure(connection: AsyncConnection) -> None:
        register_dumpers(connection.adapters)
        # From the first call on: an unprepared statement is planned for the values it is given,
        # and for a thousand of them the planner would rather read the whole hot table. Behind a
        # pooler nothing can be prepared; there the worker's own plan_cache_mode sees to that.
        connection.prepare_threshold = None if is_pooled else 0

    async def check(connection: AsyncConnection) -> None:
        """Ask a connection that has been idle whether it is still there; a busy one has told."""
        now = time.monotonic()
        if now - proven.get(connection, 0.0) > _IDLE_S:
            await AsyncConnectionPool.check_connection(connection)
        proven[connection] = now

    kwargs: dict[str, Any] = {"application_name": role}
    if not is_pooled:
        kwargs["options"] = f"-c search_path={schema}"
    pool = AsyncConnectionPool[AsyncConnection](
        dsn,
        min_size=1,
        max_size=size,
        open=False,
        kwargs=kwargs,
        configure=configure,
        timeout=15.0,
        reconnect_timeout=5.0,  # after an outage: back within seconds of the server
        check=check,
    )
    async with pool:
        with mapped():
            await pool.wait(timeout=15.0)
            cell = Cell(name, pool)
            async with pool.connection() as connection:
                cell.shapes.update(await read_shapes(connection.cursor()))
        yield cell

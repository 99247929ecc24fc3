"""Rows on their way to the server: what was packed is what arrives, element by element."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.rows import tuple_row

from dragoman.core.errors import DataRefused
from dragoman.store.database import Cell
from dragoman.store.pack import ENCODERS, Rows
from tests import postgres, stand
from tests.store.kernel import build_plain

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NUMBERS = st.integers(-(2**53), 2**53) | st.booleans() | st.none() | TEXT
# Naive, as hypothesis wants its bounds; what it makes of them is in UTC.
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)  # noqa: DTZ001 - see above
VALUES = {
    "uuid": st.uuids(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "_int4": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
    "text": TEXT,
    "bytea": st.binary(max_size=40),
    "jsonb": st.dictionaries(TEXT, NUMBERS | st.lists(NUMBERS, max_size=3), max_size=4),
    # What the server can hold and Python can read again, to the microsecond.
    "timestamptz": st.datetimes(FIRST, LAST, timezones=st.just(UTC)),
    "state": st.sampled_from(["queued", "processing", "completed"]),
}  # fmt: skip


def build_shape(owner_dsn: str) -> None:
    """A composite type with a column of every kind that can be packed."""
    build_plain(owner_dsn)
    columns = ", ".join(f"c_{name} {name}" for name in VALUES)
    with psycopg.connect(
        owner_dsn, autocommit=True, options="-c search_path=dragoman"
    ) as connection:
        connection.execute(f"create type everything as ({columns})".encode())


COLUMNS = ", ".join(f"c_{name}" for name in VALUES).replace("c_state", "c_state::text")
Echo = Callable[[Sequence[tuple[Any, ...]]], list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def cell_and_runner() -> Generator[tuple[Cell, asyncio.Runner]]:
    """A cell that stays open for the module: hypothesis asks it often."""
    name = postgres.clone(postgres.template_database(build_shape))
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        cell = runner.run(stack.enter_async_context(stand.cell_of(name)))
        yield cell, runner
        runner.run(stack.aclose())
    postgres.drop(name)


@pytest.fixture(scope="module")
def echo(cell_and_runner: tuple[Cell, asyncio.Runner]) -> Echo:
    """Rows to the server and back."""
    cell, runner = cell_and_runner
    return lambda rows: runner.run(_echo(cell, rows))


async def _echo(cell: Cell, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    async with (
        cell.transaction("echo") as tx,
        tx.connection.cursor(row_factory=tuple_row, binary=True) as cursor,
    ):
        await cursor.execute(
            f"select {COLUMNS} from unnest(%(rows)s::everything[])".encode(),
            {"rows": cell.rows("everything", rows)},
        )
        return await cursor.fetchall()


def test_every_encoder_is_tried() -> None:
    """The test's values name each encoder, and one enumeration."""
    assert set(ENCODERS) == VALUES.keys() - {"state"}


@settings(max_examples=40)
@given(st.lists(st.tuples(*(st.none() | values for values in VALUES.values())), max_size=8))
def test_what_is_packed_arrives(echo: Echo, rows: list[tuple[Any, ...]]) -> None:
    """Any rows, with NULL in any place, come back equal, in order, none shifted into another."""
    assert echo(rows) == rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("float8", math.inf),
        ("float8", -math.inf),
        ("text", ""),
        ("text", "\u2028\U0001f600é"),
        ("bytea", b""),
        ("bytea", b"\0"),
        ("jsonb", {}),
        ("timestamptz", datetime(2000, 1, 1, tzinfo=UTC)),
        ("timestamptz", datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_values_at_the_edges_arrive(echo: Echo, name: str, value: Any) -> None:
    """The smallest, the emptiest and the strangest of each kind."""
    row = tuple(value if each == name else None for each in VALUES)
    assert echo([row, row]) == [row, row]


def test_not_a_number_arrives(echo: Echo) -> None:
    """NaN is not equal to itself, so it is looked at alone."""
    row = tuple(math.nan if each == "float8" else None for each in VALUES)
    ((*found,),) = echo([row])
    assert math.isnan(found[list(VALUES).index("float8")])


def test_no_rows_are_an_empty_array(echo: Echo) -> None:
    """Nothing packed is nothing there, not a row of NULLs."""
    assert echo([]) == []


def test_many_rows_keep_their_order(echo: Echo) -> None:
    """A thousand rows come back as they went."""
    at = list(VALUES).index("int4")
    rows = [tuple(n if k == at else None for k in range(len(VALUES))) for n in range(1000)]
    assert echo(rows) == rows


@pytest.mark.parametrize("change", [-1, 1])
def test_a_row_of_another_width_is_our_own_mistake(echo: Echo, change: int) -> None:
    """A row that lacks a column, or has one too many, never reaches the server."""
    row = (None,) * (len(VALUES) + change)
    with pytest.raises(ValueError, match="another width"):
        echo([row])


@pytest.mark.req("R084", "R085", "R284")
@pytest.mark.parametrize("poison", ["\0", chr(0xD800), chr(0xDFFF)])
def test_a_text_that_cannot_be_stored_is_refused_without_its_neighbours(
    echo: Echo, poison: str
) -> None:
    """NUL or a lone surrogate at item k: a code comes back, and the canary of no item."""
    at = list(VALUES).index("text")
    texts = ["canary-one", f"canary-two {poison}", "canary-three"]
    rows = [tuple(text if k == at else None for k in range(len(VALUES))) for text in texts]
    with pytest.raises(DataRefused) as refused:
        echo(rows)
    assert refused.value.sqlstate == "22021"
    assert "canary" not in repr(refused.value) + str(refused.value.__context__)
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


def test_each_shape_is_announced_as_its_own_type(
    cell_and_runner: tuple[Cell, asyncio.Runner],
) -> None:
    """Two shapes in one statement are two types: psycopg does not mistake one for the other."""
    cell, runner = cell_and_runner

    async def scenario() -> tuple[Any, ...] | None:
        async with cell.transaction("two") as tx:
            cursor = await tx.connection.execute(
                "select pg_typeof(%(a)s)::text, pg_typeof(%(b)s)::text, cardinality(%(a)s)",
                {"a": Rows(cell.shapes["ticket"], []), "b": Rows(cell.shapes["note"], [])},
            )
            return await cursor.fetchone()

    assert runner.run(scenario()) == ("ticket[]", "note[]", 0)


def test_the_microsecond_survives(echo: Echo) -> None:
    """Times are packed as whole microseconds, without a float in between."""
    at = list(VALUES).index("timestamptz")
    far = datetime(2261, 5, 5, tzinfo=UTC)
    rows = [
        tuple(far + timedelta(microseconds=n) if k == at else None for k in range(len(VALUES)))
        for n in range(50)
    ]
    assert echo(rows) == rows

"""The chain of changes: who did what to gates, schedules and risks."""

from __future__ import annotations

import asyncio
import hashlib
from uuid import UUID

import pytest

from dragoman.core.ids import uuid7
from dragoman.store.changes import record_change
from dragoman.store.database import Cell, open_cell
from tests import postgres
from tests.store.attack import connect, guard, refusal


async def _record(cell: Cell, actor: UUID, verb: str) -> int:
    async with cell.transaction("change") as tx:
        return await record_change(tx, actor, verb, "gate a/b/c", {"limit": 4})


def test_each_change_extends_one_chain(database: str) -> None:
    """Changes made at once are numbered without a gap, each hashed over the one before."""

    async def record() -> list[int]:
        actor = uuid7()
        async with open_cell(postgres.dsn("dragoman_operator", database)) as cell:
            return await asyncio.gather(*(_record(cell, actor, f"verb-{n}") for n in range(8)))

    assert sorted(asyncio.run(record())) == list(range(1, 9))
    check_changes(database)


def check_changes(database: str) -> None:
    """The chain of changes can be computed again from its rows."""
    with connect(database) as connection:
        rows = connection.execute(
            "select hash, seq, timestamptz_send(at), uuid_send(actor), facts from change"
            " order by seq"
        ).fetchall()
    head = b""
    for found, seq, at, actor, facts in rows:
        head = hashlib.sha256(head + seq.to_bytes(4, "big") + at + actor + facts).digest()
        assert head == found


@pytest.mark.parametrize("verb", ["update change set verb = 'x'", "delete from change"])
def test_what_was_changed_is_never_rewritten(database: str, verb: str) -> None:
    """Not even the owner rewrites the history of changes."""

    async def record() -> None:
        async with open_cell(postgres.dsn("dragoman_operator", database)) as cell:
            await _record(cell, uuid7(), "pause")

    asyncio.run(record())
    with connect(database) as connection:
        assert refusal(connection, verb) == guard("changes_are_append_only")

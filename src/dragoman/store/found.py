"""Batches that a provider has and restored data do not know: one function per statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dragoman.core.job import Kind
from dragoman.store.batches import Item, NewBatch
from dragoman.store.database import Cell, Tx


@dataclass(frozen=True, slots=True)
class Place:
    """An account that may have batches of this cell."""

    provider: str
    adapter_kind: str
    base_url: str | None
    account: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a batch that was made after the backup."""

    created_at: datetime
    input_file_id: str
    sha256: bytes
    size: int
    incarnation: UUID


async def find_accounts(cell: Cell) -> list[Place]:
    """Every account at which a batch of ours may be."""
    return await cell.fetch(Place, "batch/find_accounts")


async def known_nonces(cell: Cell, nonces: Sequence[str]) -> set[str]:
    """Which submissions are known here."""
    async with cell.transaction("read") as tx:
        return {str(row[0]) for row in await tx.tuples("batch/known_nonces", nonces=list(nonces))}


async def doubt_restored(cell: Cell) -> int:
    """Submissions that had not begun when the backup was made may have been created since."""
    async with cell.transaction("doubt_restored") as tx:
        return await tx.count("batch/doubt_restored", kind=Kind.SUBMIT_UNKNOWN)


async def adopt_batch(
    tx: Tx, worker: UUID, batch: NewBatch, items: Sequence[Item], found: Found
) -> set[int]:
    """Record a batch that exists at its provider, with those of its items that are held here."""
    rows = await tx.tuples(
        "batch/adopt_batch",
        id=batch.id,
        nonce=batch.nonce,
        provider=batch.provider,
        adapter_kind=batch.adapter_kind,
        base_url=batch.base_url,
        account=batch.account,
        model=batch.model,
        group_key=batch.group_key,
        token=batch.token,
        worker=worker,
        at=found.created_at,
        sha256=found.sha256,
        bytes=found.size,
        file=found.input_file_id,
        incarnation=found.incarnation,
        items=tx.cell.values("item", items),
    )
    return {int(row[0]) for row in rows}

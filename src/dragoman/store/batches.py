"""Submissions and their items: one function per statement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from dragoman.core.gate import Gate
from dragoman.core.ids import BatchId, JobId, Token, uuid7
from dragoman.core.job import Held, Kind, Reason
from dragoman.store.database import Cell, Tx, statement
from dragoman.store.gates import has_batch_room
from dragoman.store.jobs import read_held


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a batch about to be recorded, in the order of the type item."""

    job_id: JobId
    token: Token
    item_index: int
    call: int
    custom_id: str


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A submission about to be recorded."""

    id: BatchId
    nonce: str
    provider: str
    adapter_kind: str
    base_url: str | None
    account: str
    model: str
    group_key: str
    token: Token

    @property
    def gate(self) -> Gate:
        """What it goes through."""
        return Gate(self.provider, self.account, self.model)


@dataclass(frozen=True, slots=True)
class Batch:
    """A submission as it stands."""

    id: BatchId
    token: Token
    nonce: str
    provider: str
    adapter_kind: str
    base_url: str | None
    account: str
    model: str
    group_key: str
    state: str
    provider_batch_id: str | None
    input_file_id: str | None
    result_files: list[str]
    absences: int
    downloads: int
    items: int
    submitted_at: datetime | None
    started_at: datetime | None
    deadline_at: datetime | None
    closed_at: datetime | None

    @property
    def gate(self) -> Gate:
        """What it went through."""
        return Gate(self.provider, self.account, self.model)


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An item that is not settled, and its job as its holder knows it."""

    item_index: int
    call: int
    custom_id: str
    job: Held


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an item, in the order of the type settled."""

    batch_id: BatchId
    item_index: int
    state: str
    code: str | None


@dataclass(frozen=True, slots=True)
class Sending:
    """A job that goes out with a batch, in the order of the type sending."""

    id: JobId
    token: Token
    facts: bytes


async def record_batch(
    cell: Cell, worker: UUID, batch: NewBatch, items: Sequence[Item], size: int = 0
) -> set[int] | None:
    """Commit what is about to be submitted; the indices of items still held come back.

    None: the batch's gate holds as many tokens in open batches as it may, and nothing was written.
    """
    async with cell.transaction("record_batch") as tx:
        if not await has_batch_room(tx, batch.gate, size):
            return None
        rows = await tx.tuples(
            "batch/record_batch",
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
            bytes=size,
            items=cell.values("item", items),
        )
        return {int(row[0]) for row in rows}


async def start_submission(
    cell: Cell,
    batch_id: BatchId,
    token: Token,
    *,
    file: str,
    sha256: bytes,
    size: int,
    deadline_s: float,
) -> bool:
    """Commit that the batch may exist from now on; False when it was lost meanwhile."""
    async with cell.transaction("start_submission") as tx:
        rows = await tx.tuples(
            "batch/start_submission",
            id=batch_id,
            token=token,
            file=file,
            sha256=sha256,
            bytes=size,
            deadline_s=deadline_s,
        )
        return bool(rows)


async def record_submitted(
    cell: Cell,
    actor: UUID,
    batch: Batch | NewBatch,
    jobs: Sequence[Sending],
    *,
    theirs: str,
    status: str,
    reason: Reason,
) -> bool:
    """Mark the batch and its jobs with the provider's id, in one statement."""
    async with cell.transaction("record_submitted") as tx:
        rows = await tx.tuples(
            "batch/record_submitted",
            id=batch.id,
            token=batch.token,
            theirs=theirs,
            status=status,
            reason=reason,
            actor=actor,
            kind=Kind.SUBMITTED,
            jobs=cell.values("sending", jobs),
        )
        return bool(rows)


async def record_doubt(cell: Cell, batch_id: BatchId, token: Token) -> bool:
    """Nobody knows whether the batch was created."""
    return await _moved(cell, "record_doubt", id=batch_id, token=token, kind=Kind.SUBMIT_UNKNOWN)


async def doubt_overdue(cell: Cell) -> int:
    """Submissions whose answer can no longer come are in doubt, whoever made them."""
    async with cell.transaction("doubt_overdue") as tx:
        return await tx.count("batch/doubt_overdue", kind=Kind.SUBMIT_UNKNOWN)


async def record_absence(cell: Cell, batch: Batch) -> int:
    """The provider's list did not show it; how often by now, 0 if another asked too."""
    async with cell.transaction("record_absence") as tx:
        rows = await tx.tuples(
            "batch/record_absence", id=batch.id, token=batch.token, absences=batch.absences
        )
        return int(rows[0][0]) if rows else 0


async def record_asked(cell: Cell, batch: Batch) -> bool:
    """The provider could not be asked."""
    return await _moved(cell, "record_asked", id=batch.id, token=batch.token)


async def record_poll(
    cell: Cell, batch: Batch, *, status: str, state: str | None, files: Sequence[str], ended: bool
) -> bool:
    """How the provider's batch stands."""
    return await _moved(
        cell,
        "record_poll",
        id=batch.id,
        token=batch.token,
        status=status,
        state=state,
        files=list(files),
        ended=ended,
    )


async def count_download(cell: Cell, batch: Batch) -> int:
    """One more whole reading that left items open; how many by now, or 0 if another read too."""
    async with cell.transaction("count_download") as tx:
        rows = await tx.tuples(
            "batch/count_download", id=batch.id, token=batch.token, downloads=batch.downloads
        )
        return int(rows[0][0]) if rows else 0


async def close_batch(cell: Cell, batch: Batch) -> bool:
    """Close a batch of which every item is settled."""
    return await _moved(cell, "close_batch", id=batch.id, token=batch.token)


async def release_batch(cell: Cell, batch_id: BatchId, token: Token) -> bool:
    """Give up a submission that provably never happened."""
    return await _moved(cell, "release_batch", id=batch_id, token=token)


async def record_files_deleted(cell: Cell, batch: Batch) -> bool:
    """The provider keeps none of the batch's files any more."""
    return await _moved(cell, "record_files_deleted", id=batch.id)


async def take_over(cell: Cell, batch: Batch, worker: UUID) -> Batch | None:
    """Take a submission that was never started from its submitter; None when it has begun or ended.

    The token changes: a submitter that was only slow finds its batch gone, and creates nothing.
    """
    fresh = Token(uuid7())
    is_ours = await _moved(
        cell, "take_over", id=batch.id, token=batch.token, fresh=fresh, worker=worker
    )
    return replace(batch, token=fresh) if is_ours else None


async def find_never_started(cell: Cell) -> list[Batch]:
    """Submissions that stopped before their create was begun."""
    return await cell.fetch(Batch, "batch/find_never_started")


async def find_doubtful(cell: Cell, settle_s: float) -> list[Batch]:
    """Doubtful submissions that may be asked about now."""
    return await cell.fetch(Batch, "batch/find_doubtful", settle_s=settle_s)


async def find_open(cell: Cell) -> list[Batch]:
    """Batches that are out, or back and not wholly taken in."""
    return await cell.fetch(Batch, "batch/find_open")


async def find_closed_with_files(cell: Cell) -> list[Batch]:
    """Closed batches whose files still lie at the provider."""
    return await cell.fetch(Batch, "batch/find_closed_with_files")


async def open_items(cell: Cell, batch_id: BatchId) -> list[OpenItem]:
    """The items of a batch that are not settled."""
    async with (
        cell.transaction("read") as tx,
        tx.connection.cursor(row_factory=kwargs_row(_open_item), binary=True) as cursor,
    ):
        await cursor.execute(statement("batch/open_items"), {"id": batch_id})
        return await cursor.fetchall()


async def known_ids(cell: Cell, batch_id: BatchId) -> set[str]:
    """Every custom_id that a batch was sent with."""
    async with cell.transaction("read") as tx:
        return {str(row[0]) for row in await tx.tuples("batch/known_ids", id=batch_id)}


async def settle_items(tx: Tx, items: Sequence[Settled]) -> set[JobId]:
    """Settle items, each once; the jobs whose item was still open come back."""
    rows = await tx.tuples("batch/settle_items", items=tx.cell.values("settled", items))
    return {JobId(row[1]) for row in rows}


async def drop_erased(
    cell: Cell, actor: UUID, batch_id: BatchId, custom_ids: Collection[str]
) -> int:
    """Say on their tombstones that lines came for erased jobs; how many, each counted once."""
    async with cell.transaction("drop_erased") as tx:
        return await tx.count(
            "batch/drop_erased",
            id=batch_id,
            custom_ids=list(custom_ids),
            actor=actor,
            kind=Kind.LATE_RESULT,
            reason=Reason.LOST_LEASE,
        )


async def count_work(cell: Cell) -> int:
    """Whether a collector has anything to do."""
    async with cell.transaction("read") as tx:
        return int((await tx.tuples("batch/count_work"))[0][0])


async def _moved(cell: Cell, name: str, /, **params: object) -> bool:
    async with cell.transaction(name) as tx:
        return bool(await tx.tuples(f"batch/{name}", "dragoman.store", **params))


def _open_item(
    item_index: int,
    call: int,
    custom_id: str,
    **columns: Any,  # noqa: ANN401 - a database row
) -> OpenItem:
    return OpenItem(item_index, call, custom_id, read_held(**columns))

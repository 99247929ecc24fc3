"""A submission's four writes, and the two ways out of doubt: adopt it, or give its jobs back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol
from uuid import UUID

from dragoman.core.answer import Happened
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import BatchId, Token
from dragoman.core.job import Held, Reason, Retry
from dragoman.providers.base import Account, Adapter
from dragoman.store import batches
from dragoman.store.database import Cell
from dragoman.store.jobs import facts
from dragoman.work.finish import Finished, finish
from dragoman.work.pipeline import Pipelines


class Providers(Protocol):
    """Whom we can call, and as whom."""

    def adapter(self, kind: str) -> Adapter:
        """The wire of an adapter kind."""
        ...

    def account(self, name: str, base_url: str | None) -> Account:
        """Whom we are there; the key is read from its secret now."""
        ...


@dataclass(frozen=True, slots=True)
class Submission:
    """The book of one create: what acts.py writes it down in."""

    cell: Cell
    actor: UUID
    pipelines: Pipelines
    batch: batches.Batch | batches.NewBatch
    file_id: str
    sha256: bytes
    size: int
    counts: Counter[str] = field(default_factory=Counter[str])  # what became of its jobs

    async def begin(self, deadline_s: float) -> bool:
        """Commit that the batch may exist from now on."""
        return await batches.start_submission(
            self.cell,
            self.batch.id,
            self.batch.token,
            file=self.file_id,
            sha256=self.sha256,
            size=self.size,
            deadline_s=deadline_s,
        )

    async def mark(self, happened: Happened) -> None:
        """Write the provider's id on the batch and on its jobs, in one statement."""
        self.counts.update(
            await mark(
                self.cell, self.actor, self.batch, happened.evidence_id, "created", Reason.NONE
            )
        )

    async def give_back(self, failure: Failure) -> None:
        """The provider did not create it: its jobs wait again."""
        given = await give_back(
            self.cell,
            self.actor,
            self.pipelines,
            self.batch,
            f"create_{failure.code}",
            failure.retry_after_s,
        )
        self.counts.update(given)

    async def doubt(self, failure: Failure) -> None:  # noqa: ARG002 - the row says it all
        """Nobody knows: the collector will ask."""
        await batches.record_doubt(self.cell, self.batch.id, self.batch.token)


async def mark(
    cell: Cell,
    actor: UUID,
    batch: batches.Batch | batches.NewBatch,
    theirs: str,
    status: str,
    reason: Reason,
) -> Counter[str]:
    """Write down that the provider has the batch; counts its jobs: submitted, or lost meanwhile."""
    items = await batches.open_items(cell, batch.id)
    going = [
        batches.Sending(
            item.job.id,
            item.job.token,
            facts(
                batch_id=str(batch.id),
                batch_item_index=item.item_index,
                provider_batch_id=theirs,
                provider=batch.provider,
                account=batch.account,
                model=batch.model,
                batch_group_key=batch.group_key,
            ),
        )
        for item in items
        if item.call == 0
    ]
    marked = await batches.record_submitted(
        cell, actor, batch, going, theirs=theirs, status=status, reason=reason
    )
    if marked is None:
        raise LeaseLost
    return Counter(submitted=marked, lost=len(going) - marked)


async def give_back(
    cell: Cell,
    actor: UUID,
    pipelines: Pipelines,
    batch: batches.Batch | batches.NewBatch,
    code: str,
    retry_after_s: float | None = None,
) -> Counter[str]:
    """A submission that provably did not happen lets go of its jobs; no attempt is burnt."""
    counts: Counter[str] = Counter()
    failure = Failure(FailureClass.NOT_EXECUTED, code, retry_after_s=retry_after_s)
    for group in by_job(await batches.open_items(cell, batch.id)):
        held = group[0].job
        indices = tuple(item.item_index for item in group)
        counts += await finish(
            cell, actor, pipelines, [Finished(held, Retry(failure), batch.id, indices)]
        )
    await batches.release_batch(cell, batch.id, batch.token)
    return counts


def by_job(items: Sequence[batches.OpenItem]) -> list[list[batches.OpenItem]]:
    """Items of one job together, in the order of its calls."""
    ordered = sorted(items, key=lambda item: (item.job.id, item.call))
    return [list(group) for _, group in groupby(ordered, key=lambda item: item.job.id)]


def new_batch(held: Held, nonce: str, batch_id: BatchId, token: Token) -> batches.NewBatch:
    """The batch row for jobs that share this one's route, account and group."""
    routing = held.routing
    base_url = routing.get("base_url")
    return batches.NewBatch(
        id=batch_id,
        nonce=nonce,
        provider=str(routing["provider"]),
        adapter_kind=str(routing["adapter_kind"]),
        base_url=str(base_url) if base_url else None,
        account=held.account,
        model=str(routing["model"]),
        group_key=held.group_key or "",
        token=token,
    )

"""Changes outside of jobs: what people and processes did to gates, schedules and risks."""

from __future__ import annotations

from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical
from dragoman.store.database import Tx

_LOCK = 0x6368616E6765  # "change"


async def record_change(
    tx: Tx, actor: UUID, verb: str, subject: str, facts: JSONObject | None = None
) -> int:
    """Write down who changed what, in the transaction of the change itself; its number.

    >>> await record_change(tx, actor, "pause", "gate openai/default/gpt")  # doctest: +SKIP
    1
    """
    told = canonical({**(facts or {}), "verb": verb, "subject": subject})
    await lock_changes(tx)
    rows = await tx.tuples(
        "change/record_change", actor=actor, verb=verb, subject=subject, facts=told
    )
    return int(rows[0][0])


async def lock_changes(tx: Tx) -> None:
    """Be the only one who writes changes until this transaction ends."""
    await tx.run("change/lock_changes", lock=_LOCK)

"""How jobs come in: in which order those of many homes stand, and how many of one home may wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from dragoman.core.errors import QueueFull
from dragoman.store.changes import record_change
from dragoman.store.database import Intake, Tx


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many jobs of a home wait."""

    home_id: UUID
    waiting: int


@dataclass(frozen=True, slots=True)
class Last:
    """The last waiting job of a home, if there is one."""

    home_id: UUID
    now: datetime
    last_at: datetime | None


async def read_intake(tx: Tx) -> Intake:
    """How jobs come into this cell, read once in the life of a process."""
    if tx.cell.intake is None:
        (tx.cell.intake,) = await tx.fetch(Intake, "intake/read_intake")
    return tx.cell.intake


async def set_intake(tx: Tx, actor: UUID, intake: Intake) -> bool:
    """Change how jobs come in; False when nothing differs. Processes see it when they start."""
    facts = asdict(intake)
    if not await tx.tuples("intake/set_intake", **facts):
        return False
    await record_change(tx, actor, "set", "intake", facts)
    return True


async def check_room(tx: Tx, homes: Sequence[UUID]) -> None:
    """Refuse what would take a home over its bound: one entry of its id for each new job.

    The bound is approximate: no home is locked, so that jobs that come in at once may pass it.
    """
    coming, most = Counter(homes), (await read_intake(tx)).max_waiting_per_home
    found = await tx.fetch(Waiting, "intake/count_waiting", homes=list(coming), most=most + 1)
    if any(each.waiting + coming[each.home_id] > most for each in found):
        raise QueueFull(
            f"a home may have {most} jobs waiting, and these would be more; nothing was stored. "
            "Try again when some are done"
        )


async def places(tx: Tx, homes: Sequence[UUID], every_s: float) -> list[datetime]:
    """Where new jobs stand in the order: a home's jobs keep a distance, whenever they came.

    So many waiting jobs of one home stand between those of others instead of before them. Nothing
    is locked: two that come in at once may get one place.
    """
    distance = timedelta(seconds=every_s)
    found = await tx.fetch(Last, "intake/last_waiting", homes=list(set(homes)))
    free = {
        each.home_id: max(each.now, each.last_at + distance) if each.last_at else each.now
        for each in found
    }
    taken: list[datetime] = []
    for home in homes:
        taken.append(free[home])
        free[home] += distance
    return taken

"""Held starts: one function per statement.

A restore is not a restart: the outside world has gone on. So an engine whose data are not the ones
that stood here last creates and sends nothing until an operator lets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from dragoman.core.canonical import canonical
from dragoman.core.ids import uuid7
from dragoman.store.changes import record_change
from dragoman.store.database import Cell, Tx

NOT_ASKED = "providers_not_asked"
_KIND = "held"


class Why(StrEnum):
    """Why an engine is held."""

    RESTORED = "restored"
    OLDER_DATA = "older_data"
    OTHER_DATA = "other_data"
    UNKNOWN_DATA = "unknown_data"
    ASKED = "asked"


_BECAUSE = {
    Why.RESTORED: "its data come from a backup",
    Why.OLDER_DATA: "its data are older than those that stood here last",
    Why.OTHER_DATA: "its data are not those that stood here last",
    Why.UNKNOWN_DATA: "the file that knows its data is missing",
    Why.ASKED: "an operator asked for it",
}


def because(why: Why) -> str:
    """The reason as the end of a sentence.

    >>> because(Why.ASKED)
    'an operator asked for it'
    """
    return _BECAUSE[why]


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that nobody has released."""

    id: UUID
    why: str
    incarnation: UUID
    data_at: datetime
    held_at: datetime
    asked_at: datetime | None

    def __str__(self) -> str:
        """One line for a person, without a name or a text."""
        since, until = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (self.held_at, self.data_at))
        return (
            f"held since {since}, because {because(Why(self.why))}; "
            f"what happened after {until} may be unknown here"
        )


async def read_hold(cell: Cell) -> Hold | None:
    """The hold that is on, if one is.

    >>> await read_hold(cell)  # doctest: +SKIP
    """
    async with cell.transaction("read") as tx:
        return await find_hold(tx)


async def find_hold(tx: Tx) -> Hold | None:
    """The same inside a transaction."""
    return next(iter(await tx.fetch(Hold, "hold/read_hold")), None)


async def start_hold(tx: Tx, actor: UUID, why: Why, data_at: datetime | None = None) -> Hold | None:
    """Hold the engine, with an event and an alert; None when it is held already."""
    await tx.run("hold/ask_again")
    found = await tx.fetch(Hold, "hold/start_hold", id=uuid7(), why=why, data_at=data_at)
    if not found:
        return None
    facts = {"hold_id": str(found[0].id), "why": why, "data_at": found[0].data_at.isoformat()}
    await record_change(tx, actor, "hold", "engine", dict(facts))
    await tx.run(
        "alert/raise_alert",
        id=uuid7(),
        kind=_KIND,
        subject=tx.cell.name,
        severity="act",
        facts=canonical(facts).decode(),
    )
    return found[0]


async def renew_incarnation(tx: Tx) -> UUID:
    """Another life of the data: what was on its way before is told from what comes now."""
    fresh = uuid7()
    await tx.run("hold/renew_incarnation", incarnation=fresh)
    return fresh


async def record_providers_asked(cell: Cell, hold: Hold) -> bool:
    """Every provider has told of the batches that it has of ours."""
    async with cell.transaction("record_providers_asked") as tx:
        await tx.run("alert/close_alerts", about=NOT_ASKED)
        return bool(await tx.tuples("hold/record_asked", id=hold.id))


async def release_hold(cell: Cell, actor: UUID) -> Hold | None:
    """Let the engine go on, with an event; None when nothing held it."""
    async with cell.transaction("release_hold") as tx:
        found = await tx.fetch(Hold, "hold/release_hold", actor=actor)
        if not found:
            return None
        facts = {"hold_id": str(found[0].id), "why": found[0].why}
        await record_change(tx, actor, "release", "engine", dict(facts))
        await tx.run("alert/close_alerts", about=_KIND)
        return found[0]

"""Erasure: what belongs to a home, or to one person of it, is deleted; a tombstone stays."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dragoman.store.database import Cell
from dragoman.store.workers import actor_id

STEP = 500


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows: a whole home's, or only what one person of it sent or received."""

    home: UUID
    user: UUID | None = None


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is, or was erased; `people` are members whose entry and preferences go."""

    people: int
    requests: int
    jobs: int
    messages: int

    def __add__(self, other: Extent) -> Extent:
        return Extent(
            self.people + other.people,
            self.requests + other.requests,
            self.jobs + other.jobs,
            self.messages + other.messages,
        )

    def __bool__(self) -> bool:
        return bool(self.people or self.requests or self.jobs)


async def count_erasable(cell: Cell, scope: Scope) -> Extent:
    """What an erasure would find; nothing is changed."""
    return await _erase(cell, scope, "", 0)


async def erase(cell: Cell, scope: Scope, name: str, most: int = STEP) -> Extent:
    """One bounded step, whole or not at all; call it until there is nothing left to count.

    A job that somebody moves at this moment, and one whose message is being sent, is left for a
    later step: it is canceled by then.

    >>> await erase(cell, Scope(home), "ann")  # doctest: +SKIP
    Extent(people=0, requests=12, jobs=12, messages=0)
    """
    return await _erase(cell, scope, name, most)


async def _erase(cell: Cell, scope: Scope, name: str, most: int) -> Extent:
    async with cell.transaction("erase") as tx:
        [extent] = await tx.fetch(
            Extent,
            "erasure/erase",
            home=scope.home,
            user=scope.user,
            most=most,
            actor=actor_id("eraser", name),
            name=name,
        )
    return extent

"""The figures while somebody looks: read once a second at most, for all who look together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from dragoman.console.figures import SCHEDULED, Overview, Tally
from dragoman.console.queries import Checked, Reading
from dragoman.core import ports
from dragoman.core.errors import DatabaseDown
from dragoman.core.profile import Profile
from dragoman.store.database import Cell

CellOf: TypeAlias = Callable[[], Awaitable[Cell]]

FRESH_S = 0.9
PATIENCE_S = 4.0
# The count behind the double rule grows with history, so it takes at most a fiftieth of the time.
_RECOUNT = 50


@asynccontextmanager
async def reading(cell_of: CellOf) -> AsyncGenerator[Reading]:
    """One transaction for one page; DatabaseDown when no answer comes in time."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            cell = await cell_of()
            async with cell.transaction("read") as tx:
                yield Reading(tx)
    except TimeoutError:
        raise DatabaseDown from None


@dataclass(slots=True)
class Watch:
    """The overview's figures, and the last ones there were."""

    cell_of: CellOf
    pace: Profile
    last: Overview | None = None
    _read_at: float = float("-inf")
    _tally: Tally | None = None
    _recount_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def overview(self) -> Overview:
        """The figures, at most a second old."""
        async with self._lock:
            if self.last is None or ports.monotonic() - self._read_at > FRESH_S:
                self.last = await self._read()
                self._read_at = ports.monotonic()
            return self.last

    async def tally(self, page: Reading) -> Tally:
        """The sum; its check is made again as soon as it is cheap enough."""
        sums = {each.state: each.n for each in await page.sums()}
        if self._tally is None or ports.monotonic() >= self._recount_at:
            checked, at = await self._recount(page), (await page.cell()).now
        else:
            checked, at = self._tally.checked, self._tally.checked_at
        self._tally = Tally(sums, checked, at)
        return self._tally

    async def _recount(self, page: Reading) -> list[Checked]:
        began = ports.monotonic()
        checked = await page.check()
        ended = ports.monotonic()
        self._recount_at = ended + (ended - began) * _RECOUNT
        return checked

    async def _read(self) -> Overview:
        async with reading(self.cell_of) as page:
            began = ports.monotonic()
            return Overview(
                tally=await self.tally(page),
                alerts=await page.alerts(8),
                gates=await page.closed_gates(),
                letters=await page.letters(),
                deliveries=await page.deliveries(),
                doubtful=await page.doubtful_deliveries(8),
                batches=await page.open_batches(8),
                waits=await page.waits(),
                pairs=await page.pairs(),
                minutes=await page.minutes(),
                finished=await page.finished(12),
                runs=await page.runs(list(SCHEDULED), 4),
                cell=await page.cell(),
                pace=self.pace,
                queries=page.queries,
                took_ms=(ports.monotonic() - began) * 1000,
            )

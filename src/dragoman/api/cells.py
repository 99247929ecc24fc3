"""One pool for each database role, opened on first use: the door opens without a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, TypeAlias

from dragoman.core.errors import DatabaseDown
from dragoman.settings import Settings
from dragoman.store.database import Cell, open_cell

Role: TypeAlias = Literal["orchestrator", "operator", "frontend"]
DSNOf: TypeAlias = Callable[[str], str]
Check: TypeAlias = Callable[[Cell, str], Awaitable[object]]

PATIENCE_S = 4.0


class Cells:
    """The cell as each role of this door sees it.

    >>> cell = await cells.of("frontend")  # doctest: +SKIP
    """

    def __init__(self, settings: Settings, dsn_of: DSNOf, check: Check | None = None) -> None:
        self._settings = settings
        self._dsn_of = dsn_of
        self._check = check
        self._open: dict[Role, Cell] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()

    async def of(self, role: Role) -> Cell:
        """The role's cell; DatabaseDown when the database does not answer in time."""
        async with patience(), self._lock:
            if role not in self._open:
                self._open[role] = await self._stack.enter_async_context(self._checked(role))
            return self._open[role]

    @asynccontextmanager
    async def _checked(self, role: Role) -> AsyncGenerator[Cell]:
        async with open_cell(
            self._dsn_of(role),
            name=self._settings.cell,
            role=f"dragoman door {role}",
            is_pooled=self._settings.database_line is not None,
        ) as cell:
            if self._check is not None:
                await self._check(cell, role)
            yield cell

    async def close(self) -> None:
        """Close every pool."""
        self._open.clear()
        await self._stack.aclose()


@asynccontextmanager
async def patience() -> AsyncGenerator[None]:
    """Bound a wait for the database; nobody at a door waits longer than for a page."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError:
        raise DatabaseDown from None

"""Two people in a home, and what one of them writes."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from tests import stand

CANARY = "Zwiebelkuchen7041"
MESSAGE = f"You are always so loud at night with your {CANARY}! I cannot sleep."


def move_in(database: str, source: str = "en", target: str = "en") -> stand.Home:
    """A home with two members."""

    async def add() -> stand.Home:
        async with stand.cell_of(database, "dragoman_orchestrator") as cell:
            return await stand.add_home(cell, source, target)

    return asyncio.run(add())


def complaint(home: stand.Home, **changes: Any) -> dict[str, Any]:
    """A body as a product's backend would send it."""
    return {
        "rewrite_request_id": str(uuid4()),
        "home_id": str(home.id),
        "sender_user_id": str(home.sender),
        "recipient_user_id": str(home.recipient),
        "message": MESSAGE,
    } | changes


def requests(database: str) -> int:
    """How many requests are stored."""
    return stand.rows(database, "select count(*) from rewrite_request")[0][0]

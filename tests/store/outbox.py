"""A review's job whose results are stored and whose messages wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

import psycopg

from dragoman.core.ids import uuid7
from dragoman.core.job import Held
from dragoman.store import deliveries
from dragoman.store.deliveries import Delivery
from tests import stand
from tests.store.kernel import KEY, Crew, claim, enqueue, new_job
from tests.store.rewrites import insert

CHANNELS = ["mailto"]


@dataclass
class Told:
    """A review and its messages."""

    held: Held
    changelist: str
    messages: list[UUID] = field(default_factory=list)


async def review_of(
    crew: Crew, recipients: int = 1, guarantee: str = "lookup", max_attempts: int = 5
) -> Told:
    """Claim a review's job and queue a message for each recipient."""
    changelist = f"host/repo/{uuid4()}"
    job = new_job(pipeline=2, changelist_id=changelist, review_version=1, stage=2)
    await enqueue(crew, job)
    (held,) = await claim(crew, KEY)
    told = Told(held, changelist)
    with stand.owner(crew.database) as connection:
        for number in range(recipients):
            told.messages.append(_message(connection, told, number, guarantee, max_attempts))
    return told


def _message(
    connection: psycopg.Connection, told: Told, number: int, guarantee: str, max_attempts: int
) -> UUID:
    message = uuid7()
    row = {
        "id": message,
        "changelist_id": told.changelist,
        "recipient": f"mailto:someone{number}@example.org",
        "review_version": 1,
        "home_id": told.held.home_id,
        "job_id": told.held.id,
        "channel": "mailto",
        "guarantee": guarantee,
        "key": f"{told.changelist}/{number}",
        "payload": b"canary Ottoline",
        "payload_sha256": bytes(32),
        "state": "queued",
        "max_attempts": max_attempts,
        "created_at": datetime.now(UTC),
    }
    insert(connection, "delivery", row)
    return message


async def take(crew: Crew, most: int = 10, worker: UUID | None = None) -> list[Delivery]:
    """Claim messages as a relay does."""
    return await deliveries.claim_deliveries(crew.worker, worker or crew.actor, CHANNELS, most)


async def send(crew: Crew, one: Delivery, deadline_s: float = 30) -> bool:
    """Commit that a message may arrive from now on."""
    return await deliveries.start_sending(crew.worker, crew.actor, one, deadline_s)


def store_result(database: str, told: Told) -> None:
    """What the review found."""
    row = {
        "job_id": told.held.id,
        "home_id": told.held.home_id,
        "changelist_id": told.changelist,
        "review_version": 1,
        "schema_version": "1",
        "prompt_version": "v1",
        "provider": "p",
        "model": "m",
        "diagnostics": "[]",
        "created_at": datetime.now(UTC),
    }
    with stand.owner(database) as connection:
        insert(connection, "review_result", row)

"""Requests as the orchestrator leaves them behind, and jobs that match them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7
from dragoman.core.job import Mode
from dragoman.store.jobs import NewJob
from tests import stand

VALID = {"schema_valid": True, "lexicon_pass": True}
DECISION = {"provider": "p", "adapter_kind": "a", "model": "m"}


@dataclass
class Request:
    """A routed request between two people."""

    source: str = "de"
    target: str = "en"
    id: UUID = field(default_factory=uuid7)
    home: UUID = field(default_factory=uuid4)
    sender: UUID = field(default_factory=uuid4)
    recipient: UUID = field(default_factory=uuid4)

    @property
    def lane(self) -> str:
        """Language equality decides."""
        return "same_language" if self.source == self.target else "cross_language"

    def write(self, database: str) -> Request:
        """Store it with its snapshots, as if the orchestrator had."""
        with stand.owner(database) as connection:
            self.insert(connection)
        return self

    def insert(self, connection: psycopg.Connection) -> None:
        """The same on a connection that is open."""
        now = datetime.now(UTC)
        insert(connection, "rewrite_request", self._columns(now))
        insert(
            connection,
            "recipient_snapshot",
            {
                "id": uuid7(),
                "request_id": self.id,
                "home_id": self.home,
                "recipients": [self.recipient],
                "created_at": now,
            },
        )
        insert(
            connection,
            "recipient_preference_snapshot",
            {
                "id": uuid7(),
                "request_id": self.id,
                "home_id": self.home,
                "recipient_user_id": self.recipient,
                "preferences": Jsonb({}),
                "sender_role": "housemate",
                "recipient_role": "housemate",
                "created_at": now,
            },
        )

    def _columns(self, now: datetime) -> dict[str, Any]:
        return {
            "id": self.id,
            "home_id": self.home,
            "sender_user_id": self.sender,
            "recipient_user_id": self.recipient,
            "surface": "direct_message",
            "original_text": "canary Zephyrine",
            "text_sha256": bytes(32),
            "created_by": uuid4(),
            "created_at": now,
            "classifier_result": Jsonb({}),
            "topics": ["noise"],
            "intent": "request",
            "rewrite_strength": "full_reframe",
            "context_pack": Jsonb({}),
            "rewrite_request": Jsonb({}),
            "routing_decision": Jsonb(DECISION),
            "source_locale": self.source,
            "target_locale": self.target,
            "lane": self.lane,
            "routed_at": now,
        }

    def job(self, **changed: Any) -> NewJob:
        """The job that matches it, or one that differs."""
        unit = f"{self.id}:{self.recipient}"
        columns: dict[str, Any] = {
            "id": JobId(uuid7()),
            "pipeline": 1,
            "unit": unit,
            "home_id": HomeId(self.home),
            "mode": Mode.BATCH,
            "account": "default",
            "lane": self.lane,
            "source_locale": self.source,
            "target_locale": self.target,
            "group_key": "g",
            "routing": DECISION,
            "max_attempts": 2,
            "request_id": self.id,
            "recipient_id": self.recipient,
            "changelist_id": None,
            "review_version": None,
            "input_hash": None,
            "replay_of": None,
            "stage": 0,
            "queue_key": 41,
            "queue_keys": None,
            "unit_lock": unit_lock("rewrite", unit),
        }
        return NewJob(**{**columns, **changed})

    def output(self, job: JobId, **changed: Any) -> dict[str, Any]:
        """The columns of an output that passed every check."""
        columns: dict[str, Any] = {
            "request_id": self.id,
            "recipient_user_id": self.recipient,
            "home_id": self.home,
            "job_id": job,
            "rewritten_text": "canary Melisande",
            "output_language": self.target,
            "target_locale": self.target,
            "provider": "p",
            "model": "m",
            "prompt_version": "v1",
            "policy_version": "v1",
            "lexicon_version": "v1",
            "eval_result": Jsonb(VALID),
            "completed_at": datetime.now(UTC),
        }
        return {**columns, **changed}


def insert(connection: psycopg.Connection, table: str, columns: dict[str, Any]) -> None:
    """One row, by plain SQL."""
    names = ", ".join(columns)
    places = ", ".join(f"%({name})s" for name in columns)
    connection.execute(f"insert into {table} ({names}) values ({places})".encode(), columns)

"""The story of one job as an auditor tells it: from its events alone, each verified."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dragoman.core.canonical import JSON, JSONObject, iso, read_object
from dragoman.core.chain import Chain, Divergence, Event
from dragoman.core.errors import BadJSON, DataRefused, NotFound
from dragoman.core.ids import JobId
from dragoman.core.job import Kind, Reason
from dragoman.store import audit
from dragoman.store.audit import Actor
from dragoman.store.database import Cell, Tx


@dataclass(frozen=True, slots=True)
class Step:
    """One event in words; once a chain is broken, nothing after it is verified."""

    event: Event
    actor: Actor | None
    is_verified: bool

    @property
    def kind(self) -> str:
        """What happened."""
        known = self.event.kind in set(Kind)
        return Kind(self.event.kind).name.lower() if known else str(self.event.kind)

    @property
    def reason(self) -> str:
        """Why, or nothing."""
        reason = self.event.reason
        known = reason in set(Reason)
        return (Reason(reason).name.lower() if known else str(reason)) if reason else ""

    @property
    def facts(self) -> JSONObject:
        """What the event says; facts that are no JSON are not ours, and are not shown."""
        try:
            return read_object(self.event.facts) if self.event.facts else {}
        except BadJSON:
            return {"unreadable": True}

    def to_json(self) -> JSONObject:
        """The step for a program."""
        event = self.event
        return {
            "seq": event.seq,
            "at": iso(event.at),
            "kind": self.kind,
            "reason": self.reason or None,
            "stage": event.stage,
            "attempt": event.attempt,
            "token": str(event.token) if event.token else None,
            "actor": str(event.actor),
            "actor_role": self.actor.role if self.actor else None,
            "actor_name": self.actor.name if self.actor else None,
            "facts": self.facts,
            "hash": event.hash.hex(),
            "is_verified": self.is_verified,
        }


@dataclass(frozen=True, slots=True)
class Story:
    """Everything there is about a job, and where its chain first goes wrong."""

    job_id: JobId
    record: JSONObject
    steps: list[Step]
    divergence: Divergence | None

    def to_json(self) -> JSONObject:
        """The story for a program."""
        return {
            "job_id": str(self.job_id),
            "is_sound": self.divergence is None,
            "divergence": str(self.divergence) if self.divergence else None,
            "record": self.record,
            "events": [step.to_json() for step in self.steps],
        }


async def tell_stories(cell: Cell, job_or_request: UUID) -> list[Story]:
    """The story of a job, or of every job that was made for a request.

    >>> [story] = await tell_stories(cell, job_id)  # doctest: +SKIP
    """
    async with audit.one_moment(cell) as tx:
        ids = [*await audit.find_jobs(tx, job_or_request), JobId(job_or_request)]
        told = [await _read(tx, job_id) for job_id in ids]
    stories = [
        Story(job_id, await _record(cell, job_id), steps, fault)
        for job_id, (steps, fault) in zip(ids, told, strict=True)
        if steps or fault
    ]
    if not stories:
        raise NotFound("there is no job and no request with this id")
    return stories


async def _read(tx: Tx, job_id: JobId) -> tuple[list[Step], Divergence | None]:
    chain, taken = Chain(), list[tuple[Event, bool]]()
    async with aclosing(audit.read_chains(tx, [job_id])) as events:
        async for event in events:
            chain.take(event)
            taken.append((event, chain.fault is None))
    heads = await audit.read_head(tx, job_id)
    actors = await audit.name_actors(tx, [event.actor for event, _ in taken])
    steps = [Step(event, actors.get(event.actor), is_sound) for event, is_sound in taken]
    return steps, chain.end(heads[0] if heads else None)


async def _record(cell: Cell, job_id: JobId) -> JSONObject:
    """The folded record; forged facts that are no JSON leave nothing to fold."""
    try:
        found = await audit.read_record(cell, job_id)
    except DataRefused:
        return {}
    return {name: _plain(value) for name, value in (found or {}).items()}


def _plain(value: Any) -> JSON:  # noqa: ANN401 - a database row
    match value:
        case datetime():
            return iso(value)
        case UUID():
            return str(value)
        case _:
            return value

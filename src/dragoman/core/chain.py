"""The chains of the audit, computed again by a formula that is not the database's own copy."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from dragoman.core.canonical import read_object
from dragoman.core.errors import BadJSON
from dragoman.core.ids import HomeId, JobId

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_NONE = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it is stored."""

    job_id: JobId
    home_id: HomeId
    seq: int
    at: datetime
    kind: int
    reason: int
    stage: int
    attempt: int
    token: UUID | None
    actor: UUID
    facts: bytes | None
    hash: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """Where a job's chain ends, as its standing says."""

    job_id: JobId
    home_id: HomeId
    seq: int
    head: bytes
    last_event_at: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """One change outside of jobs as it is stored."""

    seq: int
    at: datetime
    actor: UUID
    verb: str
    subject: str
    facts: bytes
    hash: bytes


def link(before: bytes, event: Event) -> bytes:
    """The hash that an event must have, from the hash before it; the first has b"" before it."""
    return hashlib.sha256(
        before
        + event.job_id.bytes
        + struct.pack(">ih", event.seq, event.kind)
        + (event.token or _NONE).bytes
        + struct.pack(">hhh", event.attempt, event.stage, event.reason)
        + event.actor.bytes
        + micros(event.at)
        + (event.facts or b"")
    ).digest()


def link_change(before: bytes, change: Change) -> bytes:
    """The hash that a change must have, from the hash before it."""
    told = struct.pack(">i", change.seq) + micros(change.at) + change.actor.bytes + change.facts
    return hashlib.sha256(before + told).digest()


def micros(at: datetime) -> bytes:
    """A time as PostgreSQL sends it: microseconds since the year 2000 in eight bytes."""
    return struct.pack(">q", (at - _EPOCH) // datetime.resolution)


class Fault(StrEnum):
    """What can be wrong with a chain."""

    GAP = "its number does not follow the one before it"
    HASH = "its hash does not follow from what it says and from the one before it"
    TIME = "it is older than the one before it"
    HOME = "it belongs to another home than its job"
    EMPTY = "a value that should be absent is written as zeros or as nothing"
    HEAD = "the chain ends elsewhere than its job says"
    NO_EVENTS = "the job has no events"
    NO_JOB = "there are events of a job that is not there"
    WORDS = "verb and subject are not those that were hashed"
    ANCHOR = "the history of this time is not the one that was anchored"
    ANCHORED_CHANGES = "the changes made until then are not those that were anchored"
    BEFORE = "there are events from before the first anchor"
    LINE = "this line was not written by the holder of the key"
    LINES = "this line does not follow the one before it"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a chain first goes wrong."""

    fault: Fault
    job_id: JobId | None = None
    seq: int | None = None
    where: str = "change"

    def __str__(self) -> str:
        """One line for a person."""
        where = f"job {self.job_id}, event" if self.job_id else self.where
        return f"{where} {self.seq}: {self.fault}"


@dataclass(slots=True)
class Chain:
    """One job's chain as far as it was read; `fault` is where it first went wrong.

    >>> Chain().seq
    0
    """

    seq: int = 0
    hash: bytes = b""
    last: Event | None = None
    fault: Divergence | None = None

    def take(self, event: Event) -> None:
        """Go on by one event."""
        fault = self.fault or self._wrong(event)
        self.fault = fault if isinstance(fault, Divergence) or fault is None else _at(event, fault)
        self.seq, self.hash, self.last = event.seq, event.hash, event

    def _wrong(self, event: Event) -> Fault | None:
        last = self.last
        if event.seq != self.seq + 1:
            return Fault.GAP
        if event.token == _NONE or event.facts == b"":
            return Fault.EMPTY  # these two hash like nothing at all
        if link(self.hash, event) != event.hash:
            return Fault.HASH
        if last and event.at < last.at:
            return Fault.TIME
        return Fault.HOME if last and event.home_id != last.home_id else None

    def end(self, head: Head | None) -> Divergence | None:
        """What is wrong with the whole chain, now that its last event was read."""
        last = self.last
        if self.fault or (last is None and head is None):
            return self.fault
        if last is None or head is None:
            known = head or last
            fault = Fault.NO_EVENTS if last is None else Fault.NO_JOB
            return Divergence(fault, known.job_id if known else None, self.seq)
        told = (head.seq, head.head, head.last_event_at)
        if told != (self.seq, self.hash, last.at):
            return _at(last, Fault.HEAD)
        return _at(last, Fault.HOME) if head.home_id != last.home_id else None


def _at(event: Event, fault: Fault) -> Divergence:
    return Divergence(fault, event.job_id, event.seq)


@dataclass(slots=True)
class Changes:
    """The chain of changes as far as it was read."""

    seq: int = 0
    hash: bytes = b""
    at: datetime | None = None
    fault: Divergence | None = None

    def take(self, change: Change) -> None:
        """Go on by one change."""
        if self.fault is None and (fault := self._wrong(change)):
            self.fault = Divergence(fault, seq=change.seq)
        self.seq, self.hash, self.at = change.seq, change.hash, change.at

    def _wrong(self, change: Change) -> Fault | None:
        if change.seq != self.seq + 1:
            return Fault.GAP
        if link_change(self.hash, change) != change.hash:
            return Fault.HASH
        if self.at and change.at < self.at:
            return Fault.TIME
        return None if _says(change) else Fault.WORDS


def _says(change: Change) -> bool:
    """Whether the facts, which alone are hashed, hold the verb and the subject of the row."""
    try:
        facts = read_object(change.facts)
    except BadJSON:
        return False
    return (facts.get("verb"), facts.get("subject")) == (change.verb, change.subject)

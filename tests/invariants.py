"""The auditor: what must hold in every committed snapshot, asked of the rows and of the ledgers.

I1 to I14: queries of the rows (tests/invariant_rules.py), the chains read again event by event, and
the ledgers of the sandbox, of the mail server and of what callers were told.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row, namedtuple_row

from dragoman.core.job import EDGES, TERMINAL, Kind, Reason, State
from tests import stand
from tests.invariant_rules import ALWAYS, AT_REST, Rule
from tests.leaks import leaks_of_messages

_BECAME = {
    Kind.ENQUEUED: State.QUEUED,
    Kind.CLAIMED: State.PROCESSING,
    Kind.SUBMITTED: State.BATCH_SUBMITTED,
    Kind.RETRIED: State.QUEUED,
    Kind.DEFERRED: State.QUEUED,
    Kind.RELEASED: State.QUEUED,
    Kind.ADVANCED: State.QUEUED,
    Kind.STALE_REQUEUED: State.QUEUED,
    Kind.COMPLETED: State.COMPLETED,
    Kind.FAILED: State.FAILED,
    Kind.CANCELED: State.CANCELED,
}
_BY_THE_HOLDER = _BECAME.keys() - {Kind.ENQUEUED, Kind.CLAIMED, Kind.CANCELED}
_HELD = (State.PROCESSING, State.BATCH_SUBMITTED)
_AFTER_ERASURE = (Kind.LATE_RESULT, Kind.CANCEL_REFUSED)
_BURNS = (Kind.STALE_REQUEUED, Kind.FAILED)


def violations(
    database: str,
    sandbox_ledger: Mapping[str, Any] | None = None,
    mail_ledger: Sequence[Mapping[str, Any]] | None = None,
    *,
    at_rest: bool = False,
    answered: Collection[UUID] = (),
) -> list[str]:
    """Every sentence that does not hold, with the rows that break it; an empty list is a pass."""
    with stand.owner(database) as connection:
        connection.execute("begin isolation level repeatable read read only")
        found = [*_broken(connection, ALWAYS + (AT_REST if at_rest else ()))]
        found += _chains(connection)
        found += leaks_of_messages(connection)
        found += _untold(connection, answered)
        if sandbox_ledger is not None:
            found += _spend(connection, sandbox_ledger, at_rest=at_rest)
        if mail_ledger is not None:
            found += _effects(connection, mail_ledger)
    return found


def _untold(connection: psycopg.Connection, answered: Collection[UUID]) -> Iterator[str]:
    """I11: whatever was answered with success is there, with its job."""
    rows = connection.execute(
        "select request_id from job where request_id = any(%s)", [[*answered]]
    )
    if missing := set(answered) - {row[0] for row in rows}:
        yield f"I11 A success was answered for what is not there. {sorted(missing)[:3]}"


def _broken(connection: psycopg.Connection, rules: Sequence[Rule]) -> Iterator[str]:
    for rule in rules:
        if rows := connection.execute(rule.query.encode()).fetchmany(3):
            yield f"{rule.name} {rule.sentence} {rows}"


# I6 and I8: the events, read again one by one, give the standing and its chain.


@dataclass
class Replay:
    """A standing as its events alone tell it."""

    state: State | None = None
    token: UUID | None = None
    attempts: int = 0
    stage_attempts: int = 0
    free: int = 0
    seq: int = 0
    head: bytes = b""
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    is_erased: bool = False

    def take(self, event: Any) -> Iterator[str]:  # Any: a row
        """Go on by one event; what is wrong with it."""
        self.seq += 1
        self.head = link(self.head, event)
        if event.seq != self.seq or event.at < self.at:
            yield f"I8 An event follows the one before it. {event.job_id} {event.seq}"
        if event.hash != self.head:
            yield f"I8 Each event's hash follows from the one before. {event.job_id} {event.seq}"
        self.at = event.at
        yield from self._move(event)

    def _move(self, event: Any) -> Iterator[str]:  # Any: a row
        kind = event.kind
        if kind == Kind.CALLING and event.token != self.token:
            yield f"I6 Only the holder of a job calls for it. {event.job_id} {event.seq}"
        if self.is_erased and kind not in _AFTER_ERASURE:
            yield f"I2 After its erasure nothing happens to a job. {event.job_id} {event.seq}"
        self.is_erased |= kind == Kind.ERASED
        became = _BECAME.get(kind)
        if became is None:
            return
        if self.state is not None and (self.state, became) not in EDGES:
            yield f"I2 A job goes only where an edge leads. {event.job_id} {self.state}->{became}"
        if kind in _BY_THE_HOLDER and event.token != self.token:
            yield f"I6 Only the holder of a job moves it. {event.job_id} {event.seq}"
        if kind == Kind.CLAIMED:
            self.token = event.token
        elif became not in _HELD:
            self.token = None
        self.state = became
        self._count(kind, is_free=event.reason == Reason.FREE_REQUEUE)

    def _count(self, kind: int, *, is_free: bool) -> None:
        burns = kind in _BURNS or (kind == Kind.RETRIED and not is_free)
        self.attempts += burns
        self.free += is_free
        self.stage_attempts = 0 if kind == Kind.ADVANCED else self.stage_attempts + burns

    def differs(self, standing: Any) -> Iterator[str]:  # Any: a row
        """What the standing says otherwise."""
        if (standing.seq, standing.head) != (self.seq, self.head):
            yield f"I8 The standing's head is the hash of the last event. {standing.id}"
        told = (standing.state, standing.claim_token, standing.attempt_count)
        if told != (self.state, self.token, self.attempts):
            yield f"I8 The events rebuild the standing. {standing.id} {told} {self}"
        if (standing.stage_attempts, standing.free_requeues) != (self.stage_attempts, self.free):
            yield f"I8 The events rebuild the counters. {standing.id} {self}"

    def buried(self, stone: Any) -> Iterator[str]:  # Any: a row
        """What the tombstone says otherwise."""
        if (stone.seq, stone.head, stone.last_event_at) != (self.seq, self.head, self.at):
            yield f"I8 The tombstone's head is the hash of the last event. {stone.job_id}"
        if self.state not in TERMINAL or not self.is_erased:
            yield f"I8 What was erased was final first, and says so. {stone.job_id} {self}"


def link(head: bytes, event: Any) -> bytes:  # Any: a row
    """The chain's formula in Python: the hash of one event from the hash before it."""
    micros = (event.at - datetime(2000, 1, 1, tzinfo=UTC)) // _MICROSECOND
    return hashlib.sha256(
        head
        + event.job_id.bytes
        + struct.pack(">ih", event.seq, event.kind)
        + (event.token.bytes if event.token else bytes(16))
        + struct.pack(">hhh", event.attempt, event.stage, event.reason)
        + event.actor.bytes
        + struct.pack(">q", micros)
        + (event.facts or b"")
    ).digest()


_MICROSECOND = datetime.resolution


def _chains(connection: psycopg.Connection) -> Iterator[str]:
    replays: dict[UUID, Replay] = defaultdict(Replay)
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        events: list[Any] = cursor.execute("select * from event order by job_id, seq").fetchall()
        standings: list[Any] = cursor.execute("select * from standing").fetchall()
        tombstones: list[Any] = cursor.execute("select * from tombstone").fetchall()
    for event in events:
        yield from replays[event.job_id].take(event)
    for standing in standings:
        yield from replays[standing.id].differs(standing)
    for stone in tombstones:
        yield from replays[stone.job_id].buried(stone)
    known = {row.id for row in standings} | {row.job_id for row in tombstones}
    if lost := replays.keys() - known:
        yield f"I8 A chain ends at a standing or at a tombstone. {sorted(lost)[:3]}"


# I4: what the provider says was created and run, against what we say.


def _spend(
    connection: psycopg.Connection, ledger: Mapping[str, Any], *, at_rest: bool
) -> Iterator[str]:
    with connection.cursor(row_factory=dict_row) as cursor:
        batches = cursor.execute("select * from batch").fetchall()
        items = cursor.execute(
            "select b.provider_batch_id, i.custom_id, i.job_id, i.attempt, i.call"
            " from batch_item i join batch b on b.id = i.batch_id"
        ).fetchall()
    yield from _creates(batches, ledger["creates"], at_rest=at_rest)
    yield from _executions(items, ledger["items"])
    yield from _answers(connection, ledger)
    if at_rest:
        for theirs, files in ledger["files"].items():
            if files:
                yield f"I4 At rest the provider keeps no file of a batch of ours. {theirs} {files}"


def _creates(
    batches: Sequence[dict[str, Any]], creates: Sequence[Mapping[str, Any]], *, at_rest: bool
) -> Iterator[str]:
    by_nonce = {batch["nonce"]: batch for batch in batches}
    nonces = [create["metadata"]["dragoman_nonce"] for create in creates]
    for nonce, times in Counter(nonces).items():
        if times > 1:
            yield f"I4 A submission creates one batch. {nonce} {times}"
    for create, nonce in zip(creates, nonces, strict=True):
        batch = by_nonce.get(nonce)
        if batch is None or (batch["payload_sha256"] or b"").hex() != create["sha256"]:
            yield f"I4 The provider has only batches, and only bytes, that we committed. {nonce}"
        elif batch["provider_batch_id"] is None:
            is_in_doubt = batch["started_at"] and batch["state"] in ("submitting", "submit_unknown")
            if at_rest or not is_in_doubt:
                yield f"I4 Every batch at the provider is known to us, or in doubt. {nonce}"
        elif batch["provider_batch_id"] != create["batch_id"]:
            yield f"I4 A batch carries the provider's own id. {nonce}"
    known = {batch["provider_batch_id"] for batch in batches} - {None}
    if invented := known - {create["batch_id"] for create in creates}:
        yield f"I4 A batch that we know exists at the provider. {invented}"


def _executions(
    items: Sequence[dict[str, Any]], executed: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    ours = {(item["provider_batch_id"], item["custom_id"]): item for item in items}
    paid: Counter[tuple[UUID, int, int]] = Counter()
    for row in executed:
        item = ours.get((row["batch_id"], row["custom_id"]))
        if item is not None:
            paid[item["job_id"], item["attempt"], item["call"]] += 1
    for (job, attempt, _), times in paid.items():
        if times > 1:
            yield f"I4 An attempt of a job is run once. {job} attempt {attempt}: {times}"


def _answers(connection: psycopg.Connection, ledger: Mapping[str, Any]) -> Iterator[str]:
    """Calls that are answered at once: each is announced, and no completed job went unpaid."""
    calls = Counter(
        str(row[0])
        for row in connection.execute("select job_id from history where kind = 'calling'")
    )
    asked = Counter(row["custom_id"][:36] for row in ledger["responses"])
    jobs = {str(row[0]) for row in connection.execute("select id from job where pipeline = 1")}
    for job in jobs & asked.keys():
        if asked[job] > calls[job]:
            yield f"I4 A call is written down before it is made. {job}"
    run = {row["custom_id"][:36] for row in ledger["items"] if row["status"] == 200}
    done = connection.execute("select id from standing where pipeline = 1 and state = 'completed'")
    if unpaid := {str(row[0]) for row in done} - run:
        yield f"I3 Every output comes from an answer of the provider. {unpaid}"


# I5: what targets received.


def _effects(connection: psycopg.Connection, ledger: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    received = Counter((row["message_id"], row["recipient"]) for row in ledger)
    for (key, _), times in received.items():
        if times > 1:
            yield f"I5 A message reaches its recipient once. {key} {times}"
    told = connection.execute(
        "select count(*) from delivery where state = 'sent' and channel = 'mailto'"
    ).fetchone()
    if told and told[0] > len(received):
        yield f"I5 What is marked as sent has arrived. {told[0]} of {len(received)}"

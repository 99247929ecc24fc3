"""The auditor: what must hold in every committed snapshot, asked of the rows and of the ledgers.

Each query returns no row when its sentence holds. Of I1 to I14 two are not here: that success is
answered only after a commit (I11) shows in what callers were told, and that a restored database is
noticed (I14) in the file beside it.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row, namedtuple_row

from dragoman.core.job import EDGES, Kind, Reason, State
from tests import stand
from tests.leaks import leaks_of_messages


@dataclass(frozen=True)
class Rule:
    """One invariant as a query that must return no row."""

    name: str
    sentence: str
    query: str


ALWAYS = (
    Rule(
        "I1",
        "Every job has exactly one standing, and no standing is without its job.",
        """select coalesce(j.id, s.id) from job j full join standing s using (id)
            where j.id is null or s.id is null""",
    ),
    Rule(
        "I1",
        "The sums of every queue, folded or not, are what a count of the standings gives.",
        """with told as (
             select queue_key, state, sum(n) as n
               from (select queue_key, state, n from queue_sum
                     union all select queue_key, state, n from queue_delta) d
              group by queue_key, state),
           counted as (
             select queue_key, state, count(*) as n from standing group by queue_key, state)
           select queue_key, state, told.n, counted.n
             from told full join counted using (queue_key, state)
            where coalesce(told.n, 0) <> coalesce(counted.n, 0)""",
    ),
    Rule(
        "I1",
        "A job that failed has its dead letter, and no other job has one.",
        """select s.id, s.state from standing s left join dead_letter d on d.job_id = s.id
            where (s.state = 'failed') <> (d.id is not null)""",
    ),
    Rule(
        "I1",
        "A request was routed exactly when it has its job, and a failed request has none.",
        """select r.id from rewrite_request r left join job j on j.request_id = r.id
            where (r.routed_at is not null) <> (j.id is not null)
               or r.failed_at is not null and j.id is not null""",
    ),
    Rule(
        "I2",
        "A job has one terminal event when it is final, the event of its state, and none before.",
        """select s.id, s.state, count(h.seq)
             from standing s left join history h
               on h.job_id = s.id and h.kind in ('completed', 'failed', 'canceled')
            group by s.id, s.state
           having count(h.seq) <> (s.state in ('completed', 'failed', 'canceled'))::int
               or count(*) filter (where h.kind <> s.state::text) > 0""",
    ),
    Rule(
        "I2",
        "An execution unit has one job and one output.",
        """select j.pipeline, j.unit from job j left join rewrite_output o on o.job_id = j.id
            where j.pipeline = 1 group by j.pipeline, j.unit having count(*) > 1""",
    ),
    Rule(
        "I3",
        "A rewrite is completed exactly when its own output is stored, in its own language.",
        """select s.id, s.state from standing s join job j using (id)
             left join rewrite_output o on o.job_id = s.id and o.request_id = j.request_id
              and o.recipient_user_id = j.recipient_id and o.home_id = j.home_id
              and o.target_locale = j.target_locale
            where s.pipeline = 1 and (s.state = 'completed') <> (o.job_id is not null)
           union all
           select o.job_id, null from rewrite_output o left join job j on j.id = o.job_id
            where j.id is null""",
    ),
    Rule(
        "I3",
        "A review is completed only when its result is stored and everybody was told.",
        """select s.id from standing s join job j using (id)
            where s.pipeline = 2 and s.state = 'completed'
              and (not exists (select from review_result r where r.job_id in (j.id, j.replay_of))
                or exists (select from delivery d where d.notified_at is null
                            and d.changelist_id = j.changelist_id
                            and d.review_version = j.review_version))""",
    ),
    Rule(
        "I4",
        "A closed batch has no open item.",
        """select b.id, i.item_index from batch b join batch_item i on i.batch_id = b.id
            where b.closed_at is not null and i.state = 'open'""",
    ),
    Rule(
        "I4",
        "A batch has as many items as it says, numbered from 0 without a gap.",
        """select b.id from batch b left join batch_item i on i.batch_id = b.id
            group by b.id, b.items
           having count(*) <> b.items or min(i.item_index) <> 0
               or max(i.item_index) <> b.items - 1""",
    ),
    Rule(
        "I4",
        "A job that is out with a batch has an item there, and carries its first batch's id.",
        """select s.id from standing s
            where s.state = 'batch_submitted'
              and not exists (select from batch_item i join batch b on b.id = i.batch_id
                               where i.job_id = s.id and i.token = s.claim_token
                                 and b.provider_batch_id is not null)
           union all
           select s.id from standing s
            where s.provider_batch_id is distinct from (
              select b.provider_batch_id from batch b join batch_item i on i.batch_id = b.id
               where i.job_id = s.id and b.provider_batch_id is not null
               order by b.submitted_at limit 1)""",
    ),
    Rule(
        "I4",
        "A batch that provably was never created carries no provider's id.",
        """select id from batch where state = 'released'
              and (provider_batch_id is not null or closed_at is null)""",
    ),
    Rule(
        "I5",
        "A message is marked as sent once, with its evidence, and after its sending was begun.",
        """select h.job_id, h.facts ->> 'key' from history h where h.kind = 'sent'
            group by h.job_id, h.facts ->> 'key' having count(*) > 1
           union all
           select d.job_id, d.key from delivery d
            where (d.state = 'sent') <> (d.notified_at is not null)
               or (d.notified_at is null) <> (d.notification_id is null)
               or d.notified_at < d.first_started_at""",
    ),
    Rule(
        "I8",
        "Every event has a name for its kind and its reason, and an actor who is known.",
        """select job_id, seq from history
            where kind is null or reason is null or actor_role is null""",
    ),
    Rule(
        "I10",
        "No job has more attempts or free requeues than it may.",
        """select s.id from standing s join job j using (id) join pipeline p on p.id = s.pipeline
            where s.stage_attempts > j.max_attempts or s.free_requeues > 3
               or s.attempt_count > j.max_attempts * cardinality(p.stages)""",
    ),
    Rule(
        "I10",
        "No job was submitted more often than its attempts and free requeues allow.",
        """select i.job_id from batch_item i join job j on j.id = i.job_id
            group by i.job_id, i.call, j.max_attempts having count(*) > j.max_attempts + 3""",
    ),
    Rule(
        "I10",
        "No message was tried more often than it may be.",
        "select id from delivery where attempt_count > max_attempts and guarantee = 'neither'",
    ),
    Rule(
        "I12",
        "Everything that belongs to a job belongs to the job's home.",
        """select j.id from job j join (
             select id as job_id, home_id from standing union all select job_id, home_id from event
             union all select job_id, home_id from batch_item
             union all select job_id, home_id from rewrite_output
             union all select job_id, home_id from dead_letter
             union all select job_id, home_id from delivery
             union all select job_id, home_id from stage_result
             union all
             select j.id, r.home_id from job j join rewrite_request r on r.id = j.request_id
           ) o on o.job_id = j.id
            where o.home_id <> j.home_id""",
    ),
)

AT_REST = (
    Rule(
        "I9",
        "Every job is final, or waits for a time of its own.",
        """select id, state, ready from standing
            where state not in ('completed', 'failed', 'canceled')
              and (state <> 'queued' or not_before_at is null)""",
    ),
    Rule(
        "I9",
        "Every request has its job or has failed.",
        "select id from rewrite_request where routed_at is null and failed_at is null",
    ),
    Rule(
        "I9",
        "No batch is open, and of a closed one the provider has no file left.",
        """select id, state from batch
            where closed_at is null
               or files_deleted_at is null
                  and (input_file_id is not null or cardinality(result_files) > 0)""",
    ),
    Rule(
        "I13",
        "Nothing waits for a person but a message whose target can neither dedupe nor be asked.",
        """select id, state from delivery
            where state in ('queued', 'sending', 'reconciling')
               or state = 'unknown' and guarantee <> 'neither'""",
    ),
)

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
_BURNS = (Kind.STALE_REQUEUED, Kind.FAILED)


def violations(
    database: str,
    sandbox_ledger: Mapping[str, Any] | None = None,
    mail_ledger: Sequence[Mapping[str, Any]] | None = None,
    *,
    at_rest: bool = False,
) -> list[str]:
    """Every sentence that does not hold, with the rows that break it; an empty list is a pass."""
    with stand.owner(database) as connection:
        connection.execute("begin isolation level repeatable read read only")
        found = [*_broken(connection, ALWAYS + (AT_REST if at_rest else ()))]
        found += _chains(connection)
        found += leaks_of_messages(connection)
        if sandbox_ledger is not None:
            found += _spend(connection, sandbox_ledger, at_rest=at_rest)
        if mail_ledger is not None:
            found += _effects(connection, mail_ledger)
    return found


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
    for event in events:
        yield from replays[event.job_id].take(event)
    for standing in standings:
        yield from replays[standing.id].differs(standing)


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

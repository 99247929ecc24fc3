"""The one exit: outcomes become moves, events, results and dead letters in one transaction.

Many jobs are let go of together, each guarded by its own token. A chunk that the database refuses
is cut in two until the poison item stands alone and fails alone; a deadlock or a lock time-out is
run again; a lost server stops here, and whoever comes next asks what is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import assert_never
from uuid import UUID

from dragoman.core.canonical import JSONObject, canonical, read_object
from dragoman.core.errors import DataRefused, TryAgain
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import BatchId, JobId, uuid7
from dragoman.core.job import Bury, Defer, Done, Held, Kind, Outcome, Reason, Retry, State
from dragoman.core.retry import MAX_FREE_REQUEUES
from dragoman.store import batches, jobs
from dragoman.store.database import Cell, Tx
from dragoman.store.dead_letters import Burial, bury_jobs
from dragoman.store.jobs import Move
from dragoman.work.pipeline import Pipelines, Stored, stage_of

_FREE = frozenset({FailureClass.NOT_EXECUTED, FailureClass.ACCOUNT_BLOCKED})
_TRIES = 5
_UINT64 = (1 << 64) - 1
_COMPLETED = Move(State.COMPLETED, Kind.COMPLETED, Reason.NONE)
_ADVANCED = Move(State.QUEUED, Kind.ADVANCED, Reason.NEXT_STAGE, ready=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """A job, what came of it, and the batch item that brought it, if one did."""

    job: Held
    outcome: Outcome
    batch: BatchId | None = None
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Exit:
    """One job's way out, decided: its move, and its dead letter if it has failed for good."""

    finished: Finished
    move: Move
    burial: Burial | None = None


async def finish(
    cell: Cell, actor: UUID, pipelines: Pipelines, finished: Sequence[Finished]
) -> Counter[str]:
    """Let go of jobs; counts what became of each: succeeded, failed, requeued, deferred or lost.

    Noop is what needed nothing more: this very result had moved it before.
    """
    if not finished:
        return Counter()
    exits = [exit_of(pipelines, one) for one in finished]
    try:
        moved = await _finish_chunk(cell, actor, pipelines, exits)
    except DataRefused as refused:
        if len(finished) == 1:
            return await finish(cell, actor, pipelines, [_poisoned(finished[0], refused)])
        half = len(finished) // 2
        first = await finish(cell, actor, pipelines, finished[:half])
        return first + await finish(cell, actor, pipelines, finished[half:])
    gone = _gone(exits, moved)
    counts = Counter[str]()
    for (_, move), same in _by_way(gone).items():
        counts[_counted(move)] += len(same)
    if len(gone) < len(exits):
        lost = [one for one in exits if one.finished.job.id not in moved]
        late = await _note_late(cell, actor, lost)
        counts += Counter(lost=late, noop=len(lost) - late)
    return counts


async def _finish_chunk(
    cell: Cell, actor: UUID, pipelines: Pipelines, exits: Sequence[Exit]
) -> dict[JobId, datetime]:
    for again in range(_TRIES):
        try:
            async with cell.transaction("finish") as tx:
                await jobs.lock_units(tx, [one.finished.job.unit_lock for one in exits])
                await _record_verdicts(tx, actor, exits)
                moved = await _move(tx, actor, exits)
                if await _leave_behind(tx, pipelines, _gone(exits, moved), moved):
                    # Fired here a guard's refusal can be bisected; at COMMIT it would be doubt.
                    await tx.connection.execute("set constraints all immediate")
                return moved
        except TryAgain:
            if again == _TRIES - 1:
                raise
    raise TryAgain


async def _record_verdicts(tx: Tx, actor: UUID, exits: Sequence[Exit]) -> None:
    """That replies were taken in and checked, and what they cost; before the job moves on."""
    notes = [_verdict(one) for one in exits if _facts(one.finished.outcome)]
    if notes:
        await jobs.record_verdicts(tx, actor, notes)


def _verdict(one: Exit) -> jobs.Note:
    job, finished = one.finished.job, one.finished
    told: JSONObject = {**_facts(finished.outcome), "verdict": one.move.code or "passed"}
    if finished.batch is not None:
        told |= {"batch_id": str(finished.batch), "batch_item_index": finished.items[0]}
    if isinstance(finished.outcome, Done) and finished.outcome.sha256:
        told["sha256"] = finished.outcome.sha256.hex()
    return jobs.Note(job.id, job.token, Kind.JUDGED, facts=canonical(told))


def _facts(outcome: Outcome) -> JSONObject:
    return {} if isinstance(outcome, Defer) else outcome.facts


async def _move(tx: Tx, actor: UUID, exits: Sequence[Exit]) -> dict[JobId, datetime]:
    """Jobs that go the same way go in one statement; mostly that is all of them."""
    moved: dict[JobId, datetime] = {}
    ways = _by_way(exits)
    if len(ways) > 1:  # way after way is no order, and a cancel that has one would be in deadlock
        await jobs.lock_standings(tx, [one.finished.job.id for one in exits])
    for (was, move), same in ways.items():
        held = [one.finished.job for one in same]
        if move.kind is Kind.ADVANCED:
            moved |= await jobs.advance_jobs(tx, actor, was, held)
        else:
            moved |= await jobs.move_jobs(tx, actor, was, move, held)
    return moved


def _by_way(exits: Sequence[Exit]) -> dict[tuple[State, Move], list[Exit]]:
    """Neighbours mostly go the same way; only where they do not is a move looked at as a whole."""
    groups: dict[tuple[State, Move], list[Exit]] = {}
    for way, run in groupby(exits, key=lambda one: (one.finished.job.state, one.move)):
        groups.setdefault(way, []).extend(run)
    return groups


def _gone(exits: Sequence[Exit], moved: dict[JobId, datetime]) -> Sequence[Exit]:
    """Those whose token still held."""
    if len(moved) == len(exits):
        return exits
    return [one for one in exits if one.finished.job.id in moved]


async def _leave_behind(
    tx: Tx, pipelines: Pipelines, gone: Sequence[Exit], moved: dict[JobId, datetime]
) -> bool:
    """Results, dead letters and settled items of what moved; False if no guard can object."""
    results = _results(gone, moved)
    for (pipeline, stage), of_stage in results.items():
        await pipelines[pipeline].stages[stage].store(tx, of_stage)
    if passed := [_passed(pipelines, one) for one in gone if one.move.kind is Kind.ADVANCED]:
        await jobs.store_stage_results(tx, passed)
    if burials := [one.burial for one in gone if one.burial]:
        await bury_jobs(tx, burials)
    brought = [one for one in gone if one.finished.batch]
    if settled := [item for one in brought for item in _items(one, _item_state(one.move))]:
        await batches.settle_items(tx, settled)
    names = {one.finished.job.pipeline for one in gone}
    return bool(results) or any(pipelines[name].is_guarded for name in names)


def _results(
    gone: Sequence[Exit], moved: dict[JobId, datetime]
) -> dict[tuple[str, int], list[Stored]]:
    """What each stage has to store; a stage that is done with empty hands stores nothing."""
    results: dict[tuple[str, int], list[Stored]] = {}
    for one in gone:
        job, outcome = one.finished.job, one.finished.outcome
        if isinstance(outcome, Done) and outcome.result is not None:
            stored = Stored(job, moved[job.id], outcome)
            results.setdefault((job.pipeline, job.stage), []).append(stored)
    return results


def _passed(pipelines: Pipelines, one: Exit) -> jobs.StageDone:
    job, outcome = one.finished.job, one.finished.outcome
    assert isinstance(outcome, Done)  # noqa: S101 - only what is done advances
    name = stage_of(pipelines, job).name
    return jobs.StageDone(job.id, job.stage, f"{job.pipeline}/{name}/{job.id}", outcome.sha256)


def _items(one: Exit, state: str) -> list[batches.Settled]:
    batch = one.finished.batch
    if batch is None:
        return []
    return [batches.Settled(batch, index, state, one.move.code) for index in one.finished.items]


def _item_state(move: Move) -> str:
    match move.kind:
        case Kind.COMPLETED | Kind.ADVANCED:
            return "done"
        case Kind.FAILED:
            return "failed"
        case Kind.RELEASED:
            return "released"
        case _:
            return "requeued"


def exit_of(pipelines: Pipelines, one: Finished) -> Exit:
    """Decide where an outcome sends a job: pure, total, and the only place that counts attempts."""
    outcome = one.outcome
    match outcome:
        case Done():
            return _done(pipelines, one)
        case Defer(reason=reason):
            delay = (
                outcome.delay_s if outcome.delay_s is not None else _seconds_until(outcome.until)
            )
            return Exit(one, _requeue(Kind.DEFERRED, reason, delay))
        case Retry(failure=failure):
            return _retry(pipelines, one, failure)
        case Bury(failure=failure, frames=frames):
            return _buried(pipelines, one, failure, frames, Reason.NOT_RETRYABLE)
        case _:
            assert_never(outcome)


def _done(pipelines: Pipelines, one: Finished) -> Exit:
    is_last = one.job.stage + 1 == len(pipelines[one.job.pipeline].stages)
    return Exit(one, _COMPLETED if is_last else _ADVANCED)


def _retry(pipelines: Pipelines, one: Finished, failure: Failure) -> Exit:
    job, policy = one.job, stage_of(pipelines, one.job).retry
    if failure.error_class in _FREE and job.free_requeues < MAX_FREE_REQUEUES:
        kind = Kind.RELEASED if failure.error_class is FailureClass.NOT_EXECUTED else Kind.RETRIED
        delay = (
            policy.delay_s(1, failure.retry_after_s) if one.batch is None else failure.retry_after_s
        )
        move = _requeue(kind, Reason.FREE_REQUEUE, delay, failure)
        return Exit(one, replace(move, free_add=1))
    is_stale = failure.error_class is FailureClass.STALE_CLAIM
    if job.attempt >= job.max_attempts:
        last = Reason.STALE_CLAIM if is_stale else Reason.EXHAUSTED
        return _buried(pipelines, one, failure, (), last)
    if is_stale:
        move = _requeue(Kind.STALE_REQUEUED, Reason.STALE_CLAIM, None, failure)
    else:
        delay = policy.delay_s(job.attempt, failure.retry_after_s)
        move = _requeue(Kind.RETRIED, Reason.FAILURE, delay, failure)
    return Exit(one, replace(move, attempt_add=1))


def _buried(
    pipelines: Pipelines, one: Finished, failure: Failure, frames: tuple[str, ...], reason: Reason
) -> Exit:
    job, stage = one.job, stage_of(pipelines, one.job).name
    move = Move(State.FAILED, Kind.FAILED, reason, attempt_add=1, failure=_told(failure))
    context: JSONObject = {
        "job_id": str(job.id),
        "pipeline": job.pipeline,
        "stage": stage,
        "attempts": job.attempt,
        "free_requeues": job.free_requeues,
        "unit_sha256": f"{job.unit_lock & _UINT64:016x}",
        "batch_id": str(one.batch) if one.batch else None,
        **failure.facts(),
    }
    stack = frames or (f"{failure.error_class}: {failure.code} at {job.pipeline}/{stage}",)
    burial = Burial(
        job.id,
        uuid7(),
        job.stage,
        stage,
        job.attempt,
        failure.error_class,
        failure.code,
        "not_retryable" if reason is Reason.NOT_RETRYABLE else "exhausted",
        "\n".join(stack),
        context,
    )
    return Exit(one, move, burial)


def _requeue(
    kind: Kind, reason: Reason, delay_s: float | None, failure: Failure | None = None
) -> Move:
    is_ready = not delay_s or delay_s <= 0
    delay = None if is_ready else delay_s
    told = _told(failure) if failure else None
    return Move(State.QUEUED, kind, reason, ready=is_ready, delay_s=delay, failure=told)


def _told(failure: Failure) -> str:
    return canonical(failure.facts()).decode()


def _seconds_until(until: datetime | None) -> float:
    return (until - datetime.now(UTC)).total_seconds() if until else 0.0


def _counted(move: Move) -> str:
    match move.kind:
        case Kind.COMPLETED | Kind.ADVANCED:
            return "succeeded"
        case Kind.FAILED:
            return "failed"
        case Kind.DEFERRED:
            return "deferred"
        case _:
            return "requeued"


def _poisoned(one: Finished, refused: DataRefused) -> Finished:
    """A result that the database refuses even alone fails alone, by code, without its text."""
    if isinstance(one.outcome, Bury):
        raise refused
    failure = Failure(
        FailureClass.RUNTIME_BUG, f"refused_by_database_{refused.sqlstate or 'unknown'}"
    )
    return replace(one, outcome=Bury(failure, facts=_facts(one.outcome)))


async def _note_late(cell: Cell, actor: UUID, lost: Sequence[Exit]) -> int:
    """Whoever lost a job says so on its chain, unless this very result moved it before."""
    tickets = [(one.finished.job.id, one.finished.job.token) for one in lost]
    async with cell.transaction("note_late") as tx:
        done = await jobs.find_settled(tx, tickets)
        settled = [item for one in lost for item in _items(one, "ignored")]
        was_open = await batches.settle_items(tx, settled) if settled else set[JobId]()
        late = [
            one
            for one in lost
            if one.finished.job.id not in done
            and (one.finished.batch is None or one.finished.job.id in was_open)
            and _brings_something(one.finished)
        ]
        notes = [_late(one) for one in late]
        if notes:
            await jobs.note_events(tx, actor, notes)
        return len(late)


def _late(one: Exit) -> jobs.Note:
    job, failure = one.finished.job, one.move.failure
    told = {**(read_object(failure.encode()) if failure else {}), **_facts(one.finished.outcome)}
    about = canonical(told) if told else None
    return jobs.Note(job.id, job.token, Kind.LATE_RESULT, Reason.LOST_LEASE, about)


def _brings_something(one: Finished) -> bool:
    """Whether it could come late: a sweeper that was second to requeue a claim brings nothing."""
    outcome = one.outcome
    is_swept = (
        isinstance(outcome, Retry) and outcome.failure.error_class is FailureClass.STALE_CLAIM
    )
    return not is_swept

"""A thousand results in one go, one of them poison and one cancelled under way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.canonical import canonical
from dragoman.core.ids import JobId
from dragoman.core.job import Done, Held
from dragoman.rewrite.contracts import EvalResult, RewriteOutput
from dragoman.rewrite.stage import Rewritten, rewrite_pipeline
from dragoman.store import jobs
from dragoman.work.finish import Finished, finish
from tests import postgres, stand
from tests.leaks import leaks
from tests.store.kernel import Crew, check_books, crew_of
from tests.store.rewrites import Request

KEY = 41
MANY, CANCELED = 1_000, 700
PIPELINES = {"rewrite": rewrite_pipeline((900,), 600)}
JUDGED = {
    "schema_valid": True,
    "lexicon_pass": True,
    "tone_safety": "pass",
    "intent_preserved": "warn",
    "violations": [],
    "warnings": [],
    "language_basis": "declared",
    "dataset_version": "none",
}


@pytest.fixture
def database() -> Iterator[str]:
    """A database with a clock that can be moved."""
    name = stand.new_database()
    yield name
    postgres.drop(name)


def canary(number: int) -> str:
    """A text that stands nowhere else."""
    return f"canary Melisande {number:04} of the tower"


def result(request: Request, number: int) -> Done:
    """What the model's answer became."""
    output = RewriteOutput(
        rewrite_request_id=request.id,
        recipient_user_id=request.recipient,
        rewritten_text=canary(number),
        output_language=request.target,
        prompt_version="v1",
        policy_version="v1",
        lexicon_version="v1",
        eval_result=EvalResult.from_json(JUDGED),
    )
    return Done(Rewritten(output, request.target, "m"), bytes(32))


def with_nul(done: Done) -> Done:
    """A text that no column can hold."""
    rewritten: Any = done.result
    object.__setattr__(rewritten.output, "rewritten_text", canary(0) + "\0")
    return done


def in_another_language(done: Done) -> Done:
    """A text that the guard refuses, for its job asked for another language."""
    rewritten: Any = done.result
    return Done(Rewritten(rewritten.output, "nl", "m"), done.sha256)


async def everything_held(crew: Crew) -> list[tuple[Held, Request]]:
    """A thousand requests, their jobs, and one worker that holds them all."""
    requests = [Request() for _ in range(MANY)]
    with stand.owner(crew.database) as connection, connection.transaction():
        for request in requests:
            request.insert(connection)
    queue = (
        "insert into queue (key, pipeline, stage, mode, provider, account, model)"
        " values (%s, 1, 0, 'batch', 'p', 'default', 'm')"
    )
    made = [request.job(queue_key=KEY) for request in requests]
    async with crew.orchestrator.transaction("enqueue") as tx:
        await tx.connection.execute(queue, (KEY,))
        await jobs.enqueue_jobs(tx, crew.actor, made)
    held = {job.id: job for job in await jobs.claim_jobs(crew.worker, crew.actor, [KEY], MANY)}
    return [(held[new.id], request) for new, request in zip(made, requests, strict=True)]


def canceled_under_way(crew: Crew, job: JobId) -> Callable[[str, ports.Moment], None]:
    """An operator cancels a job right after the first part of the thousand was committed."""
    left = [job]

    async def cancel() -> None:
        async with stand.cell_of(crew.database, "dragoman_operator") as cell:
            assert await jobs.cancel_jobs(cell, crew.actor, [job]) == {job}

    def hook(tag: str, when: ports.Moment) -> None:
        if (tag, when) == ("db.finish", "after") and left:
            left.pop()
            other = threading.Thread(target=asyncio.run, args=(cancel(),))
            other.start()
            other.join()

    return hook


def logged() -> str:
    """What the server has written down."""
    return postgres.shared_server().log.read_text(encoding="utf-8", errors="replace")


@pytest.mark.parametrize(
    ("at", "poison"), [(0, with_nul), (499, in_another_language), (999, with_nul)]
)
@pytest.mark.req("R012")
def test_of_a_thousand_one_is_poison_and_one_is_cancelled(
    database: str, at: int, poison: Callable[[Done], Done], capfd: pytest.CaptureFixture[str]
) -> None:
    """998 are completed, the poison fails, the cancelled one stores nothing; no word leaks."""

    async def scenario() -> Sequence[tuple[Held, Request]]:
        async with crew_of(database) as crew:
            held = await everything_held(crew)
            done = [result(request, number) for number, (_, request) in enumerate(held)]
            done[at] = poison(done[at])
            ports.install(canceled_under_way(crew, held[CANCELED][0].id))
            try:
                finished = [Finished(job, one) for (job, _), one in zip(held, done, strict=True)]
                counts = await finish(crew.worker, crew.actor, PIPELINES, finished)
            finally:
                ports.install(None)
            assert counts == {"succeeded": MANY - 2, "failed": 1, "lost": 1}
            return held

    held = asyncio.run(scenario())
    states = dict(stand.rows(database, "select id, state from standing"))
    assert {state for job, state in states.items() if job == held[at][0].id} == {"failed"}
    assert states[held[CANCELED][0].id] == "canceled"
    assert sorted(states.values()).count("completed") == MANY - 2
    pairs = dict(stand.rows(database, "select job_id, rewritten_text from rewrite_output"))
    assert pairs == {
        job.id: canary(number)
        for number, (job, _) in enumerate(held)
        if number not in (at, CANCELED)
    }
    words = [canary(number) for number in range(MANY)]
    with stand.owner(database) as connection:
        assert leaks(connection, words) == []
    said = canonical(list(capfd.readouterr())).decode() + logged()
    assert "Melisande" not in said
    check_books(database)

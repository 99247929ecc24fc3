"""What the schema refuses of requests, snapshots and outputs, whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dragoman.core.errors import DataRefused
from dragoman.core.ids import JobId
from dragoman.core.job import Done, Held, Kind, State
from dragoman.rewrite import store as rewrite_store
from dragoman.rewrite.store import NewOutput
from dragoman.store import jobs
from dragoman.store.database import Tx
from dragoman.work.finish import Finished, finish
from dragoman.work.pipeline import Pipeline, Pipelines, Stored
from tests import stand
from tests.store.attack import DENIED, WORKER, columns, connect, copied, guard, refusal
from tests.store.kernel import Crew, Plain, apply, claim, crew_of, enqueue, look, move
from tests.store.rewrites import VALID, Request, insert

ORCHESTRATOR = "dragoman_orchestrator"
ONCE = guard("request_is_write_once")


@dataclass
class Scene:
    """A request with its job in hand."""

    database: str
    request: Request
    held: Held
    owner: psycopg.Connection
    orchestrator: psycopg.Connection


@pytest.fixture(scope="module")
def scene(shared: str) -> Generator[Scene]:
    """One claimed rewrite; each test rolls its attempt back."""
    request = Request().write(shared)

    async def build() -> Held:
        async with crew_of(shared) as crew:
            await enqueue(crew, request.job())
            (held,) = await claim(crew, 41)
            return held

    held = asyncio.run(build())
    with connect(shared) as owner, connect(shared, ORCHESTRATOR) as orchestrator:
        yield Scene(shared, request, held, owner, orchestrator)


OTHER = {
    "uuid": "gen_random_uuid()",
    "text": "'other'",
    "bytea": "'\\x00'",
    "timestamptz": "clock() + interval '1 hour'",
    "jsonb": "'{\"other\": 1}'",
    "_text": "'{other}'",
    "lane": "'same_language'",
}


def others(connection: psycopg.Connection, table: str) -> dict[str, str]:
    """Each column of a table with a value that it does not have."""
    rows = connection.execute(
        "select a.attname, t.typname from pg_attribute a join pg_type t on t.oid = a.atttypid"
        " where a.attrelid = %s::regclass and a.attnum > 0 order by a.attnum",
        (table,),
    )
    return {name: OTHER[kind] for name, kind in rows}


@pytest.mark.req("R029", "R031", "R008", "R117")
def test_every_column_of_a_request_is_written_once(scene: Scene) -> None:
    """Whatever stands in a request stays: text, locales, lane, routing, all of it."""
    full = "failed_at = clock(), failure_code = 'code', classifier_version = 'v', defaulted = '{}'"
    more = "detected_language = 'de', language_confidence = 'high', policy_version = 'v1'"
    raw = "raw_source_locale = 'de-AT', raw_target_locale = 'en-GB'"
    for name, other in others(scene.owner, "rewrite_request").items():
        with scene.owner.transaction(force_rollback=True):
            scene.owner.execute("alter table rewrite_request disable trigger user")
            scene.owner.execute(f"update rewrite_request set {full}, {more}, {raw}".encode())
            scene.owner.execute("alter table rewrite_request enable trigger user")
            for value in (other, "null"):
                found = refusal(scene.owner, f"update rewrite_request set {name} = {value}")
                # A key that may not be null at all is refused for that already.
                assert found == ONCE or (value, found and found[0]) == ("null", "23502"), name


def test_the_orchestrator_may_fill_in_and_not_correct(scene: Scene) -> None:
    """Null becomes a value; a value never becomes another one."""
    blank = "update rewrite_request set detected_language = 'de', policy_version = 'v1'"
    assert refusal(scene.orchestrator, blank) is None
    for change in (
        "lane = 'same_language'",
        "intent = 'vent'",
        "topics = '{}'",
        "routed_at = null",
    ):
        assert refusal(scene.orchestrator, f"update rewrite_request set {change}") == ONCE
    for column in ("original_text", "home_id", "text_sha256", "surface"):
        statement = f"update rewrite_request set {column} = {column}"
        assert refusal(scene.orchestrator, statement) == DENIED
    with connect(scene.database, WORKER) as worker:
        assert refusal(worker, "update rewrite_request set intent = 'vent'") == DENIED


@pytest.mark.req("R028", "R008", "R117", "R029")
@pytest.mark.parametrize("word", ["unknown", "und", "mul", "zxx", ""])
def test_no_language_of_a_request_is_unknown(scene: Scene, word: str) -> None:
    """No word for an undetected language is stored; a locale that stands is not replaced."""
    for column in ("source_locale", "target_locale"):
        statement = copied(scene.owner, "rewrite_request", {column: f"'{word}'"})
        assert refusal(scene.owner, statement) == ("23514", "request_locales")
        assert refusal(scene.owner, f"update rewrite_request set {column} = '{word}'") == ONCE


def test_a_routed_request_is_whole(scene: Scene) -> None:
    """What makes a request routable is there before it says that it was routed."""
    for column in ("classifier_result", "context_pack", "rewrite_request", "routing_decision"):
        statement = copied(scene.owner, "rewrite_request", {column: "null"})
        assert refusal(scene.owner, statement) == ("23514", "routed_whole")


@pytest.mark.req("R044", "R106")
@pytest.mark.parametrize("table", ["recipient_snapshot", "recipient_preference_snapshot"])
def test_a_snapshot_is_immutable(scene: Scene, table: str) -> None:
    """No column of a snapshot changes, its id and its recipients included."""
    for name in columns(scene.owner, table):
        found = refusal(scene.owner, f"update {table} set {name} = {name}")
        assert found == guard("snapshot_is_immutable")
        assert refusal(scene.orchestrator, f"update {table} set {name} = {name}") == DENIED


@pytest.mark.parametrize("recipients", [[], [UUID(int=1), UUID(int=2)]])
def test_a_snapshot_names_one_person(scene: Scene, recipients: list[UUID]) -> None:
    """A snapshot of nobody or of two is refused, and a request has one snapshot."""
    with scene.owner.transaction(force_rollback=True):
        scene.owner.execute("set local dragoman.erasing = 'on'")
        scene.owner.execute("delete from recipient_snapshot")
        row = {"id": uuid4(), "request_id": scene.request.id, "home_id": scene.request.home}
        statement = (
            "insert into recipient_snapshot values"
            " (%(id)s, %(request_id)s, %(home_id)s, %(recipients)s::uuid[], clock())"
        )
        found = refusal(scene.owner, statement, {**row, "recipients": recipients})
        assert found == ("23514", "recipient_snapshot_recipients_check")
    found = refusal(scene.owner, statement, {**row, "recipients": [UUID(int=1)]})
    assert found == ("23505", "recipient_snapshot_request_id_key")


def store_output(scene: Scene, changed: Mapping[str, Any], *, complete: bool = True) -> Any:
    """Try to store an output as the worker would, with the job completed or not."""
    row = scene.request.output(scene.held.id, **changed)
    connection = connect(scene.database, WORKER)
    try:
        with connection, connection.transaction(force_rollback=True):
            if complete:
                complete_job(connection, scene.held.id)
            insert(connection, "rewrite_output", row)
            connection.execute("set constraints all immediate")
    except psycopg.Error as error:
        return error.sqlstate, error.diag.constraint_name
    return None


def complete_job(connection: psycopg.Connection, job: UUID) -> None:
    """Move a standing as move_jobs would."""
    connection.execute(
        "update standing set state = 'completed', claim_token = null, claimed_by = null,"
        " claimed_at = null, seq = seq + 1, head = sha256(head) where id = %s",
        (job,),
    )


def test_the_attack_itself_would_succeed(scene: Scene) -> None:
    """A valid output of a completed job is accepted."""
    assert store_output(scene, {}) is None


@pytest.mark.req("R046")
@pytest.mark.parametrize("language", ["de", "fr", "EN", ""])
def test_an_output_is_in_its_target_language(scene: Scene, language: str) -> None:
    """Its language is the target's, and the target is the job's."""
    assert store_output(scene, {"output_language": language}) == ("23514", "output_in_target")
    both = {"output_language": language, "target_locale": language}
    assert store_output(scene, both) == guard("completed_without_output")


@pytest.mark.req("R173")
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"schema_valid": True},
        {"lexicon_pass": True},
        {**VALID, "schema_valid": False},
        {**VALID, "schema_valid": None},
        {**VALID, "schema_valid": "yes"},
        {**VALID, "lexicon_pass": False},
        [],
        "schema_valid",
        None,
    ],
)
@pytest.mark.req("R138")
def test_an_output_was_validated(scene: Scene, result: Any) -> None:
    """Without a valid schema and a lexicon check that did not fail nothing is stored."""
    refused = ("23514", "output_was_validated")
    assert store_output(scene, {"eval_result": Jsonb(result)}) == refused


@pytest.mark.req("R173")
@pytest.mark.parametrize("name", ["completed_at", "rewritten_text", "eval_result"])
def test_an_output_has_all_its_parts(scene: Scene, name: str) -> None:
    """An output without its time, its text or its verdict is refused."""
    assert store_output(scene, {name: None}) == ("23502", None)


@pytest.mark.req("R173", "R226")
def test_completed_and_stored_are_one(scene: Scene) -> None:
    """A completed job without its output is refused, and an output without its completed job."""
    assert store_output(scene, {}, complete=False) == guard("output_without_completed")
    with connect(scene.database, WORKER) as worker:
        with pytest.raises(psycopg.Error) as refused, worker.transaction():
            complete_job(worker, scene.held.id)
        assert refused.value.diag.constraint_name == "completed_without_output"
    assert look(scene.database, scene.held.id).state is State.PROCESSING


@pytest.mark.req("R188")
@pytest.mark.parametrize("name", ["request_id", "recipient_user_id", "job_id"])
def test_an_output_of_somebody_else_completes_nothing(scene: Scene, name: str) -> None:
    """Request, recipient and job must be one unit, or nothing is stored."""
    refused = store_output(scene, {name: uuid4()})
    assert refused in (guard("completed_without_output"), guard("output_without_completed"))


@dataclass
class Writing(Plain):
    """A stage that stores an output for each job, as it is told."""

    outputs: Mapping[JobId, NewOutput] | None = None

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Store with the pipeline's own statement, at the time that the move was given."""
        assert self.outputs is not None
        found = [replace(self.outputs[one.job.id], completed_at=one.at) for one in finished]
        await rewrite_store.store_outputs(tx, found)


def writing(outputs: Mapping[JobId, NewOutput]) -> Pipelines:
    """The rewrite pipeline with ready-made outputs."""
    return {"rewrite": Pipeline(1, "rewrite", (Writing("generate", outputs=outputs),), 600)}


async def claimed(crew: Crew, requests: list[Request]) -> dict[JobId, tuple[Held, NewOutput]]:
    """A held job and its output for each request."""
    await enqueue(crew, *(request.job() for request in requests))
    by_unit = {held.unit: held for held in await claim(crew, 41, len(requests))}
    pairs = {}
    for request in requests:
        held = by_unit[f"{request.id}:{request.recipient}"]
        row = request.output(held.id, rewritten_text=f"for {request.id}", eval_result=dict(VALID))
        pairs[held.id] = held, NewOutput(**row)
    return pairs


@pytest.mark.req("R217", "R218", "R060")
@pytest.mark.req("R172")
def test_each_output_carries_the_time_of_its_own_move(database: str) -> None:
    """completed_at is the moment of the job's own event, and differs within a chunk."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            pairs = await claimed(crew, [Request().write(database) for _ in range(5)])
            outputs = {job: output for job, (_, output) in pairs.items()}
            done = [Finished(held, Done("passed")) for held, _ in pairs.values()]
            counts = await finish(crew.worker, crew.actor, writing(outputs), done)
            assert counts == {"succeeded": 5}

    asyncio.run(scenario())
    times = stand.rows(
        database,
        "select o.completed_at, e.at, s.rewrite_completed_at from rewrite_output o"
        " join event e using (job_id) join rewrite_status s using (job_id) where e.kind = %s",
        Kind.COMPLETED,
    )
    assert len({row[0] for row in times}) == 5
    assert all(row[0] == row[1] == row[2] for row in times)


@pytest.mark.req("R152")
@pytest.mark.parametrize("bad", [0, 3, 6])
def test_a_refused_item_fails_alone(database: str, bad: int) -> None:
    """One output that the database refuses fails with a code; the others are stored as if alone."""

    async def scenario() -> JobId:
        async with crew_of(database) as crew:
            pairs = await claimed(crew, [Request().write(database) for _ in range(7)])
            outputs = {job: output for job, (_, output) in pairs.items()}
            poison = list(outputs)[bad]
            outputs[poison] = replace(outputs[poison], rewritten_text="canary \0 canary")
            done = [Finished(held, Done("passed")) for held, _ in pairs.values()]
            counts = await finish(crew.worker, crew.actor, writing(outputs), done)
            assert counts == {"succeeded": 6, "failed": 1}
            return poison

    poison = asyncio.run(scenario())
    seen = look(database, poison)
    assert (seen.state, seen.standing["last_failure"]["code"]) == (
        State.FAILED,
        "refused_by_database_22021",
    )
    stored = stand.rows(database, "select request_id::text, rewritten_text from rewrite_output")
    assert len(stored) == 6
    assert all(text == f"for {request}" for request, text in stored)
    assert stand.rows(database, "select job_id from dead_letter") == [(poison,)]


@pytest.mark.req("R043", "R186")
def test_a_second_completion_changes_nothing(database: str) -> None:
    """The same result again, and another after it: the first output stands."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            pairs = await claimed(crew, [Request().write(database)])
            ((held, output),) = pairs.values()
            done = [Finished(held, Done("passed"))]
            for text in ("first", "first", "second"):
                found = {held.id: replace(output, rewritten_text=text)}
                await finish(crew.worker, crew.actor, writing(found), done)
            second = replace(output, rewritten_text="second")
            with pytest.raises(DataRefused) as refused:
                async with crew.worker.transaction("again") as tx:
                    await rewrite_store.store_outputs(tx, [second])
            assert refused.value.sqlstate == "23505"
            assert look(database, held.id).kinds == [Kind.ENQUEUED, Kind.CLAIMED, Kind.COMPLETED]

    asyncio.run(scenario())
    assert stand.rows(database, "select rewritten_text from rewrite_output") == [("first",)]


@pytest.mark.req("R043")
def test_no_column_of_an_output_changes(database: str) -> None:
    """What was stored is what stays."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            pairs = await claimed(crew, [Request().write(database)])
            outputs = {job: output for job, (_, output) in pairs.items()}
            done = [Finished(held, Done("passed")) for held, _ in pairs.values()]
            await finish(crew.worker, crew.actor, writing(outputs), done)

    asyncio.run(scenario())
    with connect(database) as owner:
        for name in columns(owner, "rewrite_output"):
            found = refusal(owner, f"update rewrite_output set {name} = {name}")
            assert found == guard("output_is_write_once")


@pytest.mark.req("R010", "R182")
@pytest.mark.parametrize("how", ["fail", "retry", "cancel", "lose"])
def test_what_does_not_complete_stores_nothing(database: str, how: str) -> None:
    """A failed, retried, canceled or lost job leaves no output behind."""

    async def scenario() -> None:
        async with crew_of(database) as crew:
            pairs = await claimed(crew, [Request().write(database)])
            ((held, output),) = pairs.values()
            match how:
                case "fail":
                    await apply(crew, move(held, State.FAILED, Kind.FAILED, attempt_add=1))
                case "cancel":
                    await jobs.cancel_jobs(crew.operator, crew.actor, [held.id])
                case _:
                    await apply(crew, move(held, State.QUEUED, Kind.RETRIED, attempt_add=1))
            if how == "lose":
                await claim(crew, 41)
            done = [Finished(held, Done("passed"))]
            await finish(crew.worker, crew.actor, writing({held.id: output}), done)

    asyncio.run(scenario())
    assert stand.rows(database, "select from rewrite_output") == []

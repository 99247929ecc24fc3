"""What the schema refuses of jobs, standings and events, whoever asks and however it is said."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest

from dragoman.core.job import EDGES, TERMINAL, State
from tests.store.attack import DENIED, OWNER, WORKER, columns, connect, copied, guard, refusal
from tests.store.kernel import bring, crew_of

CLAIM = ("23514", "standing_claim")
HELD = {
    State.PROCESSING: "claim_token = gen_random_uuid(), claimed_by = gen_random_uuid(),"
    " claimed_at = clock()",
    State.BATCH_SUBMITTED: "claim_token = gen_random_uuid(), claimed_by = null, claimed_at = null,"
    " provider_batch_id = coalesce(provider_batch_id, 'theirs')",
}
FREE = "claim_token = null, claimed_by = null, claimed_at = null"
NEXT = "seq = seq + 1, head = sha256(head), last_event_at = clock()"


@dataclass
class Field:
    """A database with a job in each state."""

    owner: psycopg.Connection
    worker: psycopg.Connection
    jobs: Mapping[State, UUID]

    def update(self, state: State, change: str, role: str = OWNER):
        """Try to change the standing of the job in this state."""
        connection = self.owner if role == OWNER else self.worker
        return refusal(
            connection, f"update standing set {change} where id = %(id)s", {"id": self.jobs[state]}
        )


@pytest.fixture(scope="module")
def field(shared: str) -> Generator[Field]:
    """One job per state; each test rolls its attempt back."""

    async def build() -> dict[State, UUID]:
        async with crew_of(shared) as crew:
            return {state: (await bring(crew, state, 1)).id for state in reversed(State)}

    jobs = asyncio.run(build())
    with connect(shared) as owner, connect(shared, WORKER) as worker:
        yield Field(owner, worker, jobs)


@pytest.mark.req("R038", "R110", "R230")
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_of_36_pairs_of_states_the_edges_alone_are_open(field: Field, role: str) -> None:
    """A change of state outside the table is refused, even with everything else in order."""
    for was in State:
        for became in State:
            change = f"state = '{became}', ready = false, {HELD.get(became, FREE)}, {NEXT}"
            found = field.update(was, change, role)
            if (was, became) in EDGES:
                assert found is None, (was, became)
            elif was is not became:
                name = "final_is_final" if was in TERMINAL else "unknown_edge"
                assert found == guard(name), (was, became)


@pytest.mark.req("R035", "R042")
@pytest.mark.parametrize(
    "statement",
    [
        "update standing set state = 'running'",
        "update standing set state = 'succeeded'",
        "insert into standing (state) values ('paused')",
        "insert into job (mode) values ('stream')",
        "insert into job (lane) values ('both')",
    ],
)
@pytest.mark.req("R109")
def test_there_are_six_states_two_modes_and_two_lanes(field: Field, statement: str) -> None:
    """Any other word is not even a value of its column."""
    assert refusal(field.owner, statement) == ("22P02", None)


@pytest.mark.req("R014")
def test_no_column_of_a_job_can_be_changed(field: Field) -> None:
    """Unit, locales, lane, routing and all the rest are written once: no role's UPDATE passes."""
    names = columns(field.owner, "job")
    assert {"unit", "source_locale", "target_locale", "lane", "routing", "home_id"} <= set(names)
    for name in names:
        statement = f"update job set {name} = {name}"
        assert refusal(field.owner, statement) == guard("job_is_insert_only"), name
        assert refusal(field.worker, statement) == DENIED


@pytest.mark.req("R224", "R053")
@pytest.mark.parametrize(
    ("state", "change"),
    [
        (State.PROCESSING, "claim_token = null"),
        (State.PROCESSING, "claimed_by = null"),
        (State.PROCESSING, "claimed_at = null"),
        (State.PROCESSING, "ready = true"),
        (State.QUEUED, "claim_token = gen_random_uuid()"),
        (State.QUEUED, "claimed_by = gen_random_uuid()"),
        (State.QUEUED, "claimed_at = clock()"),
        (State.QUEUED, f"state = 'processing', ready = false, {NEXT}"),
        (State.BATCH_SUBMITTED, "claimed_by = gen_random_uuid()"),
        (State.BATCH_SUBMITTED, "claim_token = null"),
        (
            State.PROCESSING,
            f"state = 'batch_submitted', claimed_by = null, claimed_at = null, {NEXT}",
        ),
        (State.COMPLETED, "claim_token = gen_random_uuid()"),
    ],
)
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_a_claim_is_whole_or_absent(field: Field, state: State, change: str, role: str) -> None:
    """Token, holder and time go together with the state, and a submitted job names its batch."""
    assert field.update(state, change, role) == CLAIM


@pytest.mark.req("R047", "R119")
@pytest.mark.parametrize("change", ["'other'", "null"])
def test_the_providers_batch_id_is_written_once(field: Field, change: str) -> None:
    """Neither another id nor none takes the place of the first, in whatever state the job is."""
    for role in (OWNER, WORKER):
        refused = field.update(State.BATCH_SUBMITTED, f"provider_batch_id = {change}", role)
        assert refused == guard("column_is_fixed")
        back = f"state = 'queued', {FREE}, provider_batch_id = {change}, {NEXT}"
        assert field.update(State.BATCH_SUBMITTED, back, role) == guard("column_is_fixed")


@pytest.mark.parametrize(
    "change",
    [
        "id = gen_random_uuid()",
        "home_id = gen_random_uuid()",
        "unit_lock = unit_lock + 1",
        "pipeline = 1",
        "created_at = clock()",
        "priority = priority + 1",
        "max_attempts = 9",
        "sort_at = clock()",
    ],
)
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_what_a_standing_is_about_never_changes(field: Field, change: str, role: str) -> None:
    """Whose job it is, which lock it has and where it stands in line are fixed at enqueue."""
    assert field.update(State.PROCESSING, change, role) == guard("column_is_fixed")


@pytest.mark.parametrize(
    "change",
    [
        "seq = seq + 2, head = sha256(head)",
        "seq = seq - 1, head = sha256(head)",
        "seq = seq + 1",
        "head = sha256(head)",
        f"state = 'queued', {FREE}",
        "last_event_at = last_event_at - interval '1 microsecond'",
        "stage = stage - 1",
        "attempt_count = attempt_count - 1",
        "stage_attempts = stage_attempts - 1",
        "free_requeues = free_requeues - 1",
    ],
)
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_a_standing_only_goes_forward(field: Field, change: str, role: str) -> None:
    """Chain and counters never fall, each move is an event, and each event is one link."""
    assert field.update(State.PROCESSING, change, role) == guard("moves_forward_only")


FINAL = [
    "stage = stage + 1",
    "queue_key = queue_key + 1",
    "not_before_at = clock()",
    "attempt_count = attempt_count + 1",
    "stage_attempts = stage_attempts + 1",
    "free_requeues = free_requeues + 1",
    "provider_batch_id = 'other'",
    "reason = reason + 1",
    "first_failure_at = clock()",
    "last_failure_at = clock()",
    "last_failure = '{}'",
]


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_final_row_moves_nothing_but_its_chain(field: Field, state: State) -> None:
    """Every other column is refused; the chain may grow, since a late result is recorded too."""
    for change in FINAL:
        assert field.update(state, change) == guard("final_is_final"), change
        assert field.update(state, change, WORKER) == guard("final_is_final"), change
    assert field.update(state, NEXT, WORKER) is None


def test_every_column_of_a_standing_is_judged(field: Field) -> None:
    """Each column of a final row is fixed, final, part of the claim, or of the chain."""
    fixed = {"id", "home_id", "unit_lock", "pipeline", "created_at", "priority", "sort_at"}
    fixed |= {"max_attempts"}
    claim = {"claim_token", "claimed_by", "claimed_at", "state", "ready"}
    chain = {"seq", "head", "last_event_at"}
    final = {change.split()[0] for change in FINAL}
    assert set(columns(field.owner, "standing")) == fixed | claim | chain | final


def test_an_event_is_never_changed(field: Field) -> None:
    """No column of an event, and no partition of the history, takes an UPDATE."""
    for name in columns(field.owner, "event"):
        statement = f"update event set {name} = {name}"
        assert refusal(field.owner, statement) == guard("events_are_append_only"), name
        assert refusal(field.worker, statement) == DENIED
    parts = field.owner.execute(
        "select relid::regclass from pg_partition_tree('event') where isleaf"
    )
    with_events = 0
    for (part,) in parts.fetchall():
        found = refusal(field.owner, f"update {part} set kind = kind")
        with_events += found == guard("events_are_append_only")
        assert found in {None, guard("events_are_append_only")}
    assert with_events == 1


def test_an_event_cannot_be_written_twice(field: Field) -> None:
    """Job and number are one event: a fork of the chain is refused."""
    copied = refusal(field.owner, "insert into event select * from event limit 1")
    assert copied is not None
    assert copied[0] == "23505"


@pytest.mark.parametrize(
    ("columns_and_values", "name"),
    [
        ({"max_attempts": "0"}, "job_max_attempts_check"),
        ({"max_attempts": "101"}, "job_max_attempts_check"),
        ({"source_locale": "'en'"}, "job_locales"),
        ({"lane": "'same_language'"}, "job_locales"),
        (
            {"source_locale": "'en'", "target_locale": "'en'", "lane": "'cross_language'"},
            "job_locales",
        ),
        (
            {"source_locale": "'de'", "target_locale": "'en'", "lane": "'same_language'"},
            "job_locales",
        ),
    ],
)
def test_a_job_that_contradicts_itself_is_refused(
    field: Field, columns_and_values: Mapping[str, str], name: str
) -> None:
    """Both locales and the lane, or none; and the lane is what the locales say."""
    assert refusal(field.owner, another_job(field, columns_and_values)) == ("23514", name)


@pytest.mark.req("R008", "R117", "R028", "R029")
@pytest.mark.parametrize("word", ["unknown", "und", "mul", "zxx", ""])
def test_no_language_of_a_job_is_unknown(field: Field, word: str) -> None:
    """What stands for an undetected language is never stored, as source or as target."""
    for source, target in ((word, "en"), ("en", word)):
        values = {"source_locale": f"'{source}'", "target_locale": f"'{target}'"}
        statement = another_job(field, {**values, "lane": "'cross_language'"})
        assert refusal(field.owner, statement) == ("23514", "job_locales")
    assert refusal(field.owner, "update job set source_locale = 'en'") == guard(
        "job_is_insert_only"
    )
    assert refusal(field.owner, "update job set lane = null") == guard("job_is_insert_only")


def test_the_attack_itself_would_succeed(field: Field) -> None:
    """The copy of a job that contradicts nothing is accepted."""
    assert refusal(field.owner, another_job(field, {})) is None


def another_job(field: Field, changed: Mapping[str, str]) -> str:
    """A new job, copied from another one, with some columns changed."""
    return copied(field.owner, "job", {"unit": "gen_random_uuid()::text", **changed})

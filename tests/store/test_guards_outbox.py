"""What the schema refuses of batches, messages, reviews and dead letters, whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest

from dragoman.core.job import State
from tests.store.attack import OWNER, WORKER, connect, copied, guard, refusal
from tests.store.kernel import bring, crew_of, submitted
from tests.store.outbox import Told, review_of, store_result

FIXED = guard("column_is_fixed")
NOW = "clock()"


@dataclass
class Field:
    """A submitted batch, and a review with two messages."""

    connections: Mapping[str, psycopg.Connection]
    batch: UUID
    told: Told

    def update(self, table: str, change: str, role: str = WORKER):
        """Try to change the batch or the first message."""
        row = {"batch": self.batch, "delivery": self.told.messages[0]}[table]
        statement = f"update {table} set {change} where id = %(id)s"
        return refusal(self.connections[role], statement, {"id": row})

    @property
    def owner(self) -> psycopg.Connection:
        """Whom nothing but the guards stops."""
        return self.connections[OWNER]


@pytest.fixture(scope="module")
def field(shared: str) -> Generator[Field]:
    """Each test rolls its attempt back."""

    async def build() -> tuple[UUID, Told]:
        async with crew_of(shared) as crew:
            held = await bring(crew, State.PROCESSING, 3)
            batch = await submitted(crew, held)
            return batch.id, await review_of(crew, recipients=2)

    batch, told = asyncio.run(build())
    with connect(shared) as owner, connect(shared, WORKER) as worker:
        yield Field({OWNER: owner, WORKER: worker}, batch, told)


@pytest.mark.parametrize(
    "change",
    [
        "id = gen_random_uuid()",
        "nonce = 'other'",
        "created_at = clock()",
        "provider_batch_id = 'other'",
        "provider_batch_id = null, state = 'submit_unknown'",
        "payload_sha256 = '\\x00'",
        "payload_sha256 = null, started_at = null",
        "started_at = clock()",
    ],
)
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_what_a_submission_was_never_changes(field: Field, change: str, role: str) -> None:
    """Nonce, payload, beginning and the provider's id stay as they were first written."""
    assert field.update("batch", change, role) == FIXED


@pytest.mark.parametrize("state", ["submitting", "submit_unknown", "released"])
def test_a_batch_with_a_providers_id_is_not_unknown(field: Field, state: str) -> None:
    """What the provider has is not in doubt, and is never given up as if it did not exist."""
    assert field.update("batch", f"state = '{state}'") == ("23514", "batch_known")


def test_a_submission_begins_with_hash_and_deadline(field: Field) -> None:
    """A create is begun only when what decides after a crash stands on the row."""
    base = {"nonce": "'n'", "provider_batch_id": "null", "state": "'submitting'"}
    for missing in ("payload_sha256", "deadline_at"):
        statement = copied(field.owner, "batch", {**base, missing: "null"})
        assert refusal(field.owner, statement) == ("23514", "batch_started")
    assert refusal(field.owner, copied(field.owner, "batch", base)) is None


def test_a_providers_batch_belongs_to_one_submission(field: Field) -> None:
    """Nonce and provider's id are unique: nobody adopts a batch twice."""
    again = copied(field.owner, "batch", {"nonce": "'n'"})
    assert refusal(field.owner, again) == ("23505", "batch_theirs")
    again = copied(field.owner, "batch", {"provider_batch_id": "'other'"})
    assert refusal(field.owner, again) == ("23505", "batch_nonce_key")


def test_a_job_is_in_one_open_batch_at_a_time(field: Field) -> None:
    """A second open item of the same call is refused, so that no call is paid twice."""
    item = {"item_index": "9", "custom_id": "'other'"}
    again = copied(field.owner, "batch_item", item)
    assert refusal(field.owner, again) == ("23505", "batch_item_open")
    settled = {**item, "state": "'requeued'"}
    assert refusal(field.owner, copied(field.owner, "batch_item", settled)) is None


@pytest.mark.req("R150")
@pytest.mark.parametrize(
    ("item", "refused"),
    [
        ({"item_index": "9"}, ("23505", "batch_item_batch_id_custom_id_key")),
        ({"custom_id": "'other'"}, ("23505", "batch_item_pkey")),
        (
            {"item_index": "9", "custom_id": "repeat('x', 65)"},
            ("23514", "batch_item_custom_id_check"),
        ),
        ({"item_index": "9", "state": "'lost'"}, ("23514", "batch_item_state_check")),
        (
            {"item_index": "9", "custom_id": "'o'", "batch_id": "gen_random_uuid()"},
            ("23503", "batch_item_batch_id_fkey"),
        ),
    ],
)
def test_an_item_is_one_line_of_one_known_batch(
    field: Field, item: Mapping[str, str], refused: tuple[str, str]
) -> None:
    """Index and custom_id are unique in a batch that exists."""
    settled = {"state": "'requeued'", **item}
    assert refusal(field.owner, copied(field.owner, "batch_item", settled)) == refused


@pytest.mark.parametrize(
    "change",
    [
        "id = gen_random_uuid()",
        "changelist_id = 'other'",
        "recipient = 'other'",
        "review_version = 2",
        "key = 'other'",
        "payload = '\\x00'",
        "payload_sha256 = '\\x00'",
        "created_at = clock()",
    ],
)
@pytest.mark.parametrize("role", [OWNER, WORKER])
def test_a_message_is_frozen_before_its_first_send(field: Field, change: str, role: str) -> None:
    """Whom it is for, its bytes and its key never change."""
    assert field.update("delivery", change, role) == FIXED


@pytest.mark.req("R381", "R382")
def test_a_recipient_is_told_of_a_version_once(field: Field) -> None:
    """The tuple and the key are unique; another version is another message."""
    tuple_key = "delivery_changelist_id_recipient_review_version_key"
    again = copied(field.owner, "delivery", {"key": "'other'"})
    assert refusal(field.owner, again) == ("23505", tuple_key)
    again = copied(field.owner, "delivery", {"review_version": "2"})
    assert refusal(field.owner, again) == ("23505", "delivery_key_key")
    other = copied(field.owner, "delivery", {"review_version": "2", "key": "'other'"})
    assert refusal(field.owner, other) is None


def test_a_message_is_marked_only_after_it_was_sent(field: Field) -> None:
    """A mark before the first send is refused, and so is a mark without evidence."""
    marked = f"state = 'sent', notification_id = 'x', notified_at = {NOW}"
    assert field.update("delivery", marked) == guard("send_comes_before_mark")
    for change in ("state = 'sent'", "state = 'sent', notification_id = 'x'"):
        assert field.update("delivery", change) == ("23514", "sent_has_evidence")
    sent = f"{marked}, first_started_at = {NOW}"
    assert field.update("delivery", sent) == guard("send_comes_before_mark")


@pytest.mark.parametrize("missing", ["started_at", "deadline_at", "claim_token"])
def test_a_sending_says_since_when_and_until_when(field: Field, missing: str) -> None:
    """What is on its way has a beginning, a deadline and a holder."""
    whole = {"started_at": NOW, "deadline_at": NOW, "claim_token": "gen_random_uuid()"}
    change = ", ".join(f"{name} = {value}" for name, value in {**whole, missing: "null"}.items())
    refused = field.update("delivery", f"state = 'sending', {change}")
    assert refused == ("23514", "started_has_deadline")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("guarantee = 'hope'", "delivery_guarantee_check"),
        ("state = 'lost'", "delivery_state_check"),
    ],
)
def test_a_message_has_a_known_state_and_guarantee(field: Field, change: str, name: str) -> None:
    """Any other word is refused."""
    assert field.update("delivery", change) == ("23514", name)


COMPLETE = (
    "update standing set state = 'completed', claim_token = null, claimed_by = null,"
    " claimed_at = null, seq = seq + 1, head = sha256(head) where id = %(id)s"
)


@pytest.mark.req("R364")
def test_a_review_succeeds_only_when_everybody_was_told(field: Field, shared: str) -> None:
    """Without its result, or with one recipient left, a review is not completed."""
    worker, job = field.connections[WORKER], {"id": field.told.held.id}
    assert refusal(worker, COMPLETE, job) == guard("succeeded_before_told")
    store_result(shared, field.told)
    tell = (
        "update delivery set state = 'sent', notified_at = clock(), notification_id = 'x'"
        " where id = any(%(m)s)"
    )
    outcomes = []
    for count in range(3):
        with worker.transaction(force_rollback=True):
            begun = "update delivery set first_started_at = clock()"
            worker.execute(begun.encode())
            worker.execute(tell.encode(), {"m": field.told.messages[:count]})
            outcomes.append(refusal(worker, COMPLETE, job))
    assert outcomes == [guard("succeeded_before_told")] * 2 + [None]


@pytest.mark.req("R348", "R378")
def test_an_idempotency_key_is_unique_in_its_home(field: Field) -> None:
    """The unit of a review is its home and key: a second job under it is refused."""
    statement = copied(field.owner, "job", {"pipeline": "2", "unit": "'home:key'"})
    with field.owner.transaction(force_rollback=True):
        field.owner.execute(statement.encode())
        assert refusal(field.owner, statement) == ("23505", "job_unit")


def test_a_dead_letter_is_whole(field: Field) -> None:
    """Known reason and state, a stack, times in order, and one per job."""
    columns = {
        "id": "gen_random_uuid()", "job_id": "gen_random_uuid()", "home_id": "gen_random_uuid()",
        "pipeline": "9", "stage": "0", "stage_name": "'one'", "error_class": "'RUNTIME_BUG'",
        "code": "'x'", "reason": "'exhausted'", "attempts": "1", "last_stack": "'{a}'",
        "sanitized_context": "'{}'", "first_failure_at": NOW, "last_failure_at": NOW,
        "created_at": NOW,
    }  # fmt: skip

    def letter(**changed: str) -> str:
        values = {**columns, **changed}
        names = ", ".join(values)
        return f"insert into dead_letter ({names}) values ({', '.join(values.values())})"

    assert refusal(field.owner, letter()) is None
    for changed, name in (
        ({"reason": "'bad luck'"}, "dead_letter_reason_check"),
        ({"state": "'forgotten'"}, "dead_letter_state_check"),
        ({"last_stack": "'{}'"}, "dead_letter_last_stack_check"),
        ({"last_failure_at": f"{NOW} - interval '1 day'"}, "dead_letter_check"),
    ):
        assert refusal(field.owner, letter(**changed)) == ("23514", name)
    job = f"'{field.batch}'"
    with field.owner.transaction(force_rollback=True):
        field.owner.execute(letter(job_id=job).encode())
        assert refusal(field.owner, letter(job_id=job)) == ("23505", "dead_letter_job")

"""The sandbox speaks OpenAI's wire, as seen by OpenAI's own SDK."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import openai
import pytest

from dragoman.sandbox.batches import Pace
from dragoman.sandbox.server import Sandbox
from dragoman.sandbox.validation import check_lines
from tests.sandbox.wire import A_DAY, MODEL, body, client, finish, line, lines, read, start


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as running:
        yield running


@pytest.fixture
def sdk(sandbox: Sandbox) -> Iterator[openai.OpenAI]:
    with client(sandbox) as made:
        yield made


def test_a_batch_goes_through_every_state_and_keeps_each_moment(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """validating, in_progress, finalizing, completed; files appear only at the end."""
    batch = start(sdk, lines(4), metadata={"nonce": "n1"})
    assert (batch.status, batch.metadata) == ("validating", {"nonce": "n1"})
    assert batch.request_counts is not None
    assert batch.request_counts.total == 0
    half = finish(sandbox, sdk, batch, 41)
    assert half.status == "in_progress"
    assert half.request_counts is not None
    assert (half.request_counts.completed, half.output_file_id) == (2, None)
    closing = finish(sandbox, sdk, batch, 30)
    assert (closing.status, closing.output_file_id) == ("finalizing", None)
    done = finish(sandbox, sdk, batch, 10)
    assert done.status == "completed"
    moments = (done.created_at, done.in_progress_at, done.finalizing_at, done.completed_at)
    assert all(moment is not None for moment in moments)
    assert done.in_progress_at == half.in_progress_at
    assert done.expires_at == done.created_at + A_DAY
    assert done.error_file_id is None
    assert done.usage is not None
    assert done.usage.output_tokens > 0


def test_output_lines_come_shuffled_and_each_names_its_item(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """The output holds every id once, in another order than the input, fixed by the seed."""
    done = finish(sandbox, sdk, start(sdk, lines(20)))
    order = [row["custom_id"] for row in read(sdk, done.output_file_id)]
    assert sorted(order) == sorted(f"j{number}" for number in range(20))
    assert order != [f"j{number}" for number in range(20)]
    with Sandbox() as twin, client(twin) as other:
        again = finish(twin, other, start(other, lines(20)))
        assert [row["custom_id"] for row in read(other, again.output_file_id)] == order


def test_an_item_without_input_fails_alone_in_the_error_file(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """A failed item has a response with status 400 and up, and `error` null."""
    done = finish(sandbox, sdk, start(sdk, lines(2) + line("bad", body={"model": MODEL})))
    assert done.status == "completed"
    assert {row["custom_id"] for row in read(sdk, done.output_file_id)} == {"j0", "j1"}
    (failed,) = read(sdk, done.error_file_id)
    assert (failed["custom_id"], failed["error"]) == ("bad", None)
    assert failed["response"]["status_code"] == 400
    assert failed["response"]["body"]["error"]["code"] == "missing_required_parameter"


def test_a_batch_whose_items_all_failed_is_completed_without_an_output_file(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """`completed` promises no output file."""
    done = finish(sandbox, sdk, start(sdk, line("a", body={"model": MODEL})))
    assert (done.status, done.output_file_id) == ("completed", None)
    assert done.error_file_id is not None


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (b"\n", "empty_file", None),
        (lines(1) + b"{not json\n", "invalid_json_line", 2),
        (line("a") + line("a"), "duplicate_custom_id", 2),
        (line("a", url="/v1/embeddings"), "url_mismatch", 1),
        (line("a") + line("b", body=body() | {"model": "other"}), "model_mismatch", 2),
        (line(None), "missing_required_parameter", 1),
        (line("a", body=None), "missing_required_parameter", 1),
    ],
)
def test_one_bad_line_fails_the_whole_batch_and_says_which(
    sandbox: Sandbox, sdk: openai.OpenAI, data: bytes, code: str, number: int | None
) -> None:
    """The upload is taken as it is; validation refuses all or nothing, lines count from 1."""
    failed = finish(sandbox, sdk, start(sdk, data))
    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [(error.code, error.line) for error in failed.errors.data] == [(code, number)]
    assert (failed.output_file_id, failed.error_file_id) == (None, None)
    assert sandbox.ledger()["items"] == []


def test_a_batch_holds_fifty_thousand_items_and_not_one_more() -> None:
    """The limit is checked before a line is read."""
    codes = [error["code"] for error in check_lines(b"{\n" * 50_001).errors]  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
    assert codes == ["too_many_tasks"]
    assert len(check_lines(b"{\n" * 50_000).errors) == 50_000


def test_what_was_not_run_when_the_window_closed_is_expired(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """An expired batch keeps what it did; the rest has response null and code batch_expired."""
    sandbox.fault({"do": "expire_after_fraction", "fraction": 0.5})
    expired = finish(sandbox, sdk, start(sdk, lines(4)), A_DAY + 1)
    assert expired.status == "expired"
    assert expired.expired_at == expired.expires_at
    assert len(read(sdk, expired.output_file_id)) == 2
    rest = read(sdk, expired.error_file_id)
    assert [row["error"]["code"] for row in rest] == ["batch_expired"] * 2
    assert all(row["response"] is None for row in rest)


def test_cancel_keeps_what_was_done_and_is_refused_at_the_end(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """cancelling, then cancelled with partial output; a terminal batch answers 4xx."""
    batch = start(sdk, lines(4))
    sandbox.advance(41)
    assert sdk.batches.cancel(batch.id).status == "cancelling"
    done = finish(sandbox, sdk, batch)
    assert done.status == "cancelled"
    assert len(read(sdk, done.output_file_id)) == 2
    codes = {row["error"]["code"] for row in read(sdk, done.error_file_id)}
    assert codes == {"batch_cancelled"}
    with pytest.raises(openai.BadRequestError):
        sdk.batches.cancel(batch.id)


def test_two_equal_creates_are_two_batches_and_two_bills(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """An Idempotency-Key is ignored, as at OpenAI: whoever repeats a create pays twice."""
    file = sdk.files.create(file=("batch.jsonl", lines(2)), purpose="batch")
    for _ in range(2):
        sdk.batches.create(
            input_file_id=file.id,
            endpoint="/v1/responses",
            completion_window="24h",
            extra_headers={"Idempotency-Key": "same"},
        )
    sandbox.advance(200)
    ledger = sandbox.ledger()
    creates, items = ledger["creates"], ledger["items"]
    assert isinstance(creates, list)
    assert isinstance(items, list)
    assert len(creates) == 2
    assert len(items) == 4


def test_the_list_is_newest_first_in_pages(sdk: openai.OpenAI) -> None:
    """`after` and `limit` walk from the newest to the oldest without gap or repetition."""
    made = [start(sdk, lines(1)).id for _ in range(5)]
    page = sdk.batches.list(limit=2)
    assert ([batch.id for batch in page.data], page.has_more) == (made[:2:-1], True)
    assert [batch.id for batch in sdk.batches.list(limit=2)] == made[::-1]
    with pytest.raises(openai.BadRequestError):
        sdk.batches.list(limit=101)


def test_metadata_has_its_limits(sdk: openai.OpenAI) -> None:
    """16 pairs, keys of 64, values of 512 characters; one more of any is refused."""
    start(sdk, lines(1), metadata={"k" * 64: "v" * 512})
    for metadata in ({str(n): "" for n in range(17)}, {"k" * 65: ""}, {"k": "v" * 513}):
        with pytest.raises(openai.BadRequestError):
            start(sdk, lines(1), metadata=metadata)


def test_files_are_uploaded_read_listed_and_deleted(sdk: openai.OpenAI) -> None:
    """A file comes back byte for byte, once deleted it is a 404, and its batch still runs."""
    data = "{\u2028\r\n\x85}".encode()
    file = sdk.files.create(file=("x.jsonl", data), purpose="batch")
    assert (file.bytes, file.status, file.purpose) == (len(data), "processed", "batch")
    assert sdk.files.content(file.id).content == data
    assert [entry.id for entry in sdk.files.list()] == [file.id]
    assert sdk.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError):
        sdk.files.content(file.id)
    with pytest.raises(openai.BadRequestError):
        sdk.files.create(file=("x.txt", data), purpose="batch")


def test_deleting_the_input_does_not_stop_a_running_batch(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """The batch has its own copy; the ledger shows which files still stand."""
    batch = start(sdk, lines(1))
    sdk.files.delete(batch.input_file_id)
    done = finish(sandbox, sdk, batch)
    assert done.status == "completed"
    files = sandbox.ledger()["files"]
    assert files == {batch.id: [done.output_file_id]}


def test_a_create_without_its_parameters_is_refused(sdk: openai.OpenAI) -> None:
    """Missing parameters and unknown files are told at once, in OpenAI's words."""
    with pytest.raises(openai.BadRequestError) as missing:
        sdk.post("/batches", body={}, cast_to=object)
    assert missing.value.code == "missing_required_parameter"
    with pytest.raises(openai.BadRequestError):
        sdk.batches.create(
            input_file_id="file-none", endpoint="/v1/responses", completion_window="24h"
        )


def test_a_single_call_is_answered_at_once(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """POST /v1/responses gives the schema's JSON, usage, the asked model and a request id."""
    answer = sdk.responses.with_raw_response.create(
        **body(),  # pyright: ignore[reportCallIssue, reportArgumentType]
        extra_headers={"X-Client-Request-Id": "job-1"},
    )
    assert answer.headers["x-request-id"].startswith("req_")
    response = answer.parse()
    assert (response.status, response.model) == ("completed", MODEL)
    assert set(json.loads(response.output_text)) == {"rewritten_text", "output_language"}
    assert response.usage is not None
    assert response.usage.input_tokens > 0
    (item,) = sandbox.ledger()["items"]  # pyright: ignore[reportGeneralTypeIssues]
    assert isinstance(item, dict)
    assert (item["batch_id"], item["custom_id"]) == ("response", "job-1")


def test_a_call_without_a_schema_gets_a_plain_sentence(sdk: openai.OpenAI) -> None:
    """Free text is served too, from a string or from messages; without input it is a 400."""
    messages = [{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    spoken = sdk.responses.create(model=MODEL, input=messages)  # pyright: ignore[reportArgumentType]
    assert sdk.responses.create(model=MODEL, input="hello").output_text == spoken.output_text
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.responses.create(model=MODEL)
    assert refused.value.code == "missing_required_parameter"


def test_an_answer_longer_than_allowed_is_incomplete(sdk: openai.OpenAI) -> None:
    """max_output_tokens is obeyed, and the answer says that it was cut."""
    response = sdk.responses.create(**body(max_output_tokens=3))  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


def test_keys_are_checked_when_there_are_some(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """Any bearer will do without configured keys; with them a wrong one is a 401."""
    assert MODEL in [model.id for model in sdk.models.list()]
    with Sandbox(keys=["right"]) as guarded, client(guarded, "right") as known:
        assert known.models.list()
        with (
            client(guarded, "wrong") as stranger,
            pytest.raises(openai.AuthenticationError) as refused,
        ):
            stranger.models.list()
    assert refused.value.code == "invalid_api_key"
    assert refused.value.request_id


def test_the_ledger_counts_everything_and_holds_no_text(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """Uploads, creates with the hash of their input, items with tokens; not a word of a message."""
    canary = "Zitronenfalter"
    data = line("j0", body=body(f"{canary} immer laut!"))
    batch = start(sdk, data, metadata={"nonce": "n1"})
    done = finish(sandbox, sdk, batch)
    ledger = sandbox.ledger()
    assert ledger["creates"] == [
        {
            "batch_id": batch.id,
            "input_file_id": batch.input_file_id,
            "metadata": {"nonce": "n1"},
            "items": 1,
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    ]
    (answered,) = read(sdk, done.output_file_id)
    text = json.loads(answered["response"]["body"]["output"][0]["content"][0]["text"])
    shown = json.dumps(ledger)
    assert canary not in shown
    assert text["rewritten_text"] not in shown


def test_its_clock_runs_as_fast_as_told() -> None:
    """With a great speed a batch is through by the next look."""
    with Sandbox(speed=1_000_000, pace=Pace(1, 2, 3)) as fast, client(fast) as sdk:
        batch = start(sdk, lines(2))
        assert sdk.batches.retrieve(batch.id).status == "completed"

"""What is scripted goes wrong, there and so often, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.faults import ITEM_FAULTS, BadFault, Script
from dragoman.sandbox.server import Sandbox
from tests.sandbox.wire import body, client, finish, lines, read, start


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as running:
        yield running


@pytest.fixture
def sdk(sandbox: Sandbox) -> Iterator[openai.OpenAI]:
    with client(sandbox) as made:
        yield made


def _creates(sandbox: Sandbox) -> int:
    creates = sandbox.ledger()["creates"]
    assert isinstance(creates, list)
    return len(creates)


@pytest.mark.parametrize(("do", "made"), [("drop_after", 1), ("drop_before", 0)])
def test_a_dropped_create_was_done_or_not_done(
    sandbox: Sandbox, sdk: openai.OpenAI, do: str, made: int
) -> None:
    """The client sees the same broken connection; only the ledger knows which it was."""
    sandbox.fault({"on": "create", "do": do})
    with pytest.raises(openai.APIConnectionError):
        start(sdk, lines(1))
    assert _creates(sandbox) == made


def test_a_gateway_error_after_the_work_is_html(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """status_after does the work and answers 502 with a page, not with JSON."""
    sandbox.fault({"on": "create", "do": "status_after"})
    with pytest.raises(openai.InternalServerError) as told:
        start(sdk, lines(1))
    assert told.value.response.headers["content-type"].startswith("text/html")
    assert _creates(sandbox) == 1


def test_a_scripted_status_does_nothing_and_carries_its_headers(
    sandbox: Sandbox, sdk: openai.OpenAI
) -> None:
    """A status answers in OpenAI's shape, with retry-after, and the work is not done."""
    sandbox.fault(
        {"on": "create", "do": "status", "status": 429, "code": "slow_down", "retry_after": 7}
    )
    with pytest.raises(openai.RateLimitError) as told:
        start(sdk, lines(1))
    assert (told.value.code, told.value.response.headers["retry-after"]) == ("slow_down", "7")
    assert _creates(sandbox) == 0


def test_a_fault_waits_for_its_turn_and_ends(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """Counted from now on, `nth` is the first event that is hit and `times` how many are."""
    sandbox.fault({"on": "poll", "do": "status", "status": 500, "nth": 2, "times": 2})
    batch = start(sdk, lines(1))
    seen: list[int] = []
    for _ in range(4):
        try:
            sdk.batches.retrieve(batch.id)
            seen.append(200)
        except openai.InternalServerError:
            seen.append(500)
    assert seen == [200, 500, 500, 200]


def test_faults_can_be_cleared(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """DELETE /_sandbox/faults disarms even what would last for ever."""
    sandbox.fault({"on": "models", "do": "status", "status": 503, "times": None})
    with pytest.raises(openai.InternalServerError):
        sdk.models.list()
    sandbox.clear_faults()
    assert sdk.models.list().data


def test_a_hidden_batch_appears_later_in_the_list(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """The list does not show it for a time, though it can be read by its id."""
    sandbox.fault({"on": "create", "do": "hide", "seconds": 30})
    batch = start(sdk, lines(1))
    assert sdk.batches.list().data == []
    assert sdk.batches.retrieve(batch.id).id == batch.id
    sandbox.advance(31)
    assert [found.id for found in sdk.batches.list()] == [batch.id]


@pytest.mark.parametrize(
    ("fault", "ids"),
    [
        ({"do": "missing", "custom_id": "j1"}, ["j0", "j2"]),
        ({"do": "duplicate", "custom_id": "j1"}, ["j0", "j1", "j1", "j2"]),
        ({"do": "duplicate", "custom_id": "j1", "changed": True}, ["j0", "j1", "j1", "j2"]),
        ({"do": "unknown_id"}, ["j0", "j1", "j2", "nobody"]),
    ],
)
def test_lines_are_lost_doubled_or_added_on_the_way(
    sandbox: Sandbox, sdk: openai.OpenAI, fault: JSONObject, ids: list[str]
) -> None:
    """A content fault changes one download; the next one is whole again."""
    done = finish(sandbox, sdk, start(sdk, lines(3)))
    sandbox.fault({"on": "content", **fault})
    rows = read(sdk, done.output_file_id)
    assert sorted(row["custom_id"] for row in rows) == ids
    twins = [json.dumps(row) for row in rows if row["custom_id"] == "j1"]
    assert len(set(twins)) == (2 if fault.get("changed") else min(1, len(twins)))
    whole = read(sdk, done.output_file_id)
    assert sorted(row["custom_id"] for row in whole) == ["j0", "j1", "j2"]


def test_a_cut_body_is_shorter_than_it_says(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """The connection breaks in the middle of the file."""
    done = finish(sandbox, sdk, start(sdk, lines(3)))
    sandbox.fault({"on": "content", "do": "truncate"})
    with pytest.raises(openai.APIConnectionError):
        read(sdk, done.output_file_id)


def test_validation_can_be_made_to_fail(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """fail_validation refuses the next batch with the code that is asked for."""
    sandbox.fault({"do": "fail_validation", "code": "token_limit_exceeded"})
    failed = finish(sandbox, sdk, start(sdk, lines(2)))
    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    assert [(error.code, error.line) for error in failed.errors.data] == [
        ("token_limit_exceeded", None)
    ]
    assert finish(sandbox, sdk, start(sdk, lines(2))).status == "completed"


def _text(response: dict[str, Any]) -> str:
    return response["output"][0]["content"][0].get("text", "")


@pytest.mark.parametrize("do", sorted(ITEM_FAULTS))
def test_an_item_fault_spoils_one_item_and_no_other(
    sandbox: Sandbox, sdk: openai.OpenAI, do: str
) -> None:
    """Every item fault changes the answer of the item that it names, and of that alone."""
    sandbox.fault({"item": {"custom_id": "j1"}, "do": do, "status": 503})
    done = finish(sandbox, sdk, start(sdk, lines(3)))
    rows = {row["custom_id"]: row["response"] for row in read(sdk, done.output_file_id)}
    rows |= {row["custom_id"]: row["response"] for row in read(sdk, done.error_file_id)}
    spared, hit = rows["j0"]["body"], rows["j1"]
    assert _text(spared) == _text(rows["j2"]["body"])
    if do == "error":
        assert hit["status_code"] == 503
    elif do == "failed":
        assert hit["body"]["status"] == "failed"
    elif do == "refusal":
        assert hit["body"]["output"][0]["content"][0]["type"] == "refusal"
    else:
        assert _text(hit["body"]) != _text(spared)


def test_an_item_fault_reaches_single_calls_too(sandbox: Sandbox, sdk: openai.OpenAI) -> None:
    """By its client request id a single call can be made to fail."""
    sandbox.fault({"item": {"custom_id": "job-1"}, "do": "error", "status": 429})
    header = {"X-Client-Request-Id": "job-1"}
    with pytest.raises(openai.RateLimitError):
        sdk.responses.create(**body(), extra_headers=header)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert sdk.responses.create(**body(), extra_headers=header).output_text  # pyright: ignore[reportCallIssue, reportArgumentType]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"do": "explode", "on": "create"},
        {"do": "drop_after"},
        {"do": "drop_after", "on": "nowhere"},
        {"do": "status", "on": "create", "nth": "2"},
        {"do": "truncate", "on": "create"},
    ],
)
def test_a_fault_that_could_never_fire_is_refused(entry: JSONObject) -> None:
    """A script with a mistake says so, or a test would pass for the wrong reason."""
    with pytest.raises(BadFault):
        Script().arm(entry)

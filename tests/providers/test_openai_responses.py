"""The adapter against a real server: what it says, what it hears, and what it never repeats."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.call import Answered, Call, Unanswered
from dragoman.core.canonical import JSONObject, read_object
from dragoman.core.errors import BadSetting
from dragoman.core.failure import FailureClass
from dragoman.providers import adapter_for
from dragoman.providers.base import (
    Account,
    Adapter,
    BatchError,
    BatchStatus,
    ProviderFailed,
)
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.providers.transport import Transport
from dragoman.sandbox.server import Sandbox
from tests.providers.calls import (
    MODEL,
    SCHEMA,
    call,
    finish,
    read_lines,
    rows,
    start,
    with_adapter,
)


def _encode(one: Call, model: str = MODEL) -> bytes:
    async def use(adapter: OpenAIResponses) -> bytes:
        return adapter.encode_line(one, model)

    return with_adapter(use)


@pytest.mark.req("R130")
def test_a_batch_line_has_exactly_the_wire_s_fields() -> None:
    """custom_id, method, url, body; strict schema; canonical bytes and one newline at the end."""
    data = _encode(Call("j0", "Be calm.", "{}", "rewrite_response", SCHEMA, 500))
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    form = {"type": "json_schema", "name": "rewrite_response", "schema": SCHEMA, "strict": True}
    assert read_object(data[:-1]) == {
        "custom_id": "j0",
        "method": "POST",
        "url": "/v1/responses",
        "body": {
            "model": MODEL,
            "instructions": "Be calm.",
            "input": "{}",
            "text": {"format": form},
            "max_output_tokens": 500,
            "store": False,
        },
    }


_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@pytest.mark.req("R155")
@given(st.lists(_TEXT, min_size=2, max_size=5))
@settings(max_examples=30)
def test_a_line_holds_its_own_text_and_no_other_line_s(texts: list[str]) -> None:
    """Whatever people write, it stands once in its own line and in no other."""
    marked = [f"canary-{at}-{text}" for at, text in enumerate(texts)]

    async def use(adapter: OpenAIResponses) -> list[bytes]:
        return [
            adapter.encode_line(Call(f"j{at}", "", text, "s", {}), MODEL)
            for at, text in enumerate(marked)
        ]

    for at, data in enumerate(with_adapter(use)):
        body = read_object(data)["body"]
        assert isinstance(body, dict)
        assert body["input"] == marked[at]
        assert not any(f"canary-{other}-".encode() in data for other in range(at))
        assert not any(f"canary-{other}-".encode() in data for other in range(at + 1, 9))


def test_a_batch_goes_there_and_back(sandbox: Sandbox, who: Account) -> None:
    """Upload, create, poll, download, delete: every item comes back under its own id."""

    async def use(adapter: OpenAIResponses) -> None:
        batch_id = await start(adapter, who, 3)
        running = await adapter.poll(who, batch_id)
        assert (running.status, running.result_files) == (BatchStatus.RUNNING, ())
        await asyncio.to_thread(sandbox.advance, 200)
        view = await adapter.poll(who, batch_id)
        assert (view.status, view.total, view.nonce) == (BatchStatus.COMPLETED, 3, "n1")
        found = await read_lines(adapter, who, view.result_files)
        assert sorted(line.custom_id or "" for line in found) == ["j0", "j1", "j2"]
        for line in found:
            assert isinstance(line.reply, Answered)
            assert line.reply.model == MODEL
            assert line.reply.usage.output_tokens > 0
            assert set(json.loads(line.reply.text)) == {"rewritten_text", "output_language"}

    with_adapter(use)
    (made,) = rows(sandbox, "creates")
    assert isinstance(made, dict)
    assert made["metadata"] == {"dragoman_nonce": "n1", "dragoman_cell": "cell-a"}
    (uploaded,) = rows(sandbox, "uploads")
    assert isinstance(uploaded, dict)
    assert uploaded["filename"] == "n1.jsonl"


def test_an_upload_arrives_byte_for_byte(who: Account) -> None:
    """Many lines, odd bytes: the file is what was handed over, in order."""
    lines = [f"{number}\u2028\x85--boundary".encode() + b"\n" for number in range(500)]

    async def use(adapter: OpenAIResponses) -> list[bytes]:
        file_id = await adapter.upload(who, "n1", lines)
        return [line + b"\n" async for line in adapter.download(who, file_id)]

    assert with_adapter(use) == lines


_SHAPES: list[tuple[JSONObject, FailureClass, str]] = [
    ({"do": "error", "status": 400}, FailureClass.SCHEMA_INVALID, "invalid_request_error"),
    ({"do": "error", "status": 429}, FailureClass.THROTTLED, "rate_limit_exceeded"),
    (
        {"do": "error", "status": 429, "code": "insufficient_quota"},
        FailureClass.ACCOUNT_BLOCKED,
        "insufficient_quota",
    ),
    ({"do": "error", "status": 500}, FailureClass.UPSTREAM_ERROR, "server_error"),
    ({"do": "error", "status": 503}, FailureClass.NETWORK_TIMEOUT, "server_error"),
    ({"do": "failed", "code": "server_error"}, FailureClass.UPSTREAM_ERROR, "server_error"),
    ({"do": "truncated"}, FailureClass.OUTPUT_REJECTED, "truncated"),
    ({"do": "refusal"}, FailureClass.POLICY_REJECTED, "refused"),
    ({"do": "empty"}, FailureClass.OUTPUT_REJECTED, "empty"),
]


@pytest.mark.req("R072")
@pytest.mark.parametrize("mode", ["batch", "single"])
@pytest.mark.parametrize(("fault", "error_class", "code"), _SHAPES)
def test_each_bad_item_has_its_failure_in_both_modes(
    sandbox: Sandbox,
    who: Account,
    mode: str,
    fault: JSONObject,
    error_class: FailureClass,
    code: str,
) -> None:
    """The same failure whether it was called alone or in a batch; its siblings are answered."""
    sandbox.fault({"item": {"custom_id": "j1"}, **fault})

    async def use(adapter: OpenAIResponses) -> dict[str | None, object]:
        if mode == "single":
            return {one: await adapter.answer(who, call(one), MODEL, 10.0) for one in ("j0", "j1")}
        view = await finish(adapter, sandbox, 3)
        found = await read_lines(adapter, who, view.result_files)
        return {line.custom_id: line.reply for line in found}

    replies = with_adapter(use)
    hit = replies.pop("j1")
    assert isinstance(hit, Unanswered)
    assert (hit.failure.error_class, hit.failure.code) == (error_class, code)
    assert replies
    assert all(isinstance(reply, Answered) for reply in replies.values())


def test_what_was_not_run_is_told_apart_and_what_was_is_kept(
    sandbox: Sandbox, who: Account
) -> None:
    """An expired batch gives answers for half and NOT_EXECUTED for the rest."""
    sandbox.fault({"do": "expire_after_fraction", "fraction": 0.5})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 4, seconds=90_000)
        assert view.status is BatchStatus.EXPIRED
        found = [line.reply for line in await read_lines(adapter, who, view.result_files)]
        rest = [reply.failure for reply in found if isinstance(reply, Unanswered)]
        assert len(found) == 4
        assert [one.error_class for one in rest] == [FailureClass.NOT_EXECUTED] * 2

    with_adapter(use)


def test_a_refused_batch_has_its_errors_and_no_files(sandbox: Sandbox, who: Account) -> None:
    """Validation failures come with code and line."""
    sandbox.fault({"do": "fail_validation", "code": "invalid_json_line", "line": 2})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 2)
        assert (view.status, view.result_files) == (BatchStatus.FAILED, ())
        assert view.errors == (BatchError("invalid_json_line", 2),)

    with_adapter(use)


@pytest.mark.parametrize(
    ("on", "fault", "error_class"),
    [
        ("poll", {"do": "status", "status": 500}, FailureClass.UPSTREAM_ERROR),
        ("poll", {"do": "status", "status": 404}, FailureClass.NOT_FOUND),
        ("poll", {"do": "status", "status": 401}, FailureClass.AUTH_DENIED),
        ("poll", {"do": "status_after", "status": 200}, FailureClass.UPSTREAM_ERROR),
        ("poll", {"do": "drop_after"}, FailureClass.NETWORK_TIMEOUT),
        ("list", {"do": "status", "status": 429}, FailureClass.THROTTLED),
        ("list", {"do": "drop_before"}, FailureClass.NETWORK_TIMEOUT),
        ("upload", {"do": "status", "status": 502, "html": True}, FailureClass.NETWORK_TIMEOUT),
        ("upload", {"do": "status_after", "status": 200}, FailureClass.UPSTREAM_ERROR),
    ],
)
def test_what_may_be_repeated_raises_with_its_class(
    sandbox: Sandbox, who: Account, on: str, fault: JSONObject, error_class: FailureClass
) -> None:
    """Poll, list and upload fail by status and type; the next try works."""

    async def use(adapter: OpenAIResponses) -> None:
        batch_id = await start(adapter, who, 1)

        async def once() -> object:
            if on == "poll":
                return await adapter.poll(who, batch_id)
            if on == "list":
                return await adapter.find(who, "n1")
            return await adapter.upload(who, "n2", [b"{}\n"])

        await asyncio.to_thread(sandbox.fault, {"on": on, **fault})
        with pytest.raises(ProviderFailed) as failed:
            await once()
        assert failed.value.failure.error_class is error_class
        assert await once()

    with_adapter(use)


@pytest.mark.parametrize("bad", ["", "../files", "a/b", "a?b=c", "x" * 129, "batch_\n"])
def test_an_id_that_could_lead_a_url_astray_is_not_used(who: Account, bad: str) -> None:
    """An id out of the database is checked before it stands in a path."""

    async def use(adapter: OpenAIResponses) -> None:
        with pytest.raises(ProviderFailed):
            await adapter.poll(who, bad)
        with pytest.raises(ProviderFailed):
            await adapter.delete_file(who, bad)
        with pytest.raises(ProviderFailed):
            await read_lines(adapter, who, (bad,))

    with_adapter(use)


def test_a_single_call_is_answered_and_named_in_the_ledger(sandbox: Sandbox, who: Account) -> None:
    """The call's custom_id travels as the client request id, its text nowhere but the body."""

    async def use(adapter: OpenAIResponses) -> None:
        reply = await adapter.answer(who, call("job-7"), MODEL, 10.0)
        assert isinstance(reply, Answered)
        assert (reply.model, bool(reply.provider_request_id)) == (MODEL, True)

    with_adapter(use)
    (item,) = rows(sandbox, "items")
    assert isinstance(item, dict)
    assert item["custom_id"] == "job-7"


def test_the_provider_is_told_to_keep_nothing(sandbox: Sandbox, who: Account) -> None:
    """Neither a single call nor an item of a batch may be stored there for later."""

    async def use(adapter: OpenAIResponses) -> None:
        await adapter.answer(who, call("single"), MODEL, 10.0)
        await finish(adapter, sandbox, 2)

    with_adapter(use)
    kept = {
        row["custom_id"]: row["stored"] for row in rows(sandbox, "items") if isinstance(row, dict)
    }
    assert kept == {"single": False, "j0": False, "j1": False}


@pytest.mark.parametrize(
    ("fault", "error_class", "wait"),
    [
        ({"do": "drop_after"}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "delay", "seconds": 1.5}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "status", "status": 429, "retry_after": 12}, FailureClass.THROTTLED, 12.0),
        ({"do": "status_after"}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "status_after", "status": 200}, FailureClass.UPSTREAM_ERROR, None),
    ],
)
def test_a_single_call_without_an_answer_says_why(
    sandbox: Sandbox, who: Account, fault: JSONObject, error_class: FailureClass, wait: float | None
) -> None:
    """It never raises and is never sent twice; it may have been paid."""
    sandbox.fault({"on": "response", "times": None, **fault})

    async def use(adapter: OpenAIResponses) -> None:
        reply = await adapter.answer(who, call(), MODEL, 0.5)
        assert isinstance(reply, Unanswered)
        assert reply.failure.error_class is error_class
        assert reply.failure.retry_after_s == wait

    with_adapter(use)
    assert len(rows(sandbox, "responses")) <= 1


@pytest.mark.req("R055")
@pytest.mark.req("R135")
def test_the_registry_knows_its_kinds_and_no_other() -> None:
    """The sandbox is a kind of its own on the same wire; an unknown kind is refused."""

    async def run() -> list[Adapter]:
        transport = Transport({"127.0.0.1"})
        try:
            with pytest.raises(BadSetting):
                adapter_for("openai", transport, "cell-a")
            return [adapter_for(kind, transport, "c") for kind in ("openai_responses", "sandbox")]
        finally:
            await transport.aclose()

    adapters = asyncio.run(run())
    assert [adapter.kind for adapter in adapters] == ["openai_responses", "sandbox"]

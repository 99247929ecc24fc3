"""The adapter against a real server: what it says, what it hears, and what it never repeats."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
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
    Line,
    ProviderFailed,
)
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.providers.transport import Timeouts, Transport
from dragoman.sandbox.server import Sandbox
from tests.providers.calls import MODEL, SCHEMA, account, call, finish, rows, start, with_adapter
from tests.providers.raw import answering


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as running:
        yield running


@pytest.fixture
def who(sandbox: Sandbox) -> Account:
    return account(sandbox.base_url)


def _encode(one: Call, model: str = MODEL) -> bytes:
    async def use(adapter: OpenAIResponses) -> bytes:
        return adapter.encode_line(one, model)

    return with_adapter(use)


async def _lines(adapter: OpenAIResponses, who: Account, files: tuple[str, ...]) -> list[Line]:
    return [
        adapter.decode_line(line)
        for file_id in files
        async for line in adapter.download(who, file_id)
    ]


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
        found = await _lines(adapter, who, view.result_files)
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
        found = await _lines(adapter, who, view.result_files)
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
        found = [line.reply for line in await _lines(adapter, who, view.result_files)]
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


def _create(who: Account, timeouts: Timeouts | None = None, deadline_s: float = 10.0) -> Answer:
    """Upload at the same account, if that works, and create once."""

    async def use(adapter: OpenAIResponses) -> Answer:
        line = adapter.encode_line(call(), MODEL)
        try:
            file_id = await adapter.upload(who, "n1", [line])
        except ProviderFailed:
            file_id = "file-unknown"
        return await adapter.create(who, file_id, "n1", deadline_s)

    return with_adapter(use, timeouts=timeouts)


@pytest.mark.parametrize(
    ("fault", "made", "code"),
    [
        ({"do": "drop_after"}, 1, "protocol_error"),
        ({"do": "drop_before"}, 0, "protocol_error"),
        ({"do": "status_after"}, 1, "http_502"),
        ({"do": "status_after", "status": 200}, 1, "bad_body"),
        ({"do": "status_after", "status": 404}, 1, "http_404"),
        ({"do": "status_after", "status": 302}, 1, "http_302"),
        ({"do": "status", "status": 500}, 0, "server_error"),
        ({"do": "status", "status": 502, "html": True}, 0, "http_502"),
        ({"do": "status", "status": 503, "code": "server_is_overloaded"}, 0, None),
        ({"do": "status", "status": 408}, 0, "invalid_request_error"),
        ({"do": "status", "status": 409}, 0, "invalid_request_error"),
        ({"do": "delay", "seconds": 1.5}, None, "timeout"),
    ],
)
def test_a_create_without_a_clear_answer_is_doubt_and_is_sent_once(
    sandbox: Sandbox, who: Account, fault: JSONObject, made: int | None, code: str | None
) -> None:
    """Dropped, late, or answered by a gateway: doubt, after exactly one request.

    The fault stays, so a client that repeats the create would be seen to do it.
    """
    sandbox.fault({"on": "create", "times": None, **fault})
    answer = _create(who, deadline_s=0.5)
    assert isinstance(answer, Doubt)
    assert answer.failure.code == (code or "server_is_overloaded")
    if made is not None:
        assert len(rows(sandbox, "creates")) == made


def test_a_create_that_is_answered_happened(sandbox: Sandbox, who: Account) -> None:
    """The evidence is the provider's batch id, with what it said about it."""
    answer = _create(who)
    assert isinstance(answer, Happened)
    (made,) = rows(sandbox, "creates")
    assert isinstance(made, dict)
    assert answer.evidence_id == made["batch_id"]
    assert answer.facts["status"] == "validating"


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        ({"status": 400, "code": "invalid_value"}, FailureClass.SCHEMA_INVALID),
        ({"status": 401, "code": "invalid_api_key"}, FailureClass.AUTH_DENIED),
        ({"status": 404}, FailureClass.NOT_FOUND),
        ({"status": 429, "code": "slow_down"}, FailureClass.THROTTLED),
        ({"status": 429, "code": "insufficient_quota"}, FailureClass.ACCOUNT_BLOCKED),
    ],
)
def test_a_definite_refusal_proves_that_nothing_happened(
    sandbox: Sandbox, who: Account, fault: JSONObject, error_class: FailureClass
) -> None:
    """A 4xx in the provider's own words, with its wait."""
    sandbox.fault({"on": "create", "do": "status", "retry_after": 7, **fault})
    answer = _create(who)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is error_class
    assert answer.failure.retry_after_s == 7.0
    assert answer.failure.provider_request_id
    assert rows(sandbox, "creates") == []


def test_a_create_that_could_not_be_sent_proves_that_nothing_happened() -> None:
    """Nobody listens, the host is not ours to call, the key cannot be a header."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert isinstance(_create(account(f"http://127.0.0.1:{port}/v1")), NothingHappened)
    assert isinstance(_create(account("https://evil.example/v1")), NothingHappened)
    spoilt = Account("main", f"http://127.0.0.1:{port}/v1", "sk\nX-Evil: 1")
    refused = _create(spoilt)
    assert isinstance(refused, NothingHappened)
    assert refused.failure.code == "bad_api_key"


def test_a_lost_create_is_found_again_by_its_nonce(sandbox: Sandbox, who: Account) -> None:
    """After doubt the list tells; other batches do not confuse it, and pages are walked."""
    sandbox.fault({"on": "create", "do": "drop_after"})
    assert isinstance(_create(who), Doubt)

    async def use(adapter: OpenAIResponses) -> None:
        file_id = await adapter.upload(who, "x", [adapter.encode_line(call(), MODEL)])
        for number in range(120):
            made = await adapter.create(who, file_id, f"other-{number}", 10.0)
            assert isinstance(made, Happened)
        (found,) = await adapter.find(who, "n1")
        assert found.nonce == "n1"
        assert await adapter.find(who, "nobody") == []

    with_adapter(use)
    (lost, *_) = rows(sandbox, "creates")
    assert isinstance(lost, dict)
    assert lost["metadata"] == {"dragoman_nonce": "n1", "dragoman_cell": "cell-a"}


def test_two_batches_of_one_nonce_come_oldest_first(sandbox: Sandbox, who: Account) -> None:
    """Whoever adopts takes the older one."""

    async def use(adapter: OpenAIResponses) -> None:
        first = await start(adapter, who, 1)
        await asyncio.to_thread(sandbox.advance, 5)
        second = await start(adapter, who, 1)
        found = await adapter.find(who, "n1")
        assert [view.provider_batch_id for view in found] == [first, second]

    with_adapter(use)


def test_a_hidden_batch_is_not_found_until_the_list_shows_it(
    sandbox: Sandbox, who: Account
) -> None:
    """find says what the list says; to wait is its caller's part."""
    sandbox.fault({"on": "create", "do": "hide", "seconds": 60})

    async def use(adapter: OpenAIResponses) -> None:
        batch_id = await start(adapter, who, 1)
        assert await adapter.find(who, "n1") == []
        await asyncio.to_thread(sandbox.advance, 61)
        assert [view.provider_batch_id for view in await adapter.find(who, "n1")] == [batch_id]

    with_adapter(use)


def test_find_looks_no_further_back_than_it_is_told(sandbox: Sandbox, who: Account) -> None:
    """The list is left when it reaches batches older than the bound: one page, not five."""

    async def use(adapter: OpenAIResponses) -> list[str | None]:
        for number in range(101):
            await start(adapter, who, 1, f"n{number}")
        later = 2**39
        bounded = await adapter.find(who, "n0", created_after=later)
        whole = await adapter.find(who, "n0", created_after=0)
        return [view.nonce for view in [*bounded, *whole]]

    assert with_adapter(use) == ["n0"]


_BATCH = b'{"id":"batch_1","created_at":99999999999,"metadata":{}}'


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"data":null,"has_more":false}',
        b'{"data":[]}',
        b'{"data":[{"id":"../x","created_at":1}],"has_more":false}',
        b'{"data":[7],"has_more":false}',
        b'{"data":[' + _BATCH + b'],"has_more":true}',
        b'{"data":[],"has_more":true}',
    ],
)
def test_a_list_that_cannot_be_read_proves_no_absence(body: bytes) -> None:
    """An unreadable or endless list is a failure, never "there is no such batch"."""
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"

    async def use(adapter: OpenAIResponses) -> None:
        async with answering(head.encode() + body) as server:
            await adapter.find(account(server.url), "n1")

    with pytest.raises(ProviderFailed):
        with_adapter(use)


@pytest.mark.parametrize("odd", ["bom", "crlf"])
def test_a_file_in_a_strange_dress_loses_no_line(sandbox: Sandbox, who: Account, odd: str) -> None:
    """A byte order mark or CRLF line ends are no reason to lose a paid answer."""
    sandbox.fault({"on": "content", "do": odd})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        found = await _lines(adapter, who, view.result_files)
        assert sorted(line.custom_id or "" for line in found) == ["j0", "j1", "j2"]

    with_adapter(use)


@pytest.mark.parametrize(
    "line",
    [
        "x" * 3_000_000,
        "[" * 100_000,
        '{"custom_id":"\u2028","response":',
        '{"custom_id":"j0","custom_id":"j1"}',
        "\u2028",
    ],
)
def test_a_strange_line_costs_its_siblings_nothing(
    sandbox: Sandbox, who: Account, line: str
) -> None:
    """Huge, deep, torn or doubled: it belongs to nobody, and the others are answered."""
    sandbox.fault({"on": "content", "do": "insert_line", "line": line})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        stranger, *found = await _lines(adapter, who, view.result_files)
        assert stranger.custom_id is None
        assert sorted(line.custom_id or "" for line in found) == ["j0", "j1", "j2"]
        assert all(isinstance(line.reply, Answered) for line in found)

    with_adapter(use)


def test_u2028_inside_an_answer_does_not_tear_its_line(sandbox: Sandbox, who: Account) -> None:
    """A line separator in the text is content: one line, one item, the text whole."""
    text = "a\u2028b\x85c"
    entry = {
        "custom_id": "odd",
        "error": None,
        "response": {
            "status_code": 200,
            "body": {
                "status": "completed",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}],
            },
        },
    }
    raw = json.dumps(entry, ensure_ascii=False)
    sandbox.fault({"on": "content", "do": "insert_line", "line": raw})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 1)
        odd, other = await _lines(adapter, who, view.result_files)
        assert (odd.custom_id, other.custom_id) == ("odd", "j0")
        assert isinstance(odd.reply, Answered)
        assert odd.reply.text == text

    with_adapter(use)


def test_a_torn_last_line_belongs_to_nobody(sandbox: Sandbox, who: Account) -> None:
    """The whole lines are kept, the torn one is an item without an answer, not a wrong one."""
    sandbox.fault({"on": "content", "do": "torn_line"})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        *found, torn = await _lines(adapter, who, view.result_files)
        assert len({line.custom_id for line in found}) == 2
        assert torn.custom_id is None
        assert isinstance(torn.reply, Unanswered)

    with_adapter(use)


def test_a_short_download_is_a_failure_and_can_be_repeated(sandbox: Sandbox, who: Account) -> None:
    """A body that ends before its length raises, and the second download is whole."""
    sandbox.fault({"on": "content", "do": "truncate"})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        with pytest.raises(ProviderFailed) as failed:
            await _lines(adapter, who, view.result_files)
        assert failed.value.failure.is_retryable
        assert len(await _lines(adapter, who, view.result_files)) == 3

    with_adapter(use)


def test_a_file_that_is_gone_is_a_failure_to_read_and_a_success_to_delete(
    sandbox: Sandbox, who: Account
) -> None:
    """Deleting twice is fine; any other refusal to delete is told."""

    async def use(adapter: OpenAIResponses) -> None:
        file_id = await adapter.upload(who, "n1", [b"{}\n"])
        await adapter.delete_file(who, file_id)
        await adapter.delete_file(who, file_id)
        with pytest.raises(ProviderFailed) as failed:
            await _lines(adapter, who, (file_id,))
        assert failed.value.failure.error_class is FailureClass.NOT_FOUND
        await asyncio.to_thread(sandbox.fault, {"on": "delete", "do": "status", "status": 500})
        with pytest.raises(ProviderFailed):
            await adapter.delete_file(who, file_id)

    with_adapter(use)
    assert rows(sandbox, "loose_files") == []


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
            await _lines(adapter, who, (bad,))

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


@pytest.mark.parametrize(
    ("fault", "error_class", "wait"),
    [
        ({"do": "drop_after"}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "delay", "seconds": 1.5}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "status", "status": 429, "retry_after": 12}, FailureClass.THROTTLED, 12.0),
        ({"do": "status_after"}, FailureClass.NETWORK_TIMEOUT, None),
        ({"do": "status_after", "status": 200}, FailureClass.SCHEMA_INVALID, None),
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
def test_the_registry_knows_its_kinds_and_no_other() -> None:
    """The sandbox is a kind of its own on the same wire; an unknown kind is refused, not guessed."""

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

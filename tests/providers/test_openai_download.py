"""Result files lose no item and invent none, whatever happens to them on the way."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.core.call import Answered, Unanswered
from dragoman.core.failure import FailureClass
from dragoman.providers.base import (
    Account,
    ProviderFailed,
)
from dragoman.providers.openai_responses import OpenAIResponses
from dragoman.sandbox.server import Sandbox
from tests.providers.calls import (
    finish,
    read_lines,
    rows,
    with_adapter,
)


@pytest.mark.parametrize("odd", ["bom", "crlf"])
def test_a_file_in_a_strange_dress_loses_no_line(sandbox: Sandbox, who: Account, odd: str) -> None:
    """A byte order mark or CRLF line ends are no reason to lose a paid answer."""
    sandbox.fault({"on": "content", "do": odd})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        found = await read_lines(adapter, who, view.result_files)
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
        stranger, *found = await read_lines(adapter, who, view.result_files)
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
        odd, other = await read_lines(adapter, who, view.result_files)
        assert (odd.custom_id, other.custom_id) == ("odd", "j0")
        assert isinstance(odd.reply, Answered)
        assert odd.reply.text == text

    with_adapter(use)


def test_a_torn_last_line_belongs_to_nobody(sandbox: Sandbox, who: Account) -> None:
    """The whole lines are kept, the torn one is an item without an answer, not a wrong one."""
    sandbox.fault({"on": "content", "do": "torn_line"})

    async def use(adapter: OpenAIResponses) -> None:
        view = await finish(adapter, sandbox, 3)
        *found, torn = await read_lines(adapter, who, view.result_files)
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
            await read_lines(adapter, who, view.result_files)
        assert failed.value.failure.is_retryable
        assert len(await read_lines(adapter, who, view.result_files)) == 3

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
            await read_lines(adapter, who, (file_id,))
        assert failed.value.failure.error_class is FailureClass.NOT_FOUND
        await asyncio.to_thread(sandbox.fault, {"on": "delete", "do": "status", "status": 500})
        with pytest.raises(ProviderFailed):
            await adapter.delete_file(who, file_id)

    with_adapter(use)
    assert rows(sandbox, "loose_files") == []

"""Homes share batches and files, and never a word: whatever is doubled, misplaced or foreign."""

from __future__ import annotations

import asyncio
import json

import pytest

from dragoman.core.call import Reply
from dragoman.core.canonical import JSONObject
from dragoman.sandbox import writer
from dragoman.sandbox.server import Sandbox
from dragoman.work import collector
from tests import stand
from tests.crash import rig
from tests.invariants import violations

NAMES = {
    "en": ("Zephyrine", "Melisande", "Ottoline"),
    "de": ("Kunigunde", "Walburga", "Gisberta"),
}
FOR_EVER = {"times": None}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A provider that repeats the name in a message, and every line that came from it."""
    seen: list[bytes] = []
    rewrite, add = writer.rewrite, collector.Results.add

    def with_name(task: JSONObject) -> JSONObject:
        name = str(task["original_text"]).partition(",")[0]
        answer = rewrite(task)
        return {**answer, "rewritten_text": f"{name}, {answer['rewritten_text']}"}

    def noted(results: collector.Results, custom_id: str, line: bytes, reply: Reply) -> None:
        seen.append(line)
        add(results, custom_id, line, reply)

    monkeypatch.setitem(writer._TASKS, "rewrite_response", with_name)
    monkeypatch.setattr(collector.Results, "add", noted)
    return seen


async def tell(database: str, sandbox: Sandbox, target: str) -> None:
    """A message in each of three homes, all for one batch."""
    async with (
        rig.providers_of(sandbox) as providers,
        stand.orchestrator_of(database, providers) as door,
    ):
        for name in NAMES[target]:
            home = await stand.add_home(door.cell, "en", target)
            text = f"{name}, you are always so loud at night. Please stop it!"
            await door.create(stand.Complaint(home.id, home.sender, home.recipient, text))


def names_by_home(database: str) -> list[tuple[str, str]]:
    """For each output: the name in the message, and the name in what came back for its unit."""
    rows = stand.rows(
        database,
        "select split_part(r.original_text, ',', 1), split_part(o.rewritten_text, ',', 1)"
        "  from rewrite_output o join rewrite_request r on r.id = o.request_id"
        "   and r.home_id = o.home_id and r.recipient_user_id = o.recipient_user_id"
        "  join job j on j.id = o.job_id and j.request_id = r.id and j.home_id = r.home_id"
        " order by 1",
    )
    return [(row[0], row[1]) for row in rows]


@pytest.mark.req("R088", "R105")
def test_no_word_crosses_from_one_home_to_another(lines: list[bytes]) -> None:
    """Each line reaches its own unit, or is dropped with an alert.

    Lines are shuffled and doubled; beside them come lines of a closed batch, of another open one
    and of nobody, each with somebody else's words.
    """
    with rig.fresh(rig.empty_database) as (database, sandbox):
        asyncio.run(tell(database, sandbox, "en"))
        asyncio.run(rig.a_day(database, sandbox))
        assert (len(lines), rig.outputs(database)) == (3, 3)
        closed = [json.loads(line) for line in lines]
        asyncio.run(tell(database, sandbox, "de"))
        asyncio.run(tell(database, sandbox, "en"))
        for _ in range(2):
            rig.submit_once(database, sandbox)
        order = "select i.custom_id from batch b join batch_item i on i.batch_id = b.id"
        waiting = stand.rows(
            database, f"{order} where b.closed_at is null order by b.created_at, i.item_index"
        )
        assert len(waiting) == 6
        of_the_second_batch = {**closed[1], "custom_id": waiting[-1][0]}
        sandbox.fault(
            {"do": "duplicate", "index": 0, **FOR_EVER},
            {"do": "unknown_id", **FOR_EVER},
            {"do": "insert_line", "line": json.dumps(closed[0]), **FOR_EVER},
            {"do": "insert_line", "line": json.dumps(of_the_second_batch), "nth": 1},
        )
        sandbox.advance(rig.A_BATCH_IS_DONE_S)
        rig.collect_once(database, sandbox)
        pairs = names_by_home(database)
        assert len(pairs) == 9
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        dropped = "select kind, facts ->> 'lines' from alert order by first_at"
        assert stand.rows(database, dropped) == [
            ("unknown_batch_item", "3"),
            ("unknown_batch_item", "2"),
        ]
        assert violations(database) == []

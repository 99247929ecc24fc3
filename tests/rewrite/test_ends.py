"""How rewrites end, on both ways: with one checked text, or with a code and without any text."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dragoman.core.canonical import JSONObject, canonical
from dragoman.core.failure import FailureClass
from dragoman.core.ids import uuid7
from dragoman.rewrite.contracts import RewriteResponse
from dragoman.store import jobs
from dragoman.work import collector
from dragoman.work.submission import by_job
from tests import postgres, stand
from tests.leaks import leaks
from tests.rewrite.house import House, house_of
from tests.rewrite.requests import answer

MODES = pytest.mark.parametrize("mode", ["async", "batch"])
CALM = "I find it hard to sleep when the music is loud. Could it be softer in the evening?"
# What goes wrong at the provider, and the code that the job fails with.
FAULTS = {
    "wrong_language": "non_target_locale",
    "bad_schema": "schema_invalid",
    "extra_keys": "schema_invalid",
    "blank": "empty",
    "empty": "empty",
    "fenced": "schema_invalid",
    "refusal": "refused",
    "truncated": "truncated",
    "invents_time": "new_fact",
}
# What the model says instead, and the code.
TEXTS = {
    "wrong types": (
        canonical({"rewritten_text": 7, "output_language": "en"}).decode(),
        "schema_invalid",
    ),
    "a hard word": (answer("You are an idiot and the music is too loud."), "personal_attack"),
    "a foreign text": (
        answer("Ich schlafe schlecht, wenn die Musik abends so laut ist."),
        "non_target_locale",
    ),
    "another unit": (answer(CALM, rewrite_request_id=str(UUID(int=9))), "schema_invalid"),
    "half a text": ('{"rewritten_text": "I find it hard to', "schema_invalid"),
}


async def bad_ends(house: House) -> dict[UUID, str]:
    """One job for each thing that can be wrong with an answer, and the code it must end with."""
    expected: dict[UUID, str] = {}
    for fault, code in FAULTS.items():
        job = await said(house)
        house.sandbox.fault({"do": fault, "item": {"custom_id": str(job)}})
        expected[job] = code
    for text, code in TEXTS.values():
        job = await said(house)
        house.providers.says[str(job)] = text
        expected[job] = code
    return expected


async def said(house: House, source: str = "en", target: str = "en") -> UUID:
    """The job of a complaint."""
    job = (await house.say(None, source, target)).job_id
    assert job is not None
    return job


@MODES
@pytest.mark.req("R010", "R187", "R103", "R141", "R072", "R139", "R157")
@pytest.mark.req("R056", "R093", "R108", "R143", "R057", "R208", "R058", "R209", "R153")
def test_an_answer_that_fails_a_check_stores_nothing_and_spares_its_neighbours(mode: str) -> None:
    """Each bad answer ends its own job with its code at once; good ones among them are stored."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            good = [await said(house), await said(house, "de", "en")]
            expected = await bad_ends(house)
            await house.work()
            ended = house.rows(
                "select id, last_failure ->> 'code' from standing where state = 'failed'"
            )
            assert dict(ended) == expected
            stored = house.rows("select job_id, output_language from rewrite_output")
            assert dict(stored) == dict.fromkeys(good, "en")
            assert len(house.sent) == len(good) + len(expected)

    asyncio.run(scenario())


TRANSIENT: dict[str, dict[str, Mapping[str, Any]]] = {
    "async": {
        "503": {"on": "response", "do": "status", "status": 503, "nth": 1},
        "429": {"on": "response", "do": "status", "status": 429, "nth": 1},
        "dropped": {"on": "response", "do": "drop_before", "nth": 1},
    },
    "batch": {
        "503": {"do": "error", "status": 503},
        "429": {"do": "error", "status": 429, "code": "rate_limit_exceeded"},
        "failed": {"do": "failed", "code": "server_error"},
    },
}


@pytest.mark.parametrize(
    ("mode", "what"), [(mode, what) for mode, some in TRANSIENT.items() for what in some]
)
@pytest.mark.req("R073", "R074", "R165")
def test_what_failed_for_now_waits_and_can_then_be_claimed(mode: str, what: str) -> None:
    """One of two fails for now: it is queued until a time, the other is done; then it is too."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            first, second = await said(house), await said(house)
            fault = dict(TRANSIENT[mode][what])
            if mode == "batch":
                fault["item"] = {"custom_id": str(first)}
            house.sandbox.fault(fault)
            await house.work()
            waiting = house.rows(
                "select state::text, ready, not_before_at > clock(), attempt_count,"
                " claim_token is null from standing where state <> 'completed'"
            )
            assert waiting == [("queued", False, True, 1, True)]
            assert len(house.rows("select from rewrite_output")) == 1
            await house.a_day_passes()
            await house.work()
            assert (house.state(first), house.state(second)) == ("completed", "completed")
            assert len(house.sent) == 3

    asyncio.run(scenario())


@MODES
@pytest.mark.req("R036", "R109", "R272", "R273")
def test_a_job_that_is_exhausted_failed_where_it_was_sent(mode: str) -> None:
    """Job and request have failed, when and why is known, and no other provider was asked."""
    always: JSONObject = {"times": None, "status": 503}
    fault = {
        "async": {**always, "on": "response", "do": "status"},
        "batch": {**always, "do": "error", "item": {"index": 0}},
    }

    async def scenario() -> None:
        async with house_of(mode) as house:
            await said(house)
            routing = house.rows("select routing, account from job")
            with stand.owner(house.database) as connection:
                connection.execute(
                    "insert into route select gen_random_uuid(), surface, lane, rewrite_strength,"
                    ' account, 0, decision || \'{"provider": "openai", "adapter_kind":'
                    ' "openai_chat"}\', true, clock() from route'
                )
            house.sandbox.fault(dict(fault[mode]))
            await house.work(times=3)
            assert len(house.sent) == 2
            assert set(house.providers.kinds) == {"openai_responses"}
            assert house.rows("select routing, account from job") == routing
            assert house.rows("select status from rewrite_status") == [("failed",)]
            told = house.rows(
                "select status::text, attempt_count = max_attempts, last_error,"
                " last_error_at is not null, routing_decision ->> 'provider' from job_record"
            )
            assert told == [("failed", True, "server_error", True, "sandbox")]

    asyncio.run(scenario())


@pytest.mark.req("R081", "R172", "R060")
def test_a_rewrite_has_a_time_of_completion_when_it_is_completed_and_else_none() -> None:
    """Of a completed, a failed, a canceled and a waiting one the first alone has it."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            done, bad, gone = [await said(house) for _ in range(3)]
            house.sandbox.fault({"do": "bad_schema", "item": {"custom_id": str(bad)}})
            async with stand.cell_of(house.database, "dragoman_operator") as operator:
                await jobs.cancel_jobs(operator, uuid7(), [jobs.JobId(gone)])
            await house.work()
            await said(house)
            found = house.rows(
                "select s.state::text, r.rewrite_completed_at, e.at from standing s"
                " join rewrite_status r on r.job_id = s.id"
                " left join event e on e.job_id = s.id and e.kind = 5 order by s.state"
            )
            assert [row[0] for row in found] == ["queued", "completed", "failed", "canceled"]
            assert house.state(done) == "completed"
            assert [isinstance(row[1], datetime) for row in found] == [False, True, False, False]
            assert found[1][1] == found[1][2]

    asyncio.run(scenario())


@MODES
@pytest.mark.req("R034", "R171")
def test_one_text_is_left_and_it_is_the_answer_of_the_contract(mode: str) -> None:
    """From German to English: one row, its columns make a whole response, and no other text."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            await said(house, "de", "en")
            await house.work()
            ((row,),) = house.rows("select to_jsonb(o) from rewrite_output o")
            texts = {name for name, value in row.items() if isinstance(value, str) and " " in value}
            assert texts == {"rewritten_text"}
            response = RewriteResponse.from_json(
                {
                    "rewrite_request_id": row["request_id"],
                    "recipient_user_id": row["recipient_user_id"],
                    "created_at": row["completed_at"],
                    **{
                        name: row[name]
                        for name in (
                            "rewritten_text",
                            "output_language",
                            "prompt_version",
                            "policy_version",
                            "lexicon_version",
                            "eval_result",
                        )
                    },
                }
            )
            assert (response.output_language, row["target_locale"]) == ("en", "en")
            with stand.owner(house.database) as connection:
                assert leaks(connection, [row["rewritten_text"], stand.NOISE["de"]]) == []

    asyncio.run(scenario())


@pytest.mark.req("R048", "R049", "R120")
def test_a_job_holds_ids_and_the_text_is_read_when_it_is_asked_about() -> None:
    """No column of a job has a word of it; the line that is sent is made of the request's row."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            job = await said(house)
            kept = house.rows(
                "select to_jsonb(j), to_jsonb(s) from job j join standing s using (id)"
            )
            columns = {name for row in kept[0] for name in row}
            assert not columns & {"rewrite_request", "original_text", "context_pack", "message"}
            for word in stand.NOISE["en"].split():
                if len(word) > 5:
                    assert word not in str(kept)
            canary = "Zephyrine wants it softer"
            with stand.owner(house.database) as connection:
                connection.execute("alter table rewrite_request disable trigger user")
                connection.execute("update rewrite_request set original_text = %s", (canary,))
                connection.execute("alter table rewrite_request enable trigger user")
            assert canary.encode() in await house.line_of(jobs.JobId(job))
            await house.work()
            assert len(house.sent) == 1
            assert canary.encode() in house.sent[0]
            places = "select to_jsonb(j), to_jsonb(s) from job j join standing s using (id)"
            assert canary not in str(house.rows(places))

    asyncio.run(scenario())


@MODES
@pytest.mark.req("R082", "R096")
def test_workers_neither_reveal_nor_deliver(mode: str) -> None:
    """When its sender may see it stays as it was written, and no message is sent to anybody."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            await said(house)
            with stand.owner(house.database) as connection:
                connection.execute(
                    "insert into reveal select id, home_id, clock() + interval '1 day'"
                    " from rewrite_request"
                )
            await said(house)
            asked = "select *, xmin::text from reveal"
            before = house.rows(asked)
            await house.work(times=2)
            assert house.rows("select distinct state::text from standing") == [("completed",)]
            assert house.rows(asked) == before
            assert len(before) == 1
            assert house.rows("select from delivery") == []

    asyncio.run(scenario())


@pytest.mark.req("R087")
def test_a_line_of_another_batch_is_dropped() -> None:
    """A job's line comes in the file of a batch that does not hold it: an alert, and no output."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            stranger = await said(house, "de", "en")
            await house.submit()
            own = await said(house)
            await house.submit()
            line: JSONObject = {
                "id": "batch_req_1",
                "custom_id": str(stranger),
                "response": {"status_code": 200, "body": {"status": "completed", "output": []}},
                "error": None,
            }
            # The file of the second batch alone is read: the first one's is not to be had.
            house.sandbox.fault({"on": "content", "do": "status", "status": 503, "times": 1})
            house.sandbox.fault(
                {"do": "insert_line", "line": canonical(line).decode(), "nth": 2, "times": 1}
            )
            await house.collect()
            assert (house.state(own), house.state(stranger)) == ("completed", "batch_submitted")
            assert house.rows("select kind from alert") == [("unknown_batch_item",)]
            assert house.rows("select job_id from rewrite_output") == [(own,)]
            await house.a_day_passes()
            await house.collect()
            assert house.state(stranger) == "completed"

    asyncio.run(scenario())


OWN = (
    "I find it hard to sleep when the music is loud. Could it be softer in the evening?",
    "I would be glad if the door were closed quietly at night. Could we try that, please?",
    "I feel better when the kitchen is clean after dinner. Could we do the dishes together?",
    "I need some calm in the morning before work. Could the radio stay off until then?",
    "I miss my cup when it is gone. Could it be back in the cupboard after its use, please?",
    "I get cold when the window stays open. Could we close it when nobody is in the room?",
)


@pytest.mark.req("R059", "R151")
def test_in_a_permuted_chunk_of_two_homes_each_pair_gets_its_own_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six units of two homes, in any order: each text stands under its pair, and under no other."""

    def permuted(items: Any) -> Any:
        groups = by_job(items)
        return random.Random(7).sample(groups, len(groups))  # noqa: S311 - an order, no secret

    async def scenario() -> None:
        async with house_of("batch") as house:
            homes = [await stand.add_home(house.orchestrator.cell) for _ in range(2)]
            own: dict[tuple[UUID, UUID, UUID], str] = {}
            for number, text in enumerate(OWN):
                home = homes[number % 2]
                told = await house.say(home)
                house.providers.says[str(told.job_id)] = answer(text)
                own[told.rewrite_request_id, home.recipient, home.id] = text
            monkeypatch.setattr(collector, "by_job", permuted)
            await house.work()
            stored = house.rows(
                "select request_id, recipient_user_id, home_id, rewritten_text from rewrite_output"
            )
            assert {row[:3]: row[3] for row in stored} == own
            key = house.rows(
                "select array_agg(attname::text order by attname) from pg_index i join"
                " pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)"
                " where i.indrelid = 'rewrite_output'::regclass and i.indisprimary"
            )
            assert key == [(["recipient_user_id", "request_id"],)]

    asyncio.run(scenario())


CANARY = "Zephyrine"
SAYS_MORE = "Zephyrine wants it softer!"


@MODES
@pytest.mark.req("R011", "R086", "R193", "R174")
def test_no_word_of_a_message_is_left_anywhere_else(
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not of what was said, came back or was complained about: in no log, column, error or file."""
    before = len(server_log())  # the server is up before its files would go elsewhere
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setitem(stand.NOISE, "en", f"{CANARY}, your music is far too loud at night!")
    text = f"{CANARY}, I find it hard to sleep when the music is loud. Could it be softer?"

    async def scenario() -> None:
        async with house_of(mode) as house:
            good = await said(house)
            house.providers.says[str(good)] = answer(text)
            bad = await said(house)
            house.providers.says[str(bad)] = answer(f"{text} {CANARY} will be there at 22:30.")
            for status in (400, 404, 422, 500):
                item: JSONObject = {"custom_id": str(await said(house))}
                house.sandbox.fault(
                    {"do": "error", "status": status, "code": SAYS_MORE, "item": item}
                )
            await house.work()
            assert house.rows("select job_id, rewritten_text from rewrite_output") == [(good, text)]
            assert house.state(bad) == "failed"
            failures = house.rows("select last_failure from standing where id <> %s", good)
            assert len(failures) == 5
            for (failure,) in failures:
                assert FailureClass(failure["class"])
                assert CANARY not in str(failure)
            with stand.owner(house.database) as connection:
                assert leaks(connection, [CANARY]) == []

    asyncio.run(scenario())
    written = "".join(capfd.readouterr()) + server_log()[before:]
    assert "claimed" in written or mode == "async"
    assert CANARY not in written
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or CANARY.encode() not in file.read_bytes()


def server_log() -> str:
    """What the server has written down."""
    return postgres.shared_server().log.read_text(encoding="utf-8", errors="replace")

"""A rewrite through the door: taken, told by four words, its text for the backend alone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from dragoman.rewrite.contracts import ClassifierResult
from dragoman.rewrite.words import Surface
from dragoman.sandbox.server import Sandbox
from dragoman.work.collector import Collector
from dragoman.work.submitter import Submitter
from tests import postgres, stand
from tests.api.door import Door, asking
from tests.api.people import CANARY, complaint, move_in, requests

STATUS_FIELDS = {"rewrite_request_id", "status", "created_at", "rewrite_completed_at"}


def work(database: str, sandbox: Sandbox) -> None:
    """Submit and collect, as the two roles would."""

    async def run() -> None:
        providers = stand.Providers(sandbox.base_url)
        async with stand.station_of(database) as station:
            await Submitter(station, providers).run_once()
            sandbox.advance(200)
            await Collector(station, providers).run_once()
        await providers.transport.aclose()

    asyncio.run(run())


@pytest.fixture
def fresh(tmp_path: Path):
    """A database of this test's own."""
    name = stand.new_database()
    yield name
    postgres.drop(name)


@pytest.mark.req("R004", "R100")
def test_a_message_is_taken_without_a_call_to_any_rewriter(database: str, tmp_path: Path) -> None:
    """The answer is queued, and the provider saw one call of the classifier's and no batch."""
    classified = 0
    with Sandbox() as sandbox:
        ask = asking(sandbox)

        async def classify(request_id: UUID, message: str, surface: Surface) -> ClassifierResult:
            nonlocal classified
            classified += 1
            return await ask(request_id, message, surface)

        with Door(tmp_path, database, classify=classify) as door:
            reply = door.post(complaint(move_in(database)))
        ledger: dict[str, Any] = sandbox.ledger()
    assert (reply.status, reply.json["status"]) == (202, "queued")
    assert [len(ledger["responses"]), classified] == [1, 1]
    assert (ledger["uploads"], ledger["creates"]) == ([], [])


def test_the_same_message_again_changes_nothing(door: Door, database: str) -> None:
    """The same id and message give the same job; one request is stored."""
    body = complaint(move_in(database))
    before = requests(database)
    first, second = door.post(body), door.post(body)
    assert first.json == second.json
    assert requests(database) == before + 1


def test_the_same_id_for_another_message_is_a_conflict(door: Door, database: str) -> None:
    """409, and the words of neither message."""
    body = complaint(move_in(database))
    door.post(body)
    reply = door.post(body | {"message": f"Other words with {CANARY}"})
    assert (reply.status, reply.json["code"]) == (409, "conflict")
    assert CANARY not in reply.text


def test_the_whole_way_from_message_to_text(fresh: str, tmp_path: Path) -> None:
    """Queued without a text, delivered with one, revealed when its sender may see it."""
    asyncio.run(stand.add_routes(fresh))
    with Sandbox() as sandbox, Door(tmp_path, fresh, classify=asking(sandbox)) as door:
        body = complaint(move_in(fresh, "en", "de"))
        path = f"/v1/rewrites/{door.post(body).json['rewrite_request_id']}"
        assert door.get(f"{path}/text", key="orchestrator").status == 404
        assert door.get(path, key="operator").json["status"] == "queued"
        work(fresh, sandbox)
        told = door.get(path, key="orchestrator").json
        assert (told["status"], set(told)) == ("delivered", STATUS_FIELDS)
        text = door.get(f"{path}/text", key="orchestrator")
        assert (text.json["output_language"], set(text.json)) == (
            "de",
            {"rewritten_text", "output_language", "completed_at"},
        )
        assert door.get(f"{path}/text", key="operator").status == 403
        assert door.post(body).json["status"] == "delivered"


@pytest.mark.req("R286")
def test_no_answer_holds_a_time_that_has_not_come(fresh: str, tmp_path: Path) -> None:
    """The database knows of a reveal tomorrow and of a deferral; the status tells neither."""
    asyncio.run(stand.add_routes(fresh))
    with Sandbox() as sandbox, Door(tmp_path, fresh, classify=asking(sandbox)) as door:
        done, later = complaint(move_in(fresh)), complaint(move_in(fresh))
        door.post(done)
        work(fresh, sandbox)
        door.post(later)
        with stand.owner(fresh) as connection:
            connection.execute(
                "insert into reveal select id, home_id, clock() + interval '1 day'"
                " from rewrite_request where id = %s",
                (done["rewrite_request_id"],),
            )
            connection.execute(
                "update standing set ready = false, not_before_at = clock() + interval '1 hour'"
                " where state = 'queued'"
            )
        told = [
            door.get(f"/v1/rewrites/{body['rewrite_request_id']}", key="orchestrator").json
            for body in (done, later)
        ]
        assert [each["status"] for each in told] == ["delivered", "queued"]
        times = [
            each[name] for each in told for name in each if name.endswith("_at") and each[name]
        ]
        assert len(times) == 3
        assert all(datetime.fromisoformat(time) <= datetime.now(UTC) for time in times)
        with stand.owner(fresh) as connection:
            connection.execute("update reveal set sender_reveal_at = clock()")
        again = door.get(f"/v1/rewrites/{done['rewrite_request_id']}", key="orchestrator").json
        assert (again["status"], set(again)) == ("revealed", STATUS_FIELDS)


@pytest.mark.req("R140", "R175", "R222")
def test_the_status_of_a_failure_tells_no_reason(fresh: str, tmp_path: Path) -> None:
    """Four fields, the word failed, and nothing of provider, model, code or attempt."""
    asyncio.run(stand.add_routes(fresh))
    with Sandbox() as sandbox, Door(tmp_path, fresh, classify=asking(sandbox)) as door:
        body = complaint(move_in(fresh))
        door.post(body)
        sandbox.fault({"do": "bad_schema", "item": {"index": 0}})
        work(fresh, sandbox)
        assert stand.rows(fresh, "select state::text from standing") == [("failed",)]
        (code,) = stand.rows(fresh, "select code from dead_letter")[0]
        reply = door.get(f"/v1/rewrites/{body['rewrite_request_id']}", key="operator")
        text = door.get(f"/v1/rewrites/{body['rewrite_request_id']}/text", key="orchestrator")
    assert set(reply.json) == STATUS_FIELDS
    assert (reply.json["status"], reply.json["rewrite_completed_at"]) == ("failed", None)
    assert (text.status, text.json["code"]) == (404, "not_found")
    for word in (code, "sandbox", "schema", "attempt"):
        assert word not in reply.text
        assert word not in text.text


@pytest.mark.req("R126", "R183")
def test_a_message_that_cannot_be_enqueued_fails_without_a_reason(
    fresh: str, tmp_path: Path
) -> None:
    """Without a route: the code rewrite_failed, the next time too, and the status failed."""
    with Door(tmp_path, fresh) as door:
        body = complaint(move_in(fresh))
        first, second = door.post(body), door.post(body)
        status = door.get(f"/v1/rewrites/{body['rewrite_request_id']}", key="orchestrator")
    assert (first.status, first.json["code"]) == (500, "rewrite_failed")
    assert set(first.json) == {"type", "title", "status", "detail", "code"}
    assert first.body == second.body
    assert "route" not in first.text
    assert status.json["status"] == "failed"


@pytest.mark.req("R232")
@pytest.mark.parametrize(
    ("surface", "stored"),
    [
        ("weekly_harmony", "weekly_harmony"),
        ("weekly_feedback", "weekly_harmony"),
        ("direct_message", "direct_message"),
        ("other", "other"),
        ("carrier_pigeon", None),
        ("Other", None),
        ("", None),
    ],
)
def test_a_surface_is_one_of_three(
    door: Door, database: str, surface: str, stored: str | None
) -> None:
    """Each known name is stored as S2 writes it, any other is refused and nothing is stored."""
    body, before = complaint(move_in(database), surface=surface), requests(database)
    reply = door.post(body)
    if stored is None:
        assert (reply.status, requests(database)) == (422, before)
        return
    assert reply.status == 202
    query = "select surface from rewrite_request where id = %s"
    assert stand.rows(database, query, body["rewrite_request_id"]) == [(stored,)]


def test_an_unknown_id_is_not_found(door: Door) -> None:
    """404 for a status and for a text that nobody has asked for."""
    for path in (f"/v1/rewrites/{uuid4()}", f"/v1/rewrites/{uuid4()}/text"):
        reply = door.get(path, key="orchestrator")
        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")


def test_strangers_and_oneself_are_refused(door: Door, database: str) -> None:
    """Somebody who does not live there, and a message to oneself: 403, and nothing is stored."""
    home, before = move_in(database), requests(database)
    stranger = complaint(home, recipient_user_id=str(uuid4()))
    oneself = complaint(home, recipient_user_id=str(home.sender))
    assert [door.post(body).json["code"] for body in (stranger, oneself)] == ["refused", "refused"]
    assert requests(database) == before


def test_a_member_is_written_as_sent(door: Door, database: str) -> None:
    """PUT replaces role, locale and preferences; an unknown role stores nothing."""
    home, user = uuid4(), uuid4()
    path = f"/v1/homes/{home}/members/{user}"
    first = {
        "role": "owner",
        "locale": "de-AT",
        "preferences": {"conflict_resolution_style": "cool_off"},
    }
    assert door.ask("PUT", path, first, key="orchestrator").status == 204
    query = "select role, locale from member where user_id = %s"
    assert stand.rows(database, query, user) == [("owner", "de-AT")]
    assert door.ask("PUT", path, {"role": "king"}, key="orchestrator").status == 422
    assert door.ask("PUT", path, {"role": "housemate"}, key="orchestrator").status == 204
    assert stand.rows(database, query, user) == [("housemate", None)]
    left = stand.rows(database, "select count(*) from preference where user_id = %s", user)
    assert left == [(0,)]

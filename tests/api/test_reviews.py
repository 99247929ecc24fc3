"""A review through the door: one key makes one job, and only allowed repositories are taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.settings import ReviewSettings
from tests import stand
from tests.api.door import Door

CANARY = "Zwiebelkuchen7041"
SHAS = f"{'a' * 40}..{'b' * 40}"


@pytest.fixture
def reviewing(database: str, tmp_path: Path) -> Iterator[Door]:
    """A door whose settings allow the repositories of one folder."""
    with Door(tmp_path, database, review=ReviewSettings(allow=("/srv/git/",))) as door:
        yield door


def wish(**changes: Any) -> dict[str, Any]:
    """A changelist of its own, so that no test meets another's."""
    return {
        "home_id": str(uuid4()),
        "idempotency_key": f"push-{uuid4()}",
        "changelist_id": f"git:/srv/git/{uuid4()}@{SHAS}",
        "recipients": ["mailto:ann@example.org"],
    } | changes


def test_a_review_is_taken_once_for_a_key(reviewing: Door, database: str) -> None:
    """The same key gives the same job, other parameters a conflict, and one job stands."""
    body = wish()
    first = reviewing.ask("POST", "/v1/reviews", body, key="orchestrator")
    again = reviewing.ask("POST", "/v1/reviews", body, key="orchestrator")
    other = body | {"recipients": ["mailto:bob@example.org"]}
    conflict = reviewing.ask("POST", "/v1/reviews", other, key="orchestrator")
    assert (first.status, first.json["status"], first.json["is_new"]) == (202, "queued", True)
    assert (again.json["job_id"], again.json["is_new"]) == (first.json["job_id"], False)
    assert (conflict.status, conflict.json["code"]) == (409, "conflict")
    count = "select count(*) from job where changelist_id = %s"
    assert stand.rows(database, count, body["changelist_id"]) == [(1,)]


def test_a_review_is_told_without_what_it_found(reviewing: Door) -> None:
    """Status, stage and a number of findings; an unknown id is not found."""
    made = reviewing.ask("POST", "/v1/reviews", wish(), key="orchestrator").json
    told = reviewing.get(f"/v1/reviews/{made['job_id']}", key="operator").json
    assert (told["status"], told["stage"], told["findings"]) == ("queued", "fetch", 0)
    assert not {"summary", "message", "diff", "recipients"} & set(told)
    assert reviewing.get(f"/v1/reviews/{uuid4()}", key="operator").status == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"changelist_id": f"git:/etc/{CANARY}@{SHAS}"},
        {"changelist_id": CANARY},
        {"changelist_id": f"git:/srv/git/../{CANARY}@{SHAS}"},
        {"idempotency_key": " "},
        {"recipients": []},
        {"recipients": [f"{CANARY} at home"]},
        {"review_version": 0},
        {"review_version": True},
        {"rerun": "yes"},
        {"model": CANARY},
    ],
)
def test_what_cannot_be_reviewed_is_refused(
    reviewing: Door, database: str, changes: dict[str, Any]
) -> None:
    """A typed problem that repeats nothing of it, and no job."""
    before = stand.rows(database, "select count(*) from job")
    reply = reviewing.ask("POST", "/v1/reviews", wish(**changes), key="orchestrator")
    assert reply.status in (403, 422)
    assert CANARY not in reply.text
    assert stand.rows(database, "select count(*) from job") == before


def test_without_an_allow_list_nothing_is_reviewed(door: Door) -> None:
    """An installation that names no repository refuses every one of them."""
    reply = door.ask("POST", "/v1/reviews", wish(), key="orchestrator")
    assert (reply.status, reply.json["code"]) == (403, "refused")


def test_a_review_asks_for_the_orchestrators_key(reviewing: Door) -> None:
    """The operator may look and not hand in."""
    assert reviewing.ask("POST", "/v1/reviews", wish(), key="operator").status == 403
    assert reviewing.ask("POST", "/v1/reviews", wish()).status == 401


def test_a_job_of_a_review_has_its_page(reviewing: Door) -> None:
    """The console explains it without repository, address or code."""
    made = reviewing.ask("POST", "/v1/reviews", wish(), key="orchestrator").json
    page = reviewing.get(f"/jobs/{made['job_id']}").text
    assert "review" in page
    assert "ann@example.org" not in page
    assert "/srv/git" not in page

"""Every class of error as its problem, and nothing of an unknown error anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from dragoman.api import problems
from dragoman.core import errors
from tests.api.door import Door
from tests.api.people import CANARY

EXPECTED = {
    errors.BadInput: 422,
    errors.BadText: 422,
    errors.BadJSON: 400,
    errors.BadSetting: 422,
    errors.Conflict: 409,
    errors.QueueFull: 429,
    errors.Refused: 403,
    errors.NotFound: 404,
    errors.TryAgain: 503,
    errors.CommitUnknown: 503,
    errors.DatabaseDown: 503,
    errors.DataRefused: 500,
    errors.LeaseLost: 500,
    errors.Invariant: 500,
    errors.DragomanError: 500,
}
WORDS = {kind.__name__: kind for kind in EXPECTED}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory):
    """A door with one more address, which raises what it is told to."""
    door = Door(tmp_path_factory.mktemp("broken"), None)

    def fail(name: str) -> None:
        if name in WORDS:
            raise WORDS[name]
        local = CANARY
        raise KeyError(f"{local} in a foreign error")

    door.app.add_api_route("/fail/{name}", fail)
    with door:
        yield door


@pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)
def test_each_error_has_its_status(broken: Door, kind: type[errors.DragomanError]) -> None:
    """RFC 9457 with the status of its class; what may pass says when to come back."""
    reply = broken.get(f"/fail/{kind.__name__}")
    assert (reply.status, reply.json["status"]) == (EXPECTED[kind], EXPECTED[kind])
    assert reply.headers["content-type"] == "application/problem+json"
    assert set(reply.json) == {"type", "title", "status", "detail", "code"}
    assert ("retry-after" in reply.headers) == (reply.status in {429, 503})


def test_nothing_of_an_unknown_error_is_told_or_logged(broken: Door) -> None:
    """The caller gets a generic 500, the log gets the type and the places, neither the message."""
    with structlog.testing.capture_logs() as logs:
        reply = broken.get("/fail/bug")
    assert (reply.status, reply.json["code"]) == (500, "internal")
    assert [line["error"] for line in logs] == ["KeyError"]
    assert any("test_problems.py fail" in place or "fail" in place for place in logs[0]["frames"])
    assert CANARY not in reply.text
    assert CANARY not in repr(logs)


def test_a_database_error_tells_neither_state_nor_constraint() -> None:
    """SQLSTATE and constraint are for the log; the caller gets the sentence of the class."""
    error = errors.TryAgain("40P01", "some_constraint")
    assert problems.detail_of(error) == errors.TryAgain.__doc__


def test_the_type_of_a_problem_leads_to_its_explanation(door: Door) -> None:
    """Each type can be followed, and an unknown one is not found."""
    for code in {problem.code for _, problem in problems.PROBLEMS}:
        assert door.get(f"/problems/{code}").status == 200
    assert door.get("/problems/nonsense").status == 404


def test_no_address_and_no_method_are_problems_too(door: Door) -> None:
    """404 and 405 of the framework have our form."""
    assert door.get("/v2/rewrites").json["code"] == "not_found"
    assert door.ask("DELETE", "/v1/rewrites", key="orchestrator").json["code"] == "wrong_method"


def test_the_api_describes_itself(door: Door) -> None:
    """The description names every address and the fields of a body, and no console page."""
    told = door.get("/openapi.json").json
    assert {"/v1/rewrites", "/v1/rewrites/{request_id}", "/healthz"} <= set(told["paths"])
    assert "/jobs" not in told["paths"]
    sent = told["paths"]["/v1/rewrites"]["post"]["requestBody"]["content"]["application/json"]
    assert "message" in sent["schema"]["required"]


def test_health_is_whether_the_database_answers(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 with it, 503 without it, and no more than that."""
    assert (door.get("/healthz").status, door.get("/healthz").json) == (200, {"status": "ok"})
    monkeypatch.setattr("dragoman.api.cells.PATIENCE_S", 0.3)
    with Door(tmp_path, None) as alone:
        reply = alone.get("/healthz")
    assert (reply.status, reply.json["code"]) == (503, "database_down")

"""The live page: what changes is sent about once a second, and only while somebody listens."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from tests import stand
from tests.console.conftest import Scene
from tests.eventually import eventually


@pytest.fixture
def stream(empty: Scene) -> Iterator[http.client.HTTPResponse]:
    """Somebody who listens to the overview."""
    connection = http.client.HTTPConnection("127.0.0.1", empty.door.port, timeout=10)
    connection.request("GET", "/stream?page=overview")
    answer = connection.getresponse()
    yield answer
    answer.close()
    connection.close()


def changes(stream: http.client.HTTPResponse) -> dict[str, str]:
    """The next fragments that changed."""
    while True:
        line = stream.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            return json.loads(line.removeprefix(b"data: "))


def test_all_fragments_come_first_and_then_what_changed(
    empty: Scene, stream: http.client.HTTPResponse
) -> None:
    """Each fragment has the id of its element; a new alert changes its part and the title only."""
    assert stream.headers["content-type"].startswith("text/event-stream")
    first = changes(stream)
    page = empty.door.get("/").text
    assert {"tally", "alerts", "doubts", "waits", "lanes", "now"} <= set(first)
    for name in set(first) - {"title"}:
        assert f'id="{name}"' in first[name]
        assert f'id="{name}"' in page
    with stand.owner(empty.database) as connection:
        connection.execute(
            "insert into alert"
            " values (gen_random_uuid(), 'something', 'x', 'act', '{}', clock(), clock())"
        )
    later: dict[str, str] = {}
    while "alerts" not in later:
        later = changes(stream)
    assert "Something" in later["alerts"]
    assert later["title"].startswith("1 need you")
    assert not {"lanes", "batches", "runs"} & set(later)


def test_nothing_is_read_when_nobody_listens(empty: Scene) -> None:
    """The reading ends with the last listener, and no page starts it again."""
    console = empty.door.app.state.console
    assert console.listeners == 0
    connection = http.client.HTTPConnection("127.0.0.1", empty.door.port, timeout=10)
    connection.request("GET", "/stream?page=overview")
    answer = connection.getresponse()
    changes(answer)
    assert console.listeners == 1
    answer.close()
    connection.close()
    eventually(lambda: console.listeners == 0)
    assert empty.door.get("/").status == 200
    assert console.listeners == 0


@pytest.mark.parametrize("page", ["nonsense", "job", ""])
def test_an_unknown_stream_is_refused(empty: Scene, page: str) -> None:
    """422 for a page that has no stream, or a job's stream without its id."""
    assert empty.door.get(f"/stream?page={page}").status == 422


@pytest.mark.parametrize("page", ["jobs", "job"])
def test_other_pages_have_their_streams(busy: Scene, page: str) -> None:
    """A list swaps its sum, a job swaps itself."""
    job = stand.rows(busy.database, "select id from job limit 1")[0][0]
    connection = http.client.HTTPConnection("127.0.0.1", busy.door.port, timeout=10)
    connection.request("GET", f"/stream?page={page}&job={job}")
    answer = connection.getresponse()
    assert ("job" in changes(answer)) == (page == "job")
    answer.close()
    connection.close()

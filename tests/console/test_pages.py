"""The pages: their sums close, their words fit their numbers, and no text stands in them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from dragoman.core.failure import Failure, FailureClass
from dragoman.core.gate import Gate, closing_of
from dragoman.store import gates
from tests import postgres, stand
from tests.api.door import Door, Reply
from tests.console.conftest import CANARY, Scene
from tests.crash import rig

ALERT = "insert into alert values (%s, %s, %s, %s, '{}', clock(), clock())"
DELIVERY = """
insert into delivery (id, changelist_id, recipient, review_version, home_id, job_id, channel,
  guarantee, key, payload, payload_sha256, state, max_attempts, started_at, first_started_at,
  deadline_at, created_at)
values (%(id)s, 'c', %(to)s, 1, %(id)s, %(id)s, 'smtp', %(guarantee)s, %(to)s, %(text)s, %(text)s,
  'unknown', 5, clock(), clock(), clock(), clock())
"""


def sums(page: str) -> list[int]:
    """The numbers of the tally: accepted, then each state."""
    tally = page[page.index('id="tally"') : page.index("</dl>")]
    found = re.findall(r"<dd>(?:<span[^>]*>)?([\d,]+)", tally)
    return [int(number.replace(",", "")) for number in found]


def pages(scene: Scene) -> list[Reply]:
    """Every page of the console, and a page for each job."""
    jobs = [str(row[0]) for row in stand.rows(scene.database, "select id from job")]
    return [scene.door.get(path) for path in ("/", "/jobs", *(f"/jobs/{job}" for job in jobs))]


def test_an_empty_console_says_that_nothing_is_wrong(empty: Scene) -> None:
    """Zero jobs: the sum closes at zero, and each part says why it is empty."""
    page = empty.door.get("/").text
    assert sums(page) == [0] * 7
    assert "Nothing has been accepted yet." in page
    for said in ("Nothing waits", "No job yet", "No batch is at a provider", "No run yet"):
        assert said in page
    assert "No job yet" in empty.door.get("/jobs").text


def test_the_sum_closes(busy: Scene) -> None:
    """Accepted is the sum of the states, each is what the database counts."""
    page = busy.door.get("/").text
    accepted, *states = sums(page)
    counted = dict(
        stand.rows(busy.database, "select state::text, count(*) from standing group by 1")
    )
    names = ("queued", "processing", "batch_submitted", "completed", "failed", "canceled")
    assert states == [counted.get(name, 0) for name in names]
    assert accepted == sum(states) == 9
    assert 'class="closes"' in page
    assert "Everything is accounted for." in page


def test_a_forged_counter_is_dashed_and_told(tmp_path: Path) -> None:
    """A counter that differs from the count takes the double rule away, with its difference."""
    database = stand.new_database()
    with stand.owner(database) as connection:
        connection.execute("insert into queue_sum values (1, 'completed', 2)")
    with Door(tmp_path, database) as door:
        page, jobs = door.get("/").text, door.get("/jobs").text
    assert 'class="closes off"' in page
    assert "off by 2" in page
    assert "The sum is off by two jobs." in page
    assert "completed 2 told, 0 counted" in page
    assert 'class="closes off"' in jobs
    postgres.drop(database)


def test_what_needs_a_person_stands_apart_from_what_settles_itself(busy: Scene) -> None:
    """The dead letter is asked for; the batch in doubt is told, with what it holds."""
    page = busy.door.get("/").text
    needs = page[page.index('id="alerts"') : page.index('id="doubts"')]
    doubts = page[page.index('id="doubts"') : page.index('id="next"')]
    assert "One dead letter to triage" in needs
    assert "Batch creation" not in needs
    assert ("Batch creation" in doubts, "one item held" in doubts) == (True, True)
    assert "1 held in doubt" in page


def test_an_alert_and_a_held_message_need_a_person(empty: Scene) -> None:
    """A page, a message that nobody can ask about; a notice and a lookup ask nothing."""
    with stand.owner(empty.database) as connection:
        for kind, severity in (("runtime_bug", "page"), ("small_thing", "notice")):
            values = (uuid4(), kind, "<script>alert(1)</script>", severity)
            connection.execute(ALERT, values)
        for guarantee in ("neither", "lookup"):
            address = f"mailto:{CANARY}-{guarantee}@example.org"
            values = {"id": uuid4(), "to": address, "guarantee": guarantee}
            connection.execute(DELIVERY, values | {"text": CANARY.encode()})
    page = empty.door.get("/").text
    needs = page[page.index('id="alerts"') : page.index('id="doubts"')]
    doubts = page[page.index('id="doubts"') : page.index('id="next"')]
    assert (needs.count("Runtime bug"), needs.count("Delivery held")) == (1, 1)
    assert "Small thing" not in page
    assert (doubts.count("Delivery by smtp"), doubts.count("1 of 2 unknown")) == (1, 1)
    assert "<script>alert" not in page
    assert CANARY not in page


def test_a_closed_gate_is_told_once_with_its_reason(tmp_path: Path) -> None:
    """One rewrite waits behind a gate that quota closed: one ask, and the wait says why."""
    database = rig.waiting_database()
    gate = Gate(*stand.rows(database, "select distinct provider, account, model from queue")[0])

    async def close() -> None:
        async with stand.cell_of(database) as cell:
            failure = Failure(FailureClass.ACCOUNT_BLOCKED, "insufficient_quota")
            closing = closing_of(failure)
            assert closing
            await gates.pause_gate(cell, uuid4(), gate, closing, failure)

    asyncio.run(close())
    with Door(tmp_path, database) as door:
        page = door.get("/").text
    needs = page[page.index('id="alerts"') : page.index('id="doubts"')]
    waits = page[page.index('id="waits"') :]
    assert needs.count("Gate closed") == 1
    assert f"{gate.name}, quota, until " in needs
    assert "Gate paused" not in needs
    assert ("gate paused" in waits, "its gate, once it opens" in waits) == (True, True)
    postgres.drop(database)


def test_lanes_and_pairs_add_up(busy: Scene) -> None:
    """Both lanes, each pair, and a last line that is the sum of all."""
    page = busy.door.get("/").text
    table = page[page.index('id="lanes"') : page.index('id="batches"')]
    rows = {
        re.sub(r"<[^>]+>", "", head).strip(): [int(n) for n in re.findall(r">(\d+)<", rest)]
        for head, rest in re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', table)
    }
    assert [rows[lane][-1] for lane in ("same_language", "cross_language")] == [5, 4]
    pairs = ("en", "fr", "de", "de to en", "es to fr", "fr to de", "en to de")
    assert [rows[pair][-1] for pair in pairs] == [3, 1, 1, 1, 1, 1, 1]
    assert all(sum(numbers[:-1]) == numbers[-1] for numbers in rows.values())
    total = [int(n) for n in re.findall(r"<td class=\"n\">(\d+)</td>", table.split("<tfoot>")[1])]
    assert total == [*sums(page)[1:], 9]


def test_no_page_holds_a_word_of_a_message(busy: Scene) -> None:
    """The canary of every message and every sentence that was written are absent."""
    written = [
        row[0] for row in stand.rows(busy.database, "select rewritten_text from rewrite_output")
    ]
    assert written
    for page in pages(busy):
        assert page.status == 200
        assert CANARY not in page.text
        assert not [text for text in written if text[:40] in page.text]


def test_the_consoles_role_cannot_read_text(busy: Scene) -> None:
    """The database itself refuses the operator every column that holds a text."""
    with psycopg.connect(
        postgres.dsn("dragoman_operator", busy.database),
        autocommit=True,
        options="-c search_path=dragoman",
    ) as connection:
        for query in (
            "select original_text from rewrite_request",
            "select rewritten_text from rewrite_output",
            "select rewrite_request from rewrite_request",
            "select payload from delivery",
            "select recipient from delivery",
            "select diff from review_diff",
            "select message from finding",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(query)


def test_every_page_obeys_a_strict_policy(busy: Scene) -> None:
    """Scripts and styles come from here alone; no page has inline script, style or handler."""
    for page in pages(busy):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert re.findall(r"<script(?! src=\"/static/console\.js\"></script>)", page.text) == []
        assert re.findall(r"<style|\sstyle=|\son[a-z]+=", page.text) == []
        assert re.findall(r"(?:src|href)=\"(?!/|#)", page.text) == []


def test_static_files_are_served_and_nothing_else(busy: Scene) -> None:
    """The sheet, the script and the icon; no way out of their folder."""
    for name in ("console.css", "console.js", "icon.svg"):
        assert busy.door.get(f"/static/{name}").status == 200
    for path in ("/static/", "/static/../pages.py", "/static/%2e%2e/pages.py"):
        assert busy.door.get(path).status == 404


@pytest.mark.parametrize("theme", ["light", "dark", "", "><script>"])
def test_a_theme_can_be_asked_for(busy: Scene, theme: str) -> None:
    """`?theme=` pins one of two; anything else pins none."""
    page = busy.door.get(f"/?theme={theme.replace('>', '%3E').replace('<', '%3C')}").text
    pinned = f'<html lang="en" data-theme="{theme}">'
    assert (pinned in page) == (theme in ("light", "dark"))
    assert "><script>" not in page


def test_jobs_are_filtered_and_found(busy: Scene) -> None:
    """By state, lane and pair; the end of an id finds its job, a whole id leads there."""
    door = busy.door

    def listed(query: str) -> set[str]:
        return set(re.findall(r'href="/jobs/([0-9a-f-]{36})"', door.get(f"/jobs{query}").text))

    every = listed("")
    by_state = {
        str(i): s for i, s in stand.rows(busy.database, "select id, state::text from standing")
    }
    assert every == set(by_state)
    for state in ("queued", "completed", "canceled"):
        assert listed(f"?state={state}") == {job for job in every if by_state[job] == state}
    assert len(listed("?lane=cross_language")) == 4
    assert len(listed("?lane=cross_language&pair=de.en")) == 1
    job, request = stand.rows(busy.database, "select id, request_id from job limit 1")[0]
    assert str(job) in listed(f"?q={str(job)[-8:]}")
    for whole in (job, request):
        found = door.get(f"/jobs?q={whole}")
        assert (found.status, found.headers["location"]) == (303, f"/jobs/{job}")
    assert listed(f"?before={min(every)}") == set()


@pytest.mark.parametrize(
    "query",
    [
        "q='%20or%201=1--",
        "q=%00",
        "state=nonsense",
        "lane=';drop",
        "pair=..%2f..",
        "before=x",
        "q=" + "a" * 8000,
    ],
)
def test_a_hostile_filter_finds_nothing_or_everything(busy: Scene, query: str) -> None:
    """A value that is none of its kind never reaches a statement as text and never fails a page."""
    reply = busy.door.get(f"/jobs?{query}")
    assert reply.status == 200
    assert "drop" not in reply.text


def test_an_unknown_job_is_not_found(busy: Scene) -> None:
    """404 for an id of nobody, 422 for what is no id."""
    assert busy.door.get(f"/jobs/{uuid4()}").status == 404
    assert busy.door.get("/jobs/nonsense").status == 422


def test_without_the_database_the_page_says_so(
    busy: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with the page's own words: the last figures with their time, or that there were none."""
    assert busy.door.get("/").status == 200
    for name in ("dragoman.api.cells.PATIENCE_S", "dragoman.console.live.PATIENCE_S"):
        monkeypatch.setattr(name, 0.3)
    with Door(tmp_path, None) as door:
        for path in ("/", "/jobs", f"/jobs/{uuid4()}"):
            reply = door.get(path)
            assert (reply.status, reply.headers["retry-after"]) == (503, "5")
            assert "The database does not answer" in reply.text
    watch = busy.door.app.state.console.watch
    monkeypatch.setattr(watch, "cell_of", nobody)
    monkeypatch.setattr("dragoman.console.live.FRESH_S", -1.0)
    page = busy.door.get("/")
    assert page.status == 503
    assert f"Last answer {watch.last.now:%H:%M:%S}" in page.text
    assert sums(page.text)[0] == 9


async def nobody() -> None:
    """A database that is away."""
    raise TimeoutError

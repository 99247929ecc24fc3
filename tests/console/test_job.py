"""A job's page: its explanation fits its events, and a chain that is broken is shown."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import LiteralString

import pytest

from dragoman.console.words import added
from tests import stand
from tests.console.conftest import Scene


def job_in(scene: Scene, where: str) -> str:
    return str(
        stand.rows(scene.database, f"select id from standing where {where} order by id limit 1")[0][
            0
        ]
    )


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("state = 'completed'", "on the first attempt"),
        ("state = 'failed'", "with schema_invalid after one attempt; nothing was stored."),
        ("state = 'failed'", "Its dead letter is open."),
        ("state = 'batch_submitted'", "the collector takes it in when the batch has ended"),
        ("state = 'processing'", "created without an answer"),
        ("state = 'queued' and ready", "due for the next run"),
    ],
)
def test_a_job_is_explained(busy: Scene, where: str, said: str) -> None:
    """One sentence that is computed from its own events."""
    page = busy.door.get(f"/jobs/{job_in(busy, where)}").text
    explained = re.findall(r'<p class="explain">([^<]*)<', page)[0]
    assert said in explained


def test_every_link_of_a_chain_is_verified(busy: Scene) -> None:
    """As many links as events, and the last one is the head that the standing names."""
    for job, events in stand.rows(busy.database, "select job_id, count(*) from event group by 1"):
        page = busy.door.get(f"/jobs/{job}").text
        assert f"{events} of {events} links verified; the last equals the head" in page
        assert " broken" not in page


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        ("update event set reason = 9 where job_id = %(job)s and seq = 2", "4 of 5 links verified"),
        ("delete from event where job_id = %(job)s and seq = 4", "the last is not the head"),
        ("delete from event where job_id = %(job)s and seq = 2", "1 of 4 links verified"),
    ],
)
def test_a_forged_history_is_shown(busy: Scene, forge: LiteralString, said: str) -> None:
    """A changed event, a cut tail and a hole each leave a chain that does not verify."""
    job = job_in(busy, "state = 'completed'")
    with stand.owner(busy.database) as connection:
        kept = connection.execute("select * from event where job_id = %s", (job,)).fetchall()
        connection.execute("alter table event disable trigger append_only")
        connection.execute(forge, {"job": job})
        page = busy.door.get(f"/jobs/{job}").text
        connection.execute("delete from event where job_id = %s", (job,))
        for row in kept:
            connection.execute(
                "insert into event values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", row
            )
        connection.execute("alter table event enable trigger append_only")
    assert said in page
    assert 'class="sub st act"' in page


def test_the_time_of_a_job_adds_up(busy: Scene) -> None:
    """Waiting, our own work and the provider's time are the whole, second by second."""
    job = job_in(busy, "state = 'completed'")
    page = busy.door.get(f"/jobs/{job}").text
    ledger = page[
        page.index("Where the time went") : page.index("</dl>", page.index("Where the time"))
    ]
    *parts, whole = re.findall(r"<dd[^>]*>(\d+:\d\d:\d\d)</dd>", ledger)
    seconds = [sum(int(n) * 60**k for k, n in enumerate(reversed(p.split(":")))) for p in parts]
    total = sum(int(n) * 60**k for k, n in enumerate(reversed(whole.split(":"))))
    assert 0 <= total - sum(seconds) < len(parts)
    assert added(timedelta(seconds=total)) == whole


def test_the_path_names_the_events(busy: Scene) -> None:
    """Each edge that was taken carries the number of its event, and the last state is marked."""
    page = busy.door.get(f"/jobs/{job_in(busy, 'state = $$failed$$')}").text
    drawn = page[
        page.index('<svg class="map"') : page.index("</svg>", page.index('<svg class="map"'))
    ]
    assert 'aria-label="queued, processing, batch_submitted, failed"' in drawn
    assert drawn.count('class="took"') == 3
    assert drawn.count('class="was now"') == 1
    assert re.findall(r'<g class="step">.*?<text[^>]*>([\d, ]+)<', drawn) == ["2", "3", "5"]


def test_a_batch_item_and_the_checks_are_told(busy: Scene) -> None:
    """The submission, the provider's id of it, and what the checks said of the output."""
    job = job_in(busy, "state = 'completed'")
    page = busy.door.get(f"/jobs/{job}").text
    (theirs,) = stand.rows(
        busy.database, "select provider_batch_id from standing where id = %s", job
    )[0]
    assert theirs in page
    assert "Checks of the output" in page
    assert "method" not in page.partition("Batch items")[2].partition("</section>")[0]

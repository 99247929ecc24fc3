"""The benchmark works: every part runs at toy size, and the page is made from what was kept."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.noop import prepare
from bench.page import page
from bench.part import Part, Size
from bench.parts import PARTS
from bench.parts.drain import ours
from bench.place import Place, own_server
from bench.result import Figure, Result, keep, ratio, stored

WANTED_WITHOUT_PEERS = {"steady": 1, "enqueue": 2, "latency": 1, "claim": 3, "footprint": 2}


@pytest.fixture(scope="module")
def place() -> Generator[Place]:
    """A server as a real run has it; the peers stay at home, for they must be installed."""
    with own_server() as server:
        yield Place(server, None)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_measures(place: Place, part: Part) -> None:
    """At toy size each part comes to an end and to figures; how good they are is not asked here."""
    result = part.measure(place, Size.TOY)
    wanted = [figure for figure in result.figures if figure.is_reached is not None]
    assert len(wanted) == WANTED_WITHOUT_PEERS.get(part.name, 0)
    assert all(figure.measured > 0 for figure in result.figures)
    assert result.rows
    assert {len(row) for row in result.rows} == {len(result.head)}


def test_a_drain_that_leaves_jobs_behind_is_no_figure(place: Place) -> None:
    """Work that was not done is an error, never a fast round."""
    prepare(place)
    with pytest.raises(RuntimeError, match="0 of 3 jobs were done"):
        place.race(place.ours("drain", "noop", 10), 3)


def test_a_text_is_stored_for_each_completed_job(place: Place) -> None:
    """The part with a result does store one for each job, in the transaction that completes it."""
    ours(place, "drain", "text", 30, 10, 1)
    assert place.number("select count(*) from text_output where length(body) > 4000") == 30


def test_results_are_kept_part_by_part(tmp_path: Path) -> None:
    """A part that runs again replaces its own result and leaves the others alone."""
    kept = tmp_path / "results.json"
    keep("drain", Size.QUICK, Result([Figure("a", 1.0)]), kept)
    keep("claim", Size.QUICK, Result([Figure("b", 2.0, most=3.0)], ["h"], [["r"]], ["n"]), kept)
    keep("drain", Size.FULL, Result([Figure("a", 4.0)]), kept)
    found = stored(kept)
    assert {name: one.result.figures[0].measured for name, one in found.items()} == {
        "drain": 4.0,
        "claim": 2.0,
    }
    assert found["claim"].result == Result([Figure("b", 2.0, most=3.0)], ["h"], [["r"]], ["n"])
    assert (found["drain"].size, found["claim"].size) == ("full", "quick")


def test_the_page_says_what_was_wanted_measured_and_reached(tmp_path: Path) -> None:
    """Reached, missed with what stands in the way, and never measured: each is said."""
    kept = tmp_path / "results.json"
    figures = [ratio("fast", [4, 6, 2], [2, 2, 2], least=1.4), Figure("slow", 9.0, most=8.0)]
    keep("drain", Size.FULL, Result(figures, ["x"], [["y"]], ["A note."]), kept)
    parts = [replace(PARTS[0], stands_in_the_way="The reason."), PARTS[1]]
    text = page(parts, stored(kept))
    assert "Of 2 figures that are wanted, 1 are reached. Not measured yet: stored." in text
    assert "| fast | ≥ 1.4 × | 2.00 × (1.00 to 3.00) | reached |" in text
    assert "| slow | ≤ 8 × | 9.00 × | **not reached** |" in text
    assert "**What stands in the way.** The reason." in text
    assert "Not measured yet.\n" in text


def test_nothing_stands_in_the_way_of_what_is_reached(tmp_path: Path) -> None:
    """A reason for a miss is not printed when nothing was missed."""
    kept = tmp_path / "results.json"
    keep("drain", Size.FULL, Result([Figure("fast", 2.0, least=1.4)]), kept)
    part = replace(PARTS[0], stands_in_the_way="The reason.")
    assert "The reason." not in page([part], stored(kept))

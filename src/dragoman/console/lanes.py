"""The table of lanes and language pairs: a row per pair, a sum per lane, a sum of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.console.queries import PairCount
from dragoman.console.words import pair

MOST_PAIRS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a lane's sum, one of its pairs, or the rest of them."""

    name: str
    counts: Counter[str]
    href: str = ""
    is_lane: bool = False

    @property
    def total(self) -> int:
        """All states."""
        return self.counts.total()


@dataclass(slots=True)
class _Lane:
    total: Counter[str] = field(default_factory=Counter[str])
    pairs: dict[tuple[str | None, str | None], Counter[str]] = field(
        default_factory=dict[tuple[str | None, str | None], Counter[str]]
    )


def lane_rows(counts: Sequence[PairCount]) -> list[Row]:
    """Each lane with its most frequent pairs; what is left over is one line.

    >>> lane_rows([])
    []
    """
    lanes: dict[str, _Lane] = {}
    for each in counts:
        lane = lanes.setdefault(each.lane, _Lane())
        lane.total[each.state] += each.n
        lane.pairs.setdefault((each.source, each.target), Counter())[each.state] += each.n
    return [row for name in sorted(lanes, reverse=True) for row in _rows(name, lanes[name])]


def _rows(name: str, lane: _Lane) -> Iterator[Row]:
    yield Row(name, lane.total, f"/jobs?lane={name}", is_lane=True)
    pairs = sorted(lane.pairs.items(), key=lambda item: (-item[1].total(), str(item[0])))
    for (source, target), counts in pairs[:MOST_PAIRS]:
        if source and target:
            yield Row(pair(source, target), counts, f"/jobs?lane={name}&pair={source}.{target}")
    rest = Counter[str]()
    for _, counts in pairs[MOST_PAIRS:]:
        rest += counts
    if rest:
        yield Row(f"{len(pairs) - MOST_PAIRS} more pairs", rest)


def total_of(counts: Sequence[PairCount]) -> Counter[str]:
    """The last line: all lanes."""
    found = Counter[str]()
    for each in counts:
        found[each.state] += each.n
    return found

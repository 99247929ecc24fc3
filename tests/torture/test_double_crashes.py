"""Two crashes in a row: whoever cleans up after the first is killed as well, at every crossing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import stand
from tests.crash import rig

SHARDS = 12


def writes() -> list[rig.Crossing]:
    """Every crossing of a day at which something can be lost."""
    return [each for each in rig.crossings_of_a_day() if each.tag != "db.read"]


def nth_write(nth: int) -> rig.Dies:
    """Die at the n-th crossing that is not a mere reading."""
    passed = 0

    def dies(tag: str, _moment: str) -> bool:
        nonlocal passed
        passed += tag != "db.read"
        return passed == nth

    return dies


def after_both(first: rig.Crossing) -> Iterator[str]:
    """What is wrong after a death there and then one at each crossing of the repair."""
    nth, is_over = 0, False
    while not is_over:
        nth += 1
        with rig.fresh(rig.waiting_database) as (database, sandbox):
            rig.live_and_die(database, sandbox, rig.a_day, rig.at_crossing(first))
            stand.move_clock(database, rig.A_CLAIM_IS_STALE_S)
            sandbox.advance(rig.A_BATCH_IS_DONE_S)
            is_over = rig.is_alive_after(database, sandbox, rig.a_repair, nth_write(nth))
            rig.clean_up(database, sandbox)
            found, ledger = rig.faults_of(database, sandbox), rig.ledger_of(sandbox)
            sent = sum(create["items"] for create in ledger["creates"])
            if max(sent, len(ledger["items"])) > rig.JOBS:
                found.append(f"sent {sent}, run {len(ledger['items'])}")
            ended = set(rig.counted(rig.standings(database)))
            if not (len(ended) == 1 and ended <= {*allowed()}):
                found.append(f"ended as {ended}")
            yield from (f"{first}, then {nth}: {each}" for each in found)


def allowed() -> Iterator[tuple[str, int, int]]:
    """Two deaths cost at most two stale claims, and only these can fail a job."""
    yield ("failed", 2, 0)
    for attempts in (0, 1):
        for free in (0, 1, 2):
            if attempts + free <= 2:
                yield ("completed", attempts, free)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_two_deaths_in_a_row_cost_no_batch_and_no_output(shard: int) -> None:
    """Every pair of crossings: each item sent and run once at most, and the auditor content."""
    found = [fault for first in writes()[shard::SHARDS] for fault in after_both(first)]
    assert found == []

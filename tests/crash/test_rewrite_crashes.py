"""A rewrite survives kill -9 at every crossing of submitter and collector."""

from __future__ import annotations

import pytest

from tests import stand
from tests.crash import rig

SHARDS = 6


def expected(at: rig.Crossing) -> tuple[int, int]:
    """Attempts and free requeues that a death there costs: only a stale claim burns an attempt."""
    order = [(each.tag, each.moment) for each in rig.crossings_of_a_day()]
    claimed = order.index(("db.claim", "after"))
    recorded = order.index(("db.record_batch", "after"))
    created = order.index(("submit.create", "after"))
    if claimed <= at.index < recorded:
        return 1, 0
    return (0, 1) if recorded <= at.index < created else (0, 0)


def forgets_its_file(at: rig.Crossing) -> bool:
    """Whether its file was uploaded and the id not yet written down: only a name tells of it."""
    order = [(each.tag, each.moment) for each in rig.crossings_of_a_day()]
    uploaded = order.index(("submit.upload", "after"))
    return uploaded <= at.index < order.index(("db.start_submission", "after"))


def survives(at: rig.Crossing) -> list[str]:
    """What is wrong after a process died there and a crew has cleaned up."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        rig.live_and_die(database, sandbox, rig.a_day, rig.at_crossing(at))
        rig.clean_up(database, sandbox)
        ledger = rig.ledger_of(sandbox)
        found = rig.faults_of(database, sandbox)
        if len(ledger["creates"]) != 1 or len(ledger["items"]) != rig.JOBS:
            found.append(f"creates {len(ledger['creates'])}, items {len(ledger['items'])}")
        if rig.counted(rig.standings(database)) != rig.completed(rig.JOBS, *expected(at)):
            found.append(f"expected {expected(at)}: {rig.standings(database)}")
        if ledger["loose_files"] and not forgets_its_file(at):
            found.append(f"files left {ledger['loose_files']}")
        if alerts := rig.alerts(database):
            found.append(f"alerts {alerts}")
        return [f"{at}: {each}" for each in found]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whoever_dies_anywhere_costs_no_batch_no_output_and_no_attempt(shard: int) -> None:
    """Killed at any crossing: one create, each output once, an attempt for a stale claim only."""
    crossings = rig.telling(rig.crossings_of_a_day())[shard::SHARDS]
    assert [fault for at in crossings for fault in survives(at)] == []


def test_killed_right_after_the_create_its_batch_is_adopted() -> None:
    """The batch exists and nobody wrote it down: it is found by its nonce."""
    with rig.fresh(rig.waiting_database) as (database, sandbox):
        dies = rig.at_nth("submit.create", "after")
        rig.live_and_die(database, sandbox, rig.a_day, dies)
        rig.stays_clean(database, sandbox)
        rig.clean_up(database, sandbox)
        rig.ends_clean(database, sandbox)
        assert len(rig.ledger_of(sandbox)["creates"]) == 1
        adopted = "select count(*) from history where kind = 'submitted' and reason = 'adopted'"
        assert stand.rows(database, adopted) == [(rig.JOBS,)]

"""The sandbox as a process of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.sandbox.processes import run_provider


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_the_process_says_where_it_listens_and_ends_well_when_told(
    tmp_path: Path, told: signal.Signals
) -> None:
    """The ready file holds the base URL once it serves; SIGTERM and Ctrl-C end it with status 0."""
    with run_provider(tmp_path, "--key", "k1") as (process, base_url, sdk):
        assert sdk.models.list().data
        assert process.stdout is not None
        assert process.stdout.readline().strip() == base_url
        process.send_signal(told)
        assert process.wait(timeout=30) == 0

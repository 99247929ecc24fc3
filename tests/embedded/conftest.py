"""Servers for one test or one file."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from dragoman.store.embedded import Server
from tests.embedded.servers import folder, stopped_at_last


@pytest.fixture(scope="module")
def shared() -> Generator[Server]:
    with folder() as made, stopped_at_last(made / "home") as server:
        server.bootstrap()
        yield server


@pytest.fixture
def base() -> Generator[Path]:
    with folder() as made:
        yield made


@pytest.fixture(scope="module")
def worn_home() -> Generator[Path]:
    with folder() as made, stopped_at_last(made / "home") as server:
        yield server.home


@pytest.fixture
def server(worn_home: Path) -> Server:
    """One server that survives test after test of what may befall it."""
    server = Server(worn_home)
    server.bootstrap()
    return server


@pytest.fixture
def fresh(base: Path) -> Generator[Server]:
    """A server of this test's own, to be ruined."""
    with stopped_at_last(base / "home") as server:
        server.ensure_running()
        yield server

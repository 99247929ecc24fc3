"""A door over a database of this module's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres, stand
from tests.api.door import Door


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A database with routes."""
    name = stand.new_database()
    asyncio.run(stand.add_routes(name))
    yield name
    postgres.drop(name)


@pytest.fixture(scope="module")
def door(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door on this machine alone."""
    with Door(tmp_path_factory.mktemp("home"), database) as opened:
        yield opened


@pytest.fixture(scope="module")
def far_door(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door that others can reach."""
    home: Path = tmp_path_factory.mktemp("far")
    with Door(home, database, host="door.example") as opened:
        yield opened

"""Consoles over databases in known states."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from dragoman.rewrite.orchestrator import Complaint
from dragoman.sandbox.server import Sandbox
from dragoman.work.collector import Collector
from dragoman.work.submitter import Submitter
from tests import postgres, stand
from tests.api.door import Door

CANARY = "Zwiebelkuchen7041"


@dataclass(frozen=True)
class Scene:
    """A console and the database behind it."""

    door: Door
    database: str


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Nothing has been accepted yet."""
    database = stand.new_database()
    with Door(tmp_path_factory.mktemp("empty"), database) as door:
        yield Scene(door, database)
    postgres.drop(database)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Completed, failed, retried, submitted, doubtful and queued jobs in three languages."""
    database = stand.new_database()
    with Sandbox() as sandbox:
        asyncio.run(_fill(database, sandbox))
    with Door(tmp_path_factory.mktemp("busy"), database) as door:
        yield Scene(door, database)
    postgres.drop(database)


async def _fill(database: str, sandbox: Sandbox) -> None:
    providers = stand.Providers(sandbox.base_url)
    await stand.add_routes(database)
    await _accept(database, providers, [("en", "en"), ("en", "en"), ("de", "en"), ("es", "fr")])
    sandbox.fault({"do": "bad_schema", "item": {"index": 1}})
    sandbox.fault({"do": "error", "item": {"index": 0}, "nth": 2})
    await _run(database, providers, sandbox)
    await _accept(database, providers, [("fr", "fr"), ("de", "de")])
    await _run(database, providers, None)
    await _accept(database, providers, [("fr", "de")])
    sandbox.fault({"on": "create", "do": "drop_after"})
    await _run(database, providers, None)
    await _accept(database, providers, [("en", "de"), ("en", "en")])
    await providers.transport.aclose()


async def _accept(database: str, providers: stand.Providers, pairs: list[tuple[str, str]]) -> None:
    async with stand.orchestrator_of(database, providers) as orchestrator:
        for source, target in pairs:
            home = await stand.add_home(orchestrator.cell, source, target)
            text = f"{stand.NOISE[source]} {CANARY}"
            await orchestrator.create(Complaint(home.id, home.sender, home.recipient, text))


async def _run(database: str, providers: stand.Providers, sandbox: Sandbox | None) -> None:
    async with stand.station_of(database) as station:
        await Submitter(station, providers).run_once()
        if sandbox is not None:
            sandbox.advance(200)
            await Collector(station, providers).run_once()

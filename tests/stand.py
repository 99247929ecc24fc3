"""A whole installation inside a test: its own database, stations, and time that can be moved."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

import psycopg

from dragoman.cli.complaints import COMPLAINTS
from dragoman.core.profile import PROFILES, Profile
from dragoman.providers import adapter_for
from dragoman.providers.base import Account, Adapter
from dragoman.providers.transport import Timeouts, Transport
from dragoman.rewrite import store as rewrite_store
from dragoman.rewrite.advisor import Advisor
from dragoman.rewrite.orchestrator import Complaint, Orchestrator
from dragoman.rewrite.stage import rewrite_pipeline
from dragoman.store import workers
from dragoman.store.database import Cell, open_cell
from dragoman.store.migrate import migrate
from dragoman.work.line import open_line
from dragoman.work.loop import Station
from dragoman.work.pipeline import Pipelines
from tests import postgres

TEST_PROFILE = replace(
    PROFILES["demo"],
    name="test",
    retry_backoff_s=(900, 7200),
    claim_timeout_s=600,
    lease_s=30,
    settle_s=60,
    create_deadline_s=5,
    max_runtime_s=240,
)


def build(owner_dsn: str) -> None:
    """The schema, and a clock that a test can move by writing one number."""
    migrate(owner_dsn)
    with psycopg.connect(
        owner_dsn, autocommit=True, options="-c search_path=dragoman"
    ) as connection:
        connection.execute("create table moved_clock (seconds float8 not null)")
        connection.execute("insert into moved_clock values (0)")
        connection.execute("grant select on moved_clock to public")
        connection.execute(
            "create or replace function clock() returns timestamptz"
            " language sql volatile security definer set search_path = dragoman as"
            " 'select clock_timestamp() + make_interval(secs => seconds) from moved_clock'"
        )


def new_database() -> str:
    """The name of a fresh database of this test's own."""
    return postgres.clone(postgres.template_database(build))


def owner(database: str) -> psycopg.Connection:
    """A connection of the owner, to look at rows and to age them."""
    return psycopg.connect(
        postgres.dsn("dragoman_owner", database), autocommit=True, options="-c search_path=dragoman"
    )


def move_clock(database: str, seconds: float) -> None:
    """Let the database's clock jump forward."""
    with owner(database) as connection:
        connection.execute("update moved_clock set seconds = seconds + %s", (seconds,))


def rows(database: str, query: str, *params: object) -> list[tuple]:
    """What the owner sees."""
    with owner(database) as connection:
        return connection.execute(query.encode(), params).fetchall()


@dataclass
class Providers:
    """Everything at one sandbox."""

    base_url: str
    transport: Transport = field(
        default_factory=lambda: Transport({"127.0.0.1"}, timeouts=Timeouts(2, 10, 10))
    )
    adapters: dict[str, Adapter] = field(default_factory=dict)

    def adapter(self, kind: str) -> Adapter:
        """The wire of an adapter kind."""
        return self.adapters.setdefault(kind, adapter_for(kind, self.transport, "main"))

    def account(self, name: str, base_url: str | None) -> Account:
        """Whom we are there."""
        return Account(name, base_url or self.base_url, "test-key")


@asynccontextmanager
async def cell_of(database: str, role: str = "dragoman_worker") -> AsyncGenerator[Cell]:
    """The test's cell, as one role sees it."""
    async with open_cell(postgres.dsn(role, database), role=role) as cell:
        yield cell


@asynccontextmanager
async def station_of(
    database: str,
    pipelines: Pipelines | None = None,
    profile: Profile = TEST_PROFILE,
    name: str = "test",
) -> AsyncGenerator[Station]:
    """A worker process's surroundings."""
    known = pipelines or {
        "rewrite": rewrite_pipeline(profile.retry_backoff_s, profile.claim_timeout_s)
    }
    dsn = postgres.dsn("dragoman_worker", database)
    async with (
        cell_of(database) as cell,
        open_line(dsn, role="test", name=name, lease_s=profile.lease_s) as line,
    ):
        yield Station(cell, line, known, profile)


@dataclass
class Home:
    """A home with two people."""

    id: UUID = field(default_factory=uuid4)
    sender: UUID = field(default_factory=uuid4)
    recipient: UUID = field(default_factory=uuid4)


async def add_home(
    cell: Cell,
    source: str | None = "en",
    target: str | None = "en",
    preferences: dict[str, str] | None = None,
) -> Home:
    """Two members who read these languages."""
    home = Home()
    async with cell.transaction("add_home") as tx:
        await rewrite_store.write_member(tx, home.id, home.sender, "housemate", source, {})
        await rewrite_store.write_member(
            tx, home.id, home.recipient, "housemate", target, preferences or {}
        )
    return home


async def add_routes(database: str, mode: str = "batch", **changes: str) -> None:
    """Routes to the sandbox, one for each surface, lane and strength."""
    from dragoman.compose import write_routes  # noqa: PLC0415 - heavy, and not every test needs it
    from dragoman.settings import ProviderSettings, Settings  # noqa: PLC0415 - as above

    settings = Settings(
        home=Path("/nowhere"), provider=ProviderSettings.model_validate({"mode": mode, **changes})
    )
    async with cell_of(database, "dragoman_operator") as cell:
        await write_routes(cell, settings)


@asynccontextmanager
async def orchestrator_of(database: str, providers: Providers) -> AsyncGenerator[Orchestrator]:
    """The way in, classified by the sandbox."""
    async with cell_of(database, "dragoman_orchestrator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "orchestrator", "test")
        advisor = Advisor(
            providers.adapter("openai_responses"),
            providers.account("default", None),
            "sandbox-tiny",
        )
        yield Orchestrator(cell, actor, advisor.classify)


NOISE = {language: texts[0] for language, texts in COMPLAINTS.items()}


async def submit(orchestrator: Orchestrator, pairs: Sequence[tuple[str, str]]) -> list[UUID]:
    """One complaint about noise for each pair of languages; the requests' ids."""
    found = []
    for source, target in pairs:
        home = await add_home(orchestrator.cell, source, target)
        accepted = await orchestrator.create(
            Complaint(home.id, home.sender, home.recipient, NOISE[source])
        )
        assert accepted.status == "queued"
        found.append(accepted.rewrite_request_id)
    return found

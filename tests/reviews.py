"""A whole installation for a review: a repository, the way in, and the loops that walk it."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import psycopg
from psycopg.rows import dict_row

from dragoman.channels.base import Absent, CannotTell, Channel, Finding, Guarantee, Message
from dragoman.channels.smtp import SMTP, SMTPSettings
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.canonical import JSONObject
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.profile import Profile
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.review.enqueue import Enqueued, Wanted, enqueue_review
from dragoman.review.source import Changelist
from dragoman.review.stages import review_pipeline
from dragoman.review.store import Shown, show_review
from dragoman.sandbox.mail import MailSandbox
from dragoman.sandbox.server import Sandbox
from dragoman.store import workers
from dragoman.store.database import Cell
from dragoman.work.line import open_line
from dragoman.work.loop import Station
from dragoman.work.pipeline import Pipeline
from dragoman.work.relay import Relay
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.invariants import violations

ANN, BOB = "mailto:ann@team.example", "mailto:bob@team.example"
PROJECT = uuid5(UUID(int=7), "shop")
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"  # a secret in the code that is reviewed
LOST = Failure(FailureClass.NETWORK_TIMEOUT, "lost")
AT_ONCE = FullJitter(rng=lambda: 0.0)
LATEST = FullJitter(rng=lambda: 1.0)
PATIENT = replace(stand.TEST_PROFILE, lease_s=3600, send_deadline_s=5, settle_s=60)
ROUTING: JSONObject = {
    "provider": "sandbox",
    "adapter_kind": "openai_responses",
    "base_url": None,
    "model": "sandbox-large",
    "execution_mode": "async",
}

_BEFORE = '"""Prices."""\n\n\ndef total(prices):\n    return sum(prices)\n'
_AFTER = f'''"""Prices."""

KEY = "{TOKEN}"


def total(prices, seen=[]):
    try:
        print(prices)
        return sum(p for p in prices if p != None)
    except:
        pass
'''


@functools.cache
def shop() -> Changelist:
    """A change worth criticising, with a secret in it, in a repository of this process's own."""
    folder = Path(tempfile.mkdtemp(prefix="dragoman-shop-")).resolve()
    atexit.register(_remove, folder, os.getpid())
    _git(folder, "init", "-q", "-b", "main")
    shas = [_commit(folder, text) for text in (_BEFORE, _AFTER)]
    return Changelist.parse(f"git:{folder}@{shas[0]}..{shas[1]}")


def _remove(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:
        shutil.rmtree(folder, ignore_errors=True)


def _commit(folder: Path, text: str) -> str:
    (folder / "shop.py").write_text(text, encoding="utf-8")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "Prices")
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str:
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"))
    }
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(
        ("/usr/bin/env", "git", *arguments), cwd=folder, env=env, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


def smtp_of(mail: MailSandbox) -> SMTP:
    """Mail through the sandbox's server."""
    return SMTP(SMTPSettings(mail.host, mail.port, "dragoman@team.example"))


def pipeline_of(
    channels: Mapping[str, Channel], retry: RetryPolicy = AT_ONCE, allow: Sequence[str] = ()
) -> Pipeline:
    """The review pipeline over these channels; the shop may be read."""
    return review_pipeline("main", allow or [f"{shop().repository}/"], channels, 30, retry)


@dataclass
class Target:
    """A target in memory: what it got, and what goes wrong next."""

    guarantee: Guarantee
    plan: list[str | Failure] = field(default_factory=list)
    scheme: str = "post"
    settle_s: float = 0
    sends: list[tuple[str, bytes]] = field(default_factory=list)
    taken: list[tuple[str, bytes]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    is_mute: bool = False

    def render(self, message: Message) -> bytes:
        """Its bytes."""
        return f"{message.key} {message.created_at} {message.body}".encode()

    async def send(self, recipient: str, key: str, rendered: bytes, deadline_s: float) -> Answer:
        """What the plan says, or simply yes."""
        self.sends.append((key, rendered))
        step = self.plan.pop(0) if self.plan else "take"
        if isinstance(step, Failure):
            return NothingHappened(step)
        if step == "lose":
            return Doubt(LOST)
        if self.guarantee is not Guarantee.KEY or key not in dict(self.taken):
            self.taken.append((key, rendered))
        return Doubt(LOST) if step == "take and fall silent" else Happened(f"id of {key}", {})

    async def lookup(self, recipient: str, key: str) -> Finding:
        """Whether it has it."""
        self.asked.append(key)
        if self.is_mute:
            return CannotTell(LOST)
        return Happened(f"id of {key}", {}) if key in dict(self.taken) else Absent()


@dataclass
class Desk:
    """Everything a review meets, and a hand on each part."""

    database: str
    sandbox: Sandbox
    mail: MailSandbox
    providers: stand.Providers
    channels: Mapping[str, Channel]
    pipeline: Pipeline
    door: Cell
    actor: UUID
    station: Station

    def __post_init__(self) -> None:
        self.worker = Worker(self.station, self.providers)
        self.relay = Relay(self.station, self.channels)

    async def enqueue(
        self,
        key: str = "push-1",
        version: int = 1,
        recipients: Sequence[str] = (ANN, BOB),
        *,
        is_rerun: bool = False,
        home: UUID = PROJECT,
        changelist: Changelist | None = None,
    ) -> Enqueued:
        """Ask for a review of the shop."""
        wanted = Wanted(home, key, changelist or shop(), version, recipients, is_rerun)
        return await enqueue_review(
            self.door, self.actor, self.pipeline, wanted, ROUTING, "default"
        )

    async def work(self, times: int = 1) -> None:
        """Let the worker take so many steps."""
        for _ in range(times):
            await self.worker.run_once()

    async def outbox(self, **what: Any) -> UUID:
        """A review whose messages wait to be sent."""
        job = (await self.enqueue(**what)).job_id
        await self.work(2)
        states = self.rows("select distinct state from delivery where job_id = %s", job)
        assert states == [("queued",)]
        return job

    async def through(self, **what: Any) -> UUID:
        """A review that has succeeded."""
        job = await self.outbox(**what)
        await self.relay.run_once()
        await self.work()
        assert self.state(job) == "completed"
        return job

    async def shown(self, job: UUID) -> Shown:
        """What its users see of it."""
        shown = await show_review(self.door, job)  # type: ignore[arg-type]  # an id is an id
        assert shown is not None
        return shown

    def rows(self, query: str, *params: object) -> list[tuple]:
        """What the owner sees."""
        return stand.rows(self.database, query, *params)

    def state(self, job: UUID) -> str:
        """Where a job stands."""
        return self.rows("select state from standing where id = %s", job)[0][0]

    def told(self) -> dict[str, str]:
        """The state of each recipient's message."""
        return dict(self.rows("select recipient, state from delivery"))

    def events(self, *kinds: str) -> list[tuple]:
        """What happened, oldest first: kind, reason, stage and attempt."""
        return self.rows(
            "select kind, reason, stage, attempt from history"
            " where kind = any(%s) or %s order by job_id, seq",
            list(kinds),
            not kinds,
        )

    def letters(self) -> list[dict[str, Any]]:
        """The dead letters, oldest first."""
        with (
            stand.owner(self.database) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute("select * from dead_letter order by created_at").fetchall()

    def alerts(self) -> list[tuple]:
        """Kind and severity of each alert."""
        return self.rows("select kind, severity from alert order by kind, subject")

    def later(self, seconds: float) -> None:
        """Let time pass in the database."""
        stand.move_clock(self.database, seconds)

    def open_gates(self) -> None:
        """Whatever closed them."""
        self.run_as_owner("update gate set paused_until = null, pause_reason = null")

    def run_as_owner(self, statement: str, *params: object) -> None:
        """What no role of ours may do."""
        with stand.owner(self.database) as connection:
            connection.execute(statement.encode(), params)

    def answers(self) -> int:
        """How often the model was paid for an answer."""
        return len(self.sandbox.ledger()["responses"])  # type: ignore[arg-type]  # a list

    def faults_found(self) -> list[str]:
        """What the auditor finds."""
        return violations(self.database, self.sandbox.ledger(), self.mail.ledger())


def drop_history(database: str) -> None:
    """Every event that was ever written is gone; what comes next has room again."""
    with stand.owner(database) as connection:
        parts = connection.execute(
            "select inhrelid::regclass::text from pg_inherits where inhparent = 'event'::regclass"
        ).fetchall()
        for (part,) in parts:
            connection.execute(f"drop table {part}".encode())
        connection.execute("select ensure_partitions()")
        assert connection.execute("select count(*) from event").fetchone() == (0,)


@asynccontextmanager
async def desk_of(
    database: str,
    sandbox: Sandbox,
    mail: MailSandbox,
    pipeline: Pipeline,
    channels: Mapping[str, Channel],
    profile: Profile = PATIENT,
) -> AsyncGenerator[Desk]:
    """A desk over servers that run already."""
    providers = stand.Providers(sandbox.base_url)
    async with (
        stand.cell_of(database, "dragoman_orchestrator") as door,
        stand.station_of(database, {"review": pipeline}, profile) as station,
    ):
        async with door.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "orchestrator", "test")
        try:
            yield Desk(database, sandbox, mail, providers, channels, pipeline, door, actor, station)
        finally:
            await providers.transport.aclose()


@asynccontextmanager
async def second_station(desk: Desk) -> AsyncGenerator[Station]:
    """Another worker process beside the first one."""
    dsn = postgres.dsn("dragoman_worker", desk.database)
    async with (
        stand.cell_of(desk.database) as cell,
        open_line(dsn, role="test", name="second", lease_s=3600) as line,
    ):
        yield Station(cell, line, desk.station.pipelines, desk.station.profile)


Story = Callable[[Desk], Awaitable[None]]


def tell(
    story: Story,
    *,
    channels: Mapping[str, Channel] | None = None,
    retry: RetryPolicy = AT_ONCE,
    allow: Sequence[str] = (),
    profile: Profile = PATIENT,
    pipeline: Pipeline | None = None,
) -> None:
    """Run a test's story in an installation of its own; without channels, mail is sent."""
    database = stand.new_database()
    try:
        with Sandbox() as sandbox, MailSandbox() as mail:
            ways = channels if channels is not None else {"mailto": smtp_of(mail)}
            line = pipeline or pipeline_of(ways, retry, allow)
            asyncio.run(_told(story, desk_of(database, sandbox, mail, line, ways, profile)))
    finally:
        postgres.drop(database)


async def _told(story: Story, opened: Any) -> None:
    async with opened as desk:
        await story(desk)


def refusal(desk: Desk, statement: str, *params: object) -> str | None:
    """The constraint by which the database refuses what even the owner asks for."""
    try:
        desk.run_as_owner(statement, *params)
    except psycopg.Error as error:
        return error.diag.constraint_name
    return None

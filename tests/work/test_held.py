"""An engine with data from a backup: it creates and sends nothing, asks, adopts, and waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from dragoman.channels.base import Message
from dragoman.channels.file import File, FileSettings
from dragoman.core.errors import DataRefused
from dragoman.sandbox.server import Sandbox
from dragoman.store import holds, jobs, workers
from dragoman.store.archive import open_archive
from dragoman.store.backup import load_dump, take_backup
from dragoman.store.holds import Why
from dragoman.store.roles import OWNER
from dragoman.work.collector import Collector
from dragoman.work.loop import Station
from dragoman.work.relay import Relay
from dragoman.work.submitter import Submitter
from dragoman.work.sweeper import Sweeper
from dragoman.work.worker import Worker
from tests import postgres, stand
from tests.crash.rig import A_BATCH_IS_DONE_S, JOBS, providers_of, waiting_database
from tests.embedded.servers import folder
from tests.invariants import violations
from tests.store.kernel import Crew, begin, build_plain, crew_of, recorded
from tests.store.outbox import review_of, send, take

LEASE_S = stand.TEST_PROFILE.lease_s


@dataclass
class Life:
    """One life of an installation: its database, and the world that outlives it."""

    database: str
    sandbox: Sandbox
    providers: stand.Providers
    station: Station

    async def submit(self) -> None:
        """One run of the submitter."""
        await Submitter(self.station, self.providers).run_once()

    async def collect(self, times: int = 1) -> None:
        """Runs of one collector."""
        collector = Collector(self.station, self.providers)
        for _ in range(times):
            await collector.run_once()

    def rows(self, query: str) -> list[tuple]:
        """What the owner sees."""
        return stand.rows(self.database, query)

    def states(self) -> set[str]:
        """Where the jobs stand."""
        return {row[0] for row in self.rows("select state::text from standing")}


@pytest.fixture
def before() -> Generator[str]:
    """A database in which three rewrites wait in one group."""
    name = waiting_database()
    yield name
    postgres.drop(name)


@asynccontextmanager
async def living(database: str, sandbox: Sandbox) -> AsyncGenerator[Life]:
    async with providers_of(sandbox) as providers, stand.station_of(database) as station:
        yield Life(database, sandbox, providers, station)


async def hold(database: str, why: Why = Why.RESTORED, ago: float = 60) -> None:
    """What a restore writes into the database."""
    data_at = datetime.now(UTC) - timedelta(seconds=ago)
    async with (
        stand.cell_of(database, "dragoman_owner") as cell,
        cell.transaction("start_hold") as tx,
    ):
        actor = await workers.know_actor(tx, "operator", "restore")
        await holds.start_hold(tx, actor, why, data_at)
        await holds.renew_incarnation(tx)


async def release(database: str) -> None:
    """The operator's word."""
    async with stand.cell_of(database, "dragoman_operator") as cell:
        async with cell.transaction("know_actor") as tx:
            actor = await workers.know_actor(tx, "operator", "test")
        assert await holds.release_hold(cell, actor) is not None


def copy_of(database: str) -> str:
    """The data as they are now, as a backup would bring them back."""
    return postgres.clone(database)


def test_a_held_engine_creates_and_sends_nothing(before: str) -> None:
    """Submitter, worker and relay skip with the reason on record, until the operator's release."""

    async def scenario() -> None:
        with Sandbox() as sandbox:
            async with living(before, sandbox) as life:
                await hold(before)
                await life.submit()
                assert await Worker(life.station, life.providers).run_once() == 0
                assert await Relay(life.station, {}).run_once() == 0
                assert life.states() == {"queued"}
                skipped = {row[0] for row in life.rows("select skipped from run")}
                assert skipped == {
                    "rewrite_batch_submitter held: restored",
                    "worker held: restored",
                    "relay held: restored",
                }
                await life.collect()
                await release(before)
                await life.submit()
                assert life.states() == {"batch_submitted"}
                changes = life.rows("select verb from change_history order by seq")
                assert changes == [("hold",), ("release",)]
                assert life.rows("select from alert where closed_at is null") == []

    asyncio.run(scenario())


def test_batches_made_after_the_backup_are_adopted_and_not_paid_again(before: str) -> None:
    """The jobs stand as queued, the provider has their batch: its results are theirs, once."""

    async def scenario() -> None:
        restored = copy_of(before)
        with Sandbox() as sandbox:
            async with living(before, sandbox) as lost:
                await lost.submit()
            await hold(restored)
            async with living(restored, sandbox) as life:
                await life.collect()
                assert life.states() == {"batch_submitted"}
                told = life.rows(
                    "select kind, severity, facts ->> 'adopted' from alert where kind <> 'held'"
                )
                assert told == [("batch_after_backup", "notice", str(JOBS))]
                sandbox.advance(A_BATCH_IS_DONE_S)
                await life.collect()
                assert life.states() == {"completed"}
                await release(restored)
                await life.submit()
            ledger = sandbox.ledger()
            assert violations(restored, ledger) == []
        postgres.drop(restored)

    asyncio.run(scenario())


def test_a_claim_of_the_life_before_burns_no_attempt(before: str) -> None:
    """Jobs that were claimed when the backup was made are let go of, then adopted."""

    async def scenario() -> None:
        with Sandbox() as sandbox:
            async with living(before, sandbox) as life:
                queues = life.rows("select key from queue where mode = 'batch'")
                await jobs.claim_jobs(
                    life.station.cell, life.station.line.worker, [key for (key,) in queues], 10
                )
            restored = copy_of(before)
            stand.move_clock(restored, LEASE_S + 1)
            await hold(restored)
            async with living(restored, sandbox) as life:
                assert await Sweeper(life.station).run_once() == 0
                assert life.states() == {"processing"}
                await life.collect()
                assert life.states() == {"queued"}
                assert set(life.rows("select attempt_count from standing")) == {(0,)}
                assert life.rows("select from hold where asked_at is null") == []
            postgres.drop(restored)

    asyncio.run(scenario())


def test_a_batch_that_nobody_here_can_take_over_is_shown(before: str) -> None:
    """Other words than this job would send now prove nothing: an alert with the id, no adoption."""

    async def scenario() -> None:
        restored = copy_of(before)
        with Sandbox() as sandbox:
            async with living(before, sandbox) as lost:
                await lost.submit()
                (theirs,) = lost.rows("select provider_batch_id from batch")
            with stand.owner(restored) as connection:
                connection.execute("alter table rewrite_request disable trigger user")
                connection.execute("update rewrite_request set original_text = 'Other words.'")
            await hold(restored)
            async with living(restored, sandbox) as life:
                await life.collect(2)
                assert life.states() == {"queued"}
                told = life.rows(
                    "select subject, severity, facts ->> 'adopted', facts ->> 'lines', times"
                    " from alert where kind = 'batch_after_backup'"
                )
                assert told == [(theirs[0], "act", "0", str(JOBS), 1)]
        postgres.drop(restored)

    asyncio.run(scenario())


def test_a_submission_that_had_not_begun_is_asked_about(before: str) -> None:
    """Recorded before the backup and created after it: adopted by its nonce, not made again."""

    async def scenario() -> None:
        kept: list[str] = []
        with Sandbox() as sandbox:
            async with living(before, sandbox) as lost:
                upload = lost.providers.adapter("openai_responses").upload

                async def copied(*words: object) -> str:
                    kept.append(copy_of_running(before))
                    return await upload(*words)  # type: ignore[arg-type]

                lost.providers.adapter("openai_responses").upload = copied  # type: ignore[method-assign]
                await lost.submit()
            (restored,) = kept
            stand.move_clock(restored, LEASE_S + stand.TEST_PROFILE.settle_s)
            await hold(restored)
            async with living(restored, sandbox) as life:
                assert life.rows("select state from batch") == [("submitting",)]
                await life.collect()
                assert life.rows("select state from batch") == [("running",)]
                assert life.states() == {"batch_submitted"}
            assert violations(restored) == []
        postgres.drop(restored)

    asyncio.run(scenario())


def copy_of_running(database: str) -> str:
    """The same while its engine is connected: by a backup."""
    name, programs = f"test_{uuid4().hex}", postgres.shared_server().bin_dir
    with folder() as made:
        file, _ = take_backup(postgres.dsn(OWNER, database), programs, made, "")
        postgres.make(name)
        with open_archive(file) as opened:
            load_dump(postgres.dsn(OWNER, name), programs, opened.read(""))
    return name


def test_results_that_were_deleted_after_the_backup_end_their_jobs(before: str) -> None:
    """Taken in by the lost life: the engine looks twice, then fails them and says so."""

    async def scenario() -> None:
        with Sandbox() as sandbox:
            async with living(before, sandbox) as lost:
                await lost.submit()
                restored = copy_of_running(before)
                sandbox.advance(A_BATCH_IS_DONE_S)
                await lost.collect(2)
                assert lost.rows("select from batch where files_deleted_at is null") == []
            await hold(restored)
            async with living(restored, sandbox) as life:
                await life.collect(2)
                assert life.states() == {"failed"}
                assert ("batch_item_count_mismatch",) in life.rows("select kind from alert")
                assert set(life.rows("select code from dead_letter")) == {("result_missing",)}
        postgres.drop(restored)

    asyncio.run(scenario())


def test_a_provider_that_cannot_be_asked_keeps_the_hold(before: str) -> None:
    """Without its answer nobody may say that all is known; an alert tells it."""

    async def scenario() -> None:
        with Sandbox() as sandbox:
            async with living(before, sandbox) as life:
                await hold(before)
                life.providers.base_url = "http://127.0.0.1:9/v1"
                await life.collect()
                assert life.rows("select asked_at from hold") == [(None,)]
                asked = "select kind from alert where closed_at is null"
                assert ("providers_not_asked",) in life.rows(asked)
                life.providers.base_url = sandbox.base_url
                await life.collect()
                assert life.rows("select from hold where asked_at is null") == []
                assert ("providers_not_asked",) not in life.rows(asked)

    asyncio.run(scenario())


def test_the_schema_itself_refuses_while_held(before: str) -> None:
    """A process that does not look is stopped by the guards of batch and delivery."""

    async def scenario() -> None:
        database = postgres.clone(postgres.template_database(build_plain))
        async with crew_of(database) as crew:
            told = await review_of(crew)
            batch = await recorded(crew, told.held)
            (one,) = await take(crew)
            await hold(database)
            with pytest.raises(DataRefused) as refused:
                await send(crew, one)
            assert refused.value.constraint == "held"
            with pytest.raises(DataRefused) as refused:
                await begin(crew, batch)
            assert refused.value.constraint == "held"
        postgres.drop(database)

    asyncio.run(scenario())


@pytest.mark.parametrize("was_sent", [True, False])
def test_a_message_from_before_is_looked_up_and_never_sent_twice(
    tmp_path: Path, *, was_sent: bool
) -> None:
    """Who was told after the backup is marked so; who was not is told after the release."""

    async def scenario() -> None:
        database = postgres.clone(postgres.template_database(build_plain))
        channel = File(FileSettings(tmp_path / "told.jsonl"))
        profile = replace(stand.TEST_PROFILE, settle_s=1)
        async with (
            crew_of(database) as crew,
            stand.station_of(database, profile=profile) as station,
        ):
            (key, recipient) = await _message(database, crew, channel)
            if was_sent:
                rendered = stand.rows(database, "select payload from delivery")[0][0]
                await channel.send(recipient, key, rendered, 5)
            await hold(database)
            relay = Relay(station, {"file": channel})
            await relay.run_once()
            assert stand.rows(database, "select state from delivery") == [("unknown",)]
            stand.move_clock(database, 10)
            await relay.run_once()
            became = "sent" if was_sent else "queued"
            assert stand.rows(database, "select state from delivery") == [(became,)]
            with stand.owner(database) as connection:
                connection.execute("update hold set asked_at = clock()")
            await release(database)
            await relay.run_once()
            assert stand.rows(database, "select state from delivery") == [("sent",)]
            assert len((tmp_path / "told.jsonl").read_bytes().splitlines()) == 1
        postgres.drop(database)

    asyncio.run(scenario())


async def _message(database: str, crew: Crew, channel: File) -> tuple[str, str]:
    """One message of a review, to a file that can be asked."""
    told = await review_of(crew)
    key, recipient = f"{told.changelist}/0", "file:ann"
    rendered = channel.render(Message(key, recipient, "s", "b", datetime.now(UTC)))
    with stand.owner(database) as connection:
        connection.execute("alter table delivery disable trigger user")
        connection.execute(
            "update delivery set channel = 'file', recipient = %s, payload = %s",
            (recipient, rendered),
        )
        connection.execute("alter table delivery enable trigger user")
    return key, recipient


@pytest.mark.parametrize("guarantee", ["key", "neither"])
def test_a_message_that_cannot_be_asked_about_waits_for_a_person(guarantee: str) -> None:
    """It stays unknown with an alert, after the release too: a key's window may have passed."""

    async def scenario() -> None:
        database = postgres.clone(postgres.template_database(build_plain))
        async with crew_of(database) as crew, stand.station_of(database) as station:
            await review_of(crew, guarantee=guarantee)
            await hold(database)
            await release(database)
            for _ in range(3):
                await Relay(station, {}).run_once()
                stand.move_clock(database, 10_000)
            assert stand.rows(database, "select state from delivery") == [("unknown",)]
            assert ("delivery_unknown",) in stand.rows(database, "select kind from alert")
        postgres.drop(database)

    asyncio.run(scenario())


def test_a_hold_is_written_once_and_released_once(before: str) -> None:
    """A second start while held changes nothing, and a release is final."""

    async def scenario() -> None:
        await hold(before)
        await hold(before, Why.OTHER_DATA)
        assert stand.rows(before, "select why from hold") == [("restored",)]
        await release(before)
        with (
            stand.owner(before) as connection,
            pytest.raises(psycopg.Error, match="column_is_fixed"),
        ):
            connection.execute("update hold set released_at = null, released_by = null")

    asyncio.run(scenario())

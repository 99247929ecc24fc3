"""Bugs put into our own code on purpose, each with the test that must fail because of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.answer import Answer, Doubt, Happened
from dragoman.core.errors import DataRefused
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.job import Bury
from dragoman.providers.base import Account, ProviderFailed
from dragoman.providers.transport import Request, Response, Transport
from dragoman.sandbox.server import Sandbox
from dragoman.store import batches, database, jobs, preflight
from dragoman.store.embedded import Server
from dragoman.work import acts, collector, gate, relay, submitter, worker
from dragoman.work import finish as exits
from tests import postgres
from tests.crash import (
    test_collect,
    test_doubt,
    test_frozen,
    test_lines,
    test_review_crashes,
    test_rewrite_crashes,
)
from tests.embedded import test_life
from tests.embedded.servers import folder, stopped_at_last
from tests.providers import test_lines as test_lines_of_files
from tests.providers import test_openai_create
from tests.review import test_stages
from tests.store import test_gates as test_gates_of_the_store
from tests.store import test_preflight
from tests.store.kernel import build_plain
from tests.work import test_gates

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutant:
    """One bug: its number in the list of planted bugs, how it gets in, and who must notice."""

    name: str
    plant: Plant
    notices: Callable[[], object]

    def __str__(self) -> str:
        return self.name


def changed_statement(name: str, *changes: tuple[str, str]) -> Plant:
    """A statement in which each of these passages stands otherwise."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = database.statement

        def altered(asked: str, package: str = "dragoman.store") -> str:
            text = str(real(asked, package))
            for old, new in changes if asked == name else ():
                assert old in text, f"{name} does not say {old} any more"
                text = text.replace(old, new)
            return text

        for module in (database, jobs, batches):
            patch.setattr(module, "statement", altered)

    return plant


async def create_first(book: Any, act: acts.Act, fence: Callable[[], None]) -> Answer:
    """The act before its intent is committed."""
    fence()
    answer = await ports.cross(act.tag, act.perform(act.deadline_s))
    if await book.begin(act.deadline_s) and isinstance(answer, Happened):
        await book.mark(answer)
    return answer


async def act_late(act: acts.Act, _began: float) -> Answer:
    """The act without a look at the clock."""
    try:
        return await ports.cross(act.tag, act.perform(act.deadline_s))
    except TimeoutError:
        return Doubt(Failure(FailureClass.NETWORK_TIMEOUT, "deadline"))


async def finish_whole_chunks(
    cell: Any, actor: Any, pipelines: Any, finished: Sequence[exits.Finished]
) -> Any:
    """A refused chunk fails as a whole, neighbours and all."""
    try:
        decided = [exits.exit_of(pipelines, one) for one in finished]
        moved = await exits._finish_chunk(cell, actor, pipelines, decided)
    except DataRefused:
        failure = Bury(Failure(FailureClass.RUNTIME_BUG, "chunk_refused"))
        refused = [exits.replace(one, outcome=failure) for one in finished]
        return await exits.finish(cell, actor, pipelines, refused)
    return exits.Counter(succeeded=len(moved))


async def leave_results_for_later(
    tx: Any, pipelines: Any, decided: Sequence[exits.Exit], moved: Any
) -> bool:
    """The state now, its result in another transaction."""
    await exits.batches.settle_items(
        tx,
        [item for one in decided for item in exits._items(one, exits._item_state(one.move))],
    )
    return False


async def send_again(
    transport: Transport, request: Request, *, max_bytes: int = 8_000_000
) -> Response:
    """What a vendor's SDK does: another POST when the first had no good answer."""
    try:
        answer = await SENT_ONCE(transport, request, max_bytes=max_bytes)
    except ProviderFailed:
        return await SENT_ONCE(transport, request, max_bytes=max_bytes)
    if answer.status >= 500:
        return await SENT_ONCE(transport, request, max_bytes=max_bytes)
    return answer


async def split_as_python_does(
    chunks: AsyncIterator[bytes], *, max_line_bytes: int = 1_000_000
) -> AsyncIterator[bytes]:
    """str.splitlines ends a line at seven more characters."""
    data = b"".join([chunk async for chunk in chunks])
    for line in data.decode().splitlines():
        yield line.encode()[:max_line_bytes]


def one_create() -> None:
    """One create, whose reply a gateway swallows."""
    with Sandbox() as sandbox:
        test_openai_create.test_a_create_without_a_clear_answer_is_doubt_and_is_sent_once(
            sandbox,
            Account("default", sandbox.base_url, "key"),
            {"do": "status_after"},
            1,
            "http_502",
        )


def every_death_of_a_relay() -> None:
    """The life of a review, cut short at every crossing."""
    for shard in range(test_review_crashes.SHARDS):
        test_review_crashes.test_whoever_dies_anywhere_tells_nobody_twice(shard)


async def take_without_asking(_cell: Any, batch: batches.Batch, _worker: Any) -> batches.Batch:
    """A submission is released as it was read, whatever its submitter does meanwhile."""
    return batch


async def finish_elsewhere(
    cell: Any, actor: Any, pipelines: Any, finished: Sequence[exits.Finished]
) -> Any:
    """A second place that stores results: the same values, by another hand."""
    decided = [exits.exit_of(pipelines, one) for one in finished]
    moved = {one.job.id: datetime.now(UTC) for one in finished}
    async with cell.transaction("finish") as tx:
        for (pipeline, stage), results in exits._results(decided, moved).items():
            await pipelines[pipeline].stages[stage].store(tx, results)
    return await exits.finish(cell, actor, pipelines, finished)


def retry_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """A 429 burns no attempt, however often it comes."""
    patch.setattr(exits, "_FREE", exits._FREE | {FailureClass.THROTTLED})
    patch.setattr(exits, "MAX_FREE_REQUEUES", 1_000_000)


async def learn_nothing(*_given: Any) -> exits.Counter[str]:
    """A 429 is this call's own affair."""
    return exits.Counter()


def anybody(facts: preflight.Facts, expected: preflight.Expected) -> Iterator[str]:
    """Whoever we are, it is right."""
    asked = replace(facts, user=expected.role, login=expected.role)
    return SERVER_FAULTS(asked, expected)


def a_number_is_believed(server: Server) -> int | None:
    """What the pid file says, if any process has that number."""
    try:
        pid = int((server.home / "data" / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError):
        return None
    return pid if Path(f"/proc/{pid}").exists() else None


def a_stranger_with_its_number() -> None:
    """A server whose pid file names somebody else."""
    with folder() as made, stopped_at_last(made / "home") as server:
        server.bootstrap()
        test_life.test_a_process_number_alone_is_no_server(server)


def in_a_database(test: Callable[[str], None]) -> None:
    """A test that wants a database, in one of its own."""
    database = postgres.clone(postgres.template_database(build_plain))
    try:
        test(database)
    finally:
        postgres.drop(database)


SERVER_FAULTS = preflight.server_faults
SENT_ONCE = Transport.send
TOKEN = "s.claim_token = g.token and s.state = %(was)s::state"  # the fence of move_jobs
A_BATCH_TOO_MANY = "and absences = %(absences)s"

M01 = Mutant(
    "M01 a completion without its fence",
    changed_statement(
        "job/move_jobs", (TOKEN, "s.state not in ('completed', 'failed', 'canceled')")
    ),
    lambda: test_frozen.test_who_lost_its_claim_finishes_nothing(
        Bury(Failure(FailureClass.SCHEMA_INVALID, "made_up"))
    ),
)
M12 = Mutant(
    "M12 a refused chunk that is not bisected",
    lambda patch: patch.setattr(collector, "finish", finish_whole_chunks),
    lambda: test_lines.test_a_result_that_the_database_refuses_fails_alone(1),
)
M15 = Mutant(
    "M15 an attempt that is counted at the claim",
    changed_statement(
        "job/claim_jobs",
        (
            "not_before_at = null, reason = 0,",
            "not_before_at = null, reason = 0, attempt_count = s.attempt_count + 1,",
        ),
    ),
    test_lines.test_a_line_that_was_only_late_costs_nothing,
)
QUICK = (M01, M12, M15)
EVERY = (
    *QUICK,
    Mutant(
        "M06 a create before its intent is committed",
        lambda patch: patch.setattr(submitter, "act_once", create_first),
        test_rewrite_crashes.test_killed_right_after_the_create_its_batch_is_adopted,
    ),
    Mutant(
        "M03 a message before its intent is committed",
        lambda patch: patch.setattr(relay, "act_once", create_first),
        every_death_of_a_relay,
    ),
    Mutant(
        "M02 a claim whose age is told by another clock than the database's",
        changed_statement("job/find_stale", ("(select clock())", "clock_timestamp()")),
        test_frozen.test_a_claim_that_goes_stale_for_the_last_time_fails_its_job,
    ),
    Mutant(
        "M04 a look-up that does not wait until nothing can arrive any more",
        changed_statement(
            "batch/find_doubtful",
            ("b.deadline_at + make_interval(secs => %(settle_s)s) < (select clock())", "true"),
        ),
        lambda: test_doubt.test_a_create_whose_answer_is_lost_is_adopted(100),
    ),
    Mutant(
        "M16 an exception's own words in a dead letter",
        lambda patch: patch.setattr(worker, "frames", lambda error: [str(error)]),
        test_stages.test_a_bug_is_buried_with_its_place_and_pages_somebody,
    ),
    Mutant(
        "M18 a process that runs as another role than its own",
        lambda patch: patch.setattr(preflight, "server_faults", anybody),
        lambda: in_a_database(
            test_preflight.test_a_pooler_that_makes_everybody_one_user_is_refused
        ),
    ),
    Mutant(
        "M22 a server that is believed because of its number",
        lambda patch: patch.setattr(Server, "_postmaster", a_number_is_believed),
        a_stranger_with_its_number,
    ),
    Mutant(
        "M25 a second place that stores results",
        lambda patch: patch.setattr(collector, "finish", finish_elsewhere),
        test_collect.test_a_rewrite_goes_from_queued_to_completed_step_by_step,
    ),
    Mutant(
        "M05 a transport that repeats a request by itself",
        lambda patch: patch.setattr(Transport, "send", send_again),
        one_create,
    ),
    Mutant(
        "M10 lines that end wherever Python ends one",
        lambda patch: patch.setattr(test_lines_of_files, "split_lines", split_as_python_does),
        lambda: test_lines_of_files.test_only_a_newline_byte_ends_a_line("\u2028"),
    ),
    Mutant(
        "M13 a result and its state in two transactions",
        lambda patch: patch.setattr(exits, "_leave_behind", leave_results_for_later),
        test_collect.test_a_rewrite_goes_from_queued_to_completed_step_by_step,
    ),
    Mutant(
        "M24 a failure without its dead letter",
        changed_statement(
            "dead_letter/bury_jobs",
            ("join standing s using (id)", "join standing s using (id) where false"),
        ),
        lambda: test_lines.test_a_result_that_the_database_refuses_fails_alone(0),
    ),
    Mutant(
        "a create that is sent however late it has become",
        lambda patch: patch.setattr(acts, "_perform", act_late),
        test_frozen.test_a_submitter_frozen_before_its_create_sends_it_no_more,
    ),
    Mutant(
        "a submission that is released while its submitter goes on",
        lambda patch: patch.setattr(batches, "take_over", take_without_asking),
        test_doubt.test_a_submitter_that_was_only_slow_finds_its_batch_taken_or_keeps_it,
    ),
    Mutant(
        "an absence that is believed at the first look",
        lambda patch: patch.setattr(collector, "_ABSENCES", 1),
        lambda: test_doubt.test_a_create_whose_answer_is_lost_is_adopted(100),
    ),
    Mutant(
        "two collectors whose one look counts as two",
        changed_statement("batch/record_absence", (A_BATCH_TOO_MANY, "")),
        lambda: test_doubt.test_a_create_that_never_arrived_is_released_once_it_is_provably_absent(
            {"on": "create", "do": "drop_before"}
        ),
    ),
    Mutant(
        "lines that are numbered as they were before some were lost",
        changed_statement(
            "batch/record_batch", ("row_number() over (order by item_index) - 1", "item_index")
        ),
        lambda: test_lines.test_a_refused_line_is_charged_to_the_item_whose_line_it_was(1),
    ),
    Mutant(
        "M23 a 429 that is retried without end",
        retry_for_nothing,
        test_gates.test_a_model_that_always_says_429_is_asked_as_often_as_the_attempts_allow,
    ),
    Mutant(
        "a 429 from which nobody else learns",
        lambda patch: patch.setattr(gate.Gates, "learn", learn_nothing),
        test_gates.test_a_worker_learns_from_a_429_and_claims_nothing_until_it_has_passed,
    ),
    Mutant(
        "a gate that is counted without its lock",
        changed_statement("gate/lock_gate", ("for update", "")),
        lambda: in_a_database(
            test_gates_of_the_store.test_who_counts_waits_for_whoever_counts_already_and_sees_what_it_did
        ),
    ),
    Mutant(
        "a result that is paired by its place in the file",
        lambda patch: patch.setattr(collector.Results, "of", by_place),
        test_lines.test_a_line_of_nobody_is_dropped_and_fills_no_gap,
    ),
)


def by_place(results: collector.Results, items: Sequence[batches.OpenItem]) -> list[Any] | None:
    """Any reply will do."""
    return [next(iter(results.replies.values()))] if items and results.replies else None

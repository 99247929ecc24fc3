"""The sandbox goes on after a restart, even after kill -9, where it was."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from dragoman.core.canonical import JSONObject
from dragoman.sandbox.batches import Pace
from dragoman.sandbox.clock import Clock, Reading
from dragoman.sandbox.sealed import BadState, SealedFile
from dragoman.sandbox.server import Sandbox
from tests.sandbox.processes import python, run_provider
from tests.sandbox.wire import A_DAY, body, client, finish, line, lines, read, start

CANARY = "Zitronenfalter"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "provider.state"


def _shown(sandbox: Sandbox, sdk: openai.OpenAI) -> tuple[object, ...]:
    """Everything that a client can see."""
    files = {file.id: sdk.files.content(file.id).content for file in sdk.files.list()}
    listed = [file.to_dict() for file in sdk.files.list()]
    return [batch.to_dict() for batch in sdk.batches.list()], listed, files, sandbox.ledger()


def _rows(sandbox: Sandbox, kind: str) -> list[Any]:
    found = sandbox.ledger()[kind]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("seconds", "status", "done"),
    [
        (0, "validating", 0),
        (11, "in_progress", 0),
        (41, "in_progress", 2),
        (71, "finalizing", 4),
        (81, "completed", 4),
    ],
)
def test_a_restart_in_any_phase_changes_nothing(
    path: Path, seconds: float, status: str, done: int
) -> None:
    """Batches, files and ledger are the same afterwards; each item runs once, in its old order."""
    with Sandbox(state=path) as first, client(first) as sdk:
        batch = start(sdk, lines(4), metadata={"nonce": "n1"})
        assert finish(first, sdk, batch, seconds).status == status
        assert len(_rows(first, "items")) == done
        ran, before = _rows(first, "items"), _shown(first, sdk)
    with Sandbox(state=path) as second, client(second) as sdk:
        assert _shown(second, sdk) == before
        ended = finish(second, sdk, batch)
        assert (ended.status, ended.created_at) == ("completed", batch.created_at)
        items = _rows(second, "items")
        assert items[:done] == ran
        answered = [row["custom_id"] for row in read(sdk, ended.output_file_id)]
        assert answered == [row["custom_id"] for row in items]
        assert sorted(answered) == ["j0", "j1", "j2", "j3"]
    with Sandbox() as twin, client(twin) as sdk:
        unbroken = finish(twin, sdk, start(sdk, lines(4)))
        assert [row["custom_id"] for row in read(sdk, unbroken.output_file_id)] == answered


@pytest.mark.parametrize("seconds", [0, 41])
def test_a_cancel_survives(path: Path, seconds: float) -> None:
    """A batch that was being cancelled ends cancelled, with what was done before."""
    with Sandbox(state=path) as first, client(first) as sdk:
        batch = start(sdk, lines(4))
        first.advance(seconds)
        sdk.batches.cancel(batch.id)
        before = _shown(first, sdk)
    with Sandbox(state=path) as second, client(second) as sdk:
        assert _shown(second, sdk) == before
        done = finish(second, sdk, batch)
        assert done.status == "cancelled"
        assert len(read(sdk, done.output_file_id)) == (2 if seconds else 0)
        assert len(read(sdk, done.error_file_id)) == (2 if seconds else 0)


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ({"do": "fail_validation", "code": "token_limit_exceeded"}, "failed"),
        ({"do": "expire_after_fraction", "fraction": 0.5}, "expired"),
    ],
)
@pytest.mark.parametrize("seconds", [0, A_DAY + 1])
def test_a_batch_that_ends_badly_does_so_after_a_restart_too(
    path: Path, seconds: float, fault: JSONObject, status: str
) -> None:
    """What a fault did to a batch stays with it, and its errors and files stay as they were."""
    with Sandbox(state=path) as first, client(first) as sdk:
        first.fault(fault)
        batch = start(sdk, lines(4))
        first.advance(seconds)
        before = _shown(first, sdk)
    with Sandbox(state=path) as second, client(second) as sdk:
        assert _shown(second, sdk) == before
        ended = finish(second, sdk, batch, A_DAY + 1)
        assert ended.status == status
        assert len(read(sdk, ended.output_file_id)) == (2 if status == "expired" else 0)


def test_what_was_done_before_the_answer_was_lost_is_remembered(path: Path) -> None:
    """A create whose answer a fault cut off stands after a restart; a hidden one stays hidden."""
    with Sandbox(state=path) as first, client(first) as sdk:
        first.fault({"on": "create", "do": "drop_after"}, {"on": "create", "do": "hide"})
        with pytest.raises(openai.APIConnectionError):
            start(sdk, lines(1))
    with Sandbox(state=path) as second, client(second) as sdk:
        (made,) = _rows(second, "creates")
        assert sdk.batches.list().data == []
        second.advance(61)
        assert [batch.id for batch in sdk.batches.list()] == [made["batch_id"]]


def test_deleted_files_stay_deleted_and_single_calls_stay_counted(path: Path) -> None:
    """A file comes back byte for byte or not at all; the ledger goes on where it ended."""
    data = b"{\xff\x00\r\n\xe2\x80\xa8}"
    with Sandbox(state=path) as first, client(first) as sdk:
        kept, gone = (
            sdk.files.create(file=("x.jsonl", data), purpose="batch").id for _ in range(2)
        )
        sdk.files.delete(gone)
        sdk.responses.create(**body())  # pyright: ignore[reportCallIssue, reportArgumentType]
    with Sandbox(state=path) as second, client(second) as sdk:
        assert [file.id for file in sdk.files.list()] == [kept]
        assert sdk.files.content(kept).content == data
        sdk.responses.create(**body())  # pyright: ignore[reportCallIssue, reportArgumentType]
        assert len(_rows(second, "responses")) == len(_rows(second, "items")) == 2
        assert [row["file_id"] for row in _rows(second, "deletes")] == [gone]


def test_a_read_that_changes_nothing_writes_nothing(path: Path) -> None:
    """Polls, lists and downloads leave the file alone; whatever changes something replaces it."""
    with Sandbox(state=path) as sandbox, client(sandbox) as sdk:
        done = finish(sandbox, sdk, start(sdk, lines(2)))
        written = path.stat().st_ino, path.stat().st_mtime_ns
        _shown(sandbox, sdk)
        read(sdk, done.output_file_id)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == written
        sandbox.advance(1)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) != written


def test_no_file_holds_a_word_and_an_ended_batch_holds_none_either(path: Path) -> None:
    """Every text is encrypted; a batch that has ended holds none, so deleting its files is all."""
    with Sandbox(state=path) as sandbox, client(sandbox) as sdk:
        batch = start(sdk, line("j0", body=body(f"{CANARY} immer laut!")))
        sandbox.advance(41)
        for file in path.parent.iterdir():
            assert CANARY.encode() not in file.read_bytes()
        done = finish(sandbox, sdk, batch)
        assert done.output_file_id is not None
        for file_id in (done.input_file_id, done.output_file_id):
            sdk.files.delete(file_id)
    left = _opened(path)
    assert CANARY not in left
    assert "rewritten_text" not in left
    assert batch.id in left


def test_a_file_whose_time_is_over_leaves_the_state_too(path: Path) -> None:
    """After thirty days it is forgotten on the disk as well, at the next request."""
    with Sandbox(state=path) as sandbox, client(sandbox) as sdk:
        file = sdk.files.create(file=("x.jsonl", lines(1)), purpose="batch")
        assert [each.id for each in sdk.files.list()] == [file.id]
        sandbox.advance(31 * 86_400)
        assert list(sdk.files.list()) == []
    held = orjson.loads(_opened(path))
    assert held["ledger"]["uploads"][0]["file_id"] == file.id
    assert held["files"] == []


def test_a_state_that_cannot_be_kept_is_not_answered(path: Path) -> None:
    """When the disk refuses, the client gets an error; once it takes again, all of it is kept."""
    with Sandbox(state=path) as first, client(first) as sdk:
        hurdle = path.with_name("provider.state.part")
        hurdle.mkdir()
        with pytest.raises(openai.InternalServerError):
            sdk.files.create(file=("x.jsonl", b"{}"), purpose="batch")
        hurdle.rmdir()
        with client(first) as again:
            assert again.models.list().data
    with Sandbox(state=path) as second:
        assert len(_rows(second, "uploads")) == 1


def test_a_state_of_another_shape_is_refused(path: Path) -> None:
    """A file that opens yet is not this version's is an error too, never half a state."""
    sealed = SealedFile(path, "provider")
    for data in (b"[]", b"{}", b'{"clock":{"now":1}}', b"not JSON", b"\xff"):
        sealed.write(data)
        sealed.close()
        with pytest.raises(BadState, match="remove it"):
            Sandbox(state=path)
        sealed = SealedFile(path, "provider")
    sealed.close()


def test_the_process_refuses_a_foreign_state(path: Path) -> None:
    """It ends at once and says which file to remove, in one line."""
    path.write_bytes(b"foreign")
    with python("-m", "dragoman.sandbox", "--state", str(path)) as process:
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (1, "")
    assert errors.count("\n") == 1
    assert f"{path} " in errors


def test_the_time_while_it_was_down_counts_at_its_speed(path: Path) -> None:
    """Ten seconds away at speed 60 are ten minutes; a real clock set back takes nothing away."""
    clock = Clock()
    clock.resume(Reading(now=5_000.0, taken_at=time.time() - 10, speed=60))
    assert 5_600 <= clock.now() < 5_600 + 60
    clock.resume(Reading(now=5_000.0, taken_at=time.time() + 10, speed=60))
    assert 5_000 <= clock.now() < 5_000 + 60
    with Sandbox(state=path) as first:
        first.advance(A_DAY)
    with Sandbox(state=path) as second, client(second) as sdk:
        assert start(sdk, lines(1)).created_at >= time.time() + A_DAY - 60


def test_a_batch_ends_while_the_sandbox_is_down(path: Path) -> None:
    """Whoever comes back finds it completed, with every moment where it belongs."""
    with Sandbox(state=path, speed=100_000, pace=Pace(1, 2, 3)) as first, client(first) as sdk:
        batch = start(sdk, lines(2))
    with Sandbox(state=path) as second, client(second) as sdk:
        done = sdk.batches.retrieve(batch.id)
        assert done.status == "completed"
        assert done.completed_at == batch.created_at + 6
        assert len(_rows(second, "items")) == 2


def test_killed_while_it_takes_uploads_it_forgets_none_that_it_answered(path: Path) -> None:
    """After each kill -9 every answered upload stands in files and ledger, once."""
    chance = random.Random(11)  # noqa: S311 - when to kill, no secret
    answered: list[str] = []
    for _ in range(3):
        with run_provider(path.parent, "--state", str(path)) as (process, _, sdk):
            assert {file.id for file in sdk.files.list(limit=100)} >= set(answered[-100:])
            threading.Timer(
                chance.uniform(0.05, 0.2), process.send_signal, [signal.SIGKILL]
            ).start()
            with pytest.raises(openai.APIConnectionError):
                _upload_for_ever(sdk, answered)
            assert process.wait(timeout=30) == -signal.SIGKILL
    with Sandbox(state=path) as sandbox:
        known = [row["file_id"] for row in _rows(sandbox, "uploads")]
    assert len(answered) > 3
    assert set(answered) <= set(known)
    assert len(answered) <= len(known) <= len(answered) + 3


def _upload_for_ever(sdk: openai.OpenAI, answered: list[str]) -> None:
    while True:
        file = sdk.files.create(file=("x.jsonl", lines(50)), purpose="batch")
        answered.append(file.id)


def _opened(path: Path) -> str:
    sealed = SealedFile(path, "provider")
    try:
        data = sealed.read()
    finally:
        sealed.close()
    assert data is not None
    return data.decode()

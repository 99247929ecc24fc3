"""The file channel: whole lines or none, and true answers about what the file holds."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.channels.base import Absent, CannotTell, Finding, Guarantee, Message
from dragoman.channels.file import File, FileSettings
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.errors import BadInput
from dragoman.core.failure import FailureClass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reviews.jsonl"


@pytest.fixture
def file(path: Path) -> File:
    return File(FileSettings(path))


@pytest.fixture
def message(message: Message) -> Message:
    return replace(message, recipient="file:ann")


def send(file: File, message: Message, deadline_s: float = 5.0) -> Answer:
    return asyncio.run(file.send(message.recipient, message.key, file.render(message), deadline_s))


def lookup(file: File, message: Message) -> Finding:
    return asyncio.run(file.lookup(message.recipient, message.key))


def test_a_message_becomes_one_line_that_can_be_found(
    file: File, path: Path, message: Message
) -> None:
    """The file holds the rendered line, and asking for its key gives the evidence of the send."""
    answer = send(file, message)
    assert path.read_bytes() == file.render(message)
    assert answer == Happened("reviews.jsonl:0", {"offset": 0})
    assert lookup(file, message) == answer


@pytest.mark.req("R357")
def test_a_second_send_writes_the_same_line(file: File, path: Path, message: Message) -> None:
    """Equal messages give equal bytes in every time zone; asking finds the first of them."""
    elsewhere = message.created_at.astimezone(timezone(timedelta(hours=5)))
    first, second = send(file, message), send(file, replace(message, created_at=elsewhere))
    assert path.read_bytes() == file.render(message) * 2
    assert first != second
    assert lookup(file, message) == first


def test_what_was_not_written_is_absent(file: File, message: Message) -> None:
    """Another key, another recipient, or no file yet: the answer is a clear no."""
    assert lookup(file, message) == Absent()
    send(file, message)
    assert lookup(file, replace(message, key="other")) == Absent()
    assert lookup(file, replace(message, recipient="file:bob")) == Absent()


@pytest.mark.parametrize("missing", [2, 50])
def test_a_torn_line_spoils_only_itself(
    file: File, path: Path, message: Message, missing: int
) -> None:
    """What a crash left half written is not found, and the next line stands on its own."""
    path.write_bytes(file.render(message)[:-missing])
    assert lookup(file, message) == Absent()
    answer = send(file, message)
    assert isinstance(answer, Happened)
    assert lookup(file, message) == answer
    assert path.read_bytes().splitlines(keepends=True)[1] == file.render(message)


def test_a_line_that_lacks_only_its_newline_was_written(
    file: File, path: Path, message: Message
) -> None:
    """Every word of it is there, so it is found, now and after the next writer closed it."""
    path.write_bytes(file.render(message)[:-1])
    assert lookup(file, message) == Happened("reviews.jsonl:0", {"offset": 0})
    send(file, replace(message, key="next"))
    assert lookup(file, message) == Happened("reviews.jsonl:0", {"offset": 0})
    assert isinstance(lookup(file, replace(message, key="next")), Happened)


def test_a_full_disk_leaves_no_trace(
    file: File, path: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that could be written only in part is taken back, so nothing happened."""
    send(file, message)
    before = path.read_bytes()
    real, calls = os.write, list[int]()

    def half(fd: int, data: bytes) -> int:
        calls.append(fd)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    answer = send(file, replace(message, key="second"))
    assert isinstance(answer, NothingHappened)
    assert answer.failure.code == "file_write_enospc"
    assert answer.failure.is_retryable
    assert path.read_bytes() == before


@pytest.mark.parametrize("broken", ["fsync", "ftruncate"])
def test_a_write_that_may_or_may_not_stay_is_doubt(
    file: File, message: Message, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """A failed sync, or a half line that cannot be taken back, proves nothing either way."""

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, broken, fail)
    if broken == "ftruncate":
        monkeypatch.setattr(os, "write", fail)
    assert isinstance(send(file, message), Doubt)


@pytest.mark.parametrize("where", ["missing/reviews.jsonl", "."])
def test_a_file_that_cannot_be_opened_proves_that_nothing_happened(
    tmp_path: Path, message: Message, where: str
) -> None:
    """No line was written, and a place that is not there cannot be asked."""
    file = File(FileSettings(tmp_path / where))
    answer = send(file, message)
    assert isinstance(answer, NothingHappened)
    assert answer.failure.error_class is FailureClass.NOT_FOUND
    assert isinstance(lookup(file, message), CannotTell)


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(
    file: File, path: Path, message: Message
) -> None:
    """A pipe keeps nothing and would block; it is neither written nor read."""
    os.mkfifo(path)
    assert isinstance(send(file, message), NothingHappened)
    assert isinstance(lookup(file, message), CannotTell)


def test_a_file_that_cannot_be_locked_proves_that_nothing_happened(
    file: File, path: Path, message: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems have no locks; without one nothing is written."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", fail)
    assert isinstance(send(file, message), NothingHappened)
    assert isinstance(lookup(file, message), CannotTell)
    assert path.read_bytes() == b""


def test_a_busy_file_is_waited_for_until_the_deadline(
    file: File, path: Path, message: Message
) -> None:
    """Who holds the file may be writing, so nobody writes or answers meanwhile."""
    with path.open("ab") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        answer = send(file, message, deadline_s=0.05)
        assert isinstance(answer, NothingHappened)
        assert answer.failure.code == "file_locked"
        assert isinstance(lookup(file, message), CannotTell)
    assert path.read_bytes() == b""
    assert isinstance(send(file, message), Happened)


def test_many_writers_write_whole_lines(file: File, path: Path, message: Message) -> None:
    """Sends at the same time share the file line by line, each with its own evidence."""

    async def all_at_once() -> list[Answer]:
        each = [replace(message, key=f"key {index}") for index in range(30)]
        return await asyncio.gather(
            *(file.send(one.recipient, one.key, file.render(one), 10.0) for one in each)
        )

    answers = asyncio.run(all_at_once())
    evidence = {answer.evidence_id for answer in answers if isinstance(answer, Happened)}
    assert len(evidence) == 30
    keys = {json.loads(line)["key"] for line in path.read_bytes().splitlines()}
    assert keys == {f"key {index}" for index in range(30)}


def test_a_past_deadline_writes_nothing(file: File, path: Path, message: Message) -> None:
    """A send that comes too late does not write."""
    assert isinstance(send(file, message, deadline_s=0.0), NothingHappened)
    assert path.read_bytes() == b""


def test_only_the_line_of_this_key_is_written(file: File, path: Path, message: Message) -> None:
    """Bytes that a lookup of this key would not find are refused."""
    for wrong in (b"", b"{}\n", file.render(message) * 2, file.render(replace(message, key="k"))):
        answer = asyncio.run(file.send(message.recipient, message.key, wrong, 5.0))
        assert isinstance(answer, NothingHappened)
    assert not path.exists()


def test_the_recipient_is_never_a_path(tmp_path: Path, file: File, message: Message) -> None:
    """Only the settings say which file is written."""
    send(file, replace(message, recipient="file:///../../elsewhere"))
    assert [found.name for found in tmp_path.iterdir()] == ["reviews.jsonl"]


def test_the_file_is_private(file: File, path: Path, message: Message) -> None:
    """Reviews are nobody else's business on this machine."""
    send(file, message)
    assert path.stat().st_mode & 0o077 == 0


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_rendered_line_is_one_line_or_a_typed_error(subject: str, body: str) -> None:
    """Whatever the text holds, it cannot break the line it stands in."""
    file = File(FileSettings(Path("unused")))
    message = Message("k", "file:ann", subject, body, datetime(2026, 1, 1, tzinfo=UTC))
    try:
        line = file.render(message)
    except BadInput:
        return
    assert line.count(b"\n") == 1
    assert json.loads(line)["body"] == body
    assert line == file.render(message)


def test_a_file_can_be_asked(file: File) -> None:
    """The channel declares LOOKUP, and nothing written is found late."""
    assert (file.scheme, file.guarantee, file.settle_s) == ("file", Guarantee.LOOKUP, 0.0)

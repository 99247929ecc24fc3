"""The encrypted file in which a stand-in remembers: always whole, for its key and kind alone."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.sandbox.sealed import BadState, SealedFile
from tests.sandbox.processes import python

TEXT = b"Zitronenfalter"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.state"


def _write(path: Path, data: bytes, kind: str = "test") -> None:
    sealed = SealedFile(path, kind, wait_s=0)
    sealed.write(data)
    sealed.close()


def _read(path: Path, kind: str = "test") -> bytes | None:
    sealed = SealedFile(path, kind, wait_s=0)
    try:
        return sealed.read()
    finally:
        sealed.close()


def test_what_was_written_last_is_read(path: Path) -> None:
    """Nothing before the first write, then always the latest, also by the next process."""
    assert _read(path) is None
    for data in (b"", TEXT, TEXT * 1000):
        _write(path, data)
        assert _read(path) == data


def test_no_file_shows_a_word_or_opens_for_others(path: Path) -> None:
    """State and key are their owner's alone, whatever they were, and the text is encrypted."""
    for name in ("one.state.part", "one.state.key"):
        path.with_name(name).touch(mode=0o644)
    _write(path, TEXT)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["one.state", "one.state.key"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert not any(TEXT in file.read_bytes() for file in files)
    once = path.read_bytes()
    _write(path, TEXT)
    assert path.read_bytes() != once


def _other_key(path: Path) -> None:
    path.with_name("one.state.key").write_bytes(b"k" * 32)


def _no_key(path: Path) -> None:
    path.with_name("one.state.key").unlink()


def _one_bit(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


SPOILT: dict[str, Callable[[Path], object]] = {
    "another key": _other_key,
    "no key": _no_key,
    "one bit": _one_bit,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "empty": lambda path: path.write_bytes(b""),
    "foreign": lambda path: path.write_bytes(b"SQLite format 3\0" * 8),
    "of another kind": lambda path: _write(path, TEXT, "mail"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_state_that_cannot_be_read_is_refused_and_left_as_it_is(path: Path, how: str) -> None:
    """The error names the file and says to remove it; nothing is started empty in its place."""
    _write(path, TEXT)
    SPOILT[how](path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(BadState) as refused:
            _read(path)
        assert f"{path} " in str(refused.value)
        assert "remove it" in str(refused.value)
    assert path.read_bytes() == before
    path.unlink()
    _write(path, TEXT)
    assert _read(path) == TEXT


def test_a_folder_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    """What cannot be opened is an error with its reason, not a crash."""
    _write(path, TEXT)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadState, match="EISDIR"):
        _read(path)
    with pytest.raises(BadState, match="ENOENT"):
        SealedFile(tmp_path / "nowhere" / "one.state", "test")


def test_a_start_that_was_killed_before_its_key_was_written_harms_nothing(path: Path) -> None:
    """As long as nothing is sealed, half a key is replaced."""
    path.with_name("one.state.key").write_bytes(b"half")
    _write(path, TEXT)
    assert _read(path) == TEXT


def test_two_processes_cannot_have_the_same_state(path: Path) -> None:
    """The second waits a while for the first to end, and then says so."""
    first = SealedFile(path, "test")
    with pytest.raises(BadState, match="in use"):
        SealedFile(path, "test", wait_s=0.1)
    first.close()
    SealedFile(path, "test", wait_s=0).close()


_WRITER = """
import sys
from pathlib import Path
from dragoman.sandbox.sealed import SealedFile
sealed = SealedFile(Path(sys.argv[1]), "test")
number = int((sealed.read() or b"0").split()[0])
while True:
    number += 1
    sealed.write(b"%d " % number * int(sys.argv[2]))
    print(number, flush=True)
"""


def test_a_kill_in_the_middle_of_a_write_loses_nothing_that_was_answered(path: Path) -> None:
    """Killed 20 times at random, the file holds the last answered write or the one on its way."""
    chance, answered = random.Random(7), 0  # noqa: S311 - when to kill, no secret
    for _ in range(20):
        with python("-c", _WRITER, str(path), str(chance.choice([1, 10_000, 200_000]))) as writer:
            assert writer.stdout is not None
            told = [int(writer.stdout.readline()) for _ in range(chance.randint(1, 8))]
            writer.send_signal(signal.SIGKILL)
            told += [int(line) for line in writer.stdout if line.endswith("\n")]
        data = _read(path)
        assert data is not None
        (number,) = set(data.split())
        assert told[0] > answered
        answered = int(number)
        assert answered in (told[-1], told[-1] + 1)

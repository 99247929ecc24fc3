"""The sandbox's whole state in a file, so that a restart changes nothing that a client can see.

Armed faults are not part of it: they belong to the test that armed them. What a fault has done to
a batch stays with the batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias, cast

import orjson

from dragoman.sandbox.batches import Batch, Pace
from dragoman.sandbox.clock import Reading
from dragoman.sandbox.faults import Fault
from dragoman.sandbox.ledger import Ledger
from dragoman.sandbox.sealed import SealedFile, as_text, bytes_of
from dragoman.sandbox.workspace import StoredFile, Workspace

_Record: TypeAlias = "dict[str, Any]"  # one of our own dataclasses, as JSON gives it back


class State:
    """A workspace's memory; without a path it forgets everything at its end.

    >>> State(space, Path("provider.state")).save()  # doctest: +SKIP
    """

    def __init__(self, space: Workspace, path: Path | None) -> None:
        self._space = space
        self._file = SealedFile(path, "provider") if path else None
        if self._file:
            with self._file.loading() as data:
                if data is not None:
                    _thaw(space, cast("_Record", orjson.loads(data)))
        self._saved = _mark(space)

    def save(self) -> None:
        """Make every change durable; to be called before a change is answered.

        A kill -9 before it has returned leaves the state as if the request had never come.
        """
        mark = _mark(self._space)
        if self._file and mark != self._saved:
            self._file.write(_freeze(self._space))
            self._saved = mark

    def close(self) -> None:
        """Let another sandbox have the file."""
        if self._file:
            self._file.close()


def _mark(space: Workspace) -> object:
    """Something that differs whenever the state does, and costs less than the state."""
    return (
        space.clock.added,
        space.ledger.counts(),
        tuple(space.files),
        tuple((batch.status, batch.executed) for batch in space.batches.values()),
    )


def _freeze(space: Workspace) -> bytes:
    held = {
        "clock": space.clock.reading(),
        "files": list(space.files.values()),
        "batches": list(space.batches.values()),
        "ledger": space.ledger,
    }
    return orjson.dumps(held, default=as_text)


def _thaw(space: Workspace, held: _Record) -> None:
    space.clock.resume(Reading(**held["clock"]))
    for record in held["files"]:
        space.files[record["id"]] = StoredFile(**record | {"data": bytes_of(record["data"])})
    for record in held["batches"]:
        space.batches[record["id"]] = _batch(record)
    space.ledger = Ledger(**held["ledger"])


def _batch(record: _Record) -> Batch:
    parts: _Record = {
        "pace": Pace(**record["pace"]),
        "faults": [Fault(**fault) for fault in record["faults"]],
        "tokens": tuple(record["tokens"]),
        "data": bytes_of(record["data"]),
        "good": bytearray(bytes_of(record["good"])),
        "bad": bytearray(bytes_of(record["bad"])),
    }
    return Batch(**record | parts)

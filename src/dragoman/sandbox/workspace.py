"""Everything one sandbox holds: files, batches, the script, the ledger, and so every text."""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.batches import Batch, Pace
from dragoman.sandbox.clock import Clock
from dragoman.sandbox.faults import Script
from dragoman.sandbox.ledger import Ledger
from dragoman.sandbox.responses import Executed, execute, is_stored
from dragoman.sandbox.validation import Item

_KEPT_S: Final = 30 * 86_400


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file, byte for byte."""

    id: str
    data: bytes = field(repr=False)
    filename: str
    purpose: str
    created_at: float

    def as_json(self) -> JSONObject:
        """The file object of the wire."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.data),
            "created_at": int(self.created_at),
            "expires_at": int(self.created_at) + _KEPT_S,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


@dataclass(slots=True)
class Traffic:
    """How many requests came, refused ones too, and how many answers were made at one time.

    It is no part of the state: it counts what this process has seen.
    """

    requests: Counter[str] = field(default_factory=Counter[str])
    in_flight: int = 0
    most_in_flight: int = 0

    @contextmanager
    def passing(self, on: str) -> Generator[None]:
        """One request, from its first byte to its answer."""
        is_call = on == "response"
        self.requests[on] += 1
        self.in_flight += is_call
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= is_call

    def as_json(self) -> JSONObject:
        """All three."""
        return {
            "requests": dict[str, JSON](self.requests),
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
        }


@dataclass(slots=True)
class Workspace:
    """The state of one sandbox. Every request settles it first, so that it is never behind."""

    clock: Clock
    pace: Pace
    seed: int
    script: Script = field(default_factory=Script)
    ledger: Ledger = field(default_factory=Ledger)
    files: dict[str, StoredFile] = field(default_factory=dict[str, StoredFile])
    batches: dict[str, Batch] = field(default_factory=dict[str, Batch])
    traffic: Traffic = field(default_factory=Traffic)

    def settle(self) -> None:
        """Let every batch do what is due, and forget the files whose time is over."""
        now = self.clock.now()
        for batch in self.batches.values():
            batch.settle(now, self)
        for file in [file for file in self.files.values() if file.created_at + _KEPT_S < now]:
            del self.files[file.id]

    def keep_output(self, data: bytes, filename: str) -> str:
        """A file that a batch made."""
        return self._keep(data, filename, "batch_output").id

    def upload(self, data: bytes, filename: str) -> StoredFile:
        """A file that a client brought."""
        file = self._keep(data, filename, "batch")
        self.ledger.uploads.append({"file_id": file.id, "filename": filename, "bytes": len(data)})
        return file

    def delete(self, file_id: str) -> None:
        """Forget a file. A running batch has its own copy of its input."""
        del self.files[file_id]
        self.ledger.deletes.append({"file_id": file_id})

    def create(self, file: StoredFile, metadata: JSONObject, hidden_s: float) -> Batch:
        """A new batch, each time it is asked for."""
        now = self.clock.now()
        batch = Batch(
            input_file_id=file.id,
            data=file.data,
            metadata=metadata,
            created_at=now,
            pace=self.pace,
            seed=f"{self.seed}:{len(self.batches)}",
            faults=self.script.take("batch"),
            hidden_until=now + hidden_s,
        )
        self.batches[batch.id] = batch
        self.ledger.creates.append(
            {
                "batch_id": batch.id,
                "input_file_id": file.id,
                "metadata": metadata,
                "items": sum(1 for line in file.data.split(b"\n") if line.strip()),
                "sha256": hashlib.sha256(file.data).hexdigest(),
            }
        )
        return batch

    def run(self, batch_id: str, item: Item) -> Executed:
        """One item of a batch."""
        return self._execute(batch_id, item.index, item.custom_id, item.body)

    def respond(self, request: JSONObject, custom_id: str) -> Executed:
        """One call that is answered at once."""
        index = len(self.ledger.responses)
        done = self._execute("response", index, custom_id, request)
        self.ledger.responses.append({"custom_id": custom_id, "status": done.status})
        return done

    def ledger_json(self) -> JSONObject:
        """The ledger, with the files that stand now."""
        files = {
            batch.id: [file_id for file_id in batch.file_ids() if file_id in self.files]
            for batch in self.batches.values()
        }
        used = {file_id for listed in files.values() for file_id in listed}
        loose = [file_id for file_id in self.files if file_id not in used]
        return self.ledger.as_json(files, loose)

    def _keep(self, data: bytes, filename: str, purpose: str) -> StoredFile:
        file = StoredFile(f"file-{uuid.uuid4().hex}", data, filename, purpose, self.clock.now())
        self.files[file.id] = file
        return file

    def _execute(self, where: str, index: int, custom_id: str, request: JSONObject) -> Executed:
        fault = self.script.take_item(index, custom_id)
        done = execute(request, self.clock.now(), fault)
        self.ledger.items.append(
            {
                "batch_id": where,
                "custom_id": custom_id,
                "status": done.status,
                "input_tokens": done.input_tokens,
                "output_tokens": done.output_tokens,
                "stored": is_stored(request),
            }
        )
        return done

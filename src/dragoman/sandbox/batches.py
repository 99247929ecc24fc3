"""A batch of the sandbox: what its state is follows from the clock, whenever somebody looks."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import Final, Protocol

import orjson

from dragoman.core.canonical import JSON, JSONObject
from dragoman.sandbox.faults import Fault
from dragoman.sandbox.responses import Executed, usage_of
from dragoman.sandbox.validation import ENDPOINT, Item, check_lines

TERMINAL: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_MOMENTS: Final = (
    "in_progress_at",
    "finalizing_at",
    "completed_at",
    "failed_at",
    "expired_at",
    "cancelling_at",
    "cancelled_at",
)
_NOT_RUN: Final = {
    "batch_expired": "This request could not be executed before the completion window expired.",
    "batch_cancelled": "This request was not executed before the batch was cancelled.",
}


@dataclass(frozen=True, slots=True)
class Pace:
    """How many seconds of the sandbox's clock each phase of a batch takes."""

    validating_s: float = 10.0
    running_s: float = 60.0
    finalizing_s: float = 10.0
    cancelling_s: float = 10.0
    window_s: float = 86_400.0


class Shop(Protocol):
    """What a batch needs of the sandbox around it."""

    def run(self, batch_id: str, item: Item) -> Executed:
        """Execute one item."""
        ...

    def keep_output(self, data: bytes, filename: str) -> str:
        """Store a file; returns its id."""
        ...


@dataclass(slots=True)
class Batch:
    """One batch. `settle` brings it to where it stands now and executes what became due.

    At its end it lets go of every text: what came out is in its files, and goes with them.
    """

    input_file_id: str
    data: bytes = field(repr=False)
    metadata: JSONObject
    created_at: float
    pace: Pace
    seed: str
    faults: list[Fault] = field(default_factory=list[Fault])
    id: str = field(default_factory=lambda: f"batch_{uuid.uuid4().hex}")
    status: str = "validating"
    hidden_until: float = 0.0
    moments: dict[str, float] = field(default_factory=dict[str, float])
    errors: list[JSON] = field(default_factory=list[JSON])
    model: str | None = None
    total: int = 0
    executed: int = 0
    completed: int = 0
    failed: int = 0
    tokens: tuple[int, int] = (0, 0)
    good: bytearray = field(default_factory=bytearray, repr=False)
    bad: bytearray = field(default_factory=bytearray, repr=False)
    output_file_id: str | None = None
    error_file_id: str | None = None
    _items: list[Item] = field(default_factory=list[Item], init=False, repr=False)

    @property
    def expires_at(self) -> float:
        """When what was not run will never be."""
        return self.created_at + self.pace.window_s

    def settle(self, now: float, shop: Shop) -> None:
        """Go through every phase that is over by now."""
        if self.status == "validating":
            self._validate(self.created_at + self.pace.validating_s, now)
        if self.status == "in_progress":
            self._work(now, shop)
        if self.status == "finalizing":
            at = self.moments["finalizing_at"] + self.pace.finalizing_s
            self._end("completed", at, now, shop)
        if self.status == "cancelling":
            at = self.moments["cancelling_at"] + self.pace.cancelling_s
            self._end("cancelled", at, now, shop)

    def cancel(self, now: float) -> bool:
        """Stop running items; false when it is too late."""
        if self.status in TERMINAL:
            return False
        if self.status != "cancelling":
            self._leave_rest("batch_cancelled")
            self._enter("cancelling", now)
        return True

    def file_ids(self) -> list[str]:
        """Input, output and errors, as far as there are any."""
        ids = (self.input_file_id, self.output_file_id, self.error_file_id)
        return [file_id for file_id in ids if file_id]

    def as_json(self) -> JSONObject:
        """The batch object of the wire."""
        moments: JSONObject = {
            name: int(self.moments[name]) if name in self.moments else None for name in _MOMENTS
        }
        errors: JSONObject = {"object": "list", "data": self.errors}
        counts: JSONObject = {
            "total": self.total,
            "completed": self.completed,
            "failed": self.failed,
        }
        return {
            **moments,
            "id": self.id,
            "object": "batch",
            "endpoint": ENDPOINT,
            "model": self.model,
            "errors": errors if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": int(self.created_at),
            "expires_at": int(self.expires_at),
            "request_counts": counts,
            "usage": usage_of(*self.tokens),
            "metadata": self.metadata,
        }

    def _enter(self, status: str, at: float) -> None:
        self.status = status
        self.moments[f"{status}_at"] = at

    def _validate(self, at: float, now: float) -> None:
        if now < at:
            return
        found = check_lines(self.data)
        for fault in self.faults:
            if fault.do == "fail_validation":
                line = int(fault.number("line", 0)) or None
                found.refuse(fault.text("code") or "invalid_json_line", "Refused.", line)
        if found.errors:
            self.errors = found.errors
            self._enter("failed", at)
            self._forget()
            return
        self.total, self.model = len(found.items), str(found.items[0].body["model"])
        self._enter("in_progress", at)

    def _work(self, now: float, shop: Shop) -> None:
        """Execute the items whose time has come; the end of the window ends the work."""
        started = self.moments["in_progress_at"]
        running_s = self._running_s(started)
        until = min(now, self.expires_at)
        share = min(1.0, (until - started) / running_s) if running_s else 1.0
        due = int(self.total * share + 1e-9)
        for item in self._shuffled()[self.executed : due]:
            self._execute(item, shop)
        if self.executed == self.total:
            self._enter("finalizing", started + running_s)
        elif now >= self.expires_at:
            self._leave_rest("batch_expired")
            self._end("expired", self.expires_at, now, shop)

    def _shuffled(self) -> list[Item]:
        """The items in the order in which they run; read from the file again after a restart."""
        if self.total and not self._items:
            self._items = check_lines(self.data).items
            random.Random(self.seed).shuffle(self._items)  # noqa: S311 - an order, no secret
        return self._items

    def _running_s(self, started: float) -> float:
        for fault in self.faults:
            if fault.do == "expire_after_fraction":
                fraction = fault.number("fraction", 0.5)
                return (self.expires_at - started) / fraction if fraction else float("inf")
        return self.pace.running_s

    def _execute(self, item: Item, shop: Shop) -> None:
        done = shop.run(self.id, item)
        response: JSONObject = {
            "status_code": done.status,
            "request_id": f"req_{uuid.uuid4().hex}",
            "body": done.body,
        }
        self._write(item, response, None, is_good=done.status == 200)
        self.tokens = (self.tokens[0] + done.input_tokens, self.tokens[1] + done.output_tokens)

    def _leave_rest(self, code: str) -> None:
        for item in self._shuffled()[self.executed :]:
            self._write(item, None, {"code": code, "message": _NOT_RUN[code]}, is_good=False)

    def _write(
        self, item: Item, response: JSONObject | None, error: JSONObject | None, *, is_good: bool
    ) -> None:
        """One more line of the output or of the error file."""
        line = _line(item, response, error)
        if is_good:
            self.good += line
            self.completed += 1
        else:
            self.bad += line
            self.failed += 1
        self.executed += 1

    def _end(self, status: str, at: float, now: float, shop: Shop) -> None:
        if now < at:
            return
        if self.good:
            self.output_file_id = shop.keep_output(bytes(self.good), f"{self.id}_output.jsonl")
        if self.bad:
            self.error_file_id = shop.keep_output(bytes(self.bad), f"{self.id}_error.jsonl")
        self._enter(status, at)
        self._forget()

    def _forget(self) -> None:
        self.data = b""
        self.good, self.bad, self._items = bytearray(), bytearray(), []


def _line(item: Item, response: JSONObject | None, error: JSONObject | None) -> bytes:
    line: JSONObject = {
        "id": f"batch_req_{uuid.uuid4().hex}",
        "custom_id": item.custom_id,
        "response": response,
        "error": error,
    }
    return orjson.dumps(line) + b"\n"

"""What the engine asks of a provider, in words that no provider owns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from dragoman.core.answer import Answer
from dragoman.core.call import Call, Reply
from dragoman.core.failure import Failure


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a result file. Without a custom_id it belongs to nobody and is dropped."""

    custom_id: str | None
    reply: Reply


class BatchStatus(StrEnum):
    """A provider's batch states, brought to one vocabulary."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"  # refused as a whole: nothing ran
    CANCELED = "canceled"  # may carry paid results
    EXPIRED = "expired"  # may carry paid results
    UNKNOWN = "unknown"  # a word we do not know: keep polling, and alert


@dataclass(frozen=True, slots=True)
class BatchError:
    """Why a provider refused a batch as a whole; `line` counts from 1."""

    code: str
    line: int | None


@dataclass(frozen=True, slots=True)
class BatchView:
    """A provider's batch as it stands now."""

    provider_batch_id: str
    status: BatchStatus
    raw_status: str
    created_at: int  # unix seconds, the provider's clock
    total: int = 0
    result_files: tuple[str, ...] = ()
    nonce: str | None = None
    cell: str | None = None  # whose metadata it carries
    input_file_id: str | None = None
    errors: tuple[BatchError, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch and one line may weigh, in bytes; our own caps stand below the provider's."""

    max_items: int
    max_bytes: int
    max_line_bytes: int


@dataclass(frozen=True, slots=True)
class Account:
    """Whom we are at a provider. The key is read from the environment or a file, never stored."""

    name: str
    base_url: str
    api_key: str = field(repr=False)


class ProviderFailed(Exception):
    """A call that may be repeated (upload, poll, list, download, delete) did not work."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class Adapter(Protocol):
    """One wire: pure halves first, then the thin transport. Nothing here retries.

    Everything but `create` and `answer` may be repeated and raises ProviderFailed. `create` must
    happen at most once and therefore returns what is known; `answer` is paid each time.
    """

    kind: str
    limits: Limits

    def encode_line(self, call: Call, model: str) -> bytes:
        """One line of a batch file, with its newline. Equal calls give equal bytes."""
        ...

    def decode_line(self, line: bytes) -> Line:
        """Total: whatever the line is, it becomes a Line and never an exception."""
        ...

    async def upload(self, account: Account, name: str, lines: Sequence[bytes]) -> str:
        """Stream the batch file; returns the provider's file id. Repeating it costs nothing."""
        ...

    async def create(self, account: Account, file_id: str, nonce: str, deadline_s: float) -> Answer:
        """Exactly one POST. Happened.evidence_id is the provider's batch id."""
        ...

    async def find(
        self, account: Account, nonce: str, *, created_after: int | None = None
    ) -> list[BatchView]:
        """The provider's batches that carry this nonce, oldest first.

        Batches made before `created_after` (unix seconds, three days ago unless told) are not
        looked at. An empty list is proof of absence as far as the list reaches: a list that
        cannot be read to that point raises ProviderFailed.
        """
        ...

    async def poll(self, account: Account, provider_batch_id: str) -> BatchView:
        """How the batch stands."""
        ...

    def download(self, account: Account, file_id: str) -> AsyncIterator[bytes]:
        """The lines of a result file, split at newline bytes only, within byte caps."""
        ...

    async def delete_file(self, account: Account, file_id: str) -> None:
        """Delete a file of ours; one that is already gone is a success."""
        ...

    async def answer(self, account: Account, call: Call, model: str, deadline_s: float) -> Reply:
        """One call, answered now (the async mode)."""
        ...


@runtime_checkable
class Lists(Protocol):
    """An adapter that can say which batches a provider has of ours, known to us or not."""

    async def list_batches(self, account: Account, *, created_after: int) -> list[BatchView]:
        """Our cell's batches, oldest first; a list that cannot be read whole raises."""
        ...


AdapterKind: TypeAlias = Literal[
    "openai_responses", "openai_chat", "gemini_generate", "anthropic_messages", "sandbox"
]

"""What the mail sandbox has accepted, and what shall go wrong there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dragoman.core.canonical import JSONObject, sha256
from dragoman.sandbox.sealed import SealedFile, as_text, bytes_of

KEPT_MAILS = 1_000

_Record: TypeAlias = "dict[str, Any]"  # what we wrote, as JSON gives it back
Moment = Literal["connect", "mail", "rcpt", "data", "after_data"]


class Fault(BaseModel):
    """What shall go wrong, where, for whom, and how often.

    >>> Fault(at="rcpt", do="reply", code=550, recipient="gone@example.org").times is None
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    at: Moment
    do: Literal["reply", "drop", "drop_after_data", "delay"]
    code: int = Field(default=451, ge=400, le=599)
    text: str = Field(default="4.3.0 as scripted", pattern=r"^[ -~]*$")
    delay_s: float = Field(default=0.0, ge=0.0)
    recipient: str | None = None
    nth: int | None = Field(default=None, ge=1)  # only the n-th time that it would strike
    times: int | None = Field(default=None, ge=1)  # at most so often; without it, always

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.do == "drop_after_data" and self.at != "after_data":
            raise ValueError("drop_after_data happens at after_data only")
        if self.recipient is not None and self.at in ("connect", "mail"):
            raise ValueError("nobody knows the recipient there yet")
        return self


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail for one recipient, exactly as it came."""

    recipient: str
    queue_id: str
    at: datetime
    content: bytes = field(repr=False)

    def ledger_row(self) -> JSONObject:
        """What the ledger says of it: no word of the text."""
        return {
            "message_id": self._header("Message-ID"),
            "recipient": self.recipient,
            "sha256": sha256(self.content).hex(),
            "queue_id": self.queue_id,
            "at": self.at.isoformat(),
        }

    def summary(self) -> JSONObject:
        """What somebody sees who looks into this mailbox."""
        return {
            "subject": self._header("Subject"),
            "recipient": self.recipient,
            "message_id": self._header("Message-ID"),
            "at": self.at.isoformat(),
        }

    def _header(self, name: str) -> str:
        head, _, _ = self.content.partition(b"\r\n\r\n")
        try:
            return str(message_from_bytes(head, policy=policy.default).get(name, ""))
        except UnicodeError:  # the parser's own, at an encoded word that holds half a character
            return ""


@dataclass(slots=True)
class _Scripted:
    fault: Fault
    seen: int = 0
    struck: int = 0

    def strikes(self, at: Moment, recipient: str | None) -> bool:
        fault = self.fault
        if fault.at != at or (fault.recipient is not None and fault.recipient != recipient):
            return False
        self.seen += 1
        if fault.nth not in (None, self.seen) or self.struck == fault.times:
            return False
        self.struck += 1
        return True


class Mailbox:
    """What was accepted, and the faults still to come.

    With `state` mails and ledger survive a kill -9 from the moment at which a mail is accepted;
    armed faults do not, they belong to the test that armed them.
    """

    def __init__(self, state: Path | None = None) -> None:
        self.mails: deque[Mail] = deque(maxlen=KEPT_MAILS)
        self.rows: list[JSONObject] = []
        self.connections = 0
        self._count = 0
        self._scripts: list[_Scripted] = []
        self._file = SealedFile(state, "mail") if state else None
        if self._file:
            with self._file.loading() as data:
                if data is not None:
                    self._thaw(cast("_Record", orjson.loads(data)))

    def accept(self, recipients: list[str], content: bytes) -> str:
        """Take the mail, and give its queue id; it is durable when this returns."""
        self._count += 1
        queue_id, now = f"SBX{self._count:08d}", datetime.now(UTC)
        for recipient in recipients:
            mail = Mail(recipient, queue_id, now, content)
            self.mails.append(mail)
            self.rows.append(mail.ledger_row())
        if self._file:
            self._file.write(self._freeze())
        return queue_id

    def close(self) -> None:
        """Let another mailbox have the file."""
        if self._file:
            self._file.close()

    def script(self, fault: Fault) -> None:
        """Let this go wrong from now on."""
        self._scripts.append(_Scripted(fault))

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        self._scripts.clear()

    def strike(self, at: Moment, recipient: str | None = None) -> Fault | None:
        """The first scripted fault that happens here."""
        found = (script for script in list(self._scripts) if script.strikes(at, recipient))
        script = next(found, None)
        return None if script is None else script.fault

    def _freeze(self) -> bytes:
        held = {"count": self._count, "rows": self.rows, "mails": list(self.mails)}
        return orjson.dumps(held, default=as_text)

    def _thaw(self, held: _Record) -> None:
        self._count, self.rows = held["count"], held["rows"]
        for record in held["mails"]:
            at, content = datetime.fromisoformat(record["at"]), bytes_of(record["content"])
            self.mails.append(Mail(**record | {"at": at, "content": content}))

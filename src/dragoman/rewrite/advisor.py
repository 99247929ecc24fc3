"""The classifier's call: one question with a hard time-out, whose answer is advice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

import structlog

from dragoman.core import ports
from dragoman.core.call import Answered
from dragoman.providers.base import Account, Adapter
from dragoman.rewrite.classifier import SAFE_DEFAULT, classifier_call, read_classifier
from dragoman.rewrite.contracts import ClassifierResult
from dragoman.rewrite.words import Surface

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")


@dataclass(frozen=True, slots=True)
class Advisor:
    """Asks the classifier's model; without a usable answer in time the safe default counts."""

    adapter: Adapter
    account: Account
    model: str
    timeout_s: float = 5.0

    async def classify(self, request_id: UUID, message: str, surface: Surface) -> ClassifierResult:
        """What the message is about, or the safe default. It is asked once."""
        call = classifier_call(str(request_id), message, surface)
        try:
            async with asyncio.timeout(self.timeout_s):
                asked = self.adapter.answer(self.account, call, self.model, self.timeout_s)
                reply = await ports.cross("classify.answer", asked)
        except TimeoutError:
            log.warning("classifier_silent", request=str(request_id), code="deadline")
            return SAFE_DEFAULT
        if isinstance(reply, Answered):
            return read_classifier(reply.text)
        log.warning("classifier_silent", request=str(request_id), code=reply.failure.code)
        return SAFE_DEFAULT

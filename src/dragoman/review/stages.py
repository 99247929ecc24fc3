"""The three stages of a review: fetch and redact, ask a model, wait until everybody was told."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.channels import channel_for
from dragoman.channels.base import Channel, Message
from dragoman.core.call import Answered, Call, Reply
from dragoman.core.canonical import canonical, sha256
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import DeliveryId, JobId, uuid7
from dragoman.core.job import Bury, Defer, Done, Held, Outcome, Reason, outcome_of
from dragoman.core.retry import FullJitter, RetryPolicy
from dragoman.review import store
from dragoman.review.git import SourceFailed
from dragoman.review.paths import AllowList
from dragoman.review.prompt import review_call
from dragoman.review.redact import Redacted, RedactionFailed, Redactor
from dragoman.review.render import Review, delivery_key, render_mail
from dragoman.review.result import ReviewResult, read_review, redact_findings
from dragoman.review.source import Changelist, Fetched, fetch
from dragoman.store.database import Cell, Tx
from dragoman.store.deliveries import tell_states
from dragoman.store.workers import raise_alert
from dragoman.work.pipeline import Pipeline, Stored, custom_id

MAX_SENDS = 5
_SENDING_WAIT_S = 10.0
_DOUBT_WAIT_S = 300.0  # a doubt that ends wakes the job


@dataclass(frozen=True, slots=True)
class Prepared:
    """A diff without its secrets, and the files it is of."""

    diff: Redacted
    changed_files: tuple[str, ...]
    not_reviewed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A checked answer, redacted again, and whom it is for."""

    result: ReviewResult
    model: str
    given: store.Loaded


@dataclass(frozen=True, slots=True)
class Fetch:
    """Reads the changelist from its repository and keeps it without its secrets."""

    allow: tuple[str, ...]
    retry: RetryPolicy = field(default_factory=FullJitter)
    name: str = "fetch"

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Fetch and redact; a denied path fetches nothing at all."""
        given = await _input(cell, job)
        if given is None:
            return _gone()
        try:
            # An installation that allows nothing denies each path; that is no bug to page about.
            allow = AllowList.read(self.allow) if self.allow else AllowList(())
            fetched = await fetch(Changelist.parse(given.changelist_id), allow)
            prepared = await asyncio.to_thread(_redacted, fetched)
        except SourceFailed as failed:
            if failed.denied_path is not None:
                about = {"job_id": str(job.id), "path": failed.denied_path}
                await raise_alert(cell, "path_denied", str(job.id), "act", {**about})
            return outcome_of(failed.failure)
        except RedactionFailed:
            return Bury(Failure(FailureClass.POLICY_REJECTED, "redaction_failed"))
        return Done(prepared, sha256(prepared.diff.text.encode()))

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Keep the redacted diffs."""
        await store.store_diffs(tx, [_diff(one) for one in finished])


@dataclass(frozen=True, slots=True)
class Criticise:
    """Asks a model about the redacted diff; findings and outbox rows are stored together."""

    cell_name: str
    channels: Mapping[str, Channel]
    retry: RetryPolicy = field(default_factory=FullJitter)
    name: str = "llm"

    async def load(self, cell: Cell, jobs: Sequence[Held]) -> Mapping[JobId, object]:
        """The inputs with their diffs."""
        found = await store.load_inputs(cell, [job.id for job in jobs])
        return {one.job_id: one for one in found if one.diff is not None}

    def prepare(self, job: Held, given: object) -> Sequence[Call] | Failure:
        """One call. The diff passes a redactor once more: what is not clean is not sent."""
        loaded = _loaded(given)
        redactor = Redactor(secrets.token_bytes(32))
        try:
            diff = redactor.redact(loaded.diff or "")
            files = [redactor.redact(path) for path in loaded.changed_files or ()]
        except RedactionFailed:
            return Failure(FailureClass.POLICY_REJECTED, "redaction_failed")
        if diff.text != loaded.diff:
            return Failure(FailureClass.POLICY_REJECTED, "redaction_bypassed")
        return [review_call(custom_id(job, 0), diff, files)]

    def absorb(self, job: Held, given: object, replies: Sequence[Reply]) -> Outcome:  # noqa: ARG002 - the protocol's
        """Judge the answer; its words lose their secrets before anybody sees them."""
        reply, loaded = replies[0], _loaded(given)
        if not isinstance(reply, Answered):
            return outcome_of(reply.failure)
        judged = read_review(reply.text, loaded.changed_files or ())
        if isinstance(judged, Failure):
            return Bury(judged)
        redactor = Redactor(secrets.token_bytes(32))
        try:
            clean = redact_findings(judged, lambda text: redactor.redact(text).text)
        except RedactionFailed:
            return Bury(Failure(FailureClass.POLICY_REJECTED, "redaction_failed"))
        return Done(Judged(clean, reply.model, loaded), sha256(canonical(clean.to_json())))

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Findings and outbox in the transaction that ends the stage: neither without the other."""
        await store.store_results(tx, [_review(one) for one in finished])
        await store.store_findings(tx, [each for one in finished for each in _findings(one)])
        await store.queue_deliveries(tx, [each for one in finished for each in self._messages(one)])

    def _messages(self, stored: Stored) -> list[store.NewDelivery]:
        judged = _judged(stored)
        given = judged.given
        review = Review(
            given.changelist_id,
            given.review_version,
            judged.result,
            files=len(given.changed_files or ()),
            not_reviewed=tuple((path, why) for path, why in given.not_reviewed or ()),
        )
        return [self._message(stored, review, recipient) for recipient in given.recipients]

    def _message(self, stored: Stored, review: Review, recipient: str) -> store.NewDelivery:
        """The message as it will be sent, byte for byte, now and on every retry."""
        channel = channel_for(recipient, self.channels.values())
        key = delivery_key(review.changelist_id, recipient, review.version, self.cell_name)
        subject, body = render_mail(review, recipient)
        payload = channel.render(Message(key, recipient, subject, body, stored.at))
        return store.NewDelivery(
            id=DeliveryId(uuid7()),
            changelist_id=review.changelist_id,
            recipient=recipient,
            review_version=review.version,
            home_id=stored.job.home_id,
            job_id=stored.job.id,
            channel=channel.scheme,
            guarantee=channel.guarantee.value,
            key=key,
            payload=payload,
            payload_sha256=sha256(payload),
            max_attempts=MAX_SENDS,
            at=stored.at,
        )


@dataclass(frozen=True, slots=True)
class Notify:
    """Ends the review when everybody was told. The relay does the telling, from the outbox."""

    retry: RetryPolicy = field(default_factory=FullJitter)
    name: str = "notify"

    async def run(self, cell: Cell, job: Held) -> Outcome:
        """Done, failed for good, or waiting for messages that are on their way or in doubt."""
        given = await _input(cell, job)
        if given is None:
            return _gone()
        states = await tell_states(cell, given.changelist_id, given.review_version)
        counts = {each.state: each.n for each in states}
        told, rows = sum(each.told for each in states), sum(counts.values())
        if rows and told == rows:
            return Done(None, sha256(str(rows).encode()))
        if rows and told + counts.get("failed", 0) + counts.get("canceled", 0) == rows:
            return Bury(Failure(FailureClass.DELIVERY_REJECTED, "recipient_not_reached"))
        is_moving = counts.get("queued", 0) + counts.get("sending", 0) > 0
        wait_s = _SENDING_WAIT_S if is_moving else _DOUBT_WAIT_S
        return Defer(Reason.AWAITING_DELIVERIES, delay_s=wait_s)

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """That everybody was told stands in the outbox."""


def review_pipeline(
    cell_name: str,
    allow: Sequence[str],
    channels: Mapping[str, Channel],
    claim_timeout_s: float,
    retry: RetryPolicy | None = None,
) -> Pipeline:
    """The review pipeline: three stages, a budget of five each."""
    policy = retry or FullJitter()
    stages = (
        Fetch(tuple(allow), policy),
        Criticise(cell_name, channels, policy),
        Notify(policy),
    )
    return Pipeline(2, "review", stages, claim_timeout_s=claim_timeout_s)


def _redacted(fetched: Fetched) -> Prepared:
    redactor = Redactor(secrets.token_bytes(32))
    diff = redactor.redact(fetched.text())
    files = tuple(redactor.redact(path).text for path in fetched.reviewed)
    skipped = tuple((redactor.redact(path).text, why) for path, why in fetched.not_reviewed)
    return Prepared(diff, files, skipped)


async def _input(cell: Cell, job: Held) -> store.Loaded | None:
    found = await store.load_inputs(cell, [job.id])
    return found[0] if found else None


def _gone() -> Bury:
    return Bury(Failure(FailureClass.NOT_FOUND, "input_is_gone"))


def _loaded(given: object) -> store.Loaded:
    assert isinstance(given, store.Loaded)  # noqa: S101 - load() made it
    return given


def _judged(stored: Stored) -> Judged:
    judged = stored.done.result
    assert isinstance(judged, Judged)  # noqa: S101 - absorb() made it
    return judged


def _diff(stored: Stored) -> store.NewDiff:
    prepared = stored.done.result
    assert isinstance(prepared, Prepared)  # noqa: S101 - run() made it
    return store.NewDiff(
        job_id=stored.job.id,
        home_id=stored.job.home_id,
        diff=prepared.diff.text,
        changed_files=prepared.changed_files,
        not_reviewed=prepared.not_reviewed,
        redaction={"counts": dict(prepared.diff.counts), "rules": prepared.diff.rule_set_version},
        at=stored.at,
    )


def _review(stored: Stored) -> store.NewReview:
    judged, result = _judged(stored), _judged(stored).result
    return store.NewReview(
        job_id=stored.job.id,
        home_id=stored.job.home_id,
        changelist_id=judged.given.changelist_id,
        review_version=judged.given.review_version,
        schema_version=result.schema_version,
        prompt_version=result.prompt_version,
        provider=str(stored.job.routing["provider"]),
        model=judged.model,
        summary=result.summary,
        diagnostics=[each.to_json() for each in result.diagnostics],
        at=stored.at,
    )


def _findings(stored: Stored) -> list[store.NewFinding]:
    return [
        store.NewFinding(
            job_id=stored.job.id,
            position=position,
            home_id=stored.job.home_id,
            severity=one.severity.value,
            category=one.category.value,
            title=one.title,
            file=one.file,
            line=one.line,
            end_line=one.end_line,
            message=one.message,
            suggestion=one.suggestion,
            confidence=one.confidence.value if one.confidence else None,
            rule_id=one.rule_id,
        )
        for position, one in enumerate(_judged(stored).result.findings)
    ]

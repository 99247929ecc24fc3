"""The generate stage: a stored request becomes one call, its answer one checked output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragoman.core.call import Answered, Call, Reply
from dragoman.core.canonical import JSONObject, sha256
from dragoman.core.errors import BadInput
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import JobId
from dragoman.core.job import Bury, Done, Held, Outcome, outcome_of
from dragoman.core.retry import RetryPolicy, Table
from dragoman.rewrite import store
from dragoman.rewrite.contracts import RewriteOutput, RewriteRequest
from dragoman.rewrite.evaluate import evaluate
from dragoman.rewrite.prompt import rewrite_call
from dragoman.store.database import Cell, Tx
from dragoman.work.pipeline import Pipeline, Stored, custom_id


@dataclass(frozen=True, slots=True)
class Rewritten:
    """An output that passed every check, and the model that wrote it."""

    output: RewriteOutput
    target_locale: str
    model: str


@dataclass(frozen=True, slots=True)
class Generate:
    """The one stage of a rewrite: two pure halves around a call, and the statement that stores."""

    retry: RetryPolicy
    name: str = field(default="generate")

    async def load(self, cell: Cell, jobs: Sequence[Held]) -> Mapping[JobId, object]:
        """The requests of these jobs; one that does not match its job is not there."""
        found = await store.load_requests(cell, [job.id for job in jobs])
        return {one.job_id: one for one in found}

    def prepare(self, job: Held, given: object) -> Sequence[Call] | Failure:
        """One call that carries the job's id and nothing about its people."""
        try:
            return [
                rewrite_call(custom_id(job, 0), _request(given), str(job.routing["prompt_version"]))
            ]
        except BadInput:
            return Failure(FailureClass.SCHEMA_INVALID, "request_unreadable")

    def absorb(self, job: Held, given: object, replies: Sequence[Reply]) -> Outcome:
        """Judge the reply: whatever fails a check is final, and leaves nothing behind."""
        reply = replies[0]
        if not isinstance(reply, Answered):
            return outcome_of(reply.failure)
        try:
            request = _request(given)
        except BadInput:
            return Bury(Failure(FailureClass.SCHEMA_INVALID, "request_unreadable"))
        judged = evaluate(request, reply.text, str(job.routing["prompt_version"]))
        if isinstance(judged, Failure):
            return Bury(judged)
        rewritten = Rewritten(judged.output, request.target_locale, reply.model)
        digest = sha256(judged.output.rewritten_text.encode())
        return Done(rewritten, digest, _checked(judged.output))

    async def store(self, tx: Tx, finished: Sequence[Stored]) -> None:
        """Store the outputs of jobs whose token held, each under its own unit."""
        await store.store_outputs(tx, [_output(one) for one in finished])


def _request(given: object) -> RewriteRequest:
    assert isinstance(given, store.Loaded)  # noqa: S101 - load() made it
    return RewriteRequest.from_json({**given.rewrite_request, "original_text": given.original_text})


def _checked(output: RewriteOutput) -> JSONObject:
    """What the checks said, as it may be written down: codes and versions."""
    return {
        "eval": output.eval_result.to_json(),
        "output_language": output.output_language,
        "lexicon_version": output.lexicon_version,
    }


def _output(stored: Stored) -> store.NewOutput:
    rewritten = stored.done.result
    assert isinstance(rewritten, Rewritten)  # noqa: S101 - absorb() made it
    output, routing = rewritten.output, stored.job.routing
    return store.NewOutput(
        request_id=output.rewrite_request_id,
        recipient_user_id=output.recipient_user_id,
        home_id=stored.job.home_id,
        job_id=stored.job.id,
        rewritten_text=output.rewritten_text,
        output_language=output.output_language,
        target_locale=rewritten.target_locale,
        provider=str(routing["provider"]),
        model=rewritten.model,
        prompt_version=output.prompt_version,
        policy_version=output.policy_version,
        lexicon_version=output.lexicon_version,
        eval_result=output.eval_result.to_json(),
        completed_at=stored.at,
    )


def rewrite_pipeline(retry_backoff_s: Sequence[float], claim_timeout_s: float) -> Pipeline:
    """The rewrite pipeline at a profile's pace."""
    return Pipeline(
        1,
        "rewrite",
        (Generate(Table(tuple(retry_backoff_s))),),
        claim_timeout_s=claim_timeout_s,
    )

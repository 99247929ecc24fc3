"""The orchestrator: the only way in for a message, and the only place that decides about it.

The message is durable, with its snapshots, before anything looks at it. Then it is classified
(advice only), placed in a lane, given its context and its route; then request, job and first event
follow in one transaction. If that cannot be done the request has failed, and its caller is told no
more than that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import structlog

from dragoman.core.canonical import JSONObject, canonical, sha256
from dragoman.core.errors import Conflict, DatabaseError, DragomanError, QueueFull, Refused
from dragoman.core.ids import HomeId, JobId, unit_lock, uuid7
from dragoman.core.job import Mode, Queue
from dragoman.core.locale import lane, resolve_source, resolve_target
from dragoman.core.text import check_text
from dragoman.rewrite import store
from dragoman.rewrite.context import build_context
from dragoman.rewrite.contracts import (
    CONTEXT_PACK_VERSION,
    ClassifierResult,
    RewriteRequest,
    RoutingDecision,
    batch_group_key,
)
from dragoman.rewrite.policy import POLICY_VERSION, decide_policy, power
from dragoman.rewrite.routing import TASK, LanguagePair, Route, RoutingInput, route
from dragoman.rewrite.words import Role, Surface, read_surface
from dragoman.store.database import Cell
from dragoman.store.intake import check_room
from dragoman.store.jobs import NewJob, enqueue_jobs, facts
from dragoman.store.queues import hint_ready, name_queue

log: structlog.stdlib.BoundLogger = structlog.get_logger("dragoman")

Classify: TypeAlias = Callable[[UUID, str, Surface], Awaitable[ClassifierResult]]


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a product hands over: who, to whom, what. Nothing about how."""

    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    message: str
    surface: str = "direct_message"
    rewrite_request_id: UUID | None = None
    sender_locale: str | None = None
    recipient_locale: str | None = None

    def __repr__(self) -> str:
        """Without the text."""
        return f"Complaint(rewrite_request_id={self.rewrite_request_id})"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer, and nothing of what was decided."""

    rewrite_request_id: UUID
    job_id: JobId | None
    status: str


@dataclass(frozen=True, slots=True)
class Decided:
    """Everything that was decided about a request."""

    request: RewriteRequest
    routing: RoutingDecision
    account: str


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """The way in. It runs as the orchestrator's role and holds no rewriter."""

    cell: Cell
    actor: UUID
    classify: Classify

    async def create(self, complaint: Complaint) -> Accepted:
        """Take a message; it answers at once, and the rewrite comes later.

        >>> await orchestrator.create(Complaint(home, ann, bob, "So loud!"))  # doctest: +SKIP
        Accepted(rewrite_request_id=..., job_id=..., status='queued')
        """
        request_id = await self._persist(complaint)
        known = await store.read_request(self.cell, request_id)
        if known is None:
            raise Refused("sender and recipient must be members of the home; nothing was stored")
        _same(complaint, known)
        if known.job_id is not None or known.failed_at is not None:
            return _answer(known)
        try:
            job_id = await self._decide_and_enqueue(known)
        except DragomanError as error:
            log.warning("rewrite_not_enqueued", request=str(request_id), error=type(error).__name__)
            return await self._fail(request_id, error)
        if job_id is None:  # somebody else with the same id was faster
            known = await store.read_request(self.cell, request_id)
            return _answer(known) if known else Accepted(request_id, None, "failed")
        return Accepted(request_id, job_id, "queued")

    async def _persist(self, complaint: Complaint) -> UUID:
        text = check_text(complaint.message)
        surface = read_surface(complaint.surface)
        if complaint.sender_user_id == complaint.recipient_user_id:
            raise Refused("a message to oneself has no recipient; nothing was stored")
        request_id = complaint.rewrite_request_id or uuid7()
        await self._admit(complaint.home_id, request_id)
        async with self.cell.transaction("persist_request") as tx:
            await store.persist_request(
                tx,
                id=request_id,
                home_id=complaint.home_id,
                sender_user_id=complaint.sender_user_id,
                recipient_user_id=complaint.recipient_user_id,
                surface=surface.value,
                text=text,
                text_sha256=sha256(text.encode()),
                sender_locale=complaint.sender_locale,
                recipient_locale=complaint.recipient_locale,
                actor=self.actor,
                recipient_snapshot_id=uuid7(),
                preference_snapshot_id=uuid7(),
            )
        return request_id

    async def _admit(self, home_id: UUID, request_id: UUID) -> None:
        """Refuse a new message of a home that has too many waiting; a known one is answered."""
        try:
            async with self.cell.transaction("read") as tx:
                await check_room(tx, [home_id])
        except QueueFull:
            if await store.read_request(self.cell, request_id) is None:
                raise

    async def _decide_and_enqueue(self, known: store.Known) -> JobId | None:
        result = await self.classify(known.id, known.original_text, Surface(known.surface))
        decided = await self._decide(known, result)
        job = new_job(decided)
        async with self.cell.transaction("enqueue") as tx:
            if not await store.route_request(tx, id=known.id, **_columns(decided)):
                return None
            await name_queue(tx, _queue(decided), 0)
            await enqueue_jobs(tx, self.actor, [job])
        if job.mode is Mode.ASYNC:
            await hint_ready(self.cell)
        return job.id

    async def _decide(self, known: store.Known, result: ClassifierResult) -> Decided:
        """Locales, lane, policy, context and route: the same input gives the same decision."""
        confidence = result.confidence.language
        source = resolve_source(result.detected_language, confidence, known.sender_locale)
        target = resolve_target(known.recipient_locale)
        powers = power(Role(known.sender_role), Role(known.recipient_role))
        pack = build_context(
            recipient_user_id=known.recipient_user_id,
            target_language=target,
            power=powers,
            topics=result.topics,
            answers=known.preferences,
        )
        request = RewriteRequest(
            rewrite_request_id=known.id,
            home_id=known.home_id,
            sender_user_id=known.sender_user_id,
            recipient_user_id=known.recipient_user_id,
            recipient_snapshot_id=known.recipient_snapshot_id,
            recipient_preference_snapshot_id=known.preference_snapshot_id,
            surface=Surface(known.surface),
            original_text=known.original_text,
            topics=result.topics,
            intent=result.intent,
            rewrite_strength=result.rewrite_strength,
            source_locale=source,
            target_locale=target,
            lane=lane(source, target),
            classifier_result=result,
            context_pack=pack,
            policy=decide_policy(result, powers.power_mode),
            classifier_version=result.classifier_version,
            context_pack_version=CONTEXT_PACK_VERSION,
            policy_version=POLICY_VERSION,
            created_at=known.created_at,
        )
        routing, account = await self._route(request)
        return Decided(request, routing, account)

    async def _route(self, request: RewriteRequest) -> tuple[RoutingDecision, str]:
        rows = await store.active_routes(self.cell)
        table = {_route_of(row): row.account for row in rows}
        wanted = RoutingInput(
            task=TASK,
            surface=request.surface,
            rewrite_strength=request.rewrite_strength,
            language_pair=LanguagePair(request.source_locale, request.target_locale),
            lane=request.lane,
            policy_version=request.policy_version,
        )
        decision = route(table, wanted)
        accounts = {
            (one.provider, one.model, one.base_url): account for one, account in table.items()
        }
        return decision, accounts[decision.provider, decision.model, decision.base_url]

    async def _fail(self, request_id: UUID, error: DragomanError) -> Accepted:
        """Say so on the request, unless its job is there after all: a COMMIT's answer can be lost.

        If not even that can be told, nothing is answered: the sweeper will say it later.
        """
        try:
            has_failed = await store.fail_request(self.cell, request_id, type(error).__name__)
            known = None if has_failed else await store.read_request(self.cell, request_id)
        except DatabaseError as worse:
            log.warning("request_left_waiting", request=str(request_id), error=str(worse))
            raise
        return _answer(known) if known else Accepted(request_id, None, "failed")


def new_job(decided: Decided) -> NewJob:
    """The intent of a decided request: ids and routing, no text."""
    request, routing = decided.request, decided.routing
    unit = f"{request.rewrite_request_id}:{request.recipient_user_id}"
    mode = Mode(routing.execution_mode.value)
    group = batch_group_key(routing, request.lane, request.source_locale, request.target_locale)
    return NewJob(
        id=JobId(uuid7()),
        pipeline=1,
        unit=unit,
        home_id=HomeId(request.home_id),
        mode=mode,
        account=decided.account,
        lane=request.lane.value,
        source_locale=request.source_locale,
        target_locale=request.target_locale,
        group_key=group,
        routing=routing.to_json(),
        max_attempts=routing.max_attempts(),
        request_id=request.rewrite_request_id,
        recipient_id=request.recipient_user_id,
        changelist_id=None,
        review_version=None,
        input_hash=None,
        replay_of=None,
        stage=0,
        queue_key=_queue(decided).key,
        queue_keys=None,
        unit_lock=unit_lock("rewrite", unit),
        facts=_facts(decided, group),
    )


def _queue(decided: Decided) -> Queue:
    routing = decided.routing
    mode = Mode(routing.execution_mode.value)
    return Queue("rewrite", "generate", mode, routing.provider, decided.account, routing.model)


def _facts(decided: Decided, group: str) -> bytes:
    request, routing = decided.request, decided.routing
    return facts(
        rewrite_request_id=str(request.rewrite_request_id),
        home_id=str(request.home_id),
        sender_user_id=str(request.sender_user_id),
        recipient_user_id=str(request.recipient_user_id),
        recipient_snapshot_id=str(request.recipient_snapshot_id),
        recipient_preference_snapshot_id=str(request.recipient_preference_snapshot_id),
        source_locale=request.source_locale,
        target_locale=request.target_locale,
        lane=request.lane.value,
        classifier_version=request.classifier_version,
        detected_language=request.classifier_result.detected_language,
        language_confidence=request.classifier_result.confidence.language.value,
        provider=routing.provider,
        model=routing.model,
        prompt_version=routing.prompt_version,
        policy_version=routing.policy_version,
        execution_mode=routing.execution_mode.value,
        batch_group_key=group,
        surface=request.surface.value,
        rewrite_strength=request.rewrite_strength.value,
    )


def _columns(decided: Decided) -> dict[str, object]:
    request, result = decided.request, decided.request.classifier_result
    stored = request.to_json()
    del stored["original_text"]  # the text stands in its own column, and nowhere a second time
    return {
        "classifier_version": result.classifier_version,
        "classifier_result": _json(result.to_json()),
        "defaulted": list(result.defaulted),
        "detected_language": result.detected_language,
        "language_confidence": result.confidence.language.value,
        "topics": [topic.value for topic in result.topics],
        "intent": result.intent.value,
        "rewrite_strength": request.rewrite_strength.value,
        "source_locale": request.source_locale,
        "target_locale": request.target_locale,
        "lane": request.lane.value,
        "context_pack": _json(request.context_pack.to_json()),
        "policy_version": request.policy_version,
        "routing_decision": _json(decided.routing.to_json()),
        "rewrite_request": _json(stored),
    }


def _json(value: JSONObject) -> str:
    return canonical(value).decode()


def _route_of(row: store.RouteRow) -> Route:
    about: JSONObject = {
        "surface": row.surface,
        "lane": row.lane,
        "rewrite_strength": row.rewrite_strength,
        "priority": row.priority,
        "is_active": row.active,
        "is_provider_active": True,
        "created_at": row.created_at.isoformat(),
    }
    return Route.from_json({**row.decision, **about})


def _same(complaint: Complaint, known: store.Known) -> None:
    """The same id for something else is a conflict; nothing was written."""
    given = (complaint.home_id, complaint.sender_user_id, complaint.recipient_user_id)
    stored = (known.home_id, known.sender_user_id, known.recipient_user_id)
    surface = read_surface(complaint.surface).value
    if (
        given != stored
        or surface != known.surface
        or sha256(complaint.message.encode()) != known.text_sha256
    ):
        raise Conflict(
            "this rewrite_request_id was used for another message or recipient; nothing was written"
        )


def _answer(known: store.Known) -> Accepted:
    status = "failed" if known.failed_at is not None else str(known.state)
    return Accepted(known.id, known.job_id, status)

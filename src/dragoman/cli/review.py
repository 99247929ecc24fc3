"""Reviews, from the command line."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

import typer

from dragoman.cli.db import cell_of, require_running
from dragoman.cli.hint import hint
from dragoman.compose import pipelines_of, review_routing
from dragoman.core.errors import BadSetting, NotFound
from dragoman.core.ids import JobId
from dragoman.review import store
from dragoman.review.enqueue import Enqueued, Wanted, enqueue_review
from dragoman.review.git import SourceFailed
from dragoman.review.paths import AllowList
from dragoman.review.source import resolve
from dragoman.settings import Settings, read_settings
from dragoman.store.database import Cell
from dragoman.store.workers import know_actor

PROJECT = uuid5(NAMESPACE_URL, "dragoman/local-project")

_ADVICE = {
    "path_denied": "; repositories are allowed by DRAGOMAN_REVIEW__ALLOW, and a path there ends"
    " with a slash; a worktree's own repository must lie under it too",
}


async def enqueue(
    repository: Path,
    revisions: str,
    to: list[str],
    key: str | None,
    version: int,
    *,
    is_rerun: bool,
) -> int:
    """Hand in a review and print its job."""
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "orchestrator") as cell:
        made = await hand_in(
            cell, settings, repository, revisions, to, key=key, version=version, is_rerun=is_rerun
        )
    typer.echo(f"{'enqueued' if made.is_new else 'there already'}  {made.job_id}  {made.state}")
    typer.echo(f"see it with: {hint(f'review show {made.job_id}')}")
    return 0


async def hand_in(
    cell: Cell,
    settings: Settings,
    repository: Path,
    revisions: str,
    to: list[str],
    *,
    key: str | None = None,
    version: int = 1,
    is_rerun: bool = False,
) -> Enqueued:
    """Resolve what the person wrote, and enqueue it."""
    folder = os.path.realpath(repository)  # noqa: ASYNC240 - one look, at a terminal
    try:
        allow = AllowList.read(settings.review.allow)
        changelist = await resolve(folder, revisions, allow)
    except SourceFailed as failed:
        code = failed.failure.code
        raise BadSetting(f"the changelist cannot be read ({code}){_ADVICE.get(code, '')}") from None
    name = "\0".join([changelist.id, str(version), *sorted(to)])
    wanted = Wanted(
        home_id=PROJECT,
        idempotency_key=key or hashlib.sha256(name.encode()).hexdigest(),
        changelist=changelist,
        version=version,
        recipients=to,
        is_rerun=is_rerun,
    )
    async with cell.transaction("know_actor") as tx:
        actor = await know_actor(tx, "orchestrator", "cli")
    pipeline = pipelines_of(settings)["review"]
    return await enqueue_review(
        cell, actor, pipeline, wanted, review_routing(settings), settings.provider.account
    )


async def show(job_id: UUID) -> int:
    """Print how a review stands, and its messages."""
    settings = read_settings()
    require_running(settings)
    async with cell_of(settings, "orchestrator") as cell:
        shown = await store.show_review(cell, JobId(job_id))
        if shown is None:
            raise NotFound("there is no review with this id")
        typer.echo(
            f"{shown.status}  at {shown.stage}  {shown.findings} findings  "
            f"version {shown.review_version}"
        )
        if shown.last_error:
            typer.echo(f"last error: {shown.last_error}")
        if shown.summary:
            typer.echo(shown.summary)
    return 0

"""The commands and their options; what they do stands in the modules beside this one."""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dragoman.cli.doing import do
from dragoman.cli.keep import audit, db
from dragoman.cli.letters import letters
from dragoman.cli.operate import deliveries, gate, schedule
from dragoman.core.errors import BadInput, DragomanError

app = typer.Typer(
    name="dragoman",
    help="LLM work done once, said privately, and accounted for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
rewrite = typer.Typer(help="Complaints, rewritten calmly for one recipient.", no_args_is_help=True)
review = typer.Typer(
    help="Changelists, criticised once for everybody concerned.", no_args_is_help=True
)
app.add_typer(rewrite, name="rewrite")
app.add_typer(review, name="review")
app.add_typer(gate, name="gate")
app.add_typer(schedule, name="schedule")
app.add_typer(letters, name="letters")
app.add_typer(db, name="db")
app.add_typer(audit, name="audit")
app.add_typer(deliveries, name="deliveries")


Risks = Annotated[
    list[str] | None,
    typer.Option(help="A setting of the server's log that may write values; recorded."),
]


_Job = Annotated[UUID, typer.Argument(help="The job's id; rewrite show prints it.")]
_Request = Annotated[UUID, typer.Argument(help="The id that rewrite submit printed.")]


def run() -> int:
    """Run the typed command; a refusal is one sentence on standard error and exit code 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a letter shows ?
            stream.reconfigure(errors="replace")
    # Its pool says on standard error what our own sentence says already, in the server's words.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    try:
        app()
    except DragomanError as error:
        typer.echo(f"dragoman: {error}", err=True)
        return 1
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        typer.echo("dragoman: the disk is full; make room, and type it again", err=True)
        return 1
    return 0


def _accept(risks: list[str] | None) -> None:
    if risks:
        os.environ["DRAGOMAN_ACCEPT_SERVER_LOG_RISK"] = ",".join(risks)  # children read it too


@app.command()
def version() -> None:
    """Print the version."""
    from dragoman import __version__  # noqa: PLC0415 - see doing

    typer.echo(__version__)


@app.command(short_help="Show the whole system here, without a key.")
def demo(
    complaints: Annotated[
        int, typer.Option(min=1, max=1000, help="How many complaints travel.")
    ] = 60,
) -> None:
    """Show the whole system on this machine: no key, no network service."""
    from dragoman.cli.demo import show  # noqa: PLC0415 - see doing

    raise typer.Exit(show(complaints))


@app.command(short_help="Run everything on this machine until Ctrl-C.")
def up(accept_server_log_risk: Risks = None) -> None:
    """Run everything on this machine until Ctrl-C; without a provider, with the sandbox."""
    _accept(accept_server_log_risk)
    from dragoman.cli.up import stay_up  # noqa: PLC0415 - see doing
    from dragoman.settings import read_settings  # noqa: PLC0415 - see doing

    raise typer.Exit(stay_up(read_settings()))


@app.command("run", short_help="Run one role, or have one run now.")
def run_role(
    role: Annotated[
        str, typer.Argument(help="submitter, collector, worker, relay, sweeper or door; or: now")
    ],
    which: Annotated[
        str | None, typer.Argument(help="After now: submitter or collector.", show_default=False)
    ] = None,
    accept_server_log_risk: Risks = None,
) -> None:
    """Run one role in this process, as `up` does; or, with now, have a scheduled one run now."""
    if role == "now":
        from dragoman.cli.schedule import run_now  # noqa: PLC0415 - see doing

        do(run_now(which or ""))
        return
    _accept(accept_server_log_risk)
    from dragoman.cli.roles import run_until_stopped  # noqa: PLC0415 - see doing
    from dragoman.settings import read_settings  # noqa: PLC0415 - see doing

    if which is not None:
        raise BadInput("only now takes another word: dragoman run now submitter")
    raise typer.Exit(run_until_stopped(read_settings(), role))


@app.command(short_help="How everything stands, and what needs you.")
def status() -> None:
    """How everything stands: jobs, batches, deliveries, and what needs you."""
    from dragoman.cli.look import show_status  # noqa: PLC0415 - see doing

    do(show_status())


@app.command(short_help="The whole story of one job, without texts.")
def job(job_id: _Job) -> None:
    """The whole story of one job, without one word of anybody's message."""
    from dragoman.cli.look import show_job  # noqa: PLC0415 - see doing

    do(show_job(job_id))


@app.command(short_help="Cancel a job that is not final.")
def cancel(job_id: _Job) -> None:
    """Cancel a job that is not final; a result that is still on its way will be dropped."""
    from dragoman.cli.look import cancel_job  # noqa: PLC0415 - see doing

    do(cancel_job(job_id))


@app.command(short_help="Create and send nothing from now on.")
def hold() -> None:
    """Create and send nothing from now on, for instance over data that another tool restored."""
    from dragoman.cli.held import hold as stop_acting  # noqa: PLC0415 - see doing

    do(stop_acting())


@app.command(short_help="Let a held engine go on.")
def release() -> None:
    """Let a held engine go on, after you have looked at what a restore left in doubt."""
    from dragoman.cli.held import release as let_go  # noqa: PLC0415 - see doing

    do(let_go())


@app.command(short_help="Erase a home, or one person of it.")
def erase(
    home: Annotated[UUID, typer.Option(help="The home whose rows are erased.")],
    user: Annotated[
        UUID | None,
        typer.Option(help="Only what this person of the home has sent or received."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Erase a home, or one person of it: texts go for good, a tombstone of each job stays."""
    from dragoman.cli.erase import erase_rows  # noqa: PLC0415 - see doing

    do(erase_rows(home, user, is_sure=yes))


@rewrite.command("submit")
def rewrite_submit(
    message: Annotated[
        str, typer.Argument(help="The complaint, in any language. - reads standard input.")
    ],
    to: Annotated[str, typer.Option(help="The recipient's language, for instance es.")] = "en",
    source: Annotated[
        str | None,
        typer.Option("--from", help="Your language, if it cannot be told from the text."),
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the rewrite and print it.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Hand in a complaint; the rewrite comes later."""
    from dragoman.cli.rewrite import submit  # noqa: PLC0415 - see doing

    do(submit(message, to, source, wait=wait))


@rewrite.command("show")
def rewrite_show(request_id: _Request) -> None:
    """Print how a complaint stands, and its rewrite once it is there."""
    from dragoman.cli.rewrite import show  # noqa: PLC0415 - see doing

    do(show(request_id))


@review.command("enqueue")
def review_enqueue(
    repository: Annotated[Path, typer.Argument(help="A local git repository on the allow-list.")],
    revisions: Annotated[str, typer.Argument(help="main..topic, or one commit.")],
    to: Annotated[
        list[str],
        typer.Option(help="A recipient, mailto:ann@example.org; may be given several times."),
    ],
    key: Annotated[
        str | None,
        typer.Option(help="Your idempotency key; made from the rest when it is left out."),
    ] = None,
    review_version: Annotated[
        int, typer.Option("--version", min=1, help="Which review of this changelist it is.")
    ] = 1,
    rerun: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option(help="Ask for a higher version of a changelist that was reviewed before."),
    ] = False,
) -> None:
    """Have a changelist criticised, and its recipients told once."""
    from dragoman.cli.review import enqueue  # noqa: PLC0415 - see doing

    do(enqueue(repository, revisions, to, key, review_version, is_rerun=rerun))


@review.command("show")
def review_show(
    job_id: Annotated[UUID, typer.Argument(help="The id that review enqueue printed.")],
) -> None:
    """Print how a review stands."""
    from dragoman.cli.review import show  # noqa: PLC0415 - see doing

    do(show(job_id))

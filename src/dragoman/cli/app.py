"""The commands and their options; what they do stands in the modules beside this one."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dragoman.core.errors import DragomanError

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
gate = typer.Typer(
    help="What a call to a model must pass: budgets, and pauses with a reason.",
    no_args_is_help=True,
)
db = typer.Typer(help="The embedded database.", no_args_is_help=True)
app.add_typer(rewrite, name="rewrite")
app.add_typer(review, name="review")
app.add_typer(gate, name="gate")
app.add_typer(db, name="db")


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
    return 0


def _do(work: Coroutine[object, object, int]) -> None:
    import asyncio  # noqa: PLC0415 - see main

    code = asyncio.run(work)
    if code:
        raise typer.Exit(code)


@app.command()
def version() -> None:
    """Print the version."""
    from dragoman import __version__  # noqa: PLC0415 - see main

    typer.echo(__version__)


@app.command()
def demo(
    complaints: Annotated[
        int, typer.Option(min=1, max=1000, help="How many complaints travel.")
    ] = 60,
) -> None:
    """Show the whole system on this machine: no key, no network service."""
    from dragoman.cli.demo import show  # noqa: PLC0415 - see main

    raise typer.Exit(show(complaints))


@app.command()
def up() -> None:
    """Run everything on this machine until Ctrl-C; without a provider, with the sandbox."""
    from dragoman.cli.up import stay_up  # noqa: PLC0415 - see main
    from dragoman.settings import read_settings  # noqa: PLC0415 - see main

    raise typer.Exit(stay_up(read_settings()))


@app.command("run")
def run_role(
    role: Annotated[
        str, typer.Argument(help="submitter, collector, worker, relay, sweeper or door")
    ],
) -> None:
    """Run one role in this process; `up` starts each of them like this."""
    from dragoman.cli.roles import run_until_stopped  # noqa: PLC0415 - see main
    from dragoman.settings import read_settings  # noqa: PLC0415 - see main

    raise typer.Exit(run_until_stopped(read_settings(), role))


@app.command()
def status() -> None:
    """How everything stands: jobs, batches, deliveries, and what needs you."""
    from dragoman.cli.look import show_status  # noqa: PLC0415 - see main

    _do(show_status())


@app.command()
def job(job_id: UUID) -> None:
    """The whole story of one job, without one word of anybody's message."""
    from dragoman.cli.look import show_job  # noqa: PLC0415 - see main

    _do(show_job(job_id))


@app.command()
def cancel(job_id: UUID) -> None:
    """Cancel a job that is not final; a result that is still on its way will be dropped."""
    from dragoman.cli.look import cancel_job  # noqa: PLC0415 - see main

    _do(cancel_job(job_id))


@app.command()
def erase(
    home: Annotated[UUID, typer.Option(help="The home whose rows are erased.")],
    user: Annotated[
        UUID | None,
        typer.Option(help="Only what this person of the home has sent or received."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Erase a home, or one person of it: texts go for good, a tombstone of each job stays."""
    from dragoman.cli.erase import erase_rows  # noqa: PLC0415 - see main

    _do(erase_rows(home, user, is_sure=yes))


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
    from dragoman.cli.rewrite import submit  # noqa: PLC0415 - see main

    _do(submit(message, to, source, wait=wait))


@rewrite.command("show")
def rewrite_show(request_id: UUID) -> None:
    """Print how a complaint stands, and its rewrite once it is there."""
    from dragoman.cli.rewrite import show  # noqa: PLC0415 - see main

    _do(show(request_id))


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
    review_version: Annotated[int, typer.Option("--version", min=1)] = 1,
    rerun: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option(help="Ask for a higher version of a changelist that was reviewed before."),
    ] = False,
) -> None:
    """Have a changelist criticised, and its recipients told once."""
    from dragoman.cli.review import enqueue  # noqa: PLC0415 - see main

    _do(enqueue(repository, revisions, to, key, review_version, is_rerun=rerun))


@review.command("show")
def review_show(job_id: UUID) -> None:
    """Print how a review stands."""
    from dragoman.cli.review import show  # noqa: PLC0415 - see main

    _do(show(job_id))


_Bound = Annotated[str | None, typer.Option(metavar="N", help="A number, or none.")]


@gate.command("list")
def gate_list() -> None:
    """Every gate: what it holds, what is in use, and why it is closed."""
    from dragoman.cli.gate import show_gates  # noqa: PLC0415 - see main

    _do(show_gates())


@gate.command("set")
def gate_set(  # noqa: PLR0917 - a gate's name and its four limits
    provider: str,
    account: str,
    model: str,
    in_flight: _Bound = None,
    requests_per_minute: _Bound = None,
    tokens_per_minute: _Bound = None,
    batch_tokens: _Bound = None,
) -> None:
    """Say what a gate holds: calls at one time, a minute's budgets, tokens in open batches."""
    from dragoman.cli.gate import set_gate  # noqa: PLC0415 - see main

    _do(
        set_gate(
            (provider, account, model),
            max_in_flight=in_flight,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            batch_tokens=batch_tokens,
        )
    )


@gate.command("pause")
def gate_pause(
    provider: str,
    account: str,
    model: str,
    reason: Annotated[str, typer.Option(help="Why, for whoever reads it.")],
) -> None:
    """Close a gate until somebody opens it; what is in flight comes to its end."""
    from dragoman.cli.gate import pause_gate  # noqa: PLC0415 - see main

    _do(pause_gate((provider, account, model), reason))


@gate.command("open")
def gate_open(provider: str, account: str, model: str) -> None:
    """Open a gate, whatever closed it."""
    from dragoman.cli.gate import open_gate  # noqa: PLC0415 - see main

    _do(open_gate((provider, account, model)))


@db.command("status")
def db_status() -> None:
    """How the embedded server stands."""
    from dragoman.cli.db import show_status as show  # noqa: PLC0415 - see main

    raise typer.Exit(show())


@db.command("start")
def db_start() -> None:
    """Start the embedded server, with its roles and the newest schema."""
    from dragoman.cli.db import start  # noqa: PLC0415 - see main

    start()


@db.command("stop")
def db_stop() -> None:
    """Stop the embedded server."""
    from dragoman.cli.db import stop  # noqa: PLC0415 - see main

    stop()


@db.command("psql")
def db_psql(
    role: Annotated[str, typer.Option(help="Whose eyes to look with.")] = "operator",
) -> None:
    """Open psql as one of the roles."""
    from dragoman.cli.db import open_psql  # noqa: PLC0415 - see main

    open_psql(role)

"""The commands and their options; what they do stands in the modules beside this one."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from dragoman.cli.letters import letters
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
gate = typer.Typer(
    help="What a call to a model must pass: budgets, and pauses with a reason.",
    no_args_is_help=True,
)
schedule = typer.Typer(help="When submitter and collector run.", no_args_is_help=True)
db = typer.Typer(help="The database.", no_args_is_help=True)
app.add_typer(rewrite, name="rewrite")
app.add_typer(review, name="review")
app.add_typer(gate, name="gate")
app.add_typer(schedule, name="schedule")
app.add_typer(letters, name="letters")
app.add_typer(db, name="db")
audit = typer.Typer(
    help="What happened, and the proof that nobody rewrote it.", no_args_is_help=True
)
app.add_typer(audit, name="audit")


Risks = Annotated[
    list[str] | None,
    typer.Option(help="A setting of the server's log that may write values; recorded."),
]


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


def _accept(risks: list[str] | None) -> None:
    if risks:
        os.environ["DRAGOMAN_ACCEPT_SERVER_LOG_RISK"] = ",".join(risks)  # children read it too


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
def up(accept_server_log_risk: Risks = None) -> None:
    """Run everything on this machine until Ctrl-C; without a provider, with the sandbox."""
    _accept(accept_server_log_risk)
    from dragoman.cli.up import stay_up  # noqa: PLC0415 - see main
    from dragoman.settings import read_settings  # noqa: PLC0415 - see main

    raise typer.Exit(stay_up(read_settings()))


@app.command("run")
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
        from dragoman.cli.schedule import run_now  # noqa: PLC0415 - see main

        _do(run_now(which or ""))
        return
    _accept(accept_server_log_risk)
    from dragoman.cli.roles import run_until_stopped  # noqa: PLC0415 - see main
    from dragoman.settings import read_settings  # noqa: PLC0415 - see main

    if which is not None:
        raise BadInput("only now takes another word: dragoman run now submitter")
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
def hold() -> None:
    """Create and send nothing from now on, for instance over data that another tool restored."""
    from dragoman.cli.held import hold as stop_acting  # noqa: PLC0415 - see main

    _do(stop_acting())


@app.command()
def release() -> None:
    """Let a held engine go on, after you have looked at what a restore left in doubt."""
    from dragoman.cli.held import release as let_go  # noqa: PLC0415 - see main

    _do(let_go())


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


_Scheduled = Annotated[str, typer.Argument(metavar="ROLE", help="submitter or collector")]


@schedule.command("list")
def schedule_list() -> None:
    """When each scheduled role ran, and when it runs next."""
    from dragoman.cli.schedule import show_schedules  # noqa: PLC0415 - see main

    _do(show_schedules())


@schedule.command("set")
def schedule_set(
    role: _Scheduled,
    every: Annotated[str, typer.Option(help="The time between two runs: 90s, 15m, 2h.")],
) -> None:
    """Let a role run at another pace than its profile's, from now on."""
    from dragoman.cli.schedule import set_schedule  # noqa: PLC0415 - see main

    _do(set_schedule(role, every))


@schedule.command("pause")
def schedule_pause(role: _Scheduled) -> None:
    """Let a role take no tick until it is resumed; `run now` still works."""
    from dragoman.cli.schedule import pause_schedule  # noqa: PLC0415 - see main

    _do(pause_schedule(role))


@schedule.command("resume")
def schedule_resume(role: _Scheduled) -> None:
    """Let a role take its ticks again; those that it missed count as one."""
    from dragoman.cli.schedule import resume_schedule  # noqa: PLC0415 - see main

    _do(resume_schedule(role))


@db.command("status")
def db_status() -> None:
    """How the database stands."""
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


@db.command("migrate")
def db_migrate() -> None:
    """Bring the schema up to date, as its owner; workers of before go on meanwhile."""
    from dragoman.cli.db import bring_up_to_date  # noqa: PLC0415 - see main

    bring_up_to_date()


@db.command("bootstrap")
def db_bootstrap(
    admin_url_env: Annotated[
        str | None, typer.Option(help="The variable that holds the admin's URL.")
    ] = None,
    admin_url_file: Annotated[
        Path | None, typer.Option(help="The file that holds the admin's URL.")
    ] = None,
    new_passwords: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option(help="Give every role a new password, whatever it was.")
    ] = False,
) -> None:
    """Make database, roles and schema on the server that the setting `database` names."""
    from dragoman.cli.db import make_ready  # noqa: PLC0415 - see main

    make_ready(admin_url_env, admin_url_file, anew=new_passwords)


@db.command("backup")
def db_backup(
    target: Annotated[Path, typer.Argument(help="A file that is not there yet, or a folder.")],
    unencrypted: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--unencrypted", help="Leave every text in it readable for everybody.")
    ] = False,
) -> None:
    """Write a backup while everything runs, sealed with the key of the settings."""
    from dragoman.cli.backup import backup  # noqa: PLC0415 - see main

    backup(target, may_lie_open=unencrypted)


@db.command("restore")
def db_restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    replace: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--replace", help="Move the data that are there aside.")
    ] = False,
) -> None:
    """Put a backup into this home; the engine starts held, until you release it."""
    from dragoman.cli.backup import restore  # noqa: PLC0415 - see main

    restore(file, may_replace=replace)


@db.command("psql")
def db_psql(
    role: Annotated[str, typer.Option(help="Whose eyes to look with.")] = "operator",
) -> None:
    """Open psql as one of the roles."""
    from dragoman.cli.db import open_psql  # noqa: PLC0415 - see main

    open_psql(role)


@audit.command("verify")
def audit_verify(
    job: Annotated[UUID | None, typer.Option(help="Only this job's chain.")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="Only what has moved since then (UTC)."),
    ] = None,
    anchors: Annotated[
        Path | None, typer.Option(help="Compare the history with the anchors in this file.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The file with the anchors' public key.")] = None,
) -> None:
    """Compute every chain again from its events; the exit code is 1 when anything is wrong."""
    from dragoman.cli.audit import Asked, show_verdict  # noqa: PLC0415 - see main

    moved = since.replace(tzinfo=UTC) if since else None
    _do(show_verdict(Asked(job, moved, anchors, key)))


@audit.command("show")
def audit_show(
    id: Annotated[UUID, typer.Argument(help="A job, or the request that it was made for.")],  # noqa: A002 - the word on the help page
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """The whole story of one job, each event verified, without one word of anybody's message."""
    from dragoman.cli.story import show_story  # noqa: PLC0415 - see main

    _do(show_story(id, as_json=as_json))


@audit.command("report")
def audit_report(
    since: Annotated[
        datetime | None, typer.Option(help="Only what was enqueued since then (UTC).")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="A TOML file with what a million tokens cost.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a program to read.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Tokens and money by language pair, failures by model, checks by prompt."""
    from dragoman.cli.report import show_report  # noqa: PLC0415 - see main

    moved = since.replace(tzinfo=UTC) if since else None
    _do(show_report(moved, prices, as_json=as_json))


@audit.command("keygen")
def audit_keygen(
    file: Annotated[Path, typer.Argument(help="Where the key goes; FILE.pub is its public half.")],
) -> None:
    """Make a key that signs anchors, and the one that checks them."""
    from dragoman.cli.audit import make_key  # noqa: PLC0415 - see main

    make_key(file)

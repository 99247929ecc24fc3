"""The operator's commands: gates, messages in doubt, schedules."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from dragoman.cli.doing import do

gate = typer.Typer(
    help="What a call to a model must pass.",
    no_args_is_help=True,
)
deliveries = typer.Typer(
    help="Messages of which nobody knows whether they arrived.", no_args_is_help=True
)
schedule = typer.Typer(help="When submitter and collector run.", no_args_is_help=True)


_Provider = Annotated[str, typer.Argument(help="As gate list prints it: PROVIDER/account/model.")]
_Account = Annotated[str, typer.Argument(help="The part after it.")]
_Model = Annotated[str, typer.Argument(help="And the last part.")]


@gate.command("list")
def gate_list() -> None:
    """Every gate: what it holds, what is in use, and why it is closed."""
    from dragoman.cli.gate import show_gates  # noqa: PLC0415 - see doing

    do(show_gates())


@gate.command("set", short_help="Say what a gate holds.")
def gate_set(  # noqa: PLR0917 - a gate's name and its four limits
    provider: _Provider,
    account: _Account,
    model: _Model,
    in_flight: Annotated[
        str | None, typer.Option(metavar="N", help="Calls at one time; or none.")
    ] = None,
    requests_per_minute: Annotated[
        str | None, typer.Option(metavar="N", help="Calls in a minute; or none.")
    ] = None,
    tokens_per_minute: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens in a minute; or none.")
    ] = None,
    batch_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens in batches that are out; or none.")
    ] = None,
) -> None:
    """Say what a gate holds: calls at one time, a minute's budgets, tokens in open batches."""
    from dragoman.cli.gate import set_gate  # noqa: PLC0415 - see doing

    do(
        set_gate(
            (provider, account, model),
            max_in_flight=in_flight,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            batch_tokens=batch_tokens,
        )
    )


@gate.command("pause", short_help="Close a gate until somebody opens it.")
def gate_pause(
    provider: _Provider,
    account: _Account,
    model: _Model,
    reason: Annotated[str, typer.Option(help="Why, for whoever reads it.")],
) -> None:
    """Close a gate until somebody opens it; what is in flight comes to its end."""
    from dragoman.cli.gate import pause_gate  # noqa: PLC0415 - see doing

    do(pause_gate((provider, account, model), reason))


@gate.command("open")
def gate_open(provider: _Provider, account: _Account, model: _Model) -> None:
    """Open a gate, whatever closed it."""
    from dragoman.cli.gate import open_gate  # noqa: PLC0415 - see doing

    do(open_gate((provider, account, model)))


@deliveries.command("list")
def deliveries_list() -> None:
    """Every message in doubt, and who settles it; the exit code is 1 when you must."""
    from dragoman.cli.deliveries import show_doubts  # noqa: PLC0415 - see doing

    do(show_doubts())


@deliveries.command("resolve")
def deliveries_resolve(
    delivery_id: UUID,
    evidence: Annotated[
        str, typer.Option(help="How you know, a ticket or an id: kept for ever, so without names.")
    ],
    sent: Annotated[bool, typer.Option("--sent", help="It has arrived.")] = False,  # noqa: FBT002 - a flag
    not_sent: Annotated[bool, typer.Option("--not-sent", help="Send it once more.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Settle a doubt that no target can settle: the message is marked, or sent once more."""
    from dragoman.cli.deliveries import resolve  # noqa: PLC0415 - see doing

    do(resolve(delivery_id, evidence, sent=sent, not_sent=not_sent))


@deliveries.command("seen")
def deliveries_seen(delivery_id: UUID) -> None:
    """Close the alerts that only say what happened: it has failed, or no send has marked it."""
    from dragoman.cli.deliveries import mark_seen  # noqa: PLC0415 - see doing

    do(mark_seen(delivery_id))


_Scheduled = Annotated[str, typer.Argument(metavar="ROLE", help="submitter or collector")]


@schedule.command("list")
def schedule_list() -> None:
    """When each scheduled role ran, and when it runs next."""
    from dragoman.cli.schedule import show_schedules  # noqa: PLC0415 - see doing

    do(show_schedules())


@schedule.command("set")
def schedule_set(
    role: _Scheduled,
    every: Annotated[str, typer.Option(help="The time between two runs: 90s, 15m, 2h.")],
) -> None:
    """Let a role run at another pace than its profile's, from now on."""
    from dragoman.cli.schedule import set_schedule  # noqa: PLC0415 - see doing

    do(set_schedule(role, every))


@schedule.command("pause", short_help="Let a role take no tick until it is resumed.")
def schedule_pause(role: _Scheduled) -> None:
    """Let a role take no tick until it is resumed; `run now` still works."""
    from dragoman.cli.schedule import pause_schedule  # noqa: PLC0415 - see doing

    do(pause_schedule(role))


@schedule.command("resume", short_help="Let a role take its ticks again.")
def schedule_resume(role: _Scheduled) -> None:
    """Let a role take its ticks again; those that it missed count as one."""
    from dragoman.cli.schedule import resume_schedule  # noqa: PLC0415 - see doing

    do(resume_schedule(role))

"""Running what a command has to do."""

from __future__ import annotations

import sys
from collections.abc import Coroutine

import typer


def do(work: Coroutine[object, object, int]) -> None:
    """Run a command to its exit code; what it needs is loaded only now, for help comes first."""
    import asyncio  # noqa: PLC0415 - as said

    import structlog  # noqa: PLC0415 - as said

    # What a command prints is for whoever asked; what it logs must not stand among that.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    code = asyncio.run(work)
    if code:
        raise typer.Exit(code)

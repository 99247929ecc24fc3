"""The command line: one of three doors to the same verbs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that was typed."""
    from dragoman.cli.app import run  # noqa: PLC0415 - a light start

    sys.exit(run())

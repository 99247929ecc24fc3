"""`python -m dragoman.sandbox`: the sandbox as a process, until SIGTERM."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman.sandbox.batches import Pace
from dragoman.sandbox.process import end_well_when_told, write_whole
from dragoman.sandbox.sealed import BadState
from dragoman.sandbox.server import Sandbox


def main(arguments: list[str] | None = None) -> None:
    """Serve; the base URL is printed, and written to the ready file, once it listens."""
    end_well_when_told()
    options = _parser().parse_args(arguments)
    try:
        sandbox = _sandbox(options)
    except BadState as error:
        sys.exit(str(error))
    sys.stdout.write(f"{sandbox.base_url}\n")
    sys.stdout.flush()
    if options.ready_file:
        write_whole(options.ready_file, f"{sandbox.base_url}\n")
    sandbox.serve()


def _sandbox(options: argparse.Namespace) -> Sandbox:
    return Sandbox(
        speed=options.speed,
        pace=Pace(options.validating_s, options.running_s, options.finalizing_s),
        seed=options.seed,
        keys=options.key,
        address=(options.host, options.port),
        state=options.state,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dragoman.sandbox", description=__doc__)
    pace = Pace()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ready-file", type=Path)
    parser.add_argument("--speed", type=float, default=1.0, help="how fast its clock runs")
    parser.add_argument("--validating-s", type=float, default=pace.validating_s)
    parser.add_argument("--running-s", type=float, default=pace.running_s)
    parser.add_argument("--finalizing-s", type=float, default=pace.finalizing_s)
    parser.add_argument("--seed", type=int, default=0, help="the order of the output lines")
    parser.add_argument("--key", action="append", default=[], help="refuse every other key")
    parser.add_argument("--state", type=Path, help="remember everything in this encrypted file")
    return parser


if __name__ == "__main__":
    main()

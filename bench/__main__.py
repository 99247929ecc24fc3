"""`python -m bench [PART ...]`: measure these parts, or all; keep what they found; write the page.

Each part's result is kept as soon as it is there, so that a run may be broken off and go on with
the parts that are missing.
"""

from __future__ import annotations

import argparse
import signal
import sys

from bench.page import page
from bench.part import Part, Size
from bench.parts import PARTS
from bench.place import ROOT, Place, own_server, peers_python
from bench.result import Result, keep, stored

PAGE = ROOT / "docs" / "performance.md"


def main() -> None:
    """Run the parts that were asked for."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.parts) - {part.name for part in PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    size = Size.QUICK if options.quick else Size.FULL
    chosen = [part for part in PARTS if not options.parts or part.name in options.parts]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server is stopped on the way out
    if not options.page:
        peers = None if options.alone else peers_python()
        with own_server() as server:
            for part in chosen:
                _say(part, _measured(part, Place(server, peers), size))
    PAGE.write_text(page(PARTS, stored()), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def _measured(part: Part, place: Place, size: Size) -> Result:
    print(f"== {part.name}", file=sys.stderr, flush=True)
    result = part.measure(place, size)
    keep(part.name, size, result)
    return result


def _say(part: Part, result: Result) -> None:
    for row in (result.head, *result.rows):
        print("  ".join(row))
    for figure in result.figures:
        verdict = {True: "reached", False: "NOT REACHED", None: ""}[figure.is_reached]
        print(f"{part.name}: {figure.what}: {figure.measured:.2f} {figure.unit} {verdict}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [part.name for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a small size, for a first look")
    parser.add_argument("--alone", action="store_true", help="without the peers")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    return parser


if __name__ == "__main__":
    main()

"""What to type next, in a form that works when it is typed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def hint(arguments: str) -> str:
    """A command of ours as this person can type it: by the path they used, unless it is on PATH.

    >>> hint("up")  # doctest: +SKIP
    '.venv/bin/dragoman up'
    """
    typed = sys.argv[0]
    if Path(typed).name != "dragoman" or shutil.which("dragoman") == typed:
        return f"dragoman {arguments}"
    return f"{shlex.quote(typed)} {arguments}"

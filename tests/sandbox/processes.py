"""What the tests of both stand-ins share: the stand-in as a process that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from tests.eventually import eventually

_SOURCE = str(Path(__file__).parents[2] / "src")


@contextmanager
def python(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """One interpreter with our package; it does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": _SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def run_provider(
    folder: Path, *arguments: str
) -> Generator[tuple[subprocess.Popen[str], str, openai.OpenAI]]:
    """The provider, its base URL, and OpenAI's SDK for it."""
    ready = folder / "provider.ready"
    ready.unlink(missing_ok=True)
    with python("-m", "dragoman.sandbox", "--ready-file", str(ready), *arguments) as process:
        eventually(lambda: _is_up(ready, process), timeout=30)
        base_url = ready.read_text().strip()
        with openai.OpenAI(base_url=base_url, api_key="k1", max_retries=0, timeout=20) as sdk:
            yield process, base_url, sdk


@contextmanager
def run_mail(
    folder: Path, *arguments: str
) -> Generator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The mail server, and where it listens."""
    ready = folder / "mail.ready"
    ready.unlink(missing_ok=True)
    with python("-m", "dragoman.sandbox.mail", "--ready-file", str(ready), *arguments) as process:
        eventually(lambda: _is_up(ready, process), timeout=30)
        yield process, json.loads(ready.read_text())


def _is_up(ready: Path, process: subprocess.Popen[str]) -> bool:
    if process.poll() is not None:
        raise ChildProcessError(process.returncode)
    return ready.exists()

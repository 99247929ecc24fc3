"""The sandbox as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import openai

from tests.eventually import eventually


def test_the_process_says_where_it_listens_and_ends_when_told(tmp_path: Path) -> None:
    """The ready file holds the base URL once it serves; SIGTERM ends it."""
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "dragoman.sandbox", "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen([*command, "--key", "k1"], stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(ready.exists, timeout=30)
            base_url = ready.read_text().strip()
            with openai.OpenAI(base_url=base_url, api_key="k1", max_retries=0) as sdk:
                assert sdk.models.list().data
            assert process.stdout is not None
            assert process.stdout.readline().strip() == base_url
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) in (0, -signal.SIGTERM)

"""Git repositories that the tests of the source read."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.core.failure import FailureClass
from dragoman.review.paths import AllowList
from dragoman.review.source import (
    Changelist,
    Fetched,
    Limits,
    SourceFailed,
    fetch,
    resolve,
)

SHA = "a" * 40


class Repository:
    """A real repository with a hand on its files, its settings and its commits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        env = {
            "PATH": os.defpath,
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }
        command = ["git", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, check=True)
        return done.stdout.decode(errors="replace").strip()

    def write(self, name: str | bytes, content: bytes) -> None:
        file = self.path / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def commit(self) -> str:
        self.git("add", "-A", "--force")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def fetch(self, revisions: str = "HEAD", limits: Limits | None = None) -> Fetched:
        allow = AllowList.read([f"{self.path.parent}/"])
        return read(str(self.path), revisions, allow, limits=limits or Limits())


def read(repository: str, revisions: str, allow: AllowList, **more) -> Fetched:
    async def both() -> Fetched:
        changelist = await resolve(repository, revisions, allow, **more)
        assert Changelist.parse(changelist.id) == changelist
        return await fetch(changelist, allow, **more)

    return asyncio.run(both())


def failure_of(call) -> tuple[FailureClass, str]:
    with pytest.raises(SourceFailed) as caught:
        call()
    return caught.value.failure.error_class, caught.value.failure.code


DENIED = (FailureClass.POLICY_REJECTED, "path_denied")

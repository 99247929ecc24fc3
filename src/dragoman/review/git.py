"""The git command line, asked in a way that a hostile repository cannot use to run a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

from dragoman.core.errors import DragomanError
from dragoman.core.failure import Failure, FailureClass


class SourceFailed(DragomanError):
    """The changelist could not be fetched; nothing partial was kept."""

    def __init__(self, failure: Failure, denied_path: str | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.denied_path = denied_path  # for the security event alone


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is fetched; what lies beyond is marked, never silently left out."""

    max_files: int = 300
    max_file_bytes: int = 200_000
    max_bytes: int = 1_000_000
    max_read_bytes: int = 64_000_000
    timeout_s: float = 30.0


USUAL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of git gave: its exit status and at most so many bytes."""

    code: int
    out: bytes
    was_cut: bool


class Git:
    """One repository that passed the allow-list, and the questions asked of it."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._path = path
        self._limits = limits

    async def run(self, *arguments: str) -> Ran:
        """Run git once. Its exit status is the truth; its messages may quote a file: unread."""
        process = await asyncio.create_subprocess_exec(
            _git_program(),
            *_configuration(self._path),
            *arguments,
            cwd=self._path,
            env=_environment(self._path),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                out, was_cut = await _read(process, self._limits.max_read_bytes)
                return Ran(0 if was_cut else await process.wait(), out, was_cut)
        except TimeoutError:
            fail(FailureClass.NETWORK_TIMEOUT, "git_timeout")
        finally:
            # Its own children go with it, also when the task is cancelled.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    async def folders(self) -> list[str]:
        """Every directory that git reads objects and settings from."""
        asked = ("--git-dir", "--git-common-dir", "--git-path", "objects")
        found = await self.run("rev-parse", "--path-format=absolute", *asked)
        if found.code:
            fail(FailureClass.NOT_FOUND, "not_a_repository")
        counted = await self.run("count-objects", "-v")
        marker = b"alternate: "
        lines = [ln for ln in counted.out.splitlines() if ln.startswith(marker)]
        names = [*found.out.removesuffix(b"\n").split(b"\n"), *(ln[len(marker) :] for ln in lines)]
        return [os.fsdecode(name) for name in names]

    async def has(self, sha: str) -> bool:
        """Whether the object is here."""
        return (await self.run("cat-file", "-e", sha)).code == 0

    async def require(self, sha: str) -> None:
        """NOT_FOUND unless the object is here."""
        if not await self.has(sha):
            fail(FailureClass.NOT_FOUND, "unknown_revision")

    async def commit(self, revision: str) -> str:
        """The full sha of a commit."""
        asked = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        found = await self.run("rev-parse", *asked)
        if found.code:
            fail(FailureClass.NOT_FOUND, "unknown_revision")
        return found.out.decode().strip()

    async def parent(self, sha: str) -> str:
        """The first parent as the commit itself names it: a shallow clone hides it elsewhere."""
        shown = await self.run("cat-file", "commit", sha)
        header = shown.out.partition(b"\n\n")[0].decode("utf-8", "replace").splitlines()
        parents = [line.removeprefix("parent ") for line in header if line.startswith("parent ")]
        if not parents:
            return (
                (await self.run("hash-object", "--no-filters", "-t", "tree", os.devnull))
                .out.decode()
                .strip()
            )
        await self.require(parents[0])
        return parents[0]

    async def merge_base(self, left: str, right: str) -> str:
        """Where the two left each other; histories without one are not comparable."""
        found = await self.run("merge-base", left, right)
        if found.code:
            fail(FailureClass.NOT_FOUND, "no_merge_base")
        return found.out.decode().split()[0]

    async def diff(self, base: str, head: str, *form: str) -> Ran:
        """Base against head in one form; if that fails git is asked whether both are here."""
        ran = await self.run("diff", *form, *_DIFF, base, head, "--")
        if ran.code:
            await self.require(base)
            await self.require(head)
            code = f"git_exit_{ran.code}" if ran.code > 0 else f"git_signal_{-ran.code}"
            fail(FailureClass.UPSTREAM_ERROR, code)
        return ran


async def _read(process: asyncio.subprocess.Process, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes of what the process says, and whether there was more."""
    found = bytearray()
    while process.stdout is not None and (chunk := await process.stdout.read(1 << 16)):
        found += chunk
        if len(found) > limit:
            return bytes(found[:limit]), True
    return bytes(found), False


# Measured in a repository with hostile settings: without each of these a setting either changes
# the form of the diff, hides a file from it, or makes git run a program.
_DIFF = (
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--find-renames",
    "-l1000",
    "--full-index",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
    "--submodule=short",
    "-O/dev/null",
    "--no-relative",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
)
_SETTINGS = (
    "core.quotePath=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.suppressBlankEmpty=false",
    "diff.external=",
    "core.attributesFile=/dev/null",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
)


def _configuration(path: str) -> list[str]:
    """Settings of the command line, which beat those of the repository."""
    settings = (*_SETTINGS, f"safe.directory={path}", f"safe.directory={path}/.git")
    return ["--no-pager", *(word for setting in settings for word in ("-c", setting))]


def _environment(path: str) -> dict[str, str]:
    """Nothing of ours; no lazy fetch either, for a transport is a program that settings choose."""
    nowhere = "/nonexistent"
    return {
        "PATH": os.defpath,
        "LC_ALL": "C",
        "HOME": nowhere,
        "XDG_CONFIG_HOME": nowhere,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_CEILING_DIRECTORIES": os.path.dirname(path),  # noqa: PTH120 - text, not a file
    }


@cache
def _git_program() -> str:
    """Where git is, looked up once on the system's own path."""
    found = shutil.which("git", path=os.defpath)
    if found is None:
        fail(FailureClass.RUNTIME_BUG, "git_missing")
    return found


def fail(error_class: FailureClass, code: str) -> NoReturn:
    """Raise SourceFailed with one class and code of the table."""
    raise SourceFailed(Failure(error_class, code))

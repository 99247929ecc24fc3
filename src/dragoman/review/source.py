"""Fetch a changelist with plain git from a repository that nobody has to trust.

A range `a..b` or `a...b` is what b changed since it left a, so the base is
their merge base; a single commit is compared with its first parent.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from os.path import realpath
from pathlib import Path

from dragoman.core.errors import BadInput
from dragoman.core.failure import Failure, FailureClass
from dragoman.review.git import USUAL_LIMITS, Git, Limits, Ran, SourceFailed, fail
from dragoman.review.paths import AllowList, PathDenied, canonical_path, is_never_shown

MAX_ID_BYTES = 1_000

_ID = re.compile(r"git:(?P<repository>[^\x00-\x1f]+)@(?P<base>[0-9a-f]+)\.\.(?P<head>[0-9a-f]+)")
_REVISION = re.compile(r"[\w@][\w./@{}^~+#=-]{0,199}")
_LFS = re.compile(rb"^[ +-]version https://git-lfs\.github\.com/spec/", re.MULTILINE)
_GITLINK = "160000"
_LIST = ("--raw", "-z", "--no-abbrev")


@dataclass(frozen=True, slots=True)
class Changelist:
    """What is reviewed: two full shas of one repository. Its id never changes meaning.

    >>> Changelist.parse(f"git:/srv/shop@{'a' * 40}..{'b' * 40}").repository
    '/srv/shop'
    """

    repository: str  # an absolute directory, or host/owner/repo
    base: str
    head: str

    @property
    def id(self) -> str:
        """The text that names it everywhere."""
        return f"git:{self.repository}@{self.base}..{self.head}"

    @classmethod
    def parse(cls, text: str) -> Changelist:
        """Read an id; only the form that `id` writes is accepted."""
        found = _ID.fullmatch(text) if _size(text) <= MAX_ID_BYTES else None
        if found is None or {len(found["base"]), len(found["head"])} not in ({40}, {64}):
            raise BadInput("a changelist's id is git:<repository>@<full sha>..<full sha>")
        try:
            canonical = canonical_path(found["repository"])
        except PathDenied:
            canonical = ""
        if canonical != found["repository"]:
            raise BadInput("the repository in the changelist's id is not in canonical form")
        return cls(canonical, found["base"], found["head"])


class Change(StrEnum):
    """What happened to a file."""

    ADDED = "A"
    DELETED = "D"
    MODIFIED = "M"
    RENAMED = "R"
    TYPE_CHANGED = "T"


class NotReviewed(StrEnum):
    """Why a changed file's content is not in the diff; a review says so and is not a full one."""

    SECRET_FILE = "secret_file"  # noqa: S105 - a reason
    SUBMODULE = "submodule"
    BINARY = "binary"
    LFS_POINTER = "lfs_pointer"
    TOO_LARGE = "too_large"
    OVER_LIMIT = "over_limit"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file of a changelist. Bytes of its name that are not UTF-8 stand as %XX."""

    path: str
    change: Change
    old_path: str
    old_blob: str
    new_blob: str
    not_reviewed: NotReviewed | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A changelist's files, and the diff of those that may be shown."""

    diff: bytes = field(repr=False)
    files: tuple[ChangedFile, ...]
    base: str
    head: str

    @property
    def reviewed(self) -> tuple[str, ...]:
        """The files whose changes are in the diff."""
        return tuple(file.path for file in self.files if file.not_reviewed is None)

    @property
    def not_reviewed(self) -> tuple[tuple[str, str], ...]:
        """The other files, each with its reason."""
        return tuple((f.path, f.not_reviewed.value) for f in self.files if f.not_reviewed)

    def text(self) -> str:
        """The diff as text that can be stored; bytes that are no UTF-8, and NUL, become U+FFFD."""
        return self.diff.decode("utf-8", "replace").replace("\0", "\ufffd")


@dataclass(frozen=True, slots=True)
class _Raw:
    old_mode: str
    new_mode: str
    file: ChangedFile


async def resolve(
    repository: str,
    revisions: str,
    allow: AllowList,
    *,
    mirrors: str | None = None,
    limits: Limits = USUAL_LIMITS,
) -> Changelist:
    """Turn what a person wrote, `main..topic` or one commit, into a changelist of full shas."""
    left, dots, right = _split(revisions)
    with _mapped_errors():
        git = await _open(repository, allow, mirrors, limits)
        head = await git.commit(right)
        base = (
            await git.merge_base(await git.commit(left), head) if dots else await git.parent(head)
        )
        return Changelist.parse(f"git:{canonical_path(repository)}@{base}..{head}")


async def fetch(
    changelist: Changelist,
    allow: AllowList,
    *,
    mirrors: str | None = None,
    limits: Limits = USUAL_LIMITS,
) -> Fetched:
    """The files and the diff of a changelist, or SourceFailed; never a part of it.

    `host/owner/repo` is read from the operator's mirror, `<mirrors>/host/owner/repo.git`.
    """
    with _mapped_errors():
        git = await _open(changelist.repository, allow, mirrors, limits)
        await git.require(changelist.base)
        await git.require(changelist.head)
        raw = _read_raw(await git.diff(changelist.base, changelist.head, *_LIST))
        if not raw:
            fail(FailureClass.SCHEMA_INVALID, "no_changed_files")
        for path in {path for one in raw for path in (one.file.path, one.file.old_path)}:
            allow.check_file(changelist.repository, path)
        patch = await git.diff(changelist.base, changelist.head, "--unified=3")
        return _choose(changelist, raw, _pair(raw, patch), limits)


async def _open(repository: str, allow: AllowList, mirrors: str | None, limits: Limits) -> Git:
    """Check the repository and every directory behind it, links resolved, before git reads more."""
    path, inside = _place(repository, allow, mirrors)
    git = Git(path, limits)
    _check_folders(inside, await git.folders())
    return git


def _check_folders(inside: AllowList, folders: Sequence[str]) -> None:
    for folder in folders:
        inside.check(realpath(folder))


def _place(repository: str, allow: AllowList, mirrors: str | None) -> tuple[str, AllowList]:
    """The directory to read, and the list that everything behind it must satisfy."""
    path, inside = allow.check(repository), allow
    if not path.startswith("/"):
        if mirrors is None:
            fail(FailureClass.NOT_FOUND, "no_mirror")
        root = realpath(mirrors)
        path, inside = f"{root}/{path}.git", AllowList((f"{root}/",))
    if not Path(path).is_dir():
        fail(FailureClass.NOT_FOUND, "no_such_repository")
    inside.check(realpath(path))
    return path, inside


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise BadInput("a changelist's id has a lone surrogate") from None


def _split(revisions: str) -> tuple[str, str, str]:
    dots = next((dots for dots in ("...", "..") if dots in revisions), "")
    left, _, right = revisions.partition(dots) if dots else ("", "", revisions)
    if not all(_REVISION.fullmatch(one) for one in ([left, right] if dots else [right])):
        raise BadInput("revisions are one commit or <base>..<head>")
    return left, dots, right


def _read_raw(ran: Ran) -> list[_Raw]:
    if ran.was_cut:
        fail(FailureClass.SCHEMA_INVALID, "changelist_too_large")
    words = iter(ran.out.split(b"\0"))
    return [_raw(head.decode().removeprefix(":").split(" "), words) for head in words if head]


def _raw(facts: list[str], words: Iterator[bytes]) -> _Raw:
    old_mode, new_mode, old_blob, new_blob, status = facts
    change = Change(status[0])
    old = _name(next(words))
    new = _name(next(words)) if change is Change.RENAMED else old
    return _Raw(old_mode, new_mode, ChangedFile(new, change, old, old_blob, new_blob))


def _name(raw: bytes) -> str:
    text = raw.decode("utf-8", "surrogateescape")
    return re.sub("[\udc80-\udcff]", lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)


def _pair(raw: Sequence[_Raw], patch: Ran) -> list[bytes | None]:
    """Each file's part of the patch, checked against its blobs; None for what was cut off.

    Content lines start with a blank, +, - or a backslash, so the words at a line's start are
    git's own. A file that changes its type has two parts.
    """
    parts = iter([b"diff --git " + part for part in _parts(patch)])
    found: list[bytes | None] = []
    for one in raw:
        count = 2 if one.file.change is Change.TYPE_CHANGED else 1
        own = [part for _, part in zip(range(count), parts, strict=False)]
        if len(own) < count and not patch.was_cut:
            fail(FailureClass.UPSTREAM_ERROR, "diff_incomplete")
        found.append(b"".join(own) if len(own) == count else None)
    if next(parts, None) is not None or not all(map(_matches, raw, found)):
        fail(FailureClass.UPSTREAM_ERROR, "diff_mismatch")
    return found


def _parts(patch: Ran) -> list[bytes]:
    parts = (b"\n" + patch.out).split(b"\ndiff --git ")[1:]
    if patch.was_cut:
        return [part + b"\n" for part in parts[:-1]]
    return [part + b"\n" for part in parts[:-1]] + parts[-1:]


def _matches(one: _Raw, part: bytes | None) -> bool:
    file = one.file
    if part is None or file.old_blob == file.new_blob:
        return True
    blobs = [line for line in part.split(b"\n") if line.startswith(b"index ")]
    text = b"\n".join(blobs).decode("ascii", "replace")
    return file.old_blob in text and file.new_blob in text


def _choose(
    changelist: Changelist, raw: Sequence[_Raw], parts: Sequence[bytes | None], limits: Limits
) -> Fetched:
    files: list[ChangedFile] = []
    kept: list[bytes] = []
    size = 0
    for one, part in zip(raw, parts, strict=True):
        reason = _why_not(one, part or b"", limits)
        grown = size + len(part or b"")
        if reason is None and (
            part is None or len(kept) == limits.max_files or grown > limits.max_bytes
        ):
            reason = NotReviewed.OVER_LIMIT
        elif reason is None and part is not None:
            kept.append(part)
            size = grown
        files.append(replace(one.file, not_reviewed=reason))
    return Fetched(b"".join(kept), tuple(files), changelist.base, changelist.head)


def _why_not(one: _Raw, part: bytes, limits: Limits) -> NotReviewed | None:
    if is_never_shown(one.file.path) or is_never_shown(one.file.old_path):
        return NotReviewed.SECRET_FILE
    if _GITLINK in (one.old_mode, one.new_mode):
        return NotReviewed.SUBMODULE
    if b"\nBinary files " in part:
        return NotReviewed.BINARY
    if _LFS.search(part):
        return NotReviewed.LFS_POINTER
    return NotReviewed.TOO_LARGE if len(part) > limits.max_file_bytes else None


@contextlib.contextmanager
def _mapped_errors() -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        fail(FailureClass.NOT_FOUND, "no_such_repository")
    except PermissionError:
        fail(FailureClass.AUTH_DENIED, "permission_denied")
    except PathDenied as denied:
        failure = Failure(FailureClass.POLICY_REJECTED, "path_denied")
        raise SourceFailed(failure, denied.path) from None

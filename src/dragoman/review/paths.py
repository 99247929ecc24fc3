"""Which repositories may be read, and which files inside a change are never shown to a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote

from dragoman.core.errors import BadSetting, Refused

NEVER_SHOWN = (
    ".env",
    ".env.*",
    "*.env",
    "*.pem",
    "*.key",
    "*.ppk",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.tfvars",
    "*.tfvars.json",
    "*.tfstate",
    "*.tfstate.*",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials*",
    ".netrc",
    ".pgpass",
    ".htpasswd",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
)

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z0-9-]+(?::\d{1,5})?")
_WIDENING = re.compile(r"[*?\[\]{}~$%\\\x00-\x1f]")
_MAX_ROUNDS = 4
_MAX_PATH = 4_096


class PathDenied(Refused):
    """The path is not under an allowed prefix; nothing was fetched."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path[:_MAX_PATH]  # for the security event alone


@dataclass(frozen=True, slots=True)
class AllowList:
    """The prefixes under which repositories may be read.

    >>> AllowList.read(["git.example.org/shop/"]).check("git.example.org/shop/web")
    'git.example.org/shop/web'
    """

    prefixes: tuple[str, ...]

    @classmethod
    def read(cls, prefixes: Sequence[str]) -> AllowList:
        """Check the configured prefixes: an empty list allows nothing and is an error."""
        if isinstance(prefixes, str) or not prefixes:
            raise BadSetting("the allow-list of repositories is empty; name at least one prefix")
        for place, prefix in enumerate(prefixes, start=1):
            _check_prefix(place, prefix)
        return cls(tuple(dict.fromkeys(prefixes)))

    def check(self, repository: str) -> str:
        """The repository's canonical path, or PathDenied."""
        path = canonical_path(repository)
        if not any(f"{path}/".startswith(prefix) for prefix in self.prefixes):
            raise PathDenied(repository)
        return path

    def check_file(self, repository: str, file: str) -> None:
        """Raise PathDenied unless the file lies inside its repository, and that is allowed."""
        root = self.check(repository)
        if file.startswith(("/", "\\")) or not canonical_path(f"{root}/{file}").startswith(
            f"{root}/"
        ):
            raise PathDenied(file)


def canonical_path(path: str) -> str:
    """One spelling per place: no encodings, backslashes, empty steps, `.` or `..`.

    >>> canonical_path("/srv/repos/%2e%2e/secret")
    '/srv/secret'
    """
    if not path or len(path) > _MAX_PATH:
        raise PathDenied(path)
    decoded = _decode(path).replace("\\", "/")
    if "\0" in decoded:
        raise PathDenied(path)
    steps: list[str] = []
    for step in decoded.split("/"):
        if step == ".." and not steps:
            raise PathDenied(path)
        if step == "..":
            steps.pop()
        elif step not in {"", "."}:
            steps.append(step)
    if not steps:
        raise PathDenied(path)
    return ("/" if decoded.startswith("/") else "") + "/".join(steps)


def is_never_shown(path: str) -> bool:
    """Whether a file by this name holds secrets as a rule, so that no model gets to see it.

    >>> is_never_shown("deploy/prod.tfvars")
    True
    """
    name = canonical_path(path).casefold().rpartition("/")[2]
    return any(fnmatchcase(name, pattern) for pattern in NEVER_SHOWN)


def _decode(given: str) -> str:
    """The path without percent-encodings; one that is encoded many times over is denied."""
    path = given
    for _ in range(_MAX_ROUNDS):
        decoded = unquote(path)
        if decoded == path:
            return path
        path = decoded
    raise PathDenied(given)


def _check_prefix(place: int, prefix: object) -> None:
    what = f"prefix {place} of the allow-list"
    if not isinstance(prefix, str) or not prefix:
        raise BadSetting(f"{what} is not text")
    if not prefix.endswith("/"):
        raise BadSetting(f"{what} does not end in '/', so it would match its neighbours too")
    if _WIDENING.search(prefix):
        raise BadSetting(f"{what} has a wildcard, an encoding or another special character")
    steps = prefix.strip("/").split("/")
    if not _is_canonical(prefix):
        raise BadSetting(f"{what} is not in canonical form")
    if not prefix.startswith("/") and (not _HOST.fullmatch(steps[0]) or len(steps) < 2):
        raise BadSetting(f"{what} is neither an absolute directory nor host/owner/")


def _is_canonical(prefix: str) -> bool:
    try:
        return canonical_path(prefix) == prefix[:-1]
    except PathDenied:
        return False

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import BadSetting
from dragoman.review.paths import AllowList, PathDenied, canonical_path, is_never_shown

ALLOW = AllowList.read(["git.example.org/shop/", "/srv/repos/"])


@pytest.mark.parametrize(
    "prefixes",
    [
        [],
        "/srv/repos/",
        [""],
        [None],
        ["/"],
        ["/srv/repos"],
        ["/srv/*/"],
        ["/srv/re?os/"],
        ["/srv/[a]/"],
        ["/srv/{a,b}/"],
        ["~/repos/"],
        ["$HOME/repos/"],
        ["/srv/../etc/"],
        ["/srv/./repos/"],
        ["/srv//repos/"],
        ["/srv/%72epos/"],
        ["\\srv\\repos\\/"],
        ["/srv/\0/"],
        ["../"],
        ["/../"],
        ["repos/"],
        ["git.example.org/"],
        ["Git.Example.org/shop/"],
        ["https://git.example.org/shop/"],
        ["/srv/repos/", "/srv"],
    ],
)
def test_a_prefix_that_could_widen_is_refused_at_start(prefixes) -> None:
    """The allow-list is never empty, and each prefix is canonical, literal and ends at a slash."""
    with pytest.raises(BadSetting):
        AllowList.read(prefixes)


@pytest.mark.parametrize(
    ("repository", "canonical"),
    [
        ("git.example.org/shop/web", "git.example.org/shop/web"),
        ("git.example.org/shop", "git.example.org/shop"),
        ("/srv/repos/a/../b", "/srv/repos/b"),
        ("/srv/./repos//b/", "/srv/repos/b"),
        ("/srv/repos/100%", "/srv/repos/100%"),
    ],
)
def test_what_lies_under_a_prefix_is_allowed(repository: str, canonical: str) -> None:
    """An allowed repository comes back in its one spelling."""
    assert ALLOW.check(repository) == canonical


@pytest.mark.parametrize(
    "repository",
    [
        "",
        "/",
        ".",
        "..",
        "/srv",
        "/srv/repos-secret/a",
        "/srv/repos/../private",
        "/srv/repos/%2e%2e/private",
        "/srv/repos/%252e%252e/private",
        "/srv/repos/%25252525252e%25252525252e/private",
        "/srv/repos/..%2fprivate",
        "/srv/repos/..\\private",
        "/srv/repos/%5c..%5c..%5cprivate",
        "/srv/repos/a\0b",
        "/srv/repos/a%00b",
        "srv/repos/a",
        "git.example.org/shopping/web",
        "git.example.org/other/web",
        "evil.org/git.example.org/shop/web",
        "/" + "a/" * 5_000,
    ],
)
def test_everything_else_is_denied_whatever_its_spelling(repository: str) -> None:
    """Steps up, encodings, backslashes and NUL are resolved before anything is compared."""
    with pytest.raises(PathDenied) as denied:
        ALLOW.check(repository)
    assert str(denied.value) == PathDenied.__doc__
    assert denied.value.path == repository[:4_096]


@pytest.mark.parametrize(
    "file",
    ["/etc/passwd", "\\etc", "../other/a", "a/../../other/a", "%2e%2e/other/a", "a\0", "", "."],
)
def test_a_file_outside_its_repository_is_denied(file: str) -> None:
    """A file must lie in its own repository, not merely under the same prefix."""
    with pytest.raises(PathDenied):
        ALLOW.check_file("/srv/repos/shop", file)


@pytest.mark.parametrize("file", ["a", "a/b c.py", "100%.txt", "x/../y", "ä/ö", "..."])
def test_a_file_inside_its_repository_passes(file: str) -> None:
    """Unusual names are no reason to refuse a change."""
    ALLOW.check_file("/srv/repos/shop", file)


@given(st.text(alphabet="ab./\\%2eE5c", max_size=40))
def test_the_canonical_form_is_a_fixpoint_that_cannot_climb(path: str) -> None:
    """Whatever is accepted has no step up, no empty step, and stays what it is."""
    try:
        found = canonical_path(path)
    except PathDenied:
        return
    assert canonical_path(found) == found
    assert not {"..", ".", ""} & set(found.removeprefix("/").split("/"))
    assert "\\" not in found


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "a/.env.production",
        "a/PROD.ENV",
        "tls/server.pem",
        "server.key",
        "home/id_rsa",
        "id_ed25519.old",
        "infra/prod.tfvars",
        "a.p12",
        "credentials",
        "aws/credentials.json",
        "a\\b\\server.key",
        "a/server%2ekey",
    ],
)
def test_files_that_hold_secrets_by_their_name_are_never_shown(path: str) -> None:
    """Case, folders and encodings do not hide such a name."""
    assert is_never_shown(path)


@pytest.mark.parametrize("path", ["environment.py", "keys.py", "key/a.py", "pem.md", "a/rsa.c"])
def test_ordinary_source_is_shown(path: str) -> None:
    """A name that merely resembles one of them is reviewed."""
    assert not is_never_shown(path)

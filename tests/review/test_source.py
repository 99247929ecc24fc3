from __future__ import annotations

import pytest
from unidiff.patch import PatchSet

from dragoman.core.errors import BadInput
from dragoman.core.failure import FailureClass
from dragoman.review.source import (
    Change,
    Changelist,
    Limits,
    NotReviewed,
    SourceFailed,
)
from tests.review.repositories import SHA, Repository, failure_of

# What a changelist is called


def test_an_id_carries_the_repository_and_full_shas() -> None:
    """The id reads back to the same changelist."""
    for repository in ("/srv/re pos/a@b", "git.example.org/shop/web"):
        changelist = Changelist(repository, SHA, "b" * 40)
        assert changelist.id == f"git:{repository}@{SHA}..{'b' * 40}"
        assert Changelist.parse(changelist.id) == changelist


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"/srv/a@{SHA}..{SHA}",
        f"git:/srv/a@{SHA[:39]}..{SHA}",
        f"git:/srv/a@{SHA}..{'b' * 64}",
        f"git:/srv/a@{SHA.upper()}..{SHA}",
        f"git:/srv/a@{SHA}...{SHA}",
        f"git:/srv/a@{SHA}..{SHA}\n",
        f"git:/srv/../a@{SHA}..{SHA}",
        f"git:/srv/a/@{SHA}..{SHA}",
        f"git:/srv/%61@{SHA}..{SHA}",
        f"git:/srv/a\0@{SHA}..{SHA}",
        f"git:/srv/\ud800@{SHA}..{SHA}",
        f"git:..@{SHA}..{SHA}",
        f"git:/{'a' * 8_000}@{SHA}..{SHA}",
    ],
)
def test_other_ids_are_refused(text: str) -> None:
    """One changelist has one id: no short shas, no second spelling, no id of 8,000 characters."""
    with pytest.raises(BadInput) as caught:
        Changelist.parse(text)
    assert "srv" not in str(caught.value)


def test_one_commit_means_what_it_changed(repo: Repository) -> None:
    """A single revision is compared with its parent, the first commit with the empty tree."""
    first = repo.git("rev-parse", "HEAD")
    repo.write("b.py", b"new\n")
    second = repo.commit()
    fetched = repo.fetch("HEAD")
    assert (fetched.base, fetched.head, fetched.reviewed) == (first, second, ("b.py",))
    assert repo.fetch(first).reviewed == ("a.py",)


def test_a_range_means_what_its_head_changed(repo: Repository) -> None:
    """What the base branch did meanwhile is no part of the change, with two dots or three."""
    fork = repo.git("rev-parse", "HEAD")
    repo.git("checkout", "-q", "-b", "topic")
    repo.write("topic.py", b"x\n")
    head = repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("main.py", b"y\n")
    repo.commit()
    for revisions in ("main..topic", "main...topic"):
        fetched = repo.fetch(revisions)
        assert (fetched.base, fetched.head, fetched.reviewed) == (fork, head, ("topic.py",))


def test_a_merge_is_compared_with_its_first_parent(repo: Repository) -> None:
    """The combined form, which shows nothing of a clean merge, is never used."""
    repo.git("checkout", "-q", "-b", "topic")
    repo.write("topic.py", b"x\n")
    repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("main.py", b"y\n")
    first = repo.commit()
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    fetched = repo.fetch("HEAD")
    assert (fetched.base, fetched.reviewed) == (first, ("topic.py",))


@pytest.mark.parametrize(
    "revisions",
    ["", "--all", "..", "main..", "..main", ":/text", "a b", "a\0b", "a" * 300, "a..b..c"],
)
def test_a_revision_cannot_be_an_option_or_a_search(repo: Repository, revisions: str) -> None:
    """What is not a plain revision is refused before git is asked, or names nothing."""
    with pytest.raises((BadInput, SourceFailed)):
        repo.fetch(revisions)


# What is in it


def test_every_kind_of_change_is_seen(repo: Repository) -> None:
    """Added, deleted, renamed, changed in type or mode: each file once, in git's own order."""
    repo.write("gone.py", b"old\n")
    repo.write("moved.py", b"".join(b"%d\n" % n for n in range(50)))
    repo.write("tool.sh", b"x\n")
    repo.write("kind", b"x\n")
    repo.commit()
    repo.git("rm", "-q", "gone.py")
    repo.git("mv", "moved.py", "new name.py")
    (repo.path / "tool.sh").chmod(0o755)
    (repo.path / "kind").unlink()
    (repo.path / "kind").symlink_to("a.py")
    repo.write("fresh.py", b"y\n")
    repo.commit()
    fetched = repo.fetch()
    assert {file.path: (file.change, file.old_path) for file in fetched.files} == {
        "fresh.py": (Change.ADDED, "fresh.py"),
        "gone.py": (Change.DELETED, "gone.py"),
        "new name.py": (Change.RENAMED, "moved.py"),
        "kind": (Change.TYPE_CHANGED, "kind"),
        "tool.sh": (Change.MODIFIED, "tool.sh"),
    }
    assert fetched.not_reviewed == ()
    assert b"rename from moved.py" in fetched.diff
    assert b"new mode 100755" in fetched.diff
    assert fetched.diff.count(b"diff --git a/kind b/kind\n") == 2


def test_names_and_bytes_arrive_as_they_are(repo: Repository) -> None:
    """Spaces, umlauts, tabs, names that are not UTF-8, CRLF and a line that looks like a header."""
    repo.write("dir with space/naïve.py", b"a\r\nb\r\n")
    repo.write("tab\tname", b"x\n")
    repo.write(b"latin-\xe4", "grün\n".encode("latin-1"))
    repo.write("trap", b"diff --git a/x b/x\nindex 1..2\n-- a/trap\nBinary files a and b differ\n")
    repo.commit()
    fetched = repo.fetch()
    assert set(fetched.reviewed) == {
        "dir with space/naïve.py",
        "tab\tname",
        "latin-%E4",
        "trap",
    }
    assert b"+a\r\n+b\r\n" in fetched.diff
    assert "+++ b/dir with space/naïve.py".encode() in fetched.diff
    assert "gr\ufffdn" in fetched.text()
    assert "\0" not in fetched.text()
    assert fetched.text().count("\n") == fetched.diff.count(b"\n")
    assert sum(file.added for file in PatchSet(fetched.text())) == 8


def test_what_cannot_be_read_is_marked(repo: Repository) -> None:
    """Binary files, large-file pointers and submodules are listed as not reviewed."""
    other = Repository(repo.path.parent / "other")
    other.write("x", b"x\n")
    other.commit()
    repo.write("logo.png", b"\x89PNG\0\0\1")
    repo.write("data.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    repo.write("ok.py", b"x\n")
    repo.git("submodule", "add", "-q", str(other.path), "vendor")
    repo.commit()
    fetched = repo.fetch()
    assert dict(fetched.not_reviewed) == {
        "logo.png": NotReviewed.BINARY,
        "data.bin": NotReviewed.LFS_POINTER,
        "vendor": NotReviewed.SUBMODULE,
    }
    assert fetched.reviewed == (".gitmodules", "ok.py")
    assert b"Subproject" not in fetched.diff


def test_files_of_secrets_never_leave_the_repository(repo: Repository) -> None:
    """A secret file is named and left out, also under its old name after a rename."""
    repo.write(".env", b"TOKEN=a-long-enough-secret-to-see\n" * 9)
    repo.commit()
    repo.git("mv", ".env", "settings.txt")
    repo.write("settings.txt", b"TOKEN=a-long-enough-secret-to-see\n" * 10)
    repo.write("tls/server.key", b"a-long-enough-secret-to-see\n")
    repo.write("z.py", b"x\n")
    repo.commit()
    fetched = repo.fetch()
    assert {reason for _, reason in fetched.not_reviewed} == {NotReviewed.SECRET_FILE}
    assert [path for path, _ in fetched.not_reviewed] == ["settings.txt", "tls/server.key"]
    assert fetched.reviewed == ("z.py",)
    assert b"secret-to-see" not in fetched.diff


def test_what_is_too_large_is_marked_and_the_rest_is_kept(repo: Repository) -> None:
    """A file over its own limit, and files over the common one, are not reviewed."""
    repo.write("big.py", b"0123456789\n" * 100)
    for name in "bcde":
        repo.write(f"{name}.py", b"x\n" * 50)
    repo.commit()
    by_size = repo.fetch(limits=Limits(max_file_bytes=1_000, max_bytes=700))
    assert dict(by_size.not_reviewed) == {
        "big.py": NotReviewed.TOO_LARGE,
        "d.py": NotReviewed.OVER_LIMIT,
        "e.py": NotReviewed.OVER_LIMIT,
    }
    assert len(PatchSet(by_size.text())) == 2
    by_count = repo.fetch(limits=Limits(max_files=1))
    assert by_count.reviewed == ("b.py",)
    assert len(by_count.files) == 5
    cut = repo.fetch(limits=Limits(max_read_bytes=900))
    assert len(cut.files) == 5
    assert set(dict(cut.not_reviewed).values()) == {NotReviewed.OVER_LIMIT}
    assert len(PatchSet(cut.text())) == len(cut.reviewed)


def test_a_list_of_files_that_does_not_fit_is_an_error(repo: Repository) -> None:
    """An incomplete list of files is never reviewed as if it were whole."""
    for n in range(20):
        repo.write(f"{n}.py", b"x\n")
    repo.commit()
    found = failure_of(lambda: repo.fetch(limits=Limits(max_read_bytes=500)))
    assert found == (FailureClass.SCHEMA_INVALID, "changelist_too_large")


def test_no_changed_files_is_an_error(repo: Repository) -> None:
    """An empty list is never a pass."""
    repo.commit()
    assert failure_of(repo.fetch) == (FailureClass.SCHEMA_INVALID, "no_changed_files")


def test_the_same_changelist_has_the_same_bytes(repo: Repository) -> None:
    """Settings of the repository do not change the form of the diff."""
    lines = [b"\n" if n % 3 else b"%d\n" % n for n in range(40)]
    repo.write("lines.py", b"".join(lines))
    repo.write("old.py", b"".join(lines) * 2)
    repo.commit()
    lines[4] = lines[16] = b"changed\n"
    repo.write("lines.py", b"".join(lines))
    repo.git("mv", "old.py", "new.py")
    repo.write("sub/b.py", b"x\n")
    repo.git("add", "-A")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{SHA},vendor")
    repo.git("commit", "-q", "-m", "change")
    before = repo.fetch()
    assert before.not_reviewed == (("vendor", NotReviewed.SUBMODULE),)
    for setting in (
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.suppressBlankEmpty=true",
        "diff.context=0",
        "diff.interHunkContext=9",
        "diff.algorithm=patience",
        "diff.renames=false",
        "diff.relative=true",
        "diff.colorMoved=zebra",
        "diff.wordRegex=.",
        "color.ui=always",
        "core.quotePath=true",
        "core.abbrev=4",
        "diff.ignoreSubmodules=all",
        "diff.submodule=log",
    ):
        repo.git("config", *setting.split("=", 1))
    repo.write("order", b"sub/*\nnew.py\n")
    repo.git("config", "diff.orderFile", str(repo.path / "order"))
    assert repo.fetch() == before

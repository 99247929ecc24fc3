from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from dragoman.core.failure import FailureClass
from dragoman.review import git as git_module
from dragoman.review.paths import AllowList
from dragoman.review.source import (
    Changelist,
    Limits,
    NotReviewed,
    SourceFailed,
    fetch,
    resolve,
)
from tests.review.repositories import DENIED, SHA, Repository, failure_of, read

# Whom it obeys


def test_nothing_is_read_outside_the_allowed_prefixes(tmp_path: Path, repo: Repository) -> None:
    """A repository beside the prefix, above it or behind a link is denied, and nothing is run."""
    outside = Repository(tmp_path / "private" / "shop")
    outside.write("x", b"x\n")
    outside.commit()
    repos = repo.path.parent
    allow = AllowList.read([f"{repos}/"])
    (repos / "link").symlink_to(outside.path)
    (repos / "file").mkdir()
    (repos / "file" / ".git").write_text(f"gitdir: {outside.path}/.git\n")
    for path in (
        str(outside.path),
        f"{repos}/../private/shop",
        f"{repos}/link",
        f"{repos}/file",
        "git.example.org/shop/web",
    ):
        assert failure_of(lambda path=path: read(path, "HEAD", allow)) == DENIED
        denied = Changelist(path, SHA, SHA)
        assert failure_of(lambda one=denied: asyncio.run(fetch(one, allow))) == DENIED


def test_objects_of_a_neighbour_are_denied(tmp_path: Path, repo: Repository) -> None:
    """Alternates and a linked object directory cannot bring in another repository's content."""
    outside = Repository(tmp_path / "private" / "shop")
    outside.write("x", b"x\n")
    outside.commit()
    alternates = repo.path / ".git/objects/info/alternates"
    alternates.write_text(f"{outside.path}/.git/objects\n")
    assert failure_of(repo.fetch) == DENIED
    alternates.unlink()
    assert repo.fetch().reviewed == ("a.py",)
    (repo.path / ".git/objects").rename(repo.path / "kept")
    (repo.path / ".git/objects").symlink_to(outside.path / ".git/objects")
    assert failure_of(repo.fetch) == DENIED


def test_a_denial_tells_the_security_event_what_was_denied(repo: Repository) -> None:
    """The path stands on the error for that event, and in no message."""
    with pytest.raises(SourceFailed) as caught:
        read("/etc/private", "HEAD", AllowList.read([f"{repo.path.parent}/"]))
    assert caught.value.denied_path == "/etc/private"
    assert "private" not in str(caught.value)


def test_every_fetched_file_is_checked_again(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that names a file outside its repository is denied as a whole."""
    repo.write("b.py", b"x\n")
    repo.commit()
    asked: list[str] = []

    def check_file(self: AllowList, repository: str, file: str) -> None:
        asked.append(file)
        AllowList.check(self, f"/elsewhere/{file}" if file == "b.py" else repository)

    monkeypatch.setattr(AllowList, "check_file", check_file)
    assert failure_of(repo.fetch) == DENIED
    assert asked == ["b.py"]


@pytest.fixture
def trap(repo: Repository) -> Path:
    """A change of a driven file and of a submodule, and a program that leaves a trace beside it."""
    witness = repo.path.parent / "ran"
    script = repo.path.parent / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {witness}\ncat 2>/dev/null\n")
    script.chmod(0o755)
    other = Repository(repo.path.parent / "other")
    other.commit()
    repo.git("submodule", "add", "-q", str(other.path), "vendor")
    repo.write(".gitattributes", b"* diff=evil filter=evil merge=evil\n")
    repo.commit()
    repo.write("a.py", b"changed\n")
    inner = ("-C", "vendor", "-c", "user.name=a", "-c", "user.email=a@example.org")
    repo.git(*inner, "commit", "-q", "--allow-empty", "-m", "on")
    repo.commit()
    return witness


def arm(repo: Repository, *names: str) -> None:
    """Let settings name the program."""
    for name in names:
        repo.git("config", name, str(repo.path.parent / "evil.sh"))


@pytest.mark.parametrize(
    "names",
    [
        ["diff.external"],
        ["diff.evil.command"],
        ["diff.evil.textconv"],
        ["core.fsmonitor"],
    ],
)
def test_a_setting_that_makes_plain_git_run_a_program_does_not_reach_ours(
    repo: Repository, trap: Path, names: list[str]
) -> None:
    """Plain git falls into each of these traps; the fetch does not, and sees the change."""
    repo.git("config", "diff.submodule", "log")
    arm(repo, *names)
    if names == ["core.fsmonitor"]:
        repo.git("-C", "vendor", "config", names[0], str(repo.path.parent / "evil.sh"))
    repo.git("diff", "HEAD~1", "HEAD")
    assert trap.exists()
    trap.unlink()
    fetched = repo.fetch()
    assert not trap.exists()
    assert b"+changed\n" in fetched.diff
    assert fetched.not_reviewed == (("vendor", NotReviewed.SUBMODULE),)


def test_no_setting_of_the_repository_runs_a_program(repo: Repository, trap: Path) -> None:
    """Drivers, filters, monitors, hooks, pagers, transports and aliases stay dead letters."""
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("* diff=evil filter=evil\n")
    arm(repo, "diff.external", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor")
    arm(repo, "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.editor")
    arm(repo, "core.pager", "pager.diff", "core.sshCommand", "core.alternateRefsCommand")
    arm(repo, "credential.helper", "gpg.program", "remote.origin.uploadpack")
    for word in ("diff", "rev-parse", "cat-file", "merge-base"):
        repo.git("config", f"alias.{word}", f"!{repo.path.parent}/evil.sh")
    repo.git("config", "diff.submodule", "log")
    hooks = repo.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in (
        "post-checkout",
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
    ):
        (hooks / hook).symlink_to(repo.path.parent / "evil.sh")
    trap.unlink(missing_ok=True)
    assert repo.fetch().reviewed == ("a.py",)
    assert not trap.exists()


def test_a_missing_object_is_not_fetched_by_a_program_of_the_repositorys_choice(
    repo: Repository,
) -> None:
    """A repository that promises objects from elsewhere gets no transport to bring them."""
    witness = repo.path.parent / "ran"
    repo.write("b.py", b"soon gone\n")
    repo.commit()
    blob = repo.git("rev-parse", "HEAD:b.py")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for setting in (
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=origin",
        "remote.origin.promisor=true",
        "protocol.allow=always",
        "protocol.ext.allow=always",
        f"remote.origin.url=ext::sh -c touch% {witness}",
    ):
        repo.git("config", *setting.split("=", 1))
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("-c", "protocol.ext.allow=always", "diff", "HEAD~1", "HEAD")
    assert witness.exists()
    witness.unlink()
    error_class, code = failure_of(repo.fetch)
    assert (error_class, code) == (FailureClass.UPSTREAM_ERROR, "git_exit_128")
    assert not witness.exists()


def test_attributes_can_hide_a_file_but_not_that_it_is_hidden(repo: Repository) -> None:
    """A text file that the repository calls binary is marked as not reviewed."""
    repo.write(".gitattributes", b"*.py -diff\n")
    repo.commit()
    repo.write("a.py", b"changed\n")
    repo.commit()
    assert repo.fetch().not_reviewed == (("a.py", NotReviewed.BINARY),)


def test_a_replaced_commit_is_read_as_itself(repo: Repository) -> None:
    """refs/replace cannot put other content behind a sha."""
    first = repo.git("rev-parse", "HEAD")
    repo.write("a.py", b"real\n")
    real = repo.commit()
    repo.git("checkout", "-q", first)
    repo.write("a.py", b"false\n")
    false = repo.commit()
    repo.git("replace", real, false)
    assert b"+real\n" in repo.fetch(real).diff


def test_the_environment_of_the_process_does_not_reach_git(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of ours neither redirects git nor lends it our settings."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("DRAGOMAN_SECRET", "x")
    assert repo.fetch().reviewed == ("a.py",)
    assert not (tmp_path / "trace").exists()
    assert "DRAGOMAN_SECRET" not in git_module._environment(str(repo.path))


def test_a_repository_of_another_user_is_read(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The allow-list decides whose repository is safe, not its owner."""
    usual = git_module._environment

    def other_owner(path: str) -> dict[str, str]:
        return {**usual(path), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}

    monkeypatch.setattr(git_module, "_environment", other_owner)
    assert repo.fetch().reviewed == ("a.py",)


def test_a_directory_inside_a_repository_is_no_repository(repo: Repository) -> None:
    """Git does not look above the directory that was allowed."""
    repo.write("sub/b.py", b"x\n")
    repo.commit()
    allow = AllowList.read([f"{repo.path.parent}/"])
    found = failure_of(lambda: read(f"{repo.path}/sub", "HEAD", allow))
    assert found == (FailureClass.NOT_FOUND, "not_a_repository")


def test_a_hosted_repository_is_read_from_its_mirror(tmp_path: Path, repo: Repository) -> None:
    """host/owner/repo lies under the operator's mirrors; without them it is not there."""
    mirrors = tmp_path / "mirrors"
    bare = mirrors / "git.example.org/shop/web.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    allow = AllowList.read(["git.example.org/shop/"])
    name = "git.example.org/shop/web"
    fetched = read(name, "main", allow, mirrors=str(mirrors))
    assert fetched.reviewed == ("a.py",)
    assert failure_of(lambda: read(name, "main", allow))[1] == "no_mirror"


# What goes wrong


def test_what_is_not_there_is_not_found(repo: Repository, tmp_path: Path) -> None:
    """A missing directory, an empty one, a missing commit and unrelated histories."""
    allow = AllowList.read([f"{repo.path.parent}/"])
    (repo.path.parent / "empty").mkdir()
    repo.git("checkout", "-q", "--orphan", "island")
    repo.write("island.py", b"x\n")
    repo.commit()

    def code(name: str, revisions: str) -> str:
        error_class, code = failure_of(lambda: read(f"{repo.path.parent}/{name}", revisions, allow))
        assert error_class is FailureClass.NOT_FOUND
        return code

    assert code("nowhere", "HEAD") == "no_such_repository"
    assert code("empty", "HEAD") == "not_a_repository"
    assert code("shop", "nothing") == "unknown_revision"
    assert code("shop", SHA) == "unknown_revision"
    assert code("shop", "main..island") == "no_merge_base"
    missing = Changelist(str(repo.path), SHA, repo.git("rev-parse", "HEAD"))
    found = failure_of(lambda: asyncio.run(fetch(missing, allow)))
    assert found == (FailureClass.NOT_FOUND, "unknown_revision")


def test_a_shallow_clone_does_not_pass_for_a_first_commit(repo: Repository) -> None:
    """A parent that was not cloned is missing; the whole tree is not shown in its place."""
    repo.write("b.py", b"x\n")
    repo.commit()
    shallow = repo.path.parent / "shallow"
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(shallow))
    allow = AllowList.read([f"{repo.path.parent}/"])
    found = failure_of(lambda: read(str(shallow), "HEAD", allow))
    assert found == (FailureClass.NOT_FOUND, "unknown_revision")


def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_diff: str) -> None:
    """Stand a script in for git that does something else when it is asked for a diff."""
    script = tmp_path / "git"
    script.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = diff ] && {{ {on_diff}; }}; done\nexec git "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(git_module, "_git_program", lambda: str(script))


@pytest.mark.parametrize(
    ("on_diff", "code"),
    [("exit 3", "git_exit_3"), ("kill -9 $$", "git_signal_9")],
)
def test_a_git_that_fails_though_all_is_there_is_an_upstream_error(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_diff: str, code: str
) -> None:
    """The exit status decides, after git was asked whether both commits exist."""
    fake_git(tmp_path, monkeypatch, f"echo fatal: bad object, not found >&2; {on_diff}")
    assert failure_of(repo.fetch) == (FailureClass.UPSTREAM_ERROR, code)


def test_a_git_that_hangs_is_ended_with_its_children(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time-out is a failure of its class, and nothing runs on behind it."""
    pid = tmp_path / "pid"
    fake_git(tmp_path, monkeypatch, f"sleep 60 & echo $! > {pid}; wait")
    found = failure_of(lambda: repo.fetch(limits=Limits(timeout_s=2.0)))
    assert found == (FailureClass.NETWORK_TIMEOUT, "git_timeout")
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_diff_that_lost_a_file_is_refused(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch must hold every file of the list, each with its own blobs."""
    for name in "bc":
        repo.write(f"{name}.py", name.encode() + b"\n")
    repo.commit()
    fake_git(
        tmp_path,
        monkeypatch,
        '[ "${*#*--raw}" = "$*" ] && { git "$@" | sed "/^diff.*c.py/,\\$d"; exit 0; }',
    )
    assert failure_of(repo.fetch) == (FailureClass.UPSTREAM_ERROR, "diff_incomplete")
    fake_git(
        tmp_path,
        monkeypatch,
        '[ "${*#*--raw}" = "$*" ] && { git "$@" | sed "s/^index 0*\\.\\.6/index 0..7/"; exit 0; }',
    )
    assert failure_of(repo.fetch) == (FailureClass.UPSTREAM_ERROR, "diff_mismatch")


def test_without_git_the_deployment_is_wrong(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without git is a configuration bug: no retry, page."""
    git_module._git_program.cache_clear()
    monkeypatch.setattr(git_module.os, "defpath", "/nonexistent")
    try:
        assert failure_of(repo.fetch) == (FailureClass.RUNTIME_BUG, "git_missing")
    finally:
        git_module._git_program.cache_clear()


@pytest.mark.parametrize(
    ("error", "error_class", "code"),
    [
        (FileNotFoundError, FailureClass.NOT_FOUND, "no_such_repository"),
        (PermissionError, FailureClass.AUTH_DENIED, "permission_denied"),
    ],
)
def test_a_directory_that_vanishes_or_may_not_be_entered_is_no_bug(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, error, error_class: FailureClass, code: str
) -> None:
    """What the system says about the directory is told by its type."""

    async def refuses(*_words: str, **_more: object) -> None:
        raise error(str(repo.path))

    monkeypatch.setattr(git_module.asyncio, "create_subprocess_exec", refuses)
    assert failure_of(repo.fetch) == (error_class, code)


def test_cancelling_the_fetch_ends_git(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is told to stop leaves no process behind."""
    pid = tmp_path / "pid"
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    fake_git(tmp_path, monkeypatch, f"echo $$ > {pid}; echo > {ready}; sleep 60")

    async def cancel() -> None:
        allow = AllowList.read([f"{repo.path.parent}/"])
        changelist = await resolve(str(repo.path), "HEAD", allow)
        task = asyncio.create_task(fetch(changelist, allow))
        await asyncio.to_thread(ready.read_bytes)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancel())
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()

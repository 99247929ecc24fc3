"""What an installation is told from outside: known names, possible values, secrets by reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.core.errors import BadSetting
from dragoman.core.profile import PROFILES
from dragoman.settings import default_home, read_secret, read_settings

CANARY = "Zephyrine-4711"
HOME = {"DRAGOMAN_HOME": "/srv/dragoman"}


def written(folder: Path, text: str) -> Path:
    """A settings file."""
    path = folder / "dragoman.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str = "", **env: str) -> str:
    """What is said of settings that cannot be taken."""
    with pytest.raises(BadSetting) as refused:
        read_settings(written(folder, text), {**HOME, **env})
    assert refused.value.__cause__ is None
    return str(refused.value)


def test_nothing_given_is_the_sandbox_at_home() -> None:
    """Without a file or a variable there is a home, an embedded database and the sandbox."""
    found = read_settings(env={})
    assert (found.home, found.database, found.uses_sandbox) == (default_home(), "embedded", True)
    assert (found.door.host, found.cell) == ("127.0.0.1", "main")


def test_a_file_says_everything(tmp_path: Path) -> None:
    """Each section of the file arrives where it belongs."""
    path = written(
        tmp_path,
        'profile = "prod"\ncell = "west"\n[provider]\nname = "openai"\nmode = "async"\n'
        '[door]\nport = 9000\n[review]\nallow = ["/srv/a", "/srv/b"]\n'
        '[mail]\nhost = "mx"\nport = 587\n',
    )
    found = read_settings(path, HOME)
    assert (found.profile, found.cell, found.provider.name, found.provider.mode) == (
        "prod",
        "west",
        "openai",
        "async",
    )
    assert (found.door.port, found.mail.host, found.mail.port) == (9000, "mx", 587)
    assert (found.review.allow, found.uses_sandbox) == (("/srv/a", "/srv/b"), False)
    assert found.pace is PROFILES["prod"]


def test_a_variable_goes_before_the_file(tmp_path: Path) -> None:
    """DRAGOMAN_DOOR__PORT is [door] port, and the environment has the last word."""
    path = written(tmp_path, "[door]\nport = 9000\nhost = 'localhost'\n")
    found = read_settings(path, {**HOME, "DRAGOMAN_DOOR__PORT": "9001"})
    assert (found.door.port, found.door.host) == (9001, "localhost")
    keys = read_settings(env={**HOME, "DRAGOMAN_DOOR__USER_KEYS": "/a.pem,/b.pem"})
    assert keys.door.user_keys == (Path("/a.pem"), Path("/b.pem"))
    listed = read_settings(env={**HOME, "DRAGOMAN_REVIEW__ALLOW": "/a,/b,"})
    assert listed.review.allow == ("/a", "/b")


def test_the_file_is_named_by_a_variable(tmp_path: Path) -> None:
    """DRAGOMAN_CONFIG is the way to the file; other programs' variables are ignored."""
    path = written(tmp_path, "cell = 'north'\n")
    env = {**HOME, "DRAGOMAN_CONFIG": str(path), "PATH": "/bin", "DRAGO": "x"}
    assert read_settings(env=env).cell == "north"


@pytest.mark.parametrize(
    ("text", "env", "told"),
    [
        ("prfile = 'prod'\n", {}, "there is no setting prfile; did you mean profile?"),
        ("[door]\nprot = 1\n", {}, "there is no setting door.prot; did you mean door.port?"),
        ("[provder]\nname = 'x'\n", {}, "there is no setting provder"),
        ("", {"DRAGOMAN_DATABSE": "x"}, "there is no setting databse; did you mean database?"),
        ("", {"DRAGOMAN_DOOR__PRT": "x"}, "there is no setting door.prt; did you mean door.port?"),
        ("zzzzzzzz = 1\n", {}, "there is no setting zzzzzzzz"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(
    tmp_path: Path, text: str, env: dict[str, str], told: str
) -> None:
    """A typing error is not silently a default."""
    assert refusal(tmp_path, text, **env).startswith(told)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("[door]\nport = 65536\n", "door.port"),
        ("[door]\nport = 'many'\n", "door.port"),
        ("[mail]\nport = 0\n", "mail.port"),
        ("[mail]\ntls = 'perhaps'\n", "mail.tls"),
        ("[provider]\nmode = 'stream'\n", "provider.mode"),
        ("cell = 'Not A Name'\n", "cell"),
        ("cell = ''\n", "cell"),
        ("door = 1\n", "door"),
    ],
)
def test_an_impossible_value_is_refused_by_name(tmp_path: Path, text: str, name: str) -> None:
    """The error names the setting."""
    assert f"the setting {name} is not acceptable" in refusal(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f"[provider]\nmode = '{CANARY}'\n",
        f"cell = '{CANARY}'\n",
        f"[mail]\nport = '{CANARY}'\n",
        f"api_key = '{CANARY}'\n",
        f"[provider]\napi_key = '{CANARY}'\n",
        f"{CANARY}\n",
    ],
)
def test_a_refusal_does_not_repeat_the_value(tmp_path: Path, text: str) -> None:
    """A secret that stands in the wrong place is not printed."""
    assert CANARY not in refusal(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Absent, no TOML, or not even text: the path is told, and what is wrong with it."""
    with pytest.raises(BadSetting, match=r"absent\.toml cannot be read"):
        read_settings(tmp_path / "absent.toml", HOME)
    assert "is not valid TOML" in refusal(tmp_path, "a = = 1")
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="is not valid TOML"):
        read_settings(path, HOME)


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    """The error lists the profiles."""
    found = read_settings(env={**HOME, "DRAGOMAN_PROFILE": "fast"})
    with pytest.raises(BadSetting) as refused:
        _ = found.pace
    assert all(name in str(refused.value) for name in PROFILES)


def test_a_secret_is_read_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a variable, or from a file without its newline, or there is none."""
    monkeypatch.setenv("A_KEY", CANARY)
    assert read_secret("A_KEY", None) == CANARY
    assert read_secret(None, written(tmp_path, f"{CANARY}\n")) == CANARY
    assert read_secret(None, None) == ""


def test_a_secret_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable or an absent file is no empty password."""
    monkeypatch.setenv("A_KEY", "")
    for name in ("A_KEY", "NO_SUCH_KEY"):
        with pytest.raises(BadSetting, match=name):
            read_secret(name, None)
    with pytest.raises(BadSetting, match="absent cannot be read"):
        read_secret(None, tmp_path / "absent")

"""What an installation is told from outside: what is taken, what is refused, what the page says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from dragoman.core.errors import BadSetting
from dragoman.core.profile import PROFILES
from dragoman.settings import Section, Settings, default_home, read_settings
from tests.cli.installation import ROOT

PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
HOME = {"DRAGOMAN_HOME": "/srv/dragoman"}


def leaves(section: type[BaseModel], prefix: str = "") -> dict[str, object]:
    """Every setting by its dotted name, with its default."""
    found: dict[str, object] = {}
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            found |= leaves(inner, f"{prefix}{name}.")
        else:
            found[prefix + name] = field.default
    return found


SETTINGS = leaves(Settings)


def table(header: str) -> list[list[str]]:
    """The rows of the page's table whose header begins like this."""
    rows = PAGE[PAGE.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def documented() -> dict[str, str]:
    """The page's settings with their defaults."""
    return {name.strip("`"): default for name, default, _ in table("| setting |")}


def refusal(**told: str) -> str:
    with pytest.raises(BadSetting) as refused:
        read_settings(env=HOME | told)
    return str(refused.value)


def from_file(folder: Path, text: str) -> Settings:
    file = folder / "dragoman.toml"
    file.write_text(text, encoding="utf-8")
    return read_settings(env={"DRAGOMAN_CONFIG": str(file), **HOME})


def test_the_page_names_every_setting_and_no_other() -> None:
    """docs/configuration.md and the code know the same settings."""
    assert set(documented()) == set(SETTINGS)


@pytest.mark.parametrize(
    "name", sorted(name for name, value in SETTINGS.items() if value is not None and name != "home")
)
def test_the_page_prints_the_default_that_is_used(name: str) -> None:
    """A default in the page is the default of the code."""
    default = SETTINGS[name]
    assert documented()[name] == ("none" if default == () else f"`{default}`")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_page_prints_the_profiles(profile: str) -> None:
    """A row of the page's table of profiles is what the profile holds."""
    pace = PROFILES[profile]
    row = next(row for row in table("| | submitter") if row[0] == profile)
    assert [[seconds(part) for part in cell.split(", ")] for cell in row[1:]] == [
        [pace.submitter_every_s],
        [pace.collector_every_s],
        [pace.max_jobs_per_run],
        [pace.max_runtime_s],
        [*pace.retry_backoff_s],
        [pace.claim_timeout_s],
    ]


def seconds(words: str) -> float:
    number, _, unit = words.partition(" ")
    return float(number) * {"": 1, "s": 1, "min": 60, "h": 3600}[unit]


@pytest.mark.parametrize(
    ("written", "read"),
    [("/a/,/b/", ("/a/", "/b/")), ("", ()), ('["/a,b/", "/c/"]', ("/a,b/", "/c/"))],
)
def test_a_list_is_written_with_commas_or_as_json(written: str, read: tuple[str, ...]) -> None:
    """A path that has a comma in it can be given as well."""
    assert read_settings(env=HOME | {"DRAGOMAN_REVIEW__ALLOW": written}).review.allow == read


def test_a_value_is_no_section() -> None:
    """DRAGOMAN_DOOR and DRAGOMAN_DOOR__PORT cannot both be meant."""
    said = refusal(DRAGOMAN_DOOR="1", DRAGOMAN_DOOR__PORT="2")
    assert said == "door is given as a value, and DRAGOMAN_DOOR__PORT takes it for a section"


def test_the_home_is_one_place_wherever_a_command_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is made absolute, and ~ is the person's own home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ann")
    assert read_settings(env={"DRAGOMAN_HOME": "d"}).home == tmp_path / "d"
    assert from_file(tmp_path, "").home == Path("/srv/dragoman")
    assert read_settings(env={"DRAGOMAN_HOME": "~/d"}).home == Path("/home/ann/d")
    assert refusal(DRAGOMAN_HOME="~nobody-of-this-name/d").startswith("the setting home is not")


def test_root_and_others_have_their_own_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """/var/lib for root; below the home folder for everybody else, or where XDG says."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_home() == Path("/var/lib/dragoman")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_home() == Path("/home/ann/.local/share/dragoman")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_home() == Path("/data/dragoman")


def test_nobody_without_a_home_folder_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """DRAGOMAN_HOME is enough; without it the sentence asks for it."""

    def unknown() -> Path:
        raise RuntimeError

    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    assert read_settings(env=HOME).home == Path("/srv/dragoman")
    with pytest.raises(BadSetting, match="name a folder in DRAGOMAN_HOME"):
        read_settings(env={})

"""One TOML file and DRAGOMAN_* variables; secrets only by the name of a variable or a file."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dragoman.core.errors import BadSetting
from dragoman.core.profile import PROFILES, Profile

_URLS = ("postgresql://", "postgres://")


class Section(BaseModel):
    """A part of the settings: unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ProviderSettings(Section):
    """Whom to ask. Without any of it, the sandbox that comes along answers."""

    name: str = "sandbox"
    adapter_kind: str = "openai_responses"
    base_url: str | None = None
    account: str = "default"
    api_key_env: str | None = None
    api_key_file: Path | None = None
    model_light: str = "sandbox-small"
    model_full: str = "sandbox-large"
    model_classifier: str = "sandbox-tiny"
    model_review: str = "sandbox-large"
    mode: str = Field(default="batch", pattern="^(async|batch)$")


class MailSettings(Section):
    """How to send mail. Without a host, the sandbox's mail server takes it."""

    host: str | None = None
    port: int = Field(default=25, gt=0, lt=65536)
    sender: str = "dragoman@localhost.example"
    username: str | None = None
    password_env: str | None = None
    password_file: Path | None = None
    tls: str = Field(default="none", pattern="^(none|starttls|tls)$")


class ReviewSettings(Section):
    """Which repositories may be read."""

    allow: tuple[str, ...] = ()


class BackupSettings(Section):
    """With which key backups are sealed."""

    key_env: str | None = None
    key_file: Path | None = None


class DoorSettings(Section):
    """Where the API and the console listen."""

    host: str = "127.0.0.1"
    port: int = Field(default=8420, ge=0, lt=65536)
    user_keys: tuple[Path, ...] = ()


class AuditSettings(Section):
    """Where the history is anchored, and with which key. Without a file it is not."""

    anchor_file: Path | None = None
    anchor_every_s: float = Field(default=300, ge=1, le=86_400)
    key_env: str | None = None
    key_file: Path | None = None


class Settings(Section):
    """Everything an installation is told from outside."""

    home: Path
    database: str = "embedded"
    database_line: str | None = None
    database_secrets: Path | None = None
    accept_server_log_risk: tuple[str, ...] = ()
    cell: str = Field(default="main", pattern="^[a-z][a-z0-9_-]{0,31}$")
    profile: str = "demo"
    order: str = Field(default="created_at_asc", pattern="^(created_at_asc|fair)$")
    max_waiting_per_home: int = Field(default=10_000, gt=0, le=1_000_000)
    respect_not_before_at: bool = True
    provider: ProviderSettings = ProviderSettings()
    mail: MailSettings = MailSettings()
    review: ReviewSettings = ReviewSettings()
    door: DoorSettings = DoorSettings()
    audit: AuditSettings = AuditSettings()
    backup: BackupSettings = BackupSettings()

    @field_validator("home")
    @classmethod
    def _is_usable(cls, home: Path) -> Path:
        if str(home) == "." or "\0" in str(home):
            raise ValueError("it must name a folder")
        try:
            return home.expanduser().absolute()
        except RuntimeError:
            raise ValueError("it names the home folder of an unknown user") from None

    @field_validator("database", "database_line")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        if url is not None and url != "embedded" and not url.startswith(_URLS):
            raise ValueError("it must be embedded, or a URL: postgresql://host/dragoman")
        return url

    @property
    def pace(self) -> Profile:
        """The profile, checked."""
        if self.profile not in PROFILES:
            raise BadSetting(f"profile must be one of {', '.join(PROFILES)}")
        pace = PROFILES[self.profile].check()
        return pace if self.respect_not_before_at else replace(pace, respect_not_before_at=False)

    @property
    def uses_sandbox(self) -> bool:
        """Whether the sandbox stands in for a provider."""
        return self.provider.name == "sandbox" and self.provider.base_url is None


def default_home() -> Path:
    """Where an installation lives when nobody says otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/dragoman")
    data = os.environ.get("XDG_DATA_HOME")
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "dragoman"
    except RuntimeError:
        raise BadSetting("this user has no home folder; name a folder in DRAGOMAN_HOME") from None


def read_settings(path: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """The settings, or BadSetting that names the setting and says what would be right.

    >>> read_settings(env={"DRAGOMAN_HOME": "/srv/d", "DRAGOMAN_DOOR__PORT": "9000"}).door.port
    9000
    """
    given = dict(os.environ if env is None else env)
    path = path or (Path(given["DRAGOMAN_CONFIG"]) if given.get("DRAGOMAN_CONFIG") else None)
    tree: dict[str, Any] = _read_file(path) if path else {}
    _overlay(tree, given)
    if "home" not in tree:
        tree["home"] = default_home()
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise BadSetting(_explain(error)) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise BadSetting(f"the settings file {path} cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise BadSetting(f"the settings file {path} is not valid TOML") from None


_LISTS = frozenset({"allow", "user_keys", "accept_server_log_risk"})


def _overlay(tree: dict[str, Any], env: Mapping[str, str]) -> None:
    """DRAGOMAN_DOOR__PORT=9000 is [door] port = 9000; a list has commas, or is written as JSON."""
    for name, value in env.items():
        if not name.startswith("DRAGOMAN_") or name == "DRAGOMAN_CONFIG":
            continue
        *sections, last = name.removeprefix("DRAGOMAN_").lower().split("__")
        place = tree
        for section in sections:
            place = _section(place, section, name)
        place[last] = _list(name, value) if last in _LISTS else value


def _section(place: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    found = place.setdefault(section, {})
    if not isinstance(found, dict):
        raise BadSetting(f"{section} is given as a value, and {name} takes it for a section")
    return cast("dict[str, Any]", found)


def _list(name: str, value: str) -> list[Any]:
    if not value.startswith("["):
        return [part for part in value.split(",") if part]
    try:
        return list(json.loads(value))
    except (ValueError, RecursionError):
        raise BadSetting(f"{name} is neither a list with commas nor one in JSON") from None


def _explain(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        why = first["msg"].removeprefix("Value error, ")
        return f"the setting {where} is not acceptable: {why}"
    near = difflib.get_close_matches(where, _names(Settings), n=1)
    return f"there is no setting {where}" + (f"; did you mean {near[0]}?" if near else "")


def _names(section: type[BaseModel], prefix: str = "") -> list[str]:
    found: list[str] = []
    for name, info in section.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            found += _names(inner, f"{prefix}{name}.")
        found.append(f"{prefix}{name}")
    return found


def read_secret(env: str | None, file: Path | None) -> str:
    """A secret by reference, or nothing at all."""
    if env is not None:
        if not os.environ.get(env):
            raise BadSetting(f"the environment variable {env} is empty; it should hold a secret")
        return os.environ[env]
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except OSError:
            raise BadSetting(f"the secret file {file} cannot be read") from None
    return ""

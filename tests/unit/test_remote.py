"""What the URL of a database may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.core.errors import BadSetting, NotFound
from dragoman.store.remote import Remote, read_url
from dragoman.store.roles import Secrets

SECRET = "Zephyrine-4711"


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    """A folder with one role's password, as an editor would leave it."""
    (tmp_path / "dragoman_worker").write_text(f"{SECRET}\n")
    return Secrets(tmp_path)


def test_every_wait_is_bounded_and_only_a_primary_decides() -> None:
    """What nobody thinks of is added to each URL."""
    told = read_url("postgresql://a:5433,b:5434/cell_two")
    assert (told["host"], told["port"], told["dbname"]) == ("a,b", "5433,5434", "cell_two")
    assert (told["connect_timeout"], told["tcp_user_timeout"]) == ("5", "5000")
    assert told["target_session_attrs"] == "read-write"
    assert (
        read_url("postgresql://a?target_session_attrs=primary")["target_session_attrs"] == "primary"
    )


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://db.example.org", "require"),
        ("postgresql://localhost,db.example.org", "require"),
        ("postgresql://db.example.org?sslmode=verify-full", "verify-full"),
        ("postgresql://127.0.0.1", None),
        ("postgresql:///dragoman?host=/run/postgresql", None),
    ],
)
def test_messages_cross_a_network_encrypted(url: str, mode: str | None) -> None:
    """Unless the URL says otherwise, TLS is required of every host that is not this one."""
    assert read_url(url).get("sslmode") == mode


@pytest.mark.parametrize(
    ("url", "named"),
    [
        (f"postgresql://me:{SECRET}@a", "password"),
        (f"postgresql://{SECRET}@a", "password"),
        (f"postgresql://a?passfile={SECRET}", "password"),
        (f"postgresql://a?options={SECRET}", "options"),
        ("postgresql://a?target_session_attrs=any", "replica"),
        ("postgresql://a?target_session_attrs=prefer-standby", "replica"),
        (f"postgresql://a:{SECRET}", "port"),
        (f"postgresql://a?{SECRET}=1", "read"),
    ],
)
def test_a_url_that_could_never_work_is_refused_and_not_repeated(url: str, named: str) -> None:
    """A user, a password, a replica or nonsense: a sentence, without what was in the URL."""
    with pytest.raises(BadSetting, match=named) as refused:
        read_url(url)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_each_role_connects_with_the_password_of_its_own_file(secrets: Secrets) -> None:
    """The line goes past the pooler, and a role without a file is named."""
    remote = Remote("postgresql://pool", secrets, "postgresql://direct:6000")
    assert remote.is_pooled
    assert f"password={SECRET} " in f"{remote.dsn('dragoman_worker')} "
    assert "host=pool" in remote.dsn("dragoman_worker")
    assert "host=direct port=6000" in remote.line_dsn("dragoman_worker")
    with pytest.raises(NotFound, match="dragoman_owner"):
        remote.dsn("dragoman_owner")


def test_a_place_names_hosts_and_database_alone(secrets: Secrets) -> None:
    """What people read is short and holds nothing else."""
    assert Remote("postgresql://a:1,b:2/x", secrets).place == "a:1,b:2/x"
    assert Remote("postgresql://a,b", secrets).place == "a,b/dragoman"
    assert Remote("postgresql:///x", secrets).place == "the local socket/x"

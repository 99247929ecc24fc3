"""Who is let in: keys by address, the names of the door, the session of a browser."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from dragoman.api.app import build_app
from dragoman.api.guard import COOKIE, is_loopback
from dragoman.api.keys import HOLDERS, SESSION_S, ensure_keys, key_file, read_keys
from dragoman.core.errors import BadSetting
from dragoman.settings import DoorSettings, Settings
from tests.api.door import Door, unasked

ID = "7f7527fb-d8ac-436c-a0f8-110e07ce613e"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the address that needs care
# For each address: who may pass (the answer is then anything but 401 and 403).
MATRIX = [
    ("POST", "/v1/rewrites", {"orchestrator"}),
    ("GET", f"/v1/rewrites/{ID}", {"orchestrator", "operator"}),
    ("GET", f"/v1/rewrites/{ID}/text", {"orchestrator"}),
    ("PUT", f"/v1/homes/{ID}/members/{ID}", {"orchestrator"}),
]
OPEN_HERE = ["/", "/jobs", f"/jobs/{ID}", "/healthz", "/openapi.json", "/static/console.css"]
CLOSED_FAR = ["/", "/jobs", f"/jobs/{ID}", "/openapi.json", "/stream"]


@pytest.mark.parametrize("key", ["", "nonsense", "orchestrator", "operator"])
@pytest.mark.parametrize(("method", "path", "may"), MATRIX)
def test_each_address_asks_for_its_key(
    door: Door, method: str, path: str, may: set[str], key: str
) -> None:
    """No key or a wrong one is 401, a key of somebody else 403, before the body is looked at."""
    reply = door.ask(method, path, {} if method != "GET" else None, key=key or None)
    if key in may:
        assert reply.status not in (401, 403)
    else:
        assert reply.status == (403 if key in HOLDERS else 401)
        assert ("www-authenticate" in reply.headers) == (reply.status == 401)


@pytest.mark.parametrize("scheme", ["Basic", "bearer", "Token", ""])
def test_a_key_comes_as_a_bearer(door: Door, scheme: str) -> None:
    """Only the Bearer scheme, in any case, carries a key."""
    headers = {"Authorization": f"{scheme} {door.key('operator')}".strip()}
    reply = door.get(f"/v1/rewrites/{ID}", headers=headers)
    assert reply.status == (404 if scheme == "bearer" else 401)


@pytest.mark.parametrize("path", OPEN_HERE)
def test_the_console_of_this_machine_needs_no_key(door: Door, path: str) -> None:
    """On a loopback address everybody there may read what has no text in it."""
    assert door.get(path).status in (200, 404)


@pytest.mark.parametrize("path", CLOSED_FAR)
def test_a_far_console_asks_for_the_operator(far_door: Door, path: str) -> None:
    """Elsewhere the operator's key is needed, and the orchestrator's is not enough."""
    assert far_door.get(path).status == 401
    assert far_door.get(path, key="orchestrator").status == 403
    browser = far_door.get(path, headers={"Accept": "text/html"})
    assert (browser.status, browser.headers["location"]) == (303, "/login")
    if path != "/stream":
        assert far_door.get(path, key="operator").status in (200, 404)


def test_health_of_a_far_door_asks_for_a_key(far_door: Door) -> None:
    """Either key will do."""
    assert far_door.get("/healthz").status == 401
    assert {far_door.get("/healthz", key=key).status for key in HOLDERS} == {200}


def test_an_operator_logs_in_with_the_key(far_door: Door) -> None:
    """The form takes the operator's key alone and gives a session that scripts cannot read."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert far_door.get("/login").status == 200
    for wrong in ("", "nonsense", far_door.key("orchestrator")):
        refused = far_door.ask("POST", "/login", f"key={wrong}".encode(), headers=kind)
        assert (refused.status, "set-cookie" in refused.headers) == (403, False)
    taken = far_door.ask("POST", "/login", f"key={far_door.key('operator')}".encode(), headers=kind)
    cookie = taken.headers["set-cookie"]
    assert (taken.status, "HttpOnly" in cookie, "SameSite=strict" in cookie) == (303, True, True)
    assert far_door.key("operator") not in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    assert far_door.get("/", headers=session).status == 200
    assert far_door.get(f"/v1/rewrites/{ID}", headers=session).status == 401


def test_a_session_can_be_neither_made_nor_prolonged(far_door: Door) -> None:
    """A ticket with another time, another seal, or whose time has passed opens nothing."""
    keys = read_keys(far_door.home)
    good = keys.session()
    until, _, seal = good.partition(".")
    bad = [f"{int(until) + 1}.{seal}", f"{until}.{seal[::-1]}", f"{until}.", ".", "", f"x.{seal}"]
    for ticket in [*bad, keys.session(now=1.0)]:
        assert far_door.get("/", headers={"Cookie": f"{COOKIE}={ticket}"}).status == 401
    assert keys.is_session(good)
    assert not keys.is_session(good, now=float(until))
    assert keys.is_session(good, now=float(until) - SESSION_S)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]:8420", "LOCALHOST:1"])
def test_this_machines_names_are_the_doors(door: Door, host: str) -> None:
    """Any port, any case."""
    assert door.get("/healthz", host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1", "door.example"]
)
def test_a_rebound_name_is_turned_away(door: Door, host: str) -> None:
    """Another Host is 421 on every address, before any key is looked at."""
    for path in ("/", "/healthz", "/static/console.css", f"/v1/rewrites/{ID}"):
        reply = door.ask("GET", path, key="operator", headers={"Host": host})
        assert (reply.status, reply.json["code"]) == (421, "wrong_host")


def test_a_far_door_knows_its_own_name(far_door: Door) -> None:
    """The configured host is one of its names."""
    assert far_door.get("/healthz", host="door.example:443", key="operator").status == 200


def test_no_page_of_another_origin_may_read(door: Door) -> None:
    """No answer names an origin that may, whatever a browser asks."""
    for method in ("OPTIONS", "GET"):
        reply = door.ask(method, "/", headers={"Origin": "http://evil.example"})
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_keys_are_made_once_for_their_owner_alone(tmp_path: Path) -> None:
    """Two different keys in files that nobody else can read; a second call keeps them."""
    ensure_keys(tmp_path)
    files = [key_file(tmp_path, holder) for holder in HOLDERS]
    keys = [file.read_text(encoding="ascii") for file in files]
    assert len(set(keys)) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert not [key for key in keys if key in repr(ensure_keys(tmp_path))]
    assert [file.read_text(encoding="ascii") for file in files] == keys


@pytest.mark.parametrize("host", ["127.0.0.1", EVERYWHERE])
@pytest.mark.parametrize("wrong", ["missing", "readable", "short"])
def test_a_door_without_good_keys_does_not_open(tmp_path: Path, host: str, wrong: str) -> None:
    """A key that is absent, readable by others or guessable is refused before anything listens."""
    ensure_keys(tmp_path)
    file = key_file(tmp_path, "operator")
    if wrong == "missing":
        file.unlink()
    elif wrong == "readable":
        file.chmod(0o644)
    else:
        file.write_text("hunter2", encoding="ascii")
    settings = Settings(home=tmp_path, door=DoorSettings(host=host))
    with pytest.raises(BadSetting):
        build_app(settings, str, unasked)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_this_machine_alone_is_loopback(host: str) -> None:
    """Loopback addresses and their name."""
    assert is_loopback(host)


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "10.0.0.1", "localhost.evil.example", ""])
def test_anything_else_can_be_reached_by_others(host: str) -> None:
    """Addresses of networks, of all interfaces, and names that only look alike."""
    assert not is_loopback(host)

"""A product's own users: each sees the rewrites of one home that are theirs, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from dragoman.sandbox.server import Sandbox
from tests import postgres, stand
from tests.api.door import HOLDERS, Door
from tests.api.people import CANARY, complaint, move_in
from tests.api.tokens import Backend
from tests.crash import rig
from tests.store.attack import DENIED, connect, refusal

PRODUCT = Backend()
FIELDS = {"rewrite_request_id", "status", "created_at", "rewrite_completed_at"}
NOT_FOUND = (404, "not_found")


@pytest.fixture(scope="module")
def door(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A door that takes the product's tokens."""
    home = tmp_path_factory.mktemp("home")
    with Door(home, database, user_keys=[PRODUCT.write(home / "product.pem")]) as opened:
        yield opened


def mine(door: Door, home: UUID, user: UUID, request: object = "") -> Any:
    """What a user gets: one status, or the list of them."""
    path = f"/v1/me/rewrites/{request}" if request else "/v1/me/rewrites"
    reply = door.get(path, key=PRODUCT.token(home, user))
    assert reply.headers["cache-control"] == "no-store"
    return reply.json if reply.status == 200 else (reply.status, reply.json["code"])


def ids(door: Door, home: UUID, user: UUID) -> set[str]:
    """The rewrites that a user sees in the list."""
    return {each["rewrite_request_id"] for each in mine(door, home, user)["rewrites"]}


@pytest.fixture
def sent(door: Door, database: str) -> tuple[stand.Home, str]:
    """A home of two, and a message that waits."""
    home = move_in(database)
    body = complaint(home)
    assert door.post(body).status == 202
    return home, body["rewrite_request_id"]


def deliver(database: str) -> None:
    """Let a day pass in which everything that waits is rewritten."""
    with Sandbox() as sandbox:
        asyncio.run(rig.a_day(database, sandbox))


@pytest.mark.req("R287", "R290", "R222")
def test_a_user_reads_a_status_as_the_role_that_sees_no_more(
    database: str, sent: tuple[stand.Home, str], tmp_path: Path
) -> None:
    """With no worker, and with every other role locked out, the status answers, from one view."""
    home, request = sent

    def frontend_only(role: str) -> str:
        assert role == "frontend"
        return postgres.dsn("dragoman_frontend", database)

    keys = [PRODUCT.write(tmp_path / "product.pem")]
    with Door(tmp_path, None, dsn_of=frontend_only, user_keys=keys) as alone:
        told = mine(alone, home.id, home.sender, request)
        assert (told["status"], set(told)) == ("queued", FIELDS)
        assert mine(alone, home.id, home.sender) == {"rewrites": [told]}
    assert stand.rows(database, "select count(*) from worker") == [(0,)]
    granted = stand.rows(
        database,
        "select c.relname::text, c.relkind::text from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'dragoman'"
        " where c.relkind in ('r', 'v', 'p', 'm') and c.relname <> 'moved_clock'"
        " and (has_any_column_privilege('dragoman_frontend', c.oid, 'select, insert, update')"
        "  or has_table_privilege('dragoman_frontend', c.oid, 'delete'))",
    )
    assert granted == [("my_rewrite", "v")]


def test_another_user_and_another_home_find_nothing(
    door: Door, database: str, sent: tuple[stand.Home, str]
) -> None:
    """For them it is as if there were none: the same answer as for an id of nobody."""
    home, request = sent
    other = move_in(database)
    for who in (
        (home.id, uuid4()),
        (other.id, home.sender),
        (home.id, other.sender),
        (uuid4(), home.sender),
        (home.sender, home.id),
    ):
        assert mine(door, *who, request) == NOT_FOUND
        assert mine(door, *who) == {"rewrites": []}
    nobody = door.get(f"/v1/me/rewrites/{uuid4()}", key=PRODUCT.token(home.id, home.sender))
    others = door.get(f"/v1/me/rewrites/{request}", key=PRODUCT.token(other.id, other.sender))
    assert nobody.body == others.body
    assert ids(door, home.id, home.sender) == {request}


def test_the_recipient_sees_a_message_once_it_is_delivered(fresh: str, tmp_path: Path) -> None:
    """Neither that one was written, nor that one failed; the sender sees both."""
    keys = [PRODUCT.write(tmp_path / "product.pem")]
    with Door(tmp_path, fresh, user_keys=keys) as door:
        home = move_in(fresh)
        good, bad = complaint(home), complaint(home)
        door.post(good)
        request = good["rewrite_request_id"]
        assert mine(door, home.id, home.recipient, request) == NOT_FOUND
        assert mine(door, home.id, home.sender, request)["status"] == "queued"
        deliver(fresh)
        for user in (home.sender, home.recipient):
            told = mine(door, home.id, user, request)
            assert (told["status"], set(told)) == ("delivered", FIELDS)
            assert CANARY not in str(told)
        with stand.owner(fresh) as connection:
            connection.execute("update route set active = false")
        door.post(bad)
        failed = bad["rewrite_request_id"]
        assert mine(door, home.id, home.sender, failed)["status"] == "failed"
        assert mine(door, home.id, home.recipient, failed) == NOT_FOUND
        assert ids(door, home.id, home.sender) == {request, failed}
        assert ids(door, home.id, home.recipient) == {request}
        newest = [
            each["rewrite_request_id"] for each in mine(door, home.id, home.sender)["rewrites"]
        ]
        assert newest == [failed, request]


@pytest.fixture
def fresh() -> Iterator[str]:
    """A database of one test's own, with routes."""
    name = rig.empty_database()
    yield name
    postgres.drop(name)


@pytest.mark.req("R245")
def test_each_way_in_takes_its_own_kind_of_key(door: Door, sent: tuple[stand.Home, str]) -> None:
    """A service key is no user's token, and a user's token opens nothing else."""
    home, request = sent
    for key in (*HOLDERS, "", "nonsense"):
        for path in ("/v1/me/rewrites", f"/v1/me/rewrites/{request}"):
            reply = door.get(path, key=key or None)
            assert (reply.status, "www-authenticate" in reply.headers) == (401, True)
    token = PRODUCT.token(home.id, home.sender)
    for method, path in (
        ("GET", f"/v1/rewrites/{request}"),
        ("GET", f"/v1/rewrites/{request}/text"),
        ("POST", "/v1/rewrites"),
        ("POST", "/v1/reviews"),
        ("PUT", f"/v1/homes/{home.id}/members/{home.sender}"),
    ):
        body = None if method == "GET" else {}
        assert door.ask(method, path, body, key=token).status == 401
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert door.ask(method, "/v1/me/rewrites", {}, key=token).status == 405


@pytest.mark.parametrize(
    "changed", [{"exp": 1}, {"aud": "other"}, {"home": None}, {"sub": None}, {"sub": "x"}]
)
def test_a_bad_token_is_told_nothing(
    door: Door, sent: tuple[stand.Home, str], changed: dict[str, Any]
) -> None:
    """Whatever is wrong with it, the answer is byte for byte the same."""
    home, request = sent
    bad = door.get(f"/v1/me/rewrites/{request}", key=PRODUCT.token(home.id, home.sender, **changed))
    foreign = door.get("/v1/me/rewrites", key=Backend().token(home.id, home.sender))
    assert (bad.status, bad.body) == (401, foreign.body)


def test_a_door_without_a_users_key_takes_no_token(far_door: Door) -> None:
    """Nothing is open by default."""
    assert far_door.get("/v1/me/rewrites", key=PRODUCT.token(uuid4(), uuid4())).status == 401


def state(home: object, user: object) -> str:
    """What the door states first in each of its transactions."""
    return (
        f"select set_config('dragoman.home', '{home}', true),"
        f" set_config('dragoman.user', '{user}', true)"
    )


def test_the_database_itself_keeps_users_and_homes_apart(
    database: str, sent: tuple[stand.Home, str]
) -> None:
    """By plain SQL, as the frontend: without both settings no row, with A's never one of B's."""
    home, request = sent
    everything = "select rewrite_request_id::text from my_rewrite"
    with connect(database, "dragoman_frontend") as frontend:
        frontend.autocommit = False

        def seen(*statements: str) -> list[tuple]:
            for each in statements:
                frontend.execute(each.encode())
            found = frontend.execute(everything).fetchall()
            frontend.rollback()
            return found

        assert seen() == []
        assert seen(state(home.id, "")) == []
        assert seen(state("", home.sender)) == []
        assert seen(state(uuid4(), home.sender)) == []
        assert seen(state(home.id, uuid4())) == []
        assert seen(state(home.id, home.sender)) == [(request,)]
        assert seen() == []  # forgotten with the transaction
        frontend.autocommit = True
        for table in ("rewrite_status", "rewrite_request", "job", "standing", "rewrite_output"):
            assert refusal(frontend, f"select from {table}") == DENIED
        leak = (
            "create function pg_temp.peep(text) returns bool language plpgsql cost 0.0001 as"
            " $$ begin raise exception '%', $1; end $$"
        )
        assert refusal(frontend, leak) == DENIED
    barrier = "select reloptions from pg_class where relname = 'my_rewrite'"
    assert stand.rows(database, barrier) == [(["security_barrier=true"],)]


def test_the_list_of_a_user_reads_that_homes_rows_alone(database: str) -> None:
    """The view finds them by the index on the home, however many others there are."""
    with connect(database) as owner, owner.transaction():
        owner.execute("set local enable_seqscan = off")
        owner.execute(state(uuid4(), uuid4()).encode())
        plan = owner.execute(
            "explain select * from my_rewrite order by created_at desc limit 100"
        ).fetchall()
    assert any("request_home" in row[0] for row in plan), plan

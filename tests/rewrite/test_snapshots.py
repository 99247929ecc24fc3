"""What was true when somebody complained is what is sent, however often, whatever changes later."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from dragoman.rewrite import store as rewrite_store
from dragoman.rewrite.orchestrator import Complaint, Orchestrator
from dragoman.store.roles import OWNER, ROLES
from tests import postgres, stand
from tests.rewrite.house import House, house_of
from tests.store.attack import DENIED, connect, guard, refusal

MODES = pytest.mark.parametrize("mode", ["async", "batch"])
LIKES = {"communication_directness": "very_direct", "conflict_resolution_style": "cool_off"}
OTHERS = {"communication_directness": "gentle", "conflict_resolution_style": "talk_soon"}
FAULT = {
    "async": {"on": "response", "do": "status", "status": 503},
    "batch": {"do": "error", "item": {"index": 0}, "status": 503},
}


@pytest.mark.req("R015", "R177", "R016")
def test_a_request_and_its_two_snapshots_are_one_write() -> None:
    """Before anything is decided they stand there together: one recipient, and what they like."""
    seen: list[tuple] = []

    async def scenario() -> None:
        async with house_of("batch") as house:
            home = await stand.add_home(house.orchestrator.cell, preferences=LIKES)
            real = house.orchestrator

            async def classify(*given: Any) -> Any:
                seen.extend(
                    house.rows(
                        "select r.xmin = s.xmin and r.xmin = p.xmin, s.recipients, s.home_id,"
                        " p.recipient_user_id, p.preferences"
                        " from rewrite_request r join recipient_snapshot s on s.request_id = r.id"
                        " join recipient_preference_snapshot p on p.request_id = r.id"
                    )
                )
                return await real.classify(*given)

            asked = Orchestrator(real.cell, real.actor, classify)
            await asked.create(Complaint(home.id, home.sender, home.recipient, stand.NOISE["en"]))
            liked = house.rows(
                "select jsonb_object_agg(preference_id, value_key) from preference"
                " where user_id = %s",
                home.recipient,
            )
            assert liked == [(LIKES,)]
            assert seen == [(True, [home.recipient], home.id, home.recipient, LIKES)]

    asyncio.run(scenario())


async def everything_changes(house: House, home: stand.Home) -> None:
    """Tastes, languages, who lives there, and where the routes lead."""
    async with house.orchestrator.cell.transaction("change") as tx:
        for user in (home.sender, home.recipient):
            await rewrite_store.write_member(tx, home.id, user, "owner", "fr", OTHERS)
    newcomer = stand.Home(id=home.id)
    async with house.orchestrator.cell.transaction("change") as tx:
        await rewrite_store.write_member(tx, home.id, newcomer.recipient, "owner", "de", OTHERS)
    with stand.owner(house.database) as connection:
        connection.execute("delete from member where user_id = %s", (home.recipient,))
        other = '{"model": "other", "provider": "google", "adapter_kind": "gemini_generate",'
        other += ' "policy_version": "v9", "prompt_version": "v9"}'
        connection.execute(
            "update route set account = 'other', decision = decision || %s::jsonb", (other,)
        )


FIXED = (
    "select j.routing, j.account, j.source_locale, j.target_locale, j.lane::text, r.policy_version,"
    " r.routing_decision, s.recipients, p.preferences from job j"
    " join rewrite_request r on r.id = j.request_id"
    " join recipient_snapshot s on s.request_id = r.id"
    " join recipient_preference_snapshot p on p.request_id = r.id"
)


@MODES
@pytest.mark.req(
    "R017", "R016", "R090", "R077", "R078", "R095", "R029", "R031", "R142", "R169", "R170", "R197"
)
@pytest.mark.req("R389", "R196")
def test_whatever_changes_every_attempt_sends_the_same_bytes(mode: str) -> None:
    """Changed before the first try and again before the second: both send what was decided."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            home = await stand.add_home(house.orchestrator.cell, "de", "en", LIKES)
            job = (await house.say(home, "de")).job_id
            assert job is not None
            before, fixed = await house.line_of(job), house.rows(FIXED)
            await everything_changes(house, home)
            house.sandbox.fault(dict(FAULT[mode]))
            await house.work(times=2)
            assert house.sent == [before, before]
            assert set(house.providers.kinds) == {"openai_responses"}
            assert house.rows(FIXED) == fixed
            assert house.rows(
                "select s.state::text, s.attempt_count, o.policy_version = r.policy_version,"
                " o.prompt_version = j.routing ->> 'prompt_version', o.provider = 'sandbox',"
                " o.target_locale, o.recipient_user_id from standing s join job j using (id)"
                " join rewrite_output o on o.job_id = j.id"
                " join rewrite_request r on r.id = j.request_id"
            ) == [("completed", 1, True, True, True, "en", home.recipient)]

    asyncio.run(scenario())


@pytest.mark.req("R389")
def test_what_was_written_about_a_request_is_changed_by_nobody() -> None:
    """Text, context, classification and the request as it is sent: every role is refused."""
    values = {
        "original_text": "'other words'",
        "context_pack": "'{}'",
        "classifier_result": "'{}'",
        "rewrite_request": "'{}'",
    }

    async def scenario() -> None:
        async with house_of("batch") as house:
            await house.say()
            for role in ROLES:
                with connect(house.database, role) as connection:
                    for column, value in values.items():
                        found = refusal(
                            connection, f"update rewrite_request set {column} = {value}"
                        )
                        may_fill_in = role == "dragoman_orchestrator" and column != "original_text"
                        once = guard("request_is_write_once")
                        assert found == (once if role == OWNER or may_fill_in else DENIED), role

    asyncio.run(scenario())


def readers_of(database: str, home: stand.Home, request: Any) -> set[Any]:
    """Which members of a home find a rewrite among theirs, other than who wrote it."""
    members = stand.rows(database, "select user_id from member where home_id = %s", home.id)
    found = set()
    dsn = postgres.dsn("dragoman_frontend", database)
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=dragoman") as frontend:
        for (user,) in [*members, (home.recipient,)]:
            frontend.execute("select set_config('dragoman.home', %s, false)", (str(home.id),))
            frontend.execute("select set_config('dragoman.user', %s, false)", (str(user),))
            mine = frontend.execute("select rewrite_request_id from my_rewrite").fetchall()
            if (request,) in mine and user != home.sender:
                found.add(user)
    return found


@pytest.mark.req("R178", "R179")
def test_a_rewrite_is_for_those_of_its_snapshot_alone() -> None:
    """Of all who live there one finds it, before and after others have moved in."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            home = await stand.add_home(house.orchestrator.cell)
            request = (await house.say(home)).rewrite_request_id
            await house.work()
            assert house.rows("select recipients from recipient_snapshot") == [([home.recipient],)]
            assert readers_of(house.database, home, request) == {home.recipient}
            await everything_changes(house, home)
            assert len(house.rows("select from member where home_id = %s", home.id)) == 2
            assert readers_of(house.database, home, request) == {home.recipient}
            assert house.rows("select recipients from recipient_snapshot") == [([home.recipient],)]

    asyncio.run(scenario())

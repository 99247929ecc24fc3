from __future__ import annotations

import inspect
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import get_type_hints

import pytest

from dragoman.core.errors import BadInput
from dragoman.core.locale import Lane
from dragoman.rewrite.contracts import (
    AdapterKind,
    ExecutionMode,
    RewriteStrength,
    Surface,
)
from dragoman.rewrite.routing import LanguagePair, NoRoute, Route, RoutingInput, route
from tests.rewrite.requests import CANARY

ROUTE = Route(
    surface=Surface.DIRECT_MESSAGE,
    lane=Lane.CROSS_LANGUAGE,
    rewrite_strength=RewriteStrength.FULL_REFRAME,
    provider="openai",
    adapter_kind=AdapterKind.OPENAI_RESPONSES,
    base_url=None,
    model="large",
    prompt_version="v1",
    execution_mode=ExecutionMode.BATCH,
    supports_translation=True,
    cache_eligible=False,
    max_retries=2,
    priority=10,
    is_active=True,
    is_provider_active=True,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
WANTED = RoutingInput(
    task="complaint_rewrite",
    surface=Surface.DIRECT_MESSAGE,
    rewrite_strength=RewriteStrength.FULL_REFRAME,
    language_pair=LanguagePair("de", "en"),
    lane=Lane.CROSS_LANGUAGE,
    policy_version="v1",
)


@pytest.mark.req("R291")
def test_the_router_has_no_room_for_text() -> None:
    """It takes six fields, none of them a message; anything more is a TypeError."""
    assert {field.name for field in fields(RoutingInput)} == {
        "task",
        "surface",
        "rewrite_strength",
        "language_pair",
        "lane",
        "policy_version",
    }
    assert list(inspect.signature(route).parameters) == ["routes", "wanted"]
    assert get_type_hints(route)["wanted"] is RoutingInput
    with pytest.raises(TypeError):
        replace(WANTED, original_text=CANARY)
    with pytest.raises(TypeError):
        route([ROUTE], WANTED, CANARY)  # type: ignore[call-arg]


def test_a_decision_is_the_route_and_the_wanted_policy() -> None:
    """Model, wire, prompt and mode are the route's; the policy version is the request's."""
    found = route([ROUTE], replace(WANTED, policy_version="v7"))
    assert (found.model, found.adapter_kind) == ("large", AdapterKind.OPENAI_RESPONSES)
    assert (found.policy_version, found.prompt_version) == ("v7", "v1")
    assert (found.execution_mode, found.max_retries) == (ExecutionMode.BATCH, 2)


def test_priority_goes_first_then_age() -> None:
    """The higher priority wins; of equals the older; the order of the rows is nothing."""
    older = replace(ROUTE, model="older", created_at=ROUTE.created_at - timedelta(days=1))
    higher = replace(ROUTE, model="higher", priority=11)
    assert route([ROUTE, older], WANTED).model == "older"
    for rows in ([ROUTE, older, higher], [higher, older, ROUTE]):
        assert route(rows, WANTED).model == "higher"


@pytest.mark.parametrize(
    "unfit",
    [
        {"is_active": False},
        {"is_provider_active": False},
        {"lane": Lane.SAME_LANGUAGE},
        {"surface": Surface.OTHER},
        {"rewrite_strength": RewriteStrength.LIGHT_TOUCH},
        {"supports_translation": False},
    ],
    ids=lambda unfit: next(iter(unfit)),
)
def test_no_fitting_route_is_a_refusal(unfit: dict[str, object]) -> None:
    """There is no fallback to a route that is inactive or meant for something else."""
    with pytest.raises(NoRoute):
        route([replace(ROUTE, **unfit)], WANTED)
    with pytest.raises(NoRoute):
        route([], WANTED)


@pytest.mark.parametrize(
    "bad",
    [{"task": "review"}, {"policy_version": " "}, {"lane": Lane.SAME_LANGUAGE}],
    ids=lambda bad: next(iter(bad)),
)
def test_an_impossible_wish_is_refused(bad: dict[str, object]) -> None:
    """Another task, no policy version, or a lane that is not the pair's."""
    with pytest.raises(BadInput):
        replace(WANTED, **bad)


@pytest.mark.parametrize("tag", ["unknown", "", "en-US", "english"])
def test_a_language_pair_is_two_normalised_tags(tag: str) -> None:
    """Unknown and raw tags are refused on either side."""
    for pair in ((tag, "en"), ("en", tag)):
        with pytest.raises(BadInput):
            LanguagePair(*pair)


@pytest.mark.parametrize(
    "bad",
    [
        {"adapter_kind": "gemini_generate"},
        {"adapter_kind": "carrier_pigeon"},
        {"provider": "google"},
        {"provider": "our-own-server"},
        {"execution_mode": None},
        {"prompt_version": ""},
        {"surface": "billboard"},
    ],
)
def test_a_route_that_cannot_work_is_refused(bad: dict[str, object]) -> None:
    """A wire the provider does not speak, a server without an address, a missing version."""
    with pytest.raises(BadInput):
        Route.from_json({**ROUTE.to_json(), **bad})


def test_a_server_of_ones_own_speaks_a_known_wire() -> None:
    """Any name with a base_url may use one of OpenAI's wires."""
    own = {"provider": "our-own-server", "base_url": "http://127.0.0.1:8000/v1"}
    assert Route.from_json({**ROUTE.to_json(), **own}).provider == "our-own-server"

"""The choice of who rewrites, from a table of routes; no text ever comes near it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dragoman.core.errors import Refused
from dragoman.core.locale import Lane, lane
from dragoman.core.shape import Shape, check
from dragoman.rewrite.contracts import (
    AdapterKind,
    ExecutionMode,
    RewriteStrength,
    RoutingDecision,
    Surface,
    check_locale,
)

TASK = "complaint_rewrite"

# Wires of the named providers; any other name is a server that speaks one of OpenAI's.
_OPENAI = frozenset({AdapterKind.OPENAI_RESPONSES, AdapterKind.OPENAI_CHAT})
_WIRES: dict[str, frozenset[AdapterKind]] = {
    "openai": _OPENAI,
    "google": frozenset({AdapterKind.GEMINI_GENERATE}),
    "anthropic": frozenset({AdapterKind.ANTHROPIC_MESSAGES}),
    "sandbox": frozenset(AdapterKind),
}


class NoRoute(Refused):
    """No active route serves this surface, lane and strength; add one with `dragoman apply`."""


@dataclass(frozen=True, slots=True)
class LanguagePair:
    """From which language into which; the JSON names are `from` and `to`."""

    source: str
    target: str

    def __post_init__(self) -> None:
        check_locale(self.source)
        check_locale(self.target)


@dataclass(frozen=True, slots=True)
class RoutingInput:
    """Everything a route may be chosen by."""

    task: str
    surface: Surface
    rewrite_strength: RewriteStrength
    language_pair: LanguagePair
    lane: Lane
    policy_version: str

    def __post_init__(self) -> None:
        pair = self.language_pair
        check(self.task == TASK, f"task is not {TASK}")
        check(self.lane is lane(pair.source, pair.target), "lane is not the language pair's")
        check(bool(self.policy_version.strip()), "policy_version is empty")


@dataclass(frozen=True, slots=True)
class Route(Shape):
    """One row of the routing table. Of two, the higher priority goes first, then the older."""

    surface: Surface
    lane: Lane
    rewrite_strength: RewriteStrength
    provider: str
    adapter_kind: AdapterKind
    base_url: str | None
    model: str
    prompt_version: str
    execution_mode: ExecutionMode
    supports_translation: bool
    cache_eligible: bool
    max_retries: int | None
    priority: int
    is_active: bool
    is_provider_active: bool
    created_at: datetime

    def __post_init__(self) -> None:
        check(bool(self.prompt_version.strip()), "prompt_version is empty")
        wires = _WIRES.get(self.provider, _OPENAI)
        check(self.adapter_kind in wires, "the provider does not speak this adapter_kind")
        needs_url = self.provider not in _WIRES
        check(not needs_url or bool(self.base_url), "base_url is missing for this provider")


def route(routes: Iterable[Route], wanted: RoutingInput) -> RoutingDecision:
    """The decision of the first route that serves, or NoRoute: there is no fallback."""
    fitting = [one for one in routes if _serves(one, wanted)]
    if not fitting:
        raise NoRoute
    best = min(fitting, key=lambda one: (-one.priority, one.created_at, one.provider, one.model))
    return RoutingDecision(
        provider=best.provider,
        adapter_kind=best.adapter_kind,
        base_url=best.base_url,
        model=best.model,
        prompt_version=best.prompt_version,
        policy_version=wanted.policy_version,
        execution_mode=best.execution_mode,
        supports_translation=best.supports_translation,
        cache_eligible=best.cache_eligible,
        max_retries=best.max_retries,
    )


def _serves(one: Route, wanted: RoutingInput) -> bool:
    key = (wanted.surface, wanted.lane, wanted.rewrite_strength)
    is_fitting = (one.surface, one.lane, one.rewrite_strength) == key
    can_translate = one.supports_translation or wanted.lane is Lane.SAME_LANGUAGE
    return one.is_active and one.is_provider_active and is_fitting and can_translate

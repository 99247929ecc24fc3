"""Where the parts are put together: settings in, providers, channels and pipelines out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dragoman.channels.base import Channel
from dragoman.channels.smtp import SMTP, Security, SMTPSettings
from dragoman.core.anchor import read_private
from dragoman.core.canonical import JSONObject, canonical, read_object
from dragoman.core.errors import BadInput, BadSetting
from dragoman.core.locale import Lane
from dragoman.core.profile import Profile
from dragoman.providers import adapter_for
from dragoman.providers.base import Account, Adapter
from dragoman.providers.transport import Transport
from dragoman.review.stages import review_pipeline
from dragoman.rewrite import store as rewrite_store
from dragoman.rewrite.advisor import Advisor
from dragoman.rewrite.contracts import PROMPT_VERSION
from dragoman.rewrite.stage import rewrite_pipeline
from dragoman.rewrite.words import RewriteStrength, Surface
from dragoman.settings import Settings, read_secret
from dragoman.store.database import Cell, Intake
from dragoman.store.intake import set_intake
from dragoman.store.workers import know_actor
from dragoman.work.notary import Notary
from dragoman.work.pipeline import Pipelines

_KNOWN_URLS = {"openai": "https://api.openai.com/v1"}


@dataclass(frozen=True, slots=True)
class Wired:
    """Whom we can call, and as whom: one transport, one adapter for each kind."""

    settings: Settings
    transport: Transport
    adapters: dict[str, Adapter] = field(default_factory=dict[str, Adapter])

    def adapter(self, kind: str) -> Adapter:
        """The wire of an adapter kind."""
        if kind not in self.adapters:
            self.adapters[kind] = adapter_for(kind, self.transport, self.settings.cell)
        return self.adapters[kind]

    def account(self, name: str, base_url: str | None) -> Account:
        """Whom we are there; the key is read from its secret now."""
        provider = self.settings.provider
        key = read_secret(provider.api_key_env, provider.api_key_file)
        return Account(name, base_url or provider_url(self.settings), key or "none")

    def advisor(self) -> Advisor:
        """The classifier: the cheapest model, asked with a hard time-out."""
        provider = self.settings.provider
        return Advisor(
            self.adapter(provider.adapter_kind),
            self.account(provider.account, None),
            provider.model_classifier,
        )


def sandbox_file(settings: Settings) -> Path:
    """Where the sandbox says at which address it listens."""
    return settings.home / "run" / "sandbox.url"


def mail_file(settings: Settings) -> Path:
    """Where the sandbox's mail server says at which address it listens."""
    return settings.home / "run" / "mail.address"


def provider_url(settings: Settings) -> str:
    """The base URL of the configured provider; the sandbox's is the one it listens at."""
    provider = settings.provider
    if provider.base_url:
        return provider.base_url
    if provider.name in _KNOWN_URLS:
        return _KNOWN_URLS[provider.name]
    if not settings.uses_sandbox:
        raise BadSetting(f"provider.base_url is needed for the provider {provider.name}")
    try:
        return sandbox_file(settings).read_text(encoding="utf-8").strip()
    except OSError:
        raise BadSetting("the sandbox is not running here; start it with: dragoman up") from None


@asynccontextmanager
async def wired(settings: Settings) -> AsyncGenerator[Wired]:
    """Providers for as long as the block runs."""
    host = urlsplit(provider_url(settings)).hostname or ""
    transport = Transport({host})
    try:
        yield Wired(settings, transport)
    finally:
        await transport.aclose()


def channels_of(settings: Settings) -> dict[str, Channel]:
    """The ways to reach people, by the scheme of their address."""
    mail = settings.mail
    host, port = (mail.host, mail.port) if mail.host else _sandbox_mail(settings)
    smtp = SMTP(
        SMTPSettings(
            host,
            port,
            mail.sender,
            security=Security(mail.tls),
            username=mail.username,
            password=read_secret(mail.password_env, mail.password_file) or None,
        )
    )
    return {smtp.scheme: smtp}


def _sandbox_mail(settings: Settings) -> tuple[str, int]:
    try:
        told = read_object(mail_file(settings).read_bytes())
    except (OSError, BadInput):
        raise BadSetting(
            "the sandbox's mail server is not running here; start it with: dragoman up"
        ) from None
    return str(told["host"]), int(str(told["port"]))


def notary_of(settings: Settings, auditor: Cell) -> Notary:
    """Who writes the anchors: it reads as the auditor and signs with the audit's key."""
    told = settings.audit
    assert told.anchor_file is not None  # noqa: S101 - without a file there is no notary
    return Notary(auditor, told.anchor_file, audit_key(settings), told.anchor_every_s)


def audit_key(settings: Settings) -> Ed25519PrivateKey:
    """The key that signs the anchors, or BadSetting."""
    return read_private(read_secret(settings.audit.key_env, settings.audit.key_file))


def pipelines_of(settings: Settings, channels: dict[str, Channel] | None = None) -> Pipelines:
    """The two pipelines that come along, at the profile's pace."""
    pace: Profile = settings.pace
    rewrite = rewrite_pipeline(pace.retry_backoff_s, pace.claim_timeout_s)
    review = review_pipeline(
        settings.cell, settings.review.allow, channels or {}, claim_timeout_s=pace.lease_s
    )
    return {pipeline.name: pipeline for pipeline in (rewrite, review)}


async def write_routes(cell: Cell, settings: Settings) -> int:
    """One route for each surface, lane and strength, to the configured provider; safe to repeat."""
    provider, count = settings.provider, 0
    async with cell.transaction("write_routes") as tx:
        for surface in Surface:
            for lane in Lane:
                for strength in RewriteStrength:
                    is_full = strength is RewriteStrength.FULL_REFRAME
                    decision = {
                        "provider": provider.name,
                        "adapter_kind": provider.adapter_kind,
                        "base_url": provider.base_url,
                        "model": provider.model_full if is_full else provider.model_light,
                        "prompt_version": PROMPT_VERSION,
                        "execution_mode": provider.mode,
                        "supports_translation": True,
                        "cache_eligible": False,
                        "max_retries": 2,
                    }
                    await rewrite_store.write_route(
                        tx,
                        id=uuid5(NAMESPACE_URL, f"route/{surface}/{lane}/{strength}"),
                        surface=surface.value,
                        lane=lane.value,
                        rewrite_strength=strength.value,
                        account=provider.account,
                        priority=0,
                        decision=canonical(decision).decode(),
                    )
                    count += 1
    return count


async def write_intake(cell: Cell, settings: Settings) -> bool:
    """In which order jobs come in, and how many of a home may wait; whether that is a change.

    With `fair` a home has its place in every run: its jobs stand one tick of the submitter apart.
    """
    every_s = settings.pace.submitter_every_s if settings.order == "fair" else None
    async with cell.transaction("write_intake") as tx:
        actor = await know_actor(tx, "operator", "settings")
        return await set_intake(tx, actor, Intake(every_s, settings.max_waiting_per_home))


def review_routing(settings: Settings) -> JSONObject:
    """By whom a review is made; its model is asked at once."""
    provider = settings.provider
    return {
        "provider": provider.name,
        "adapter_kind": provider.adapter_kind,
        "base_url": provider.base_url,
        "model": provider.model_review,
        "execution_mode": "async",
    }

"""How fast an installation goes: schedule, limits, backoff; configuration, never contract."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dragoman.core.errors import BadSetting


@dataclass(frozen=True, slots=True)
class Profile:
    """One pace. A run takes at most `max_jobs_per_run` jobs; what is left waits for the next tick.

    >>> PROFILES["prod"].retry_backoff_s
    (3600, 21600)
    """

    name: str
    submitter_every_s: float = 900
    collector_every_s: float = 1800
    max_jobs_per_run: int = 25
    max_runtime_s: float = 240
    claim_timeout_s: float = 600
    retry_backoff_s: tuple[float, ...] = (900, 7200)
    overflow_delay_s: float = 60
    lease_s: float = 30
    idle_s: float = 1
    sweep_every_s: float = 10
    create_deadline_s: float = 60
    settle_s: float = 60
    send_deadline_s: float = 30
    answer_deadline_s: float = 120
    request_timeout_s: float = 300
    concurrency: int = 4
    claim_batch: int = 200
    drain_s: float = 10
    respect_not_before_at: bool = True  # false: what waits for its time is taken at once

    def check(self) -> Profile:
        """Refuse what could never work."""
        for each in fields(self):
            value: object = getattr(self, each.name)
            if isinstance(value, bool):
                continue
            is_number = isinstance(value, (int, float)) and 0 < value < 1e9
            if not is_number and not isinstance(value, (str, tuple)):
                raise BadSetting(f"{each.name} must be a positive, finite number")
        if not all(0 < step < 1e9 for step in self.retry_backoff_s):
            raise BadSetting("retry_backoff_s must hold positive, finite numbers")
        if not self.retry_backoff_s:
            raise BadSetting("retry_backoff_s needs at least one entry")
        if self.max_runtime_s + self.create_deadline_s >= self.claim_timeout_s:
            raise BadSetting(
                "max_runtime_s and create_deadline_s together must stay below claim_timeout_s, "
                "or a claim could go stale while its run still works on it"
            )
        return self


DEFAULT = Profile("default")
PROFILES = {
    "default": DEFAULT,
    "dev": replace(
        DEFAULT,
        name="dev",
        submitter_every_s=7200,
        collector_every_s=7200,
        max_jobs_per_run=5,
        max_runtime_s=120,
        retry_backoff_s=(120, 600),
        claim_timeout_s=300,
    ),
    "stage": replace(
        DEFAULT,
        name="stage",
        submitter_every_s=1800,
        collector_every_s=1800,
        max_jobs_per_run=30,
        max_runtime_s=180,
        retry_backoff_s=(300, 1800),
        claim_timeout_s=900,
    ),
    "prod": replace(
        DEFAULT,
        name="prod",
        submitter_every_s=3600,
        collector_every_s=3600,
        max_jobs_per_run=200,
        max_runtime_s=240,
        retry_backoff_s=(3600, 21600),
        claim_timeout_s=3600,
    ),
    "demo": replace(
        DEFAULT,
        name="demo",
        submitter_every_s=2,
        collector_every_s=2,
        max_jobs_per_run=25,
        max_runtime_s=10,
        retry_backoff_s=(2, 5),
        claim_timeout_s=20,
        overflow_delay_s=1,
        lease_s=6,
        idle_s=0.2,
        sweep_every_s=2,
        create_deadline_s=5,
        settle_s=4,
        send_deadline_s=5,
        answer_deadline_s=10,
        request_timeout_s=30,
    ),
}

"""The demonstration: complaints in four languages through both lanes, and a review."""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid5

from rich.console import Console
from rich.live import Live
from rich.table import Table

from dragoman.cli.complaints import COMPLAINTS
from dragoman.cli.db import cell_of
from dragoman.cli.hint import hint
from dragoman.cli.review import hand_in
from dragoman.cli.rewrite import HOME, orchestrating
from dragoman.cli.up import Supervisor, supervised
from dragoman.compose import provider_url
from dragoman.core.canonical import canonical
from dragoman.core.errors import BadSetting
from dragoman.core.ids import uuid7
from dragoman.core.job import State
from dragoman.rewrite import store
from dragoman.rewrite.orchestrator import Complaint
from dragoman.settings import Settings, read_settings
from dragoman.store.database import Cell

_HERE = "dragoman.cli"
_PATIENCE_S = 90.0
_FINAL = {"completed", "failed", "canceled"}
_TROUBLE = [
    {"on": "create", "do": "drop_after", "nth": 2},
    {"item": {"index": 0}, "do": "error", "status": 503, "code": "overloaded", "nth": 6},
    {"item": {"index": 0}, "do": "wrong_language", "nth": 12},
]
_RARE = {State.FAILED, State.CANCELED}
_TRY_IT = 'rewrite submit "Your dog barks all night, I am fed up!" --to es --wait'
_RECIPIENTS = ["mailto:ann@team.example", "mailto:bob@team.example"]


@dataclass(frozen=True, slots=True)
class Travellers:
    """What this demonstration has handed in."""

    requests: Sequence[UUID]
    review: UUID


@dataclass(frozen=True, slots=True)
class Progress:
    """How it stands."""

    rows: list[dict[str, Any]]
    told: dict[str, Any]
    batches: int
    trouble: dict[str, Any]
    expected: int

    @property
    def is_over(self) -> bool:
        """Whether everything has reached its final state."""
        finished = sum(row["n"] for row in self.rows if row["state"] in _FINAL)
        return finished == self.expected and self.told["state"] in _FINAL


def show(complaints: int) -> int:
    """Run it. At a terminal it stays up with the console until Ctrl-C; else it ends by itself."""
    out, settings = Console(), _settings()
    began = time.monotonic()
    with supervised(settings, lambda line: out.print(line, style="dim")) as supervisor:
        out.print(f"console  {supervisor.door_url()}", soft_wrap=True)
        out.print(f"handing in {complaints} complaints and a review …", style="dim")
        progress = asyncio.run(_travel(settings, supervisor, out, complaints))
        out.print(_table(progress))
        closes = _say(out, progress, time.monotonic() - began)
        if sys.stdin.isatty() and sys.stdout.isatty():
            _stay(out, supervisor)
    return 0 if closes else 1


def _stay(out: Console, supervisor: Supervisor) -> None:
    out.print(f"\nThe console stays at {supervisor.door_url()}, until Ctrl-C.", soft_wrap=True)
    out.print("Try a complaint of your own in another terminal:")
    out.print(f"  {hint(_TRY_IT)}", markup=False, highlight=False, soft_wrap=True)
    with suppress(KeyboardInterrupt):
        supervisor.stay()


def _settings() -> Settings:
    """The installation's own settings at the demonstration's pace, with a repository to review."""
    if shutil.which("git") is None:
        raise BadSetting("the demonstration needs git: sudo apt-get install -y git")
    os.environ["DRAGOMAN_PROFILE"] = "demo"
    given = read_settings()
    allowed = [*given.review.allow, f"{(given.home / 'demo').resolve()}/"]
    os.environ["DRAGOMAN_REVIEW__ALLOW"] = canonical(allowed).decode()
    return read_settings()


async def _travel(
    settings: Settings, supervisor: Supervisor, out: Console, complaints: int
) -> Progress:
    if settings.uses_sandbox:
        await asyncio.to_thread(_make_trouble, settings)
    travellers = await _hand_in(settings, complaints)
    until = time.monotonic() + _PATIENCE_S
    async with cell_of(settings, "operator", "dragoman demo") as cell:
        progress = await _look(cell, travellers)
        with Live(_table(progress), console=out, refresh_per_second=4, transient=True) as live:
            while not progress.is_over and time.monotonic() < until:
                supervisor.watch()
                await asyncio.sleep(0.25)  # noqa: TID251 - a person watches
                progress = await _look(cell, travellers)
                live.update(_table(progress))
    return progress


def _make_trouble(settings: Settings) -> None:
    """Ask the sandbox to fail three times, as the outside world does."""
    address = urlsplit(provider_url(settings))
    control = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
    control.request("DELETE", "/_sandbox/faults")
    control.getresponse().read()
    control.request("POST", "/_sandbox/faults", canonical(_TROUBLE))
    control.getresponse().read()
    control.close()


async def _hand_in(settings: Settings, complaints: int) -> Travellers:
    languages = list(COMPLAINTS)
    pairs = [(a, b) for a in languages for b in languages]
    async with orchestrating(settings, "demo") as orchestrator:
        people = {tag: uuid5(HOME, f"demo/{tag}") for tag in languages}
        readers = {tag: uuid5(HOME, f"demo/reader/{tag}") for tag in languages}
        home = uuid7()
        async with orchestrator.cell.transaction("add_home") as tx:
            for tag in languages:
                await store.write_member(
                    tx, home, people[tag], "housemate", tag, {"communication_directness": "gentle"}
                )
                await store.write_member(
                    tx, home, readers[tag], "owner", tag, {"conflict_resolution_style": "talk_soon"}
                )
        requests: list[UUID] = []
        for number in range(complaints):
            source, target = pairs[number * len(pairs) // complaints]  # a pair fills a batch
            message = COMPLAINTS[source][number % len(COMPLAINTS[source])]
            accepted = await orchestrator.create(
                Complaint(home, people[source], readers[target], message)
            )
            requests.append(accepted.rewrite_request_id)
        repository = _repository(settings.home / "demo" / f"shop-{uuid7().hex[-8:]}")
        review = await hand_in(orchestrator.cell, settings, repository, "HEAD", _RECIPIENTS)
    return Travellers(requests, review.job_id)


async def _look(cell: Cell, travellers: Travellers) -> Progress:
    ids = list(travellers.requests)
    async with cell.transaction("read") as tx:
        rows = await tx.dicts("demo/count_progress", _HERE, ids=ids)
        told = await tx.dicts("demo/count_told", _HERE, id=travellers.review)
        batches = await tx.dicts("demo/count_batches", _HERE, ids=ids)
        trouble = await tx.dicts("demo/count_trouble", _HERE, ids=ids)
    return Progress(rows, told[0], batches[0]["n"], trouble[0], len(ids))


def _table(progress: Progress) -> Table:
    """Both lanes and every pair of languages; each row is a sum, and so is the last one."""
    groups: dict[tuple[str, str, str], Counter[str]] = {}
    for row in progress.rows:
        key = (row["lane"], row["source_locale"], row["target_locale"])
        groups.setdefault(key, Counter())[row["state"]] += row["n"]
    whole = sum(groups.values(), Counter[str]())
    shown = [state for state in State if whole[state.value] or state not in _RARE]
    about = _review(progress.told)
    table = Table(box=None, padding=(0, 1, 0, 0), caption=about, caption_justify="left")
    for name in ("lane", "languages"):
        table.add_column(name, no_wrap=True)
    for name in ("accepted", *shown):
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for key in sorted(groups, key=lambda key: (key[0] != "same_language", key)):
        lane, source, target = key
        table.add_row(lane, f"{source} → {target}", *_figures(groups[key], shown))
    table.add_section()
    table.add_row("all", "", *_figures(whole, shown), style="bold")
    return table


def _figures(counts: Counter[str], shown: Sequence[State]) -> list[str]:
    figures = [counts.total(), *(counts[state.value] for state in shown)]
    return [str(n) if n else "·" for n in figures]


def _review(told: dict[str, Any]) -> str:
    return f"review: {told['state']} at {told['stage']}, {told['told']} of {told['messages']} told"


def _say(out: Console, progress: Progress, seconds: float) -> bool:
    """The closing sentence, computed from the figures above it."""
    finished = Counter[str]()
    for row in progress.rows:
        finished[row["state"]] += row["n"]
    closes = finished.total() == progress.expected and progress.is_over
    parts = " + ".join(
        f"{finished[state.value]} {state.value}" for state in State if finished[state.value]
    )
    verdict = "The sum closes" if closes else "The sum does NOT close"
    out.print(
        f"\n{verdict}: {progress.expected} accepted = {parts}, "
        f"in {progress.batches} provider batches."
    )
    _say_trouble(out, progress.trouble)
    told = progress.told
    out.print(
        f"The review {told['state']}: "
        f"{told['told']} of {told['messages']} recipients told, each once."
    )
    out.print(
        f"{seconds:.0f} seconds, no key, no network service; the sandbox wrote every text.",
        style="dim",
    )
    return closes and told["state"] == "completed"


def _say_trouble(out: Console, trouble: dict[str, Any]) -> None:
    """What went wrong on purpose; a small demonstration ends before all of it has happened."""
    told = {
        "adopted": "batch whose creation was never answered, found and adopted",
        "retried": "item tried again",
        "failed": f"answer refused ({trouble['codes']}), and nothing of it stored",
    }
    parts = [f"{trouble[name]} {what}" for name, what in told.items() if trouble[name]]
    if parts:
        out.print(f"Gone wrong on purpose: {'; '.join(parts)}.")


def _repository(folder: Path) -> Path:
    """A small repository with a change worth criticising."""
    folder.mkdir(mode=0o755, parents=True)
    shop = folder / "shop.py"
    shop.write_text(
        '"""Prices."""\n\n\ndef total(prices):\n    return sum(prices)\n', encoding="utf-8"
    )
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", ".")
    _git(folder, "commit", "-q", "-m", "Prices")
    shop.write_text(
        '"""Prices."""\n\n\ndef total(prices, seen=[]):\n    try:\n        seen.append(prices)\n'
        "        print(prices)\n        return sum(p for p in prices if p != None)\n"
        "    except:\n        pass\n",
        encoding="utf-8",
    )
    _git(folder, "commit", "-q", "-am", "Skip missing prices")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    who = [
        "-c",
        "user.name=Demo",
        "-c",
        "user.email=demo@team.example",
        "-c",
        "commit.gpgsign=false",
    ]
    command = ["git", "-C", str(folder), *who, *arguments]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - the user's git

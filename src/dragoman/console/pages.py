"""Figures into HTML: templates with escaping on, and the few helpers that they call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape
from markupsafe import Markup
from starlette.staticfiles import StaticFiles

from dragoman.console import words
from dragoman.console.charts import chart
from dragoman.console.figures import NextRun, Overview, Tally, moved_by, verdict
from dragoman.console.job import JobPage, because, explain
from dragoman.console.lanes import lane_rows, total_of
from dragoman.console.queries import JobRow, OpenBatch
from dragoman.core.job import TERMINAL, State

PARTS = (
    *("full_tally", "verdict", "chart", "waits", "lanes", "batches", "finished"),
    *("alerts", "doubts", "next", "deliveries", "runs"),
)
_NAMES = {"full_tally": "tally"}
_BATCH = {
    "submitting": "processing",
    "submit_unknown": "unknown",
    "submitted": "batch_submitted",
    "running": "batch_submitted",
    "completed": "completed",
    "failed": "failed",
    "expired": "canceled",
    "canceled": "canceled",
}


class Pages:
    """The pages of one cell."""

    def __init__(self, cell: str) -> None:
        self.cell = cell
        loader = PackageLoader("dragoman.console", "templates")
        self._env = Environment(
            loader=loader,
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def static(self) -> StaticFiles:
        """The sheet, the script and the icon."""
        return StaticFiles(directory=str(resources.files("dragoman.console").joinpath("static")))

    def login(self, *, is_wrong: bool) -> str:
        """The form that asks for the key."""
        return self._template("login.html").render(cell=self.cell, is_wrong=is_wrong)

    def overview(self, figures: Overview | None, *, theme: str, is_away: bool) -> str:
        """The first page; without the database, the last figures it had."""
        shown = _overview(figures) if figures else {"o": None}
        frame = self._frame("overview", self._title(figures, is_away=is_away), theme)
        frame |= {"now": figures.now if figures else None, "away": is_away}
        return self._template("overview.html").render(frame | shown)

    def jobs(self, shown: Mapping[str, object], *, theme: str) -> str:
        """A list of jobs."""
        frame = self._frame("jobs", f"Jobs · Dragoman {self.cell}", theme)
        return self._template("jobs.html").render(frame | dict(shown))

    def no_jobs(self, last: Overview | None, *, theme: str) -> str:
        """The list while the database is away: the last sum, and no rows."""
        now, tally = (last.now, last.tally) if last else (None, None)
        frame: dict[str, object] = {"shown": None, "said": "", "queries": 0, "away": True}
        return self.jobs(frame | {"now": now, "t": tally}, theme=theme)

    def job(self, page: JobPage, tally: Tally, *, theme: str) -> str:
        """One job."""
        job = page.job
        title = f"{job['state']} · job {words.short(job['job_id'])} · Dragoman {self.cell}"
        frame = self._frame("job", title, theme)
        stream = "" if page.is_final else f"/stream?page=job&job={job['job_id']}"
        frame |= {"stream": stream, "now": job["now"], "t": tally}
        return self._template("job.html").render(frame | _job(page))

    def no_job(self, *, theme: str) -> str:
        """A job's page while the database is away."""
        frame = self._frame("job", f"no answer · Dragoman {self.cell}", theme)
        gone: dict[str, object] = {"p": None, "t": None, "now": None, "away": True, "stream": ""}
        return self._template("job.html").render(frame | gone)

    def overview_parts(self, figures: Overview) -> dict[str, str]:
        """The fragments that a live page swaps, by their ids."""
        shown = _overview(figures) | {"cell": self.cell, "now": figures.now, "away": False}
        found = {_NAMES.get(name, name): self._part(name, shown) for name in PARTS}
        found |= {name: self._part(name, shown) for name in ("now", "away")}
        return found | {"title": self._title(figures, is_away=False)}

    def tally_parts(self, tally: Tally, now: datetime) -> dict[str, str]:
        """The fragments of a page whose rows stay still."""
        shown = {"t": tally, "now": now, "away": False}
        return {name: self._part(name, shown) for name in ("tally", "now", "away")}

    def job_parts(self, page: JobPage, tally: Tally) -> dict[str, str]:
        """The fragments of a job that is not final yet."""
        shown = _job(page) | {"now": page.job["now"]}
        return self.tally_parts(tally, page.job["now"]) | {"job": self._part("job", shown)}

    def away_parts(self, now: datetime | None) -> dict[str, str]:
        """What a live page shows when the database has gone."""
        return {"away": self._part("away", {"away": True, "now": now})}

    def _frame(self, page: str, title: str, theme: str) -> dict[str, object]:
        """What every page has around it."""
        stream = f"/stream?page={page}"
        named = {"page": page, "title": title, "theme": theme, "cell": self.cell}
        return {**named, "stream": stream, "away": False, "asked": ""}

    def _part(self, name: str, shown: Mapping[str, object]) -> str:
        return self._template(f"parts/{name}.html").render(**shown).strip()

    def _template(self, name: str) -> Template:
        return self._env.get_template(name, globals=_HELPERS)

    def _title(self, figures: Overview | None, *, is_away: bool) -> str:
        needs = len(figures.needs) if figures else 0
        head = "no answer · " if is_away else f"{needs} need you · " if needs else ""
        return f"{head}Overview · Dragoman {self.cell}"


def _overview(o: Overview) -> dict[str, object]:
    sums = o.tally.sums
    return {
        "o": o,
        "t": o.tally,
        "c": chart(o.minutes),
        "said": verdict(o),
        "waiting": max(sum(wait.n for wait in o.waits), 1),
        "final": sum(sums[state] for state in TERMINAL),
        "lanes": lane_rows(o.pairs),
        "all_lanes": total_of(o.pairs),
    }


def _job(page: JobPage) -> dict[str, object]:
    return {"p": page, "j": page.job, "said": explain(page), "nodes": NODES, "edges": EDGES}


def share(n: int, of: int, what: str = " of final") -> str:
    """A part of a whole, never without the count beside it.

    >>> share(1, 4), share(0, 0)
    ('25.0 % of final', '')
    """
    return f"{100 * n / of:.1f} %{what}" if of else ""


def ticks(run: NextRun, now: datetime) -> list[str]:
    """Where a role's runs stand on a line of one hour."""
    if run.next_at is None:
        return []
    first, every = run.next_at, timedelta(seconds=run.every_s)
    times = [first + every * k for k in range(int(3600 // run.every_s) + 1)]
    shares = [(at - now).total_seconds() / 36 for at in times]
    return [f"{part:.1f}%" for part in shares if 0 <= part <= 100]


def batch_state(batch: OpenBatch) -> Markup:
    """A batch's state with its glyph."""
    word = "unknown" if batch.state == "submit_unknown" else batch.state
    return Markup('<span class="st {}">{}</span>').format(_BATCH.get(batch.state, "queued"), word)


def job_state(job: JobRow) -> Markup:
    """A job's state with its glyph: a doubt and a deferral have their own."""
    glyph = job.state
    if job.state == "processing" and job.batch_state == "submit_unknown":
        glyph = "unknown"
    elif job.state == "queued" and not job.ready:
        glyph = "deferred"
    return Markup('<span class="st {}">{}</span>').format(glyph, job.state)


def _because(row: JobRow) -> str:
    return because(asdict(row))


_HELPERS: dict[str, object] = {
    "states": [state.value for state in State],
    "number": words.number,
    "counted": words.counted,
    "span": words.span,
    "added": words.added,
    "clock": words.clock,
    "instant": words.instant,
    "short": words.short,
    "pair": words.pair,
    "wait_reason": words.wait_reason,
    "capital": words.capital,
    "moved_by": moved_by,
    "share": share,
    "ticks": ticks,
    "batch_state": batch_state,
    "job_state": job_state,
    "because": _because,
}

# The map of a job: where each state stands, and the way of each edge with the place of its numbers.
NODES = {
    "queued": (12, 74, 144, 48),
    "processing": (276, 74, 140, 48),
    "batch_submitted": (534, 74, 144, 48),
    "completed": (812, 13, 156, 42),
    "failed": (812, 78, 156, 42),
    "canceled": (812, 143, 156, 42),
}
EDGES = {
    "queued-processing": ("M157 98h117", 215, 98),
    "processing-batch_submitted": ("M417 98h115", 474, 98),
    "batch_submitted-completed": ("M679 90h68q8 0 8-8V42q0-8 8-8h47", 755, 62),
    "batch_submitted-failed": ("M679 102h131", 716, 102),
    "batch_submitted-queued": ("M606 122v54q0 8-8 8H92q-8 0-8-8v-53", 348, 184),
    "processing-completed": ("M348 74V42q0-8 8-8h454", 560, 34),
    "processing-failed": ("M376 122v18q0 8 8 8h388q8 0 8-8v-22q0-8 8-8h22", 480, 148),
    "processing-queued": ("M320 122v32q0 8-8 8H140q-8 0-8-8v-31", 226, 162),
    "queued-canceled": ("M40 122v66q0 8 8 8h732q8 0 8-8v-16q0-8 8-8h14", 420, 196),
    "processing-canceled": ("M396 122v66q0 8 8 8h376q8 0 8-8v-16q0-8 8-8h14", 560, 196),
    "batch_submitted-canceled": ("M640 122v66q0 8 8 8h132q8 0 8-8v-16q0-8 8-8h14", 716, 196),
}

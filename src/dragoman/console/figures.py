"""The figures of the overview, and what follows from them: the sum, the asks, the doubts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dragoman.console import queries
from dragoman.console.words import clock, counted, short, span, wait_reason
from dragoman.core.job import TERMINAL, State
from dragoman.core.profile import Profile
from dragoman.store.gates import ALERT
from dragoman.work.collector import Collector
from dragoman.work.submitter import Submitter

SCHEDULED = (Submitter.role, Collector.role)
_LATE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Tally:
    """The sum on every page: everything accepted stands in exactly one state."""

    sums: Mapping[str, int]
    checked: Sequence[queries.Checked]
    checked_at: datetime

    @property
    def accepted(self) -> int:
        """All states together."""
        return sum(self.sums.values())

    @property
    def off(self) -> int:
        """By how many jobs the counters differ from a count, when it was last checked."""
        return sum(abs(each.told - each.counted) for each in self.checked)

    @property
    def differences(self) -> list[queries.Checked]:
        """The states in which they differ."""
        return [each for each in self.checked if each.told != each.counted]

    @property
    def open(self) -> int:
        """What is not final yet."""
        return self.accepted - sum(self.sums[state] for state in TERMINAL)


@dataclass(frozen=True, slots=True)
class Ask:
    """Something that asks for a person, or tells that it does not."""

    glyph: str
    title: str
    text: str
    href: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class NextRun:
    """When a scheduled role runs next."""

    role: str
    every_s: float
    last_at: datetime | None
    next_at: datetime | None
    is_late: bool

    @property
    def name(self) -> str:
        """The role in one word."""
        return self.role.rpartition("_")[2]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything the first page shows, read in one transaction."""

    cell: queries.CellRow
    tally: Tally
    alerts: Sequence[queries.Alert]
    gates: Sequence[queries.ClosedGate]
    letters: Sequence[queries.Letters]
    deliveries: Sequence[queries.Sum]
    doubtful: Sequence[queries.DoubtfulDelivery]
    batches: Sequence[queries.OpenBatch]
    waits: Sequence[queries.Wait]
    pairs: Sequence[queries.PairCount]
    minutes: Sequence[queries.Minute]
    finished: Sequence[queries.JobRow]
    runs: Sequence[queries.Run]
    pace: Profile
    queries: int
    took_ms: float

    @property
    def now(self) -> datetime:
        """The database's clock when it was read."""
        return self.cell.now

    @property
    def needs(self) -> list[Ask]:
        """What needs a person, the gravest first."""
        return [
            *self._sum_is_off(),
            *self._alerted(),
            *self._shut(),
            *self._held(),
            *self._buried(),
            *self._late(),
        ]

    @property
    def doubts(self) -> list[Ask]:
        """What is in doubt and settles itself."""
        return [*self._unknown_batches(), *self._unknown_deliveries()]

    @property
    def unknown(self) -> int:
        """Everything of which nobody knows whether it happened."""
        batches = self.batches[0].doubtful if self.batches else 0
        return batches + (self.doubtful[0].total if self.doubtful else 0)

    @property
    def batches_out(self) -> int:
        """How many batches are at a provider."""
        return self.batches[0].total - self.batches[0].doubtful if self.batches else 0

    @property
    def held(self) -> int:
        """How many items a doubtful creation holds."""
        return self.batches[0].held if self.batches else 0

    @property
    def next_runs(self) -> list[NextRun]:
        """The scheduled roles, each with its next tick."""
        every = {
            Submitter.role: self.pace.submitter_every_s,
            Collector.role: self.pace.collector_every_s,
        }
        return [next_run(role, every[role], self.runs, self.now) for role in SCHEDULED]

    @property
    def oldest_wait(self) -> queries.Wait | None:
        """Who has waited longest."""
        return min(self.waits, key=lambda wait: wait.oldest, default=None)

    @property
    def dead_letters(self) -> int:
        """How many are not resolved."""
        return sum(each.n for each in self.letters)

    @property
    def _in_doubt(self) -> list[queries.OpenBatch]:
        return [batch for batch in self.batches if batch.state == "submit_unknown"]

    def _sum_is_off(self) -> Iterator[Ask]:
        if self.tally.off:
            states = ", ".join(
                f"{each.state} {each.told} told, {each.counted} counted"
                for each in self.tally.differences
            )
            yield Ask(
                "act", "The sum does not close", f"{states}, at {clock(self.tally.checked_at)}"
            )

    def _alerted(self) -> Iterator[Ask]:
        told_below = {gate.name for gate in self.gates}
        for alert in self.alerts:
            if alert.severity == "notice" or (alert.kind == ALERT and alert.subject in told_below):
                continue
            subject = short(alert.subject) if len(alert.subject) == 36 else alert.subject
            times = "once" if alert.times == 1 else f"{alert.times} times"
            text = f"{subject}, {times} since {clock(alert.first_at)}"
            yield Ask("act", alert.kind.replace("_", " ").capitalize(), text)

    def _shut(self) -> Iterator[Ask]:
        for gate in self.gates:
            note = f" ({gate.pause_note})" if gate.pause_note else ""
            until = f"until {clock(gate.paused_until)}" if gate.paused_until else "until opened"
            yield Ask("held", "Gate closed", f"{gate.name}, {gate.pause_reason}{note}, {until}")

    def _held(self) -> Iterator[Ask]:
        for each in self.doubtful:
            if each.guarantee == "neither":
                text = f"{each.channel} cannot be asked, unknown since {clock(each.started_at)}"
                yield Ask("held", "Delivery held", text, f"/jobs/{each.job_id}", short(each.job_id))

    def _buried(self) -> Iterator[Ask]:
        if self.letters:
            oldest = span(self.now - min(each.oldest for each in self.letters))
            kinds: dict[str, int] = {}
            for each in self.letters:
                kinds[each.error_class] = kinds.get(each.error_class, 0) + each.n
            what = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
            title = f"{counted(self.dead_letters, 'dead letter')} to triage"
            yield Ask(
                "act", title.capitalize(), f"{what}; oldest {oldest}", "/jobs?state=failed", "Look…"
            )

    def _late(self) -> Iterator[Ask]:
        for run in self.next_runs:
            if run.is_late:
                text = f"last {clock(run.last_at)}, due every {span(run.every_s)}"
                yield Ask("act", f"The {run.name} does not run", text)

    def _unknown_batches(self) -> Iterator[Ask]:
        settle = timedelta(seconds=self.pace.settle_s)
        for batch in self._in_doubt:
            after = (batch.deadline_at or batch.created_at) + settle
            when = (
                f"asked after {clock(after)}" if after > self.now else "asked by the next collector"
            )
            text = f"{counted(batch.items, 'item')} held at {batch.provider}, {when}"
            yield Ask("unknown", "Batch creation", text, "#batches", short(batch.id))

    def _unknown_deliveries(self) -> Iterator[Ask]:
        ways = {"key": "same key, same bytes again", "lookup": "asked once it has settled"}
        for each in self.doubtful:
            if each.guarantee != "neither":
                glyph = "unknown" if each.state == "unknown" else "reconciling"
                text = f"{ways[each.guarantee]}, after {clock(each.deadline_at)}"
                title = f"Delivery by {each.channel}"
                yield Ask(glyph, title, text, f"/jobs/{each.job_id}", short(each.job_id))


def next_run(role: str, every_s: float, runs: Sequence[queries.Run], now: datetime) -> NextRun:
    """When a role runs next, from its last run or skip."""
    last = max((run.started_at for run in runs if run.role == role), default=None)
    if last is None:
        return NextRun(role, every_s, None, None, is_late=False)
    due = last + timedelta(seconds=every_s)
    return NextRun(role, every_s, last, due, is_late=now > due + _LATE + (due - last))


def moved_by(wait: queries.Wait, overview: Overview) -> str:
    """What ends a wait."""
    if wait.is_ready and wait.mode == "batch":
        due = next(run for run in overview.next_runs if run.role == Submitter.role)
        return f"submitter, {clock(due.next_at)}" if due.next_at else "the submitter's first run"
    if wait.is_ready:
        return "a worker, now"
    if wait.reason == "gate_closed" and wait.first_due is None:
        return "its gate, once it opens"
    if wait.first_due is None or wait.last_due is None:
        return "what it waits for"
    if wait.n == 1 or clock(wait.first_due) == clock(wait.last_due):
        return clock(wait.first_due)
    return f"one by one, {clock(wait.first_due)} to {clock(wait.last_due)}"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence; what is bold states, what has an href leads there."""

    text: str
    href: str = ""
    is_bold: bool = False


def verdict(overview: Overview) -> list[Part]:
    """The sentence of the page, computed from its own numbers."""
    tally, needs, doubts = overview.tally, len(overview.needs), len(overview.doubts)
    if tally.off:
        said = [Part(f"The sum is off by {counted(tally.off, 'job')}.", is_bold=True)]
    elif not tally.accepted:
        return [
            Part("Nothing has been accepted yet.", is_bold=True),
            Part(" And nothing is wrong."),
        ]
    else:
        said = [Part("Everything is accounted for.", is_bold=True)]
    if needs:
        words = counted(needs, "thing").capitalize()
        said += [
            Part(" "),
            Part(words, "#alerts"),
            Part(" needs you." if needs == 1 else " need you."),
        ]
    else:
        said.append(Part(" Nothing needs you."))
    if doubts:
        verb = "is" if doubts == 1 else "are"
        words = counted(doubts, "doubt").capitalize()
        said += [Part(" "), Part(words, "#doubts"), Part(f" {verb} being settled without you.")]
    return said + _waiting(overview)


def _waiting(overview: Overview) -> list[Part]:
    wait = overview.oldest_wait
    if wait is None:
        still = overview.tally.sums[State.BATCH_SUBMITTED]
        return (
            [Part(f" {counted(still, 'job').capitalize()} at a provider, none waits here.")]
            if still
            else []
        )
    why = wait_reason(wait.reason, wait.mode, is_ready=wait.is_ready)
    age = span(overview.now - wait.oldest)
    return [
        Part(" The "),
        Part("oldest wait", "#waits"),
        Part(f" is {age}, {why}, and that is normal."),
    ]

"""The protocol of every act that must not happen twice, and who may act at all."""

from __future__ import annotations

import ast
import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dragoman.core import ports
from dragoman.core.answer import Answer, Doubt, Happened, NothingHappened
from dragoman.core.errors import LeaseLost
from dragoman.core.failure import Failure, FailureClass
from dragoman.work.acts import Act, act_once

ROOT = Path(__file__).resolve().parents[2]
FAILURE = Failure(FailureClass.UPSTREAM_ERROR, "any")
HAPPENED = Happened("id-1", {})


@dataclass
class Diary:
    """A book that writes down in which order it was written in."""

    is_ours: bool = True
    lines: list[str] = field(default_factory=list)

    async def begin(self, deadline_s: float) -> bool:
        """The intent."""
        self.lines.append("begin")
        self.deadline_s = deadline_s
        return self.is_ours

    async def mark(self, happened: Happened) -> None:
        """The evidence."""
        self.lines.append(f"mark {happened.evidence_id}")

    async def give_back(self, failure: Failure) -> None:
        """Nothing happened."""
        self.lines.append(f"give back {failure.code}")

    async def doubt(self, failure: Failure) -> None:
        """Nobody knows."""
        self.lines.append(f"doubt {failure.code}")

    def fence(self) -> None:
        """The lease holds."""
        self.lines.append("fence")

    def act(self, answer: Answer, deadline_s: float = 5) -> Act:
        """An act that ends so."""

        async def perform(left_s: float) -> Answer:
            assert 0 < left_s <= deadline_s
            self.lines.append("act")
            return answer

        return Act("test.act", perform, deadline_s)


@pytest.fixture
def moved_clock() -> Iterator[Callable[[float], None]]:
    """The process's own clock, which a test lets jump as if the process had been stopped."""
    moved = [0.0]
    ports.install_clock(lambda: time.monotonic() + sum(moved))
    yield moved.append
    ports.install_clock(None)


@pytest.mark.req("R356")
@pytest.mark.parametrize(
    ("answer", "last"),
    [
        (HAPPENED, "mark id-1"),
        (NothingHappened(FAILURE), "give back any"),
        (Doubt(FAILURE), "doubt any"),
    ],
    ids=["it happened", "nothing happened", "nobody knows"],
)
def test_intent_fence_act_and_one_mark_follow_one_another(answer: Answer, last: str) -> None:
    """Whatever the answer, it is written down after the act, and the intent before it."""
    diary = Diary()
    assert asyncio.run(act_once(diary, diary.act(answer), diary.fence)) == answer
    assert diary.lines == ["begin", "fence", "act", last]


def test_whose_intent_is_refused_does_not_act() -> None:
    """The row moved on: LeaseLost, and nothing is done or written."""
    diary = Diary(is_ours=False)
    with pytest.raises(LeaseLost):
        asyncio.run(act_once(diary, diary.act(HAPPENED), diary.fence))
    assert diary.lines == ["begin"]


def test_whose_lease_is_gone_does_not_act() -> None:
    """The fence stands between intent and act; the intent is settled as a doubt by others."""
    diary = Diary()

    def no() -> None:
        raise LeaseLost

    with pytest.raises(LeaseLost):
        asyncio.run(act_once(diary, diary.act(HAPPENED), no))
    assert diary.lines == ["begin"]


def test_a_process_that_was_stopped_past_its_deadline_does_not_act(
    moved_clock: Callable[[float], None],
) -> None:
    """Stopped between intent and act, continued too late: others may have settled it."""
    diary = Diary()
    with pytest.raises(LeaseLost):
        asyncio.run(act_once(diary, diary.act(HAPPENED, deadline_s=5), lambda: moved_clock(5.1)))
    assert diary.lines == ["begin"]


def test_a_process_that_was_slow_gets_only_the_time_that_is_left(
    moved_clock: Callable[[float], None],
) -> None:
    """The deadline counts from before the intent, and the row knows a later one."""
    diary, left = Diary(), []

    async def perform(left_s: float) -> Answer:
        left.append(left_s)
        return HAPPENED

    asyncio.run(act_once(diary, Act("test.act", perform, 5), lambda: moved_clock(4)))
    assert 0 < left[0] <= 1
    assert diary.deadline_s > 5


def test_an_act_without_an_answer_in_time_is_a_doubt() -> None:
    """The deadline cuts it off; whether it happened nobody knows."""
    diary = Diary()

    async def hang(left_s: float) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError(left_s)

    answer = asyncio.run(act_once(diary, Act("test.act", hang, 0.05), diary.fence))
    assert isinstance(answer, Doubt)
    assert diary.lines == ["begin", "fence", "doubt deadline"]


def test_an_act_is_never_repeated_and_an_error_in_it_is_not_taken_for_an_answer() -> None:
    """A bug in an adapter leaves the intent standing: nothing is marked, given back or doubted."""
    diary = Diary()

    async def broken(left_s: float) -> Answer:
        diary.lines.append("act")
        raise KeyError(left_s)

    with pytest.raises(KeyError):
        asyncio.run(act_once(diary, Act("test.act", broken, 5), diary.fence))
    assert diary.lines == ["begin", "fence", "act"]


def test_the_act_is_a_port_under_its_own_tag() -> None:
    """Tests can kill the process right before and right after it."""
    diary, seen = Diary(), list[tuple]()
    ports.install(lambda tag, moment: seen.append((tag, moment)))
    try:
        asyncio.run(act_once(diary, diary.act(HAPPENED), diary.fence))
    finally:
        ports.install(None)
    assert seen == [("test.act", "before"), ("test.act", "after")]


# Who may act: read from the source.

SENDERS = {"send", "create"}
# What these methods are called on when it is neither a channel nor an adapter.
OTHERS = {
    "self._transport.send": "providers/",  # one HTTP request, on which the adapter puts its words
    "self._client.send": "providers/transport.py",
    "orchestrator.create": "",  # a request of a person, in our own database
    "cluster.create": "store/",  # a database server
    "self.create": "api/",  # the door of the request
    "reply.send": "api/",  # an answer to whoever asked us
}


def named(source: str) -> set[str]:
    """Every method that sends or creates, called or handed on, as it is written."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in SENDERS
    }


def sources() -> Iterator[tuple[str, str]]:
    """Every module of the engine; the sandbox is the outside world."""
    top = ROOT / "src" / "dragoman"
    for file in sorted(top.rglob("*.py")):
        name = file.relative_to(top).as_posix()
        if not name.startswith("sandbox/"):
            yield name, file.read_text(encoding="utf-8")


@pytest.mark.req("R376")
def test_only_one_module_sends_a_message_or_creates_a_batch() -> None:
    """No other module names a channel's `send` or an adapter's `create`."""
    found = {
        (name, method)
        for name, source in sources()
        for method in named(source)
        if not name.startswith(OTHERS.get(method, "nowhere"))
    }
    assert found == {("work/acts.py", "channel.send"), ("work/acts.py", "adapter.create")}


@pytest.mark.req("R376")
def test_mail_leaves_through_its_channel_alone() -> None:
    """Nobody imports a mail library, and the line to a mail server is the channel's own."""
    for name, source in sources():
        imported = set[str]()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        assert not [each for each in imported if re.match(r"smtplib|aiosmtplib", each)], name
        if any("smtp_line" in each for each in imported):
            assert name == "channels/smtp.py"


@pytest.mark.req("R376")
def test_the_review_checklist_names_the_order() -> None:
    """Whoever reviews a change finds intent, send, mark in CONTRIBUTING.md."""
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [line] = [each for each in told.splitlines() if each.startswith("**Acts.**")]
    assert re.search(r"intent.*then.*send.*then.*mark", line, re.IGNORECASE)
    assert "work/acts.py" in line

"""The protocols of the outside world, in every order in which things can happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from spec import act_once, batch_once
from spec.checker import Model, Step, Verdict, check

Steps = Iterator[Step[act_once.State]]


def harm(protocol: act_once.Protocol) -> Verdict:
    verdict = check(act_once.model(protocol))
    assert verdict.broken == "done twice"
    assert verdict.trace[-1].endswith(("arrives", "sends"))
    return verdict


def test_sending_and_then_marking_sends_twice() -> None:
    """Mode 0: without an intent a crash between the two is forgotten."""
    assert "worker 2 sends" in harm(act_once.SEND_THEN_MARK).trace


def test_m03_marking_after_the_send_without_an_intent_sends_twice() -> None:
    """Mode 1, M03: a fence on our own writes does not call a sent message back."""
    assert not any("intent" in label for label in harm(act_once.FENCED_ONLY).trace)


def test_a_lookup_while_the_first_owner_lives_sends_twice() -> None:
    """Mode 3: even when nothing is ever in flight, a worker taken for dead may still send."""
    trace = harm(act_once.SYNCHRONOUS_LOOKUP).trace
    asked = trace.index("worker 2 asks: missed")
    assert "worker 1 checks the fence" in trace[:asked]
    assert "worker 1 sends" in trace[asked:]


def test_m04_a_lookup_without_quarantine_sends_twice() -> None:
    """Mode 4, M04: who asks while the act may still arrive is told the truth too early."""
    trace = harm(act_once.EAGER_LOOKUP).trace
    asked = trace.index("worker 2 asks: missed")
    assert any("request arrives" in label for label in trace[asked:])


def test_a_key_repeated_past_its_window_sends_twice() -> None:
    """A target honours a key only as long as it remembers it."""
    trace = harm(act_once.KEY_PAST_ITS_WINDOW).trace
    assert "the target forgets the key" in trace


def test_a_refused_repeat_proves_nothing_about_the_act_before_it() -> None:
    """Who makes the delivery new again after a refused repeat forgets when its key will expire."""
    trace = harm(act_once.REFUSAL_TAKEN_FOR_PROOF).trace
    assert "worker 2 releases it" in trace


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("protocol", act_once.SAFE, ids=lambda protocol: protocol.name)
def test_a_safe_protocol_never_does_harm(protocol: act_once.Protocol, workers: int) -> None:
    """Modes 2, 5, 6 and ours: no double effect, done means happened, nothing lost or stuck."""
    verdict = check(act_once.model(protocol, workers))
    assert verdict.holds, "\n".join((str(verdict.broken), *verdict.trace))
    assert verdict.states > 100


@pytest.mark.parametrize(
    ("on_doubt", "rule"),
    [
        (act_once.Doubt.SAME_KEY, "has_intent"),
        (act_once.Doubt.SAME_KEY, "is_fenced"),
        (act_once.Doubt.SAME_KEY, "minds_window"),
        (act_once.Doubt.SAME_KEY, "keeps_doubt"),
        (act_once.Doubt.ASK, "has_intent"),
        (act_once.Doubt.ASK, "is_fenced"),
        (act_once.Doubt.ASK, "waits"),
        (act_once.Doubt.HOLD, "has_intent"),
    ],
)
def test_no_rule_of_ours_can_be_left_out(on_doubt: act_once.Doubt, rule: str) -> None:
    """Each of them, dropped alone, lets a message be sent twice."""
    ours = next(one for one in act_once.OURS if one.on_doubt is on_doubt)
    harm(replace(ours, **{rule: False}))


@pytest.mark.parametrize("protocol", act_once.OURS, ids=lambda protocol: protocol.name)
def test_ours_can_do_it_crash_and_be_overtaken(protocol: act_once.Protocol) -> None:
    """The states visited are those that matter: done, overtaken while sending, and in doubt."""
    seen = set(_reachable(act_once.model(protocol)))
    assert any(state.row is act_once.Row.DONE for state in seen)
    assert any(state.orphans for state in seen)
    assert any(
        {worker.at for worker in state.workers} == {act_once.At.SENT, act_once.At.CLAIMED}
        for state in seen
    )
    held = any(state.row is act_once.Row.HELD for state in seen)
    assert held == (protocol.on_doubt is not act_once.Doubt.ASK)


@pytest.mark.parametrize(
    ("protocol", "telling"),
    [
        (batch_once.RELEASED_UNSEEN, "worker 2 releases what never started"),
        (batch_once.SEARCHED_AT_ONCE, "worker 2 searches the list: missed"),
        (batch_once.RELEASED_AFTER_ONE_MISS, "worker 2 searches the list: missed"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_careless_submitter_creates_a_batch_twice(
    protocol: batch_once.Protocol, telling: str
) -> None:
    """Without the started marker, the quarantine or the second look, items are paid twice."""
    verdict = check(batch_once.model(protocol))
    assert verdict.broken == "created twice"
    assert telling in verdict.trace


@pytest.mark.parametrize("workers", [2, 3])
def test_our_submitter_creates_a_batch_once(workers: int) -> None:
    """Started, searched for twice, adopted or released: never two batches, never none for good."""
    verdict = check(batch_once.model(batch_once.OURS, workers))
    assert verdict.holds, "\n".join((str(verdict.broken), *verdict.trace))


@pytest.mark.parametrize("protocol", act_once.OURS, ids=lambda protocol: protocol.name)
def test_marking_without_evidence_is_found(protocol: act_once.Protocol) -> None:
    """A worker that marks what it knows not to have happened breaks `done means happened`."""

    def lie(step: Step[act_once.State]) -> Step[act_once.State]:
        if not step.label.endswith("releases it"):
            return step
        return step._replace(state=step.state._replace(row=act_once.Row.DONE))

    assert check(_changed(protocol, lie)).broken == "marked but not done"


def test_waiting_for_what_never_comes_is_found() -> None:
    """A quarantine that never ends leaves the delivery lost, and the checker says so."""
    asked = next(one for one in act_once.OURS if one.on_doubt is act_once.Doubt.ASK)
    endless = _changed(asked, lambda step: None if "deadline" in step.label else step)
    assert check(endless).broken in ("lost", "stuck")


def test_the_table_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m spec.act_once` prints a row for each protocol and a trace for each harmful one."""
    act_once.main()
    said = capsys.readouterr().out
    for protocol in (*act_once.UNSAFE, *act_once.SAFE, *batch_once.ALL):
        assert said.count(protocol.name) >= 2
    assert said.count("holds") == 2 * (len(act_once.SAFE) + 1)


def _changed(
    protocol: act_once.Protocol,
    change: Callable[[Step[act_once.State]], Step[act_once.State] | None],
) -> Model[act_once.State]:
    original = act_once.model(protocol)

    def steps(state: act_once.State) -> Steps:
        changed = (change(step) for step in original.steps(state))
        return (step for step in changed if step is not None)

    return replace(original, steps=steps)


def _reachable(model: Model[act_once.State]) -> Iterator[act_once.State]:
    seen, waiting = {model.start}, [model.start]
    while waiting:
        state = waiting.pop()
        yield state
        new = {step.state for step in model.steps(state)} - seen
        seen |= new
        waiting.extend(new)

"""What goes into one batch: what agrees in everything, and no more than may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.call import Call
from dragoman.core.failure import Failure, FailureClass
from dragoman.core.ids import BatchId, HomeId, JobId, Token
from dragoman.core.job import Held, Mode, State
from dragoman.core.locale import lane
from dragoman.providers.base import Limits
from dragoman.rewrite.contracts import batch_group_key
from dragoman.store.batches import OpenItem
from dragoman.work.pipeline import custom_id
from dragoman.work.submission import by_job, new_batch
from dragoman.work.submitter import Written, _items, _lines, groups, parcels
from tests.rewrite.requests import decision


def held(**changed: object) -> Held:
    """A job in the submitter's hands."""
    columns: dict[str, object] = {
        "id": JobId(uuid4()),
        "token": Token(uuid4()),
        "state": State.PROCESSING,
        "pipeline": "rewrite",
        "stage": 0,
        "home_id": HomeId(uuid4()),
        "unit": "u",
        "unit_lock": 1,
        "queue_key": 1,
        "stage_attempts": 0,
        "max_attempts": 2,
        "free_requeues": 0,
        "account": "default",
        "mode": Mode.BATCH,
        "group_key": "g",
        "routing": {"provider": "p", "adapter_kind": "a", "model": "m", "base_url": None},
    }
    return Held(**{**columns, **changed})  # type: ignore[arg-type]  # by name


@dataclass(frozen=True)
class Fields:
    """Everything that the jobs of one batch have in common."""

    provider: str
    model: str
    prompt_version: str
    policy_version: str
    adapter_kind: str
    base_url: str | None
    account: str
    source: str
    target: str

    def job(self) -> Held:
        """A rewrite with these, of a home of its own."""
        routing = decision(
            provider=self.provider,
            model=self.model,
            prompt_version=self.prompt_version,
            policy_version=self.policy_version,
            adapter_kind=self.adapter_kind,
            base_url=self.base_url,
        )
        key = batch_group_key(routing, lane(self.source, self.target), self.source, self.target)
        return held(account=self.account, group_key=key, routing=routing.to_json(), unit=repr(self))


BASE = Fields(
    "p", "m", "v1", "v1", "openai_responses", "https://one.example/v1", "default", "de", "en"
)
OTHERS = {
    "provider": "q",
    "model": "n",
    "prompt_version": "v2",
    "policy_version": "v2",
    "adapter_kind": "openai_chat",
    "base_url": "https://two.example/v1",
    "account": "second",
    "source": "en",
    "target": "de",
}


@pytest.mark.req("R275", "R070", "R094", "R204", "R205")
@pytest.mark.parametrize("name", OTHERS)
def test_one_difference_is_another_batch(name: str) -> None:
    """Jobs that differ in this field alone, and in their homes, are two groups."""
    one, other = BASE.job(), replace(BASE, **{name: OTHERS[name]}).job()
    assert len(list(groups([one, other, BASE.job()]))) == 2


@pytest.mark.req("R009", "R275")
@given(st.lists(st.sets(st.sampled_from(sorted(OTHERS)), max_size=2), max_size=20))
def test_the_jobs_of_a_batch_agree_in_everything(changed: list[set[str]]) -> None:
    """Whatever differs, from the provider to the target's language, makes another group."""
    made = [replace(BASE, **{name: OTHERS[name] for name in names}) for names in changed]
    jobs = [each.job() for each in made]
    found = list(groups(jobs))
    for group in found:
        assert len({job.unit for job in group}) == 1
    assert len(found) == len({repr(each) for each in made})
    assert sorted(job.id for group in found for job in group) == sorted(job.id for job in jobs)


def test_homes_share_a_batch() -> None:
    """Jobs that differ only in whose they are travel together, in the order of their claim."""
    jobs = [held() for _ in range(5)]
    assert list(groups(jobs)) == [jobs]
    assert list(groups([])) == []


@pytest.mark.parametrize("changed", [{"stage": 1}, {"pipeline": "review"}, {"account": "second"}])
def test_pipelines_stages_and_accounts_do_not(changed: dict[str, object]) -> None:
    """What another stage, pipeline or account asks goes out on its own."""
    assert len(list(groups([held(), held(**changed)]))) == 2


def written(lines: Sequence[bytes], job: Held | None = None) -> Written:
    """A job and its lines."""
    job = job or held()
    calls = tuple(call(custom_id(job, k)) for k in range(len(lines)))
    return Written(job, calls, tuple(lines))


def call(name: str) -> Call:
    """A question."""
    return Call(name, "be calm", "text", "reply", {})


WRITTEN = st.lists(
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4).map(written), max_size=15
)
LIMITS = st.builds(Limits, st.integers(1, 8), st.integers(1, 80), st.just(1000))


def weight(parcel: Sequence[Written]) -> tuple[int, int]:
    """Items and bytes."""
    lines = [line for each in parcel for line in each.lines]
    return len(lines), sum(map(len, lines))


@given(WRITTEN, LIMITS)
def test_a_parcel_holds_what_the_provider_takes(jobs: list[Written], limits: Limits) -> None:
    """Nothing is lost, doubled or torn apart, the order stays, and no parcel is over a limit."""
    found = list(parcels(jobs, limits))
    assert [each for parcel in found for each in parcel] == jobs
    for parcel in found:
        items, size = weight(parcel)
        assert parcel
        assert len(parcel) == 1 or (items <= limits.max_items and size <= limits.max_bytes)


@given(WRITTEN, LIMITS)
def test_parcels_are_as_few_as_their_order_allows(jobs: list[Written], limits: Limits) -> None:
    """A parcel ends only where the next job would not have fitted."""
    for parcel, after in pairwise(parcels(jobs, limits)):
        items, size = weight([*parcel, after[0]])
        assert items > limits.max_items or size > limits.max_bytes


@pytest.mark.req("R149")
@given(WRITTEN)
def test_items_are_numbered_without_a_gap(jobs: list[Written]) -> None:
    """Index by line from 0; each item carries its job's token, its call and that call's id."""
    found = list(_items(jobs))
    assert [item.item_index for item in found] == list(range(len(found)))
    expected = [
        (w.job.id, w.job.token, k, c.custom_id) for w in jobs for k, c in enumerate(w.calls)
    ]
    assert [(i.job_id, i.token, i.call, i.custom_id) for i in found] == expected
    assert len({item.custom_id for item in found}) == len(found)


class Wire:
    """A wire whose lines are as long as their input."""

    limits = Limits(10, 100, 8)

    def encode_line(self, one: Call, model: str) -> bytes:
        """The input and a newline."""
        return one.input.encode() + b"\n"


def test_a_job_that_cannot_be_asked_about_fails_alone() -> None:
    """No calls, a foreign id, a line that is too long: a failure, and no line."""
    job = held()
    good = replace(call(custom_id(job, 0)), input="short")
    refused = Failure(FailureClass.SCHEMA_INVALID, "request_unreadable")
    cases: list[tuple[Sequence[Call] | Failure, str]] = [
        ([], "no_calls"),
        ([replace(good, custom_id=str(uuid4()))], "custom_id_differs"),
        ([good, good], "custom_id_differs"),
        ([replace(good, input="much too long")], "line_too_long"),
        (refused, "request_unreadable"),
    ]
    for calls, code in cases:
        found = _lines(job, calls, Wire())  # type: ignore[arg-type]  # the two things it asks for
        assert isinstance(found, Failure)
        assert found.code == code
        assert not found.is_retryable
    whole = _lines(job, [good], Wire())  # type: ignore[arg-type]  # as above
    assert whole == Written(job, (good,), (b"short\n",))


def test_the_items_of_a_job_come_back_together() -> None:
    """In the order of its calls, however the lines lay."""
    one, other = held(), held()
    items = [OpenItem(n, k, "", job) for n, (job, k) in enumerate([(one, 1), (other, 0), (one, 0)])]
    found = by_job(items)
    assert {tuple(item.item_index for item in group) for group in found} == {(2, 0), (1,)}


def test_a_batch_is_named_after_the_route_of_its_jobs() -> None:
    """Provider, wire, address, account, model and group are those of the first, as of all."""
    job = held(
        routing={"provider": "p", "adapter_kind": "a", "model": "m", "base_url": "https://x"},
        group_key=None,
    )
    batch = new_batch(job, "nonce", BatchId(uuid4()), Token(uuid4()))
    assert (batch.provider, batch.adapter_kind, batch.model) == ("p", "a", "m")
    assert (batch.base_url, batch.account, batch.group_key) == ("https://x", "default", "")

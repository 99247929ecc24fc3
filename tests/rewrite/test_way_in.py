"""What the way in decides about a message, once, and what it writes down of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dragoman.core import ports
from dragoman.core.errors import BadInput, DataRefused, TryAgain
from dragoman.core.locale import Confidence
from dragoman.rewrite.classifier import read_classifier
from dragoman.rewrite.contracts import ClassifierResult
from dragoman.rewrite.orchestrator import Accepted, Complaint, Orchestrator
from dragoman.rewrite.routing import LanguagePair
from dragoman.store import jobs
from dragoman.work.submitter import Submitter
from tests import stand
from tests.rewrite.house import House, house_of
from tests.rewrite.requests import classified
from tests.store.rewrites import Request

NO_TAGS = (None, "not a tag", "english", "und", "", "x" * 40)


async def advised(house: House, result: ClassifierResult, **locales: str | None) -> Accepted:
    """A complaint about which the classifier says this."""
    home = await stand.add_home(house.orchestrator.cell, None, None)
    complaint = Complaint(home.id, home.sender, home.recipient, stand.NOISE["en"])

    async def classify(*given: Any) -> ClassifierResult:
        return result

    real = house.orchestrator
    return await Orchestrator(real.cell, real.actor, classify).create(replace(complaint, **locales))


@pytest.mark.req("R019")
def test_the_classifier_is_asked_once_about_each_message() -> None:
    """One call for each that is taken; none more when it is sent again, or when it is worked on."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            home = await stand.add_home(house.orchestrator.cell)
            first = await house.say(home)
            await house.say()
            await house.say(home, request_id=first.rewrite_request_id)
            await house.work()
            asked = house.sandbox.ledger()["responses"]
            assert isinstance(asked, list)
            assert len(asked) == 2

    asyncio.run(scenario())


@pytest.mark.req("R020")
def test_what_the_classifier_said_stands_on_the_request() -> None:
    """All five fields, version and confidence; what was left out took its default, and says so."""
    whole = classified(detected_language="es")
    partly = read_classifier('{"detected_language": "es", "intent": "vent"}')

    async def scenario() -> None:
        async with house_of("batch") as house:
            for result in (whole, partly):
                told = await advised(house, result)
                ((row,),) = house.rows(
                    "select to_jsonb(r) from rewrite_request r where id = %s",
                    told.rewrite_request_id,
                )
                assert row["classifier_version"] == result.classifier_version
                assert row["detected_language"] == result.detected_language == "es"
                assert row["language_confidence"] == result.confidence.language.value
                assert row["topics"] == [topic.value for topic in result.topics]
                assert row["intent"] == result.intent.value
                assert row["rewrite_strength"] == result.rewrite_strength.value
                flags = [flag.value for flag in result.safety_flags]
                assert row["classifier_result"]["safety_flags"] == flags
                assert row["defaulted"] == list(result.defaulted)
            assert {"topics", "rewrite_strength", "safety_flags"} <= set(partly.defaulted)

    asyncio.run(scenario())


@pytest.mark.req("R021")
@pytest.mark.parametrize(
    ("confidence", "source"), [(Confidence.LOW, "en"), (Confidence.HIGH, "fr")]
)
def test_the_classifier_only_advises_on_the_language(confidence: Confidence, source: str) -> None:
    """It is not sure that it is French: the profile decides; where it is sure, it is believed."""
    unsure = replace(classified().confidence, language=confidence)
    result = classified(detected_language="fr", confidence=unsure)

    async def scenario() -> None:
        async with house_of("batch") as house:
            await advised(house, result, sender_locale="en-GB", recipient_locale="en")
            found = "select source_locale, detected_language from rewrite_request"
            assert house.rows(found) == [(source, "fr")]

    asyncio.run(scenario())


@pytest.mark.req("R023")
def test_a_raw_locale_is_kept_apart_and_decides_nothing() -> None:
    """en-GB and en-US are kept as they came, and make one lane and one group."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            for tag in ("en-GB", "en-US"):
                await advised(house, classified(), sender_locale=tag, recipient_locale=tag.lower())
            raw = house.rows(
                "select raw_source_locale, raw_target_locale from rewrite_request order by 1"
            )
            assert raw == [("en-GB", "en-gb"), ("en-US", "en-us")]
            assert house.rows(
                "select distinct source_locale, target_locale, lane::text from job"
            ) == [("en", "en", "same_language")]
            ((key,),) = house.rows("select distinct group_key from job")
            assert "GB" not in key.upper()

    asyncio.run(scenario())


@pytest.mark.req("R127")
def test_when_it_cannot_be_enqueued_no_rewriter_is_ever_asked() -> None:
    """The transaction that makes the job is refused: failed, and every role finds nothing to do."""

    def refuse(tag: str, moment: ports.Moment) -> None:
        if (tag, moment) == ("db.enqueue", "before"):
            raise TryAgain("40001")

    async def scenario() -> None:
        async with house_of("batch") as house:
            ports.install(refuse)
            try:
                accepted = await house.say()
            finally:
                ports.install(None)
            assert (accepted.status, accepted.job_id) == ("failed", None)
            await house.work(times=2)
            assert (house.sent, house.rows("select from job")) == ([], [])
            ledger = house.sandbox.ledger()
            assert (ledger["creates"], ledger["uploads"]) == ([], [])

    asyncio.run(scenario())


@pytest.mark.req("R167")
@pytest.mark.parametrize(("retries", "most"), [(0, 1), (1, 1), (2, 2), (5, 5)])
def test_a_job_may_be_tried_as_often_as_its_route_says(retries: int, most: int) -> None:
    """The route's number is the job's, and at least one."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            with stand.owner(house.database) as connection:
                connection.execute(
                    "update route set decision = decision || jsonb_build_object('max_retries', %s)",
                    (retries,),
                )
            await house.say()
            limits = "select j.max_attempts, s.max_attempts from job j join standing s using (id)"
            assert house.rows(limits) == [(most, most)]

    asyncio.run(scenario())


COLUMNS = {
    "job_id": "uuid",
    "rewrite_request_id": "uuid",
    "task": "text",
    "surface": "text",
    "rewrite_strength": "text",
    "language_pair": "jsonb",
    "recipient_user_id": "uuid",
    "recipient_snapshot_id": "uuid",
    "recipient_preference_snapshot_id": "uuid",
    "status": "state",
    "created_at": "timestamp with time zone",
    "updated_at": "timestamp with time zone",
    "not_before_at": "timestamp with time zone",
    "claimed_at": "timestamp with time zone",
    "claimed_by": "uuid",
    "attempt_count": "smallint",
    "max_attempts": "smallint",
    "last_error": "text",
    "last_error_at": "timestamp with time zone",
    "routing_decision": "jsonb",
}
ROUTING = {
    "provider": str,
    "adapter_kind": str,
    "base_url": type(None),
    "model": str,
    "prompt_version": str,
    "policy_version": str,
    "execution_mode": str,
    "cache_eligible": bool,
    "max_retries": int,
}


@pytest.mark.req("R231", "R234")
def test_the_record_of_a_job_has_the_fields_of_the_contract() -> None:
    """Each with its type, for a job that waits; its pair of languages is the job's own."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            await house.say(None, "de", "en")
            types = house.rows(
                "select attname, format_type(atttypid, null) from pg_attribute"
                " where attrelid = 'job_record'::regclass and attnum > 0"
            )
            assert COLUMNS.items() <= dict(types).items()
            ((row,),) = house.rows("select to_jsonb(r) from job_record r")
            filled = {name for name, value in row.items() if value is not None} & COLUMNS.keys()
            waits_for = {"not_before_at", "claimed_at", "claimed_by"}
            assert COLUMNS.keys() - filled == waits_for | {"last_error", "last_error_at"}
            assert (row["task"], row["status"]) == ("complaint_rewrite", "queued")
            assert row["language_pair"] == {"from": "de", "to": "en"}
            assert (row["source_locale"], row["target_locale"]) == ("de", "en")
            routing = row["routing_decision"]
            assert {name: type(routing.get(name)) for name in ROUTING} == ROUTING

    asyncio.run(scenario())


async def enqueue(house: House, job: jobs.NewJob) -> None:
    """Write an intent as the orchestrator, past everything that it checks itself."""
    async with house.orchestrator.cell.transaction("enqueue") as tx:
        await jobs.enqueue_jobs(tx, house.orchestrator.actor, [job])


@pytest.mark.req("R234")
@pytest.mark.parametrize("tag", NO_TAGS)
def test_a_pair_of_languages_is_whole_or_refused(tag: Any) -> None:
    """No tag, or what is none: refused before a route is chosen, and by the database for a job."""
    with pytest.raises(BadInput):
        LanguagePair(tag, "en")
    with pytest.raises(BadInput):
        LanguagePair("en", tag)

    async def scenario() -> None:
        async with house_of("batch") as house:
            request = Request().write(house.database)
            for changed in ({"source_locale": tag}, {"target_locale": tag}):
                with pytest.raises(DataRefused):
                    await enqueue(house, request.job(**changed))
            assert house.rows("select from job") == []

    asyncio.run(scenario())


@pytest.mark.req("R144")
def test_an_item_of_a_batch_is_one_unit() -> None:
    """Four complaints, one batch: four items, four custom ids, four units."""

    async def scenario() -> None:
        async with house_of("batch") as house:
            told = [(await house.say()).job_id for _ in range(4)]
            await Submitter(house.station, house.providers).run_once()
            assert house.rows(
                "select count(*), count(distinct i.job_id), count(distinct i.custom_id),"
                " count(distinct (j.request_id, j.recipient_id)), count(distinct i.batch_id)"
                " from batch_item i join job j on j.id = i.job_id"
            ) == [(4, 4, 4, 4, 1)]
            for job in told:
                assert [str(job).encode() in line for line in house.sent].count(True) == 1

    asyncio.run(scenario())


@pytest.mark.req("R253")
@pytest.mark.parametrize("mode", ["async", "batch"])
def test_a_time_to_wait_for_is_respected_unless_the_profile_says_otherwise(mode: str) -> None:
    """Put off for an hour: nobody takes it, until a profile that respects no times does."""

    async def scenario() -> None:
        async with house_of(mode) as house:
            job = (await house.say()).job_id
            with stand.owner(house.database) as connection:
                connection.execute(
                    "update standing set ready = false, not_before_at = clock() + interval '1 h'"
                )
            await house.work()
            assert (house.state(job), house.sent) == ("queued", [])
            hasty = replace(house.station.profile, respect_not_before_at=False)
            house.station = replace(house.station, profile=hasty)
            await house.work()
            assert (house.state(job), len(house.sent)) == ("completed", 1)

    asyncio.run(scenario())

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import BadInput
from dragoman.core.locale import (
    Confidence,
    Lane,
    lane,
    language_name,
    normalize,
    resolve_source,
    resolve_target,
)

UNDETECTED = ["unknown", "und", "mul", "zxx", "mis", "", " ", "qaa", "root", "C", "*", "cn", "jp"]
MALFORMED = ["en\0", "e", "en-", "en--US", "en_US.UTF-8", "en;q=0.8", "en-Ünited", "iſ", "\u212ao"]
KNOWN = ["en", "en-GB", "de_AT", "zh-TW", "zh", "sr-Latn", "no", "nb", "pt-BR", "tl", *UNDETECTED]
TAGS = (
    st.sampled_from(KNOWN)
    | st.text(st.sampled_from("enzhsrtwdlaHK-_ ŭ\0"), max_size=12)
    | st.text(max_size=40)
)


@pytest.mark.req("R022")
@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("en-US", "en"),
        ("es-MX", "es"),
        ("en_US", "en"),
        (" EN ", "en"),
        ("pt-BR", "pt"),
        ("es-419", "es"),
        ("de-DE-u-co-phonebk", "de"),
        ("prs", "fa"),
        ("eng", "en"),
    ],
)
def test_regions_and_spellings_collapse(tag: str, expected: str) -> None:
    """A tag becomes its primary language, however it is written."""
    assert normalize(tag) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("zh", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("zh-HK", "zh-Hant"),
        ("zh-SG", "zh-Hans"),
        ("zh_hant_cn", "zh-Hant"),
        ("cmn-Hans-CN", "zh-Hans"),
        ("sr", "sr-Cyrl"),
        ("sh", "sr-Latn"),
        ("sr-Latn", "sr-Latn"),
        ("sr-ME", "sr-Latn"),
        ("zh-Latn", "zh-Hans"),
    ],
)
def test_chinese_and_serbian_keep_their_script(tag: str, expected: str) -> None:
    """Only zh and sr keep a script, the likely one when none is named."""
    assert normalize(tag) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("iw", "he"),
        ("in", "id"),
        ("ji", "yi"),
        ("mo", "ro"),
        ("no", "nb"),
        ("arb", "ar"),
        ("tl", "fil"),
        ("fil", "fil"),
    ],
)
def test_old_names_of_a_language_are_one_name(tag: str, expected: str) -> None:
    """Retired and twin codes are read as the code in use."""
    assert normalize(tag) == expected


@pytest.mark.req("R028")
@pytest.mark.parametrize("tag", [*UNDETECTED, *MALFORMED, "x" * 36, "en-" + "a" * 10_000, None])
def test_what_names_no_language_is_undetected(tag: str | None) -> None:
    """unknown, und, mul, zxx, country codes, malformed and oversize tags are no language."""
    assert normalize(tag) is None


@given(TAGS)
def test_normalising_is_total_and_idempotent(tag: str) -> None:
    """Whatever comes in, the answer is None or a tag that stays as it is."""
    once = normalize(tag)
    assert once is None or normalize(once) == once


@pytest.mark.req("R024")
@pytest.mark.parametrize("confidence", [Confidence.MEDIUM, Confidence.HIGH])
def test_a_sure_detection_is_the_source(confidence: Confidence) -> None:
    """Medium or high confidence: the detected language wins over the profile."""
    assert resolve_source("es-MX", confidence, "de") == "es"


@pytest.mark.req("R025")
def test_an_unsure_detection_gives_way_to_the_profile() -> None:
    """Low confidence: the sender's profile decides."""
    assert resolve_source("fr", Confidence.LOW, "de-AT") == "de"


@pytest.mark.req("R026")
@pytest.mark.parametrize("profile", [None, "unknown", ""])
def test_without_either_the_source_is_english(profile: str | None) -> None:
    """Low confidence and no usable profile: en."""
    assert resolve_source("fr", Confidence.LOW, profile) == "en"


@pytest.mark.req("R027")
@pytest.mark.parametrize(("recipient", "target"), [(None, "en"), ("pt-BR", "pt"), ("zz", "en")])
def test_the_target_is_the_recipients_language(recipient: str | None, target: str) -> None:
    """The recipient's locale, normalised; en when there is none."""
    assert resolve_target(recipient) == target


@pytest.mark.req("R028")
@given(TAGS, st.sampled_from(Confidence), TAGS)
def test_no_chain_of_tags_ends_in_an_unknown_locale(
    detected: str, confidence: Confidence, profile: str
) -> None:
    """Source and target are always tags in their one form."""
    for found in (resolve_source(detected, confidence, profile), resolve_target(profile)):
        assert normalize(found) == found


@pytest.mark.req("R028")
@pytest.mark.parametrize("tag", ["unknown", "und", "mul", "zxx", ""])
def test_an_unknown_tag_falls_down_the_chain(tag: str) -> None:
    """An unknown detection falls to the profile, an unknown profile to en."""
    assert resolve_source(tag, Confidence.HIGH, "de") == "de"
    assert resolve_source(tag, Confidence.HIGH, tag) == "en"


@pytest.mark.req("R030")
@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("en-US", "en-GB", Lane.SAME_LANGUAGE),
        ("de", "de-AT", Lane.SAME_LANGUAGE),
        ("de", "en", Lane.CROSS_LANGUAGE),
        ("zh-Hans", "zh-Hant", Lane.CROSS_LANGUAGE),
        ("no", "nb", Lane.SAME_LANGUAGE),
    ],
)
def test_the_lane_follows_from_the_pair(source: str, target: str, expected: Lane) -> None:
    """Equal languages are one lane, different ones the other."""
    assert lane(source, target) is expected


@pytest.mark.req("R006", "R030")
@given(TAGS, TAGS)
def test_the_lane_is_language_equality_and_nothing_else(source: str, target: str) -> None:
    """Same lane exactly when the normalised tags are equal; unknown tags have no lane."""
    pair = normalize(source), normalize(target)
    if None in pair:
        with pytest.raises(BadInput):
            lane(source, target)
    else:
        assert (lane(source, target) is Lane.SAME_LANGUAGE) == (pair[0] == pair[1])


def test_a_language_has_an_english_name() -> None:
    """Prompts name the language; a tag we have no name for stands for itself."""
    assert language_name("de") == "German"
    assert language_name("mi") == "mi"

"""What a message must be before anything is stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.errors import BadText
from dragoman.core.text import MAX_CHARACTERS, check_text

GOOD = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60
).filter(str.strip)


@given(GOOD)
def test_a_message_comes_back_as_it_is(text: str) -> None:
    """Nothing is trimmed or normalised: what was typed is what is stored and sent."""
    assert check_text(text) == text
    assert text.encode().decode() == text


@given(GOOD, st.integers(0, 60), st.sampled_from(["\0", "\ud800", "\udc00", "\udfff"]))
def test_what_cannot_be_stored_is_named_by_its_place(text: str, at: int, poison: str) -> None:
    """NUL or a lone surrogate, wherever it stands: the error has the position and no letter."""
    at = min(at, len(text))
    with pytest.raises(BadText) as refused:
        check_text(text[:at] + poison + text[at:])
    assert f"at position {at}" in str(refused.value)


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u2003\u2028"])
def test_an_empty_message_is_refused(text: str) -> None:
    """White space alone says nothing."""
    with pytest.raises(BadText, match="empty"):
        check_text(text)


@pytest.mark.parametrize("value", [None, 1, b"text", ["a"], {}])
def test_a_message_is_text(value: object) -> None:
    """Any other type is refused by type."""
    with pytest.raises(BadText, match="not text"):
        check_text(value)


def test_the_limit_is_1500_characters() -> None:
    """Characters count, not bytes; one more is refused, with both numbers and no text."""
    assert MAX_CHARACTERS == 1500
    assert check_text("\U0001f600" * 1500)
    with pytest.raises(BadText) as refused:
        check_text("canary" * 251)
    assert str(refused.value) == "the message has 1506 characters, 1500 are allowed"
    assert check_text("x" * 11, limit=11)
    with pytest.raises(BadText):
        check_text("x" * 12, limit=11)


def test_a_surrogate_pair_is_one_letter() -> None:
    """An emoji is no lone surrogate."""
    assert check_text("\U0001f469\u200d\U0001f680") == "\U0001f469\u200d\U0001f680"

"""JSON in one form: equal values have equal bytes, and no bytes have two readings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.canonical import JSON, MAX_DEPTH, canonical, read_json, read_object, sha256
from dragoman.core.errors import BadJSON

CANARY = "Zephyrine-4711"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_what_is_written_is_read_again(value: JSON) -> None:
    """Writing and reading bring back the same value, and writing that the same bytes."""
    assert read_json(canonical(value)) == value
    assert canonical(read_json(canonical(value))) == canonical(value)


@given(st.dictionaries(TEXT, st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_is_nothing(value: dict[str, int], luck) -> None:
    """Two objects that are equal have equal bytes, however they were made."""
    names = list(value)
    luck.shuffle(names)
    assert canonical({name: value[name] for name in names}) == canonical(value)


def test_the_form_is_fixed() -> None:
    """UTF-8, sorted keys, no spaces: hashes of today are found tomorrow."""
    value = {"b": [1, 2.5, None, True], "a": "ä\u2028", "ä": {}}
    assert canonical(value) == '{"a":"ä\u2028","b":[1,2.5,null,true],"ä":{}}'.encode()
    assert sha256(canonical({})).hex()[:12] == "44136fa355b3"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [-float("inf")]}])
def test_what_is_no_json_is_not_written(value: object) -> None:
    """NaN and the infinities have no bytes."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{} {}",
        b'{"a": 1, "a": 1}',
        b'[{"x": {"b": 1, "b": 2}}]',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e400",
        b"-1e999",
        b"1" * 401,
        b"0." + b"1" * 401,
        b'\xef\xbb\xbf{"a": 1}',
        b'"\\u0000"',
        b'{"\\u0000": 1}',
        b'"\\ud800"',
        b'["\\udfff x"]',
        b'"\xff"',
        b"\xed\xa0\x80",
        b"{'a': 1}",
        b"[1,]",
        b'{"a": 01}',
        b"[" * 100_000,
        b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2),
        b'{"a":' * 100_000,
        b"undefined",
        b"// x\n1",
    ],
    ids=lambda data: data[:16],
)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    """A typed error, whatever it is: cut, doubled, too deep, too large, no number."""
    with pytest.raises(BadJSON):
        read_json(data)


@pytest.mark.parametrize(
    "data",
    [
        f'{{"{CANARY}": 1, "{CANARY}": 2}}',
        f'"{CANARY}',
        f'{{"a": "{CANARY}\\u0000"}}',
        f'["{CANARY}", NaN]',
        f'"{CANARY}\\ud800"',
    ],
)
def test_a_refusal_quotes_nothing(data: str) -> None:
    """The error says what was wrong and where, and not what stood there; nothing hangs onto it."""
    with pytest.raises(BadJSON) as refused:
        read_json(data.encode())
    error = refused.value
    assert CANARY not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_depth_is_counted_to_its_limit() -> None:
    """A value may lie 64 levels below the top, and not one deeper."""
    deepest = b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH
    assert read_json(deepest) == json.loads(deepest)
    with pytest.raises(BadJSON):
        read_json(b"[" + deepest + b"]")


@pytest.mark.parametrize("data", [b"[]", b"1", b'"a"', b"null"])
def test_an_object_is_an_object(data: bytes) -> None:
    """Where an object is expected nothing else will do."""
    with pytest.raises(BadJSON, match="not a JSON object"):
        read_object(data)


def test_large_numbers_are_read_whole() -> None:
    """400 digits are a number like any other."""
    assert read_json(b"9" * 400) == int("9" * 400)

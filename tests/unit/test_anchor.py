"""The line of an anchor: only the holder of the key can write one, and only in one form."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from dragoman.core.anchor import (
    Anchor,
    Digest,
    Part,
    new_key,
    public_text,
    read_line,
    read_private,
    read_public,
)
from dragoman.core.errors import BadInput, BadSetting

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ANCHOR = Anchor(
    number=7,
    cell="main",
    incarnation=UUID(int=5),
    since=datetime(2030, 1, 1, tzinfo=UTC),
    upto=datetime(2030, 1, 1, 0, 5, 0, 1, tzinfo=UTC),
    written_at=datetime(2030, 1, 1, 0, 6, tzinfo=UTC),
    events=3,
    jobs=2,
    digest="ab" * 32,
    changes=1,
    change_head="cd" * 32,
    previous="ef" * 32,
)


def test_a_line_says_what_was_written() -> None:
    """Every field comes back; the line is one, and its times are UTC."""
    line = ANCHOR.line(KEY)
    assert read_line(line, KEY.public_key()) == ANCHOR
    assert b"\n" not in line
    assert json.loads(line)["upto"] == "2030-01-01T00:05:00.000001Z"


@given(st.integers(0, len(ANCHOR.line(KEY)) - 1), st.integers(1, 255))
def test_no_byte_of_a_line_can_be_changed(where: int, by: int) -> None:
    """Whichever byte it is, the line is refused without a word of it."""
    line = bytearray(ANCHOR.line(KEY))
    line[where] ^= by
    with pytest.raises(BadInput):
        read_line(bytes(line), KEY.public_key())


@pytest.mark.parametrize("name", [field.name for field in fields(Anchor)])
def test_no_field_can_be_changed_without_the_key(name: str) -> None:
    """The signature covers all of them: another value under the old signature is refused."""
    other: dict[type, Any] = {str: "ab", int: 12, UUID: uuid4(), datetime: ANCHOR.upto}
    value = other[type(getattr(ANCHOR, name))]
    told = json.loads(replace(ANCHOR, **{name: value}).line(KEY))
    told["signature"] = json.loads(ANCHOR.line(KEY))["signature"]
    line = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    if asdict(ANCHOR)[name] != value:
        with pytest.raises(BadInput):
            read_line(line, KEY.public_key())


@given(st.binary(max_size=200))
def test_what_is_no_line_is_refused(line: bytes) -> None:
    """Whatever the bytes are, they are no reason to fall over."""
    with pytest.raises(BadInput):
        read_line(line, KEY.public_key())


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b'{"signature":"00"}', b'{"signature":5}', b'{"signature":"zz"}', b'"x"'],
)
def test_json_that_is_no_line_is_refused(line: bytes) -> None:
    """A signature that is missing, of another type or of another length."""
    with pytest.raises(BadInput):
        read_line(line, KEY.public_key())


def test_another_key_signs_nothing_for_us() -> None:
    """Who has a key of their own cannot write our lines."""
    with pytest.raises(BadInput):
        read_line(ANCHOR.line(Ed25519PrivateKey.generate()), KEY.public_key())


def test_a_key_is_read_as_it_was_made() -> None:
    """The two halves belong together, and what is no key is refused by name."""
    private, public = new_key()
    assert public_text(read_private(private).public_key()) == public
    assert public_text(read_public(public)) == public
    for wrong in ("", "a key", public):
        with pytest.raises(BadSetting):
            read_private(wrong)
    for wrong in ("", "a key", private):
        with pytest.raises(BadInput):
            read_public(wrong)


PARTS = st.builds(
    Part, st.uuids(), st.integers(1, 9), st.uuids(), st.binary(min_size=32, max_size=32)
)


def digested(parts: list[Part]) -> tuple[int, str]:
    """Count and digest of parts in this order."""
    digest = Digest()
    for part in parts:
        digest.take(part)
    return digest.events, digest.hex


@given(st.lists(PARTS, min_size=1, max_size=5), st.data())
def test_a_digest_knows_every_part(parts: list[Part], data: st.DataObject) -> None:
    """Take a part away, change a field of it, or say it twice: the digest is another."""
    where = data.draw(st.integers(0, len(parts) - 1))
    part = parts[where]
    field = data.draw(st.sampled_from(["job_id", "seq", "home_id", "hash"]))
    other = {"seq": part.seq + 1, "hash": part.hash[:-1] + bytes([part.hash[-1] ^ 1])}
    changed = replace(part, **{field: other.get(field, uuid4())})
    for forged in ([changed], [], [part, part]):
        assert digested([*parts[:where], *forged, *parts[where + 1 :]]) != digested(parts)

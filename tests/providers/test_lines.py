"""Result files are split at newline bytes, within caps, whatever else is in them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.providers.lines import split_lines


def _split(chunks: list[bytes], cap: int = 1_000) -> list[bytes]:
    async def arrive() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def collect() -> list[bytes]:
        return [line async for line in split_lines(arrive(), max_line_bytes=cap)]

    return asyncio.run(collect())


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_byte_ends_a_line(odd: str) -> None:
    """str.splitlines would tear a text at U+2028 and lose its item; this does not."""
    line = f'{{"a":"x{odd}y"}}'.encode()
    assert _split([line + b"\n" + line + b"\n"]) == [line, line]


def test_a_byte_order_mark_and_blank_lines_are_not_lines() -> None:
    """A BOM before the first line is taken off, anywhere else it is content."""
    bom = b"\xef\xbb\xbf"
    assert _split([bom + b"{}\n\n \r\n" + bom + b"{}"]) == [b"{}", bom + b"{}"]
    assert _split([]) == []


def test_a_line_beyond_the_cap_is_cut_and_its_neighbours_are_whole() -> None:
    """One huge line costs no more memory than the cap and no other item."""
    assert _split([b"{}\n", b"x" * 999, b"y" * 5_000, b"\n[]\n"], cap=1_000) == [
        b"{}",
        b"x" * 999 + b"y",
        b"[]",
    ]


@given(st.lists(st.binary(max_size=20), max_size=8), st.integers(min_value=1, max_value=7))
def test_where_the_chunks_end_does_not_matter(pieces: list[bytes], size: int) -> None:
    """However the bytes arrive, the lines are those of the whole."""
    data = b"\n".join(pieces)
    whole = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert _split([data[at : at + size] for at in range(0, len(data), size)]) == whole

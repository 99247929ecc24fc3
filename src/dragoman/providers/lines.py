"""Result files in lines: split at newline bytes and at nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

MAX_LINE_BYTES: Final = 1_000_000
_BOM: Final = b"\xef\xbb\xbf"


async def split_lines(
    chunks: AsyncIterator[bytes], *, max_line_bytes: int = MAX_LINE_BYTES
) -> AsyncIterator[bytes]:
    """The lines of a file, without blank ones and without a byte order mark in front.

    U+2028 and U+0085 end no line, though str.splitlines would end one there. A line beyond the
    cap arrives as its first bytes, which are not JSON: its item is lost, its siblings are not.
    """
    first = True
    async for line in _split(chunks, max_line_bytes):
        shown = line.removeprefix(_BOM) if first else line
        first = False
        if shown.strip():
            yield shown


async def _split(chunks: AsyncIterator[bytes], cap: int) -> AsyncIterator[bytes]:
    kept = bytearray()
    async for chunk in chunks:
        *ended, open_end = chunk.split(b"\n")
        for piece in ended:
            kept += piece[: cap - len(kept)]
            yield bytes(kept)
            kept.clear()
        kept += open_end[: cap - len(kept)]
    yield bytes(kept)

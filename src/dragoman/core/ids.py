"""Time-ordered ids, made in Python so that an id is known before it is stored."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from typing import NewType

JobId = NewType("JobId", uuid.UUID)
Token = NewType("Token", uuid.UUID)
HomeId = NewType("HomeId", uuid.UUID)
BatchId = NewType("BatchId", uuid.UUID)
DeliveryId = NewType("DeliveryId", uuid.UUID)


def uuid7() -> uuid.UUID:
    """A version 7 id: 48 bits of milliseconds, 74 random bits.

    >>> uuid7().version
    7
    """
    stamp = time.time_ns() // 1_000_000
    rest = int.from_bytes(os.urandom(10), "big")
    value = (stamp & (1 << 48) - 1) << 80 | 0x7 << 76 | (rest >> 62 & 0xFFF) << 64 | 0b10 << 62
    return uuid.UUID(int=value | rest & (1 << 62) - 1)


def uuid7s(count: int) -> list[uuid.UUID]:
    """Many version 7 ids of one moment: the first is drawn, the others count on from it."""
    return [uuid.UUID(int=value) for value in uuid7_numbers(count)]


def uuid7_numbers(count: int) -> range:
    """The same as numbers, for where nobody looks at them before they are stored."""
    first = uuid7().int & ~(1 << 61)  # room to count without touching the variant
    return range(first, first + count)


def unit_lock(pipeline: str, unit: str) -> int:
    """The advisory lock key of one execution unit: 8 bytes of its hash, never of its home.

    >>> unit_lock("rewrite", "a:b") == unit_lock("rewrite", "a:c")
    False
    """
    digest = hashlib.sha256(f"dragoman unit\0{pipeline}\0{unit}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)

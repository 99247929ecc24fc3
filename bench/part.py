"""A part of the benchmark: its name, what is compared, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from bench.place import Place
from bench.result import Result


class Size(StrEnum):
    """How much is measured."""

    FULL = "full"
    QUICK = "quick"
    TOY = "toy"


@dataclass(frozen=True)
class Part:
    """What the page says of it stands here; `stands_in_the_way` only where a figure is missed."""

    name: str
    title: str
    compared: str
    measure: Callable[[Place, Size], Result]
    stands_in_the_way: str = ""

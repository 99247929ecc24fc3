"""The parts of the benchmark, in the order of the page."""

from __future__ import annotations

from bench.part import Part
from bench.parts import claim, drain, enqueue, fenced, footprint, latency, steady

PARTS: tuple[Part, ...] = (
    drain.PART,
    drain.STORED,
    fenced.PART,
    steady.PART,
    enqueue.PART,
    latency.PART,
    claim.PART,
    footprint.PART,
)

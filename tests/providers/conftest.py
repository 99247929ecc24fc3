"""A sandbox for each test, and who we are there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.providers.base import Account
from dragoman.sandbox.server import Sandbox
from tests.providers.calls import account


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """A sandbox at its usual pace, without faults."""
    with Sandbox() as running:
        yield running


@pytest.fixture
def who(sandbox: Sandbox) -> Account:
    """Our account at that sandbox."""
    return account(sandbox.base_url)

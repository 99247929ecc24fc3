"""Databases of a test's own, each removed when it is done with."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests import postgres
from tests.store.kernel import build_plain


@pytest.fixture
def database() -> Generator[str]:
    """A database with the plain pipeline, for one test."""
    name = postgres.clone(postgres.template_database(build_plain))
    yield name
    postgres.drop(name)


@pytest.fixture(scope="module")
def shared() -> Generator[str]:
    """The same, for tests of one module that only read or keep to jobs of their own."""
    name = postgres.clone(postgres.template_database(build_plain))
    yield name
    postgres.drop(name)

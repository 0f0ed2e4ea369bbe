"""Fixtures of the tests with faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.engine import Engine

__all__ = ["engine"]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The small engine, whose processes start within moments."""
    with Engine() as engine:
        yield engine

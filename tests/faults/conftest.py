"""Fixtures of the tests with faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.engine import Engine
from support.proxy import FaultProxy

from spark_stomp.devbroker import DevBroker

__all__ = ["engine", "proxied"]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The small engine, whose processes start within moments."""
    with Engine() as engine:
        yield engine


@pytest.fixture
def proxied(devbroker: DevBroker) -> Iterator[FaultProxy]:
    """A fault proxy before the dev broker."""
    with FaultProxy(devbroker.port) as proxy:
        yield proxy

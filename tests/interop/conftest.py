"""What most of these tests take beside the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.brokers import Broker

from spark_stomp.brokers import Dialect, dialect_named


@pytest.fixture
def queue(broker: Broker) -> Iterator[str]:
    """A new queue, which must be empty at the end with nothing un-acked."""
    destination = broker.new_queue()
    yield destination
    broker.wait_for(destination, ready=0, unacked=0)


@pytest.fixture
def dialect(broker: Broker) -> Dialect:
    return dialect_named(broker.dialect)

"""What most of these tests take beside the broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.brokers import Broker
from support.brokers.fixtures import BrokerPool
from support.brokers.telling import TELLING

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


@pytest.fixture(scope="session")
def telling_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPool]:
    pool = BrokerPool(tmp_path_factory.mktemp("telling"), TELLING)
    yield pool
    pool.stop()


@pytest.fixture(params=["rabbitmq", "activemq", "artemis"])
def telling(request: pytest.FixtureRequest, broker_pool: BrokerPool, telling_pool: BrokerPool) -> Broker:
    """A broker that tells how much waits."""
    return (telling_pool if request.param in TELLING else broker_pool).get(request.param)

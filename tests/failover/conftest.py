"""The brokers of several nodes, each whole again before a test."""

from __future__ import annotations

import pytest
from support.brokers import ActiveMQPair, ArtemisPair, Cluster, RabbitMQCluster
from support.brokers.fixtures import BrokerPool


def whole(pool: BrokerPool, name: str) -> Cluster:
    cluster = pool.get(name)
    assert isinstance(cluster, Cluster)
    cluster.start()
    return cluster


@pytest.fixture
def cluster(broker_pool: BrokerPool) -> RabbitMQCluster:
    found = whole(broker_pool, RabbitMQCluster.name)
    assert isinstance(found, RabbitMQCluster)
    return found


@pytest.fixture
def activemq_pair(broker_pool: BrokerPool) -> ActiveMQPair:
    found = whole(broker_pool, ActiveMQPair.name)
    assert isinstance(found, ActiveMQPair)
    return found


@pytest.fixture
def artemis_pair(broker_pool: BrokerPool) -> ArtemisPair:
    found = whole(broker_pool, ArtemisPair.name)
    assert isinstance(found, ArtemisPair)
    return found

"""The brokers of several nodes, each whole again before a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.brokers import Cluster, RabbitMQCluster
from support.brokers.fixtures import BrokerPool


@pytest.fixture
def whole(broker_pool: BrokerPool) -> Callable[[str], Cluster]:
    """Gives the cluster of this name; all its nodes run."""

    def get(name: str) -> Cluster:
        cluster = broker_pool.get(name)
        assert isinstance(cluster, Cluster)
        cluster.start()
        return cluster

    return get


@pytest.fixture
def cluster(whole: Callable[[str], Cluster]) -> RabbitMQCluster:
    found = whole(RabbitMQCluster.name)
    assert isinstance(found, RabbitMQCluster)
    return found

"""Real brokers for tests: installed into a cache, started on ports of their own on loopback, stopped by id.

``make brokers`` starts all of them and prints their URLs; tests take the fixtures of ``fixtures``.
"""

from support.brokers.activemq import ActiveMQ, HostedActiveMQ
from support.brokers.artemis import Artemis
from support.brokers.base import Broker, Standing
from support.brokers.cluster import (
    CLUSTERS,
    ActiveMQPair,
    ArtemisPair,
    Cluster,
    RabbitMQCluster,
    RabbitMQNode,
)
from support.brokers.dev import DevelopmentBroker
from support.brokers.process import Unavailable
from support.brokers.rabbitmq import OldRabbitMQ, RabbitMQ

__all__ = [
    "BROKERS",
    "CLUSTERS",
    "ActiveMQ",
    "ActiveMQPair",
    "Artemis",
    "ArtemisPair",
    "Broker",
    "Cluster",
    "DevelopmentBroker",
    "HostedActiveMQ",
    "OldRabbitMQ",
    "RabbitMQ",
    "RabbitMQCluster",
    "RabbitMQNode",
    "Standing",
    "Unavailable",
]

BROKERS: dict[str, type[Broker]] = {
    broker.name: broker
    for broker in (DevelopmentBroker, RabbitMQ, ActiveMQ, Artemis, HostedActiveMQ, OldRabbitMQ)
}

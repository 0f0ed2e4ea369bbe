"""A cluster of RabbitMQ while its nodes are killed, stopped for an upgrade, drained, and hang."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from failover.flow import ID_HEADER, Flows, check
from support.brokers import Broker, RabbitMQCluster, RabbitMQNode
from support.driven import MODES
from support.waiting import pause

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

# Seconds that a node stays away, or hangs: longer than heart-beats and connectTimeout together.
AWAY, HANGS = 20.0, 45.0
Deed = Callable[[RabbitMQCluster, Flows], None]


def own_node_killed(cluster: RabbitMQCluster, flows: Flows) -> None:
    cluster.nodes[0].kill()
    pause(AWAY)
    cluster.nodes[0].start()


def leader_killed(cluster: RabbitMQCluster, flows: Flows) -> None:
    cluster.nodes[1].kill()
    pause(AWAY)
    cluster.nodes[1].start()


def rolling_restart(cluster: RabbitMQCluster, flows: Flows) -> None:
    for node in cluster.nodes:
        node.await_replicas()
        node.stop()
        node.start()
        flows.go_on()


def drain_and_revive(cluster: RabbitMQCluster, flows: Flows) -> None:
    node = cluster.nodes[0]
    node.drain()
    pause(AWAY)
    node.revive()


def own_node_hangs(cluster: RabbitMQCluster, flows: Flows) -> None:
    cluster.nodes[0].suspend()
    pause(HANGS)
    cluster.nodes[0].resume()


def leader_hangs(cluster: RabbitMQCluster, flows: Flows) -> None:
    cluster.nodes[1].suspend()
    pause(HANGS)
    cluster.nodes[1].resume()


def two_of_three_away(cluster: RabbitMQCluster, flows: Flows) -> None:
    for node in cluster.nodes[:2]:
        node.kill()
    pause(AWAY)
    cluster.start()


def leader_moved(cluster: RabbitMQCluster, flows: Flows) -> None:
    for queue in flows.destinations:
        if queue.endswith(".quorum"):
            cluster.move_leader(queue, cluster.nodes[2])
        elif queue.endswith(".stream"):
            cluster.elect_again(queue)


@dataclass(frozen=True)
class Fault:
    """What happens, and the place in ``url`` of the node with all leaders and classic queues; the connections
    of the connector are to the first one."""

    deed: Deed
    leader: int = 0


FAULTS = [
    Fault(own_node_killed),
    Fault(leader_killed, leader=1),
    Fault(rolling_restart),
    Fault(drain_and_revive),
    Fault(own_node_hangs),
    Fault(leader_hangs, leader=1),
    Fault(two_of_three_away),
    Fault(leader_moved),
]


def source(
    flows: Flows, name: str, kind: str, leader: RabbitMQNode, *, topic: bool = False, **options: object
) -> None:
    """A query that reads a queue of this kind whose leader is on this node, or a durable topic whose queue is
    such a one."""
    cluster = flows.cluster
    if kind == "stream":
        options["startingOffsets"] = "earliest"
    else:
        options["idHeader"] = ID_HEADER
    if topic:
        destination = cluster.new_topic()
        options |= {"clientId": "failover", "durableName": destination.rpartition("/")[2]}
        options["subscribeHeaders"] = json.dumps({"x-queue-type": kind})
    else:
        destination = declared(cluster, kind, leader)
    # The queue of a topic is on the node of the first subscription.
    flows.source(f"source, {name}", destination, at=leader, **options)


def sink(flows: Flows, name: str, kind: str, leader: RabbitMQNode, **options: object) -> None:
    """A query that writes to a queue of this kind."""
    flows.sink(f"sink, {name}", declared(flows.cluster, kind, leader), **options)


def declared(cluster: Broker, kind: str, leader: RabbitMQNode) -> str:
    assert isinstance(cluster, RabbitMQCluster)
    queue = cluster.new_queue().replace("/queue/", "/amq/queue/") + f".{kind}"
    cluster.declare(queue, kind, leader)
    assert cluster.leader(queue) is leader
    return queue


def everything(cluster: RabbitMQCluster, leader: RabbitMQNode, folder: Path) -> Flows:
    """All kinds of sources and sinks."""
    flows = Flows(cluster)
    source(flows, "quorum", "quorum", leader)
    source(flows, "quorum, journal", "quorum", leader, **mode("journal", folder / "quorum"))
    source(flows, "classic", "classic", leader)
    source(
        flows, "classic, ackAfter=journal", "classic", leader, **mode("ackAfter=journal", folder / "classic")
    )
    source(flows, "stream", "stream", leader)
    source(flows, "topic, classic", "classic", leader, topic=True)
    source(flows, "topic, quorum", "quorum", leader, topic=True)
    for kind in ("quorum", "classic", "stream"):
        sink(flows, kind, kind, leader)
        sink(flows, f"{kind}, onError=drop", kind, leader, onError="drop")
    dead = declared(cluster, "quorum", cluster.nodes[2])
    sink(
        flows,
        "classic, onError=deadletter",
        "classic",
        leader,
        onError="deadletter",
        deadLetterDestination=dead,
    )
    return flows


def mode(name: str, folder: Path) -> dict[str, str]:
    folder.mkdir()
    return MODES[name](folder)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.deed.__name__)
def test_a_fault_costs_no_message_and_no_query(
    cluster: RabbitMQCluster, fault: Fault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with everything(cluster, cluster.nodes[fault.leader], tmp_path) as flows:
        fault.deed(cluster, flows)
        flows.go_on()
        check(flows, f"RabbitMQ, {fault.deed.__name__}", capsys)


def test_a_rolling_restart(cluster: RabbitMQCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Each node is stopped in order and started again, as in an upgrade. A classic queue is on one alone."""
    flows, leader = Flows(cluster), cluster.nodes[0]
    # A classic queue stands still until the first attempt after its node is back.
    soon = {"reconnectDelayMax": "1s"}
    for kind in ("classic", "quorum"):
        source(flows, kind, kind, leader, **soon)
        sink(flows, kind, kind, leader, **soon)
    source(flows, "topic, classic", "classic", leader, topic=True, **soon)
    sink(flows, "classic, onError=drop", "classic", leader, onError="drop", **soon)
    with flows:
        rolling_restart(cluster, flows)
        check(flows, "RabbitMQ, a rolling restart", capsys)


def test_the_leader_is_killed(cluster: RabbitMQCluster, capsys: pytest.CaptureFixture[str]) -> None:
    flows = Flows(cluster)
    source(flows, "quorum", "quorum", cluster.nodes[1])
    sink(flows, "quorum", "quorum", cluster.nodes[1])
    with flows:
        cluster.nodes[1].kill()
        flows.go_on()
        check(flows, "RabbitMQ, the leader is killed", capsys)

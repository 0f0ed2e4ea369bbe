"""Brokers that are one to their clients: a cluster of RabbitMQ, and pairs of ActiveMQ and of Artemis."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from support.brokers.activemq import ActiveMQ
from support.brokers.artemis import Artemis
from support.brokers.base import HOST, Broker, Standing, is_listening
from support.brokers.rabbitmq import PortMapper, RabbitMQ
from support.waiting import wait_until

# Seconds until a standby has taken over, or a node that came back takes part.
_TAKES_OVER = 120.0


class Cluster(Broker):
    """``nodes``, each of which can be stopped, killed, suspended, resumed and started again by itself.

    ``url`` has all of them in their order. ``start`` starts what does not run and resumes what is suspended,
    so it also mends what a test has done.
    """

    @property
    @abstractmethod
    def nodes(self) -> tuple[Broker, ...]:
        """In the order of ``url``."""

    @property
    def dialect(self) -> str:
        return self.nodes[0].dialect

    @property
    def url(self) -> str:
        return self.url_of(*self.nodes)

    @property
    def tls_url(self) -> str:
        return ",".join(node.tls_url for node in self.nodes)

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(port for node in self.nodes for port in node.ports)

    def url_of(self, *nodes: Broker) -> str:
        """The value of the ``url`` option for these, in this order."""
        return ",".join(node.url for node in nodes)

    @property
    def active(self) -> Broker:
        """The first node that serves clients."""
        return next(node for node in self.nodes if node.runs and not node.hangs and not node.waits)

    def launch(self) -> None:
        for node in self.nodes:
            if node.runs:
                node.resume()
            else:
                node.launch()

    def await_started(self) -> None:
        for node in self.nodes:
            node.await_started()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def standing(self, destination: str) -> Standing:
        return self.active.standing(destination)

    @property
    def connections(self) -> int:
        return self.active.connections


class RabbitMQNode(RabbitMQ):
    """One node of ``cluster``."""

    # As users have it.
    _erlang_arguments = ""

    def __init__(self, folder: Path, cluster: RabbitMQCluster) -> None:
        super().__init__(folder)
        self._mapper, self._cluster = cluster.mapper, cluster

    def stop(self) -> None:
        """End in order. The others go on, with their port mapper."""
        Broker.stop(self)

    def drain(self) -> None:
        """As ``rabbitmq-upgrade drain``: no client, and no leader that another node could be."""
        self.evaluate("rabbit_maintenance:drain().")

    def revive(self) -> None:
        """The end of :meth:`drain`."""
        self.evaluate("rabbit_maintenance:revive().")

    def await_replicas(self) -> None:
        """Wait until no quorum queue or stream would lose its majority without this node, as before a stop
        in order."""
        wait_until(
            lambda: (
                self.evaluate("rabbit_upgrade_preparation:await_online_quorum_plus_one(10000).") == "true"
            ),
            _TAKES_OVER,
            "the replicas",
        )

    def _configure(self) -> None:
        super()._configure()
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(self._cluster.cookie)
        cookie.chmod(0o400)
        peers = "".join(
            f"cluster_formation.classic_config.nodes.{number} = {node.node}\n"
            for number, node in enumerate(self._cluster.nodes, 1)
        )
        (self.folder / "etc/conf.d/zz-cluster.conf").write_text(
            f"cluster_formation.peer_discovery_backend = classic_config\n{peers}"
        )


class RabbitMQCluster(Cluster):
    """Three nodes with one cookie and one port mapper.

    A classic queue lives on one node; quorum queues and streams have a replica on each.
    """

    name = "rabbitmq-cluster"
    login, password = RabbitMQ.login, RabbitMQ.password

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cookie = secrets.token_hex(16)
        self.mapper = PortMapper(folder)
        self._nodes = tuple(RabbitMQNode(_made(folder / f"node{number}"), self) for number in (1, 2, 3))

    @property
    def nodes(self) -> tuple[RabbitMQNode, ...]:
        return self._nodes

    def stop(self) -> None:
        super().stop()
        self.mapper.stop()

    def declare(
        self,
        destination: str,
        kind: str,
        leader: RabbitMQNode,
        arguments: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        """Declare a queue of this kind (``x-queue-type``) whose leader is on this node."""
        placed = {"x-queue-type": kind, "x-queue-leader-locator": "client-local", **(arguments or {})}
        leader.declare(destination, placed)

    def leader(self, destination: str) -> RabbitMQNode:
        """The node that has the queue, or its leader; LookupError where there is none."""
        said = self.active.evaluate(_LEADER.replace("NAME", _name(destination)))
        try:
            return next(node for node in self.nodes if node.node in said)
        except StopIteration:
            raise LookupError(f"no node has the leader of {destination}: {said}") from None

    def move_leader(self, queue: str, to: RabbitMQNode) -> None:
        """Let the replica on this node lead a quorum queue, and wait until it does."""
        move = _MOVE.replace("NAME", _name(queue)).replace("NODE", f"'{to.node}'")

        def leads() -> bool:
            if self.leader(queue) is to:
                return True
            self.active.evaluate(move)
            return False

        wait_until(leads, _TAKES_OVER, f"the new leader of {queue}", every=0.5)

    def elect_again(self, stream: str) -> None:
        """Let the replicas of a stream elect a leader: one that has all, which may be the last one."""
        self.active.evaluate(_ELECT.replace("NAME", _name(stream)))

    @property
    def active(self) -> RabbitMQNode:
        return next(node for node in self.nodes if node.runs and not node.hangs)


class Pair(Cluster):
    """A broker, and one that stands by and takes over what it has stored."""

    def launch(self) -> None:
        """One after the other, so that the first one that has to be started is the active one."""
        for node in self.nodes:
            if node.runs:
                node.resume()
            else:
                node.start()

    def await_takeover(self, node: Broker) -> None:
        """Wait until this one serves clients."""
        wait_until(lambda: all(map(is_listening, node.ports)), _TAKES_OVER, "the takeover")


class ActiveMQPair(Pair):
    """Two brokers over one store; who has the lock of its file serves clients, the first one to begin with.

    A broker that came back stands by: nothing changes again.
    """

    name = "activemq-pair"
    login, password = ActiveMQ.login, ActiveMQ.password

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        first = ActiveMQ(_made(folder / "node1"))
        self._nodes = (first, first.standby(_made(folder / "node2")))

    @property
    def nodes(self) -> tuple[ActiveMQ, ...]:
        return self._nodes


class ArtemisNode(Artemis):
    """One node of a pair over the store ``shared``."""

    def __init__(self, folder: Path, shared: Path, role: str) -> None:
        super().__init__(folder)
        self._shared, self._role = shared, role

    @property
    def waits(self) -> bool:
        # A primary that comes back announces itself too, and then takes over.
        if self._server is None or self._role is not _BACKUP or is_listening(self.port):
            return False
        return _BACKUP_ANNOUNCED in self._server.said

    def create(self) -> None:
        """Make the instance, if there is none yet."""
        if not self.port:
            self._create()

    def join(self, other: ArtemisNode) -> None:
        """Be the other half of this one."""
        configuration = self._instance / "etc/broker.xml"
        text = configuration.read_text().replace(">data/", f">{self._shared}/")
        places = {"self": self.listeners["core"], "other": other.listeners["core"]}
        connectors = "".join(
            f'<connector name="{name}">tcp://{HOST}:{port}</connector>' for name, port in places.items()
        )
        pair = _PAIR.replace("ROLE", self._role).replace("CONNECTORS", connectors)
        configuration.write_text(text.replace("<acceptors>", f"{pair}<acceptors>"))


class ArtemisPair(Pair):
    """A primary and a backup over one store. The primary takes it back as soon as it runs again (failback).

    Not with replication: a backup that is behind when the primary ends loses what it did not get, and both
    serve clients when a primary hung. So a test could not tell their losses from ours.
    """

    name = "artemis-pair"
    login, password = Artemis.login, Artemis.password

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shared = _made(folder / "store")
        self._nodes = (
            ArtemisNode(_made(folder / "node1"), shared, _PRIMARY),
            ArtemisNode(_made(folder / "node2"), shared, _BACKUP),
        )

    @property
    def nodes(self) -> tuple[ArtemisNode, ArtemisNode]:
        return self._nodes

    def launch(self) -> None:
        first, second = self.nodes
        if not first.port:
            first.create()
            second.create()
            first.join(second)
            second.join(first)
        super().launch()


CLUSTERS: dict[str, type[Cluster]] = {
    cluster.name: cluster for cluster in (RabbitMQCluster, ActiveMQPair, ArtemisPair)
}

_BACKUP_ANNOUNCED = "AMQ221031"
_PRIMARY = "<primary><failover-on-shutdown>true</failover-on-shutdown></primary>"
_BACKUP = (
    "<backup><failover-on-shutdown>true</failover-on-shutdown><allow-failback>true</allow-failback></backup>"
)
_PAIR = """<ha-policy><shared-store>ROLE</shared-store></ha-policy>
<connectors>CONNECTORS</connectors>
<cluster-user>pair</cluster-user><cluster-password>pair</cluster-password>
<cluster-connections><cluster-connection name="pair"><connector-ref>self</connector-ref>
<static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>"""

# A classic queue's process is on its node, a quorum queue's is a pair of name and node.
_LEADER = """{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"NAME">>)),
case amqqueue:get_type(Queue) of
    rabbit_stream_queue -> maps:get(leader_node, amqqueue:get_type_state(Queue));
    rabbit_quorum_queue -> element(2, amqqueue:get_pid(Queue));
    _ -> node(amqqueue:get_pid(Queue))
end."""
_MOVE = """{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"NAME">>)),
rabbit_quorum_queue:transfer_leadership(Queue, NODE)."""
# As `rabbitmq-streams restart_stream`.
_ELECT = """rabbit_stream_queue:restart_stream(<<"/">>, <<"NAME">>, #{})."""


def _name(destination: str) -> str:
    return destination.rpartition("/")[2]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder

"""Apache Artemis from its distribution."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from support.brokers.activemq import JAVA_OPTIONS, stomp_properties, with_tls
from support.brokers.base import CONF, HOST, Broker, Standing, free_ports
from support.brokers.cache import cached, java, maven_archive
from support.brokers.jolokia import Jolokia
from support.brokers.process import run

# Prefixes as those of the acceptor for STOMP, so that one name is one queue.
_OTHERS = (
    '<acceptor name="others">tcp://127.0.0.1:%d?protocols=AMQP,CORE,MQTT,OPENWIRE;'
    "anycastPrefix=/queue/;multicastPrefix=/topic/</acceptor></acceptors>"
)


_BROKER = 'org.apache.activemq.artemis:broker="localhost"'


class Artemis(Broker):
    """An instance in the broker's folder."""

    name = "artemis"
    version: ClassVar[str] = "2.56.0"
    _group: ClassVar[str] = "org.apache.artemis"
    stamps_messages = True
    transports = ("tcp", "tls", "ws")
    login, password = "spark", "spark"
    java_options: tuple[str, ...] = JAVA_OPTIONS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._jolokia = Jolokia(0)

    @property
    def websocket_url(self) -> str:
        return f"ws://{HOST}:{self.port}/stomp"

    def launch(self) -> None:
        java()
        if not self.port:
            self._create()
        elif str(self._home) not in (self._instance / "etc/artemis.profile").read_text():
            run(self._home / "bin/artemis", "upgrade", self._instance)
        opened = "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED"
        options = (*self.java_options, *stomp_properties(self), opened, self._jolokia.java_option)
        self._run(self._instance / "bin/artemis", "run", JAVA_ARGS=" ".join(options))

    def standing(self, destination: str) -> Standing:
        said = self._jolokia.read_all(f"{_queues_of(destination)},*", "MessageCount", "DeliveringCount")
        held = sum(queue["MessageCount"] for queue in said)
        delivered = sum(queue["DeliveringCount"] for queue in said)
        return Standing(held - delivered, delivered)

    def stuck(self, destinations: Sequence[str]) -> int:
        """2.44.0 forgot one of 300 un-acked messages in 1 of 71 lost connections (November 2026).

        It counts the message as delivered, lists it with no consumer, and delivers it after a restart.
        """
        stuck = 0
        for beans in map(_queues_of, destinations):
            for said in self._jolokia.read_all(f"{beans},*", "Name", "RoutingType", "DeliveringCount"):
                if said["DeliveringCount"]:
                    which = beans.partition(",routing-type=")[0].partition(",queue=")[0]
                    bean = f'{which},routing-type="{said["RoutingType"].lower()}",queue="{said["Name"]}"'
                    listed = self._jolokia.call(bean, "listDeliveringMessages()")
                    stuck += said["DeliveringCount"] - sum(map(len, listed.values()))
        return stuck

    @property
    def connections(self) -> int:
        (said,) = self._jolokia.read_all(_BROKER, "ConnectionCount")
        return int(said["ConnectionCount"])

    def create_queue(self, name: str) -> None:
        """``address::queue``: a durable queue that gets a copy of every message to its multicast address."""
        address, _, queue = name.partition("::")
        self._create_queue({"name": queue, "address": address, "routing-type": "MULTICAST"})

    def declare(self, destination: str, **settings: Any) -> None:
        """Create ``/queue/NAME`` with these settings of Artemis."""
        name = destination.removeprefix("/queue/")
        self._create_queue({"name": name, "address": name, "routing-type": "ANYCAST", **settings})

    def pause(self, destination: str) -> None:
        """Deliver nothing of this queue any more."""
        name = destination.removeprefix("/queue/")
        self._jolokia.call(f'{_queues_of(destination)},queue="{name}"', "pause()")

    def delete_queue(self, destination: str) -> None:
        """Delete it with its messages, whoever reads it."""
        self._jolokia.call(_BROKER, "destroyQueue(java.lang.String,boolean)", _name_of(destination), True)

    def delete_address(self, destination: str) -> None:
        """Delete the address with its queues, whoever reads them."""
        self._jolokia.call(_BROKER, "deleteAddress(java.lang.String,boolean)", _name_of(destination), True)

    def has_address(self, destination: str) -> bool:
        (said,) = self._jolokia.read_all(_BROKER, "AddressNames")
        return _name_of(destination) in said["AddressNames"]

    def consumers(self, destination: str) -> list[dict[str, Any]]:
        """What its management says of the consumers of a queue."""
        listed = json.loads(self._jolokia.call(_BROKER, "listAllConsumersAsJSON()"))
        return [one for one in listed if one.get("queueName") == _name_of(destination)]

    def close_sessions(self, destination: str) -> None:
        """Close the sessions of its consumers."""
        operation = "closeSessionWithID(java.lang.String,java.lang.String)"
        for one in self.consumers(destination):
            self._jolokia.call(_BROKER, operation, one["connectionID"], one["sessionID"])

    def close_consumers(self, destination: str) -> None:
        """Close its consumers, and nothing else."""
        operation = "closeConsumerWithID(java.lang.String,java.lang.String)"
        for one in self.consumers(destination):
            self._jolokia.call(_BROKER, operation, one["sessionID"], str(one["sequentialId"]))

    def _create_queue(self, settings: dict[str, Any]) -> None:
        settings = {**settings, "durable": True}
        self._jolokia.call(_BROKER, "createQueue(java.lang.String)", json.dumps(settings))

    def new_limited_queue(self) -> str:
        """A queue that nobody used before, which drops a message after ten deliveries, as by default."""
        return self.new_queue().replace("/queue/", "/queue/limited.")

    # How many un-acked messages of a paged queue the broker reads, and those that wait among them.
    page = 100

    def new_paged_queue(self) -> str:
        """A queue that nobody used before, which is paged to disk from some ten messages on."""
        return self.new_queue().replace("/queue/", "/queue/paged.")

    # Addresses of one kind only, below which nothing is created.
    multicast, anycast = "fixed.multicast", "fixed.anycast"

    @property
    def _home(self) -> Path:
        """Where the release is, which is fetched first."""
        artifact = f"{self._group}:apache-artemis:{self.version}:tar.gz:bin"
        return cached(f"artemis-{self.version}", lambda folder: maven_archive(artifact, folder))

    @property
    def _instance(self) -> Path:
        return self.folder / "instance"

    def _create(self) -> None:
        account = ("--user", str(self.login), "--password", str(self.password), "--require-login")
        own = ("--silent", "--no-autotune", "--no-web", *account)
        run(self._home / "bin/artemis", "create", *own, self._instance)
        self.port, self.tls_port, jolokia, others = free_ports(4)
        self._jolokia = Jolokia(jolokia)
        self.listeners = dict.fromkeys(("amqp", "core", "mqtt", "openwire"), others)
        configuration = (CONF / "artemis/broker.xml").read_text().replace("</acceptors>", _OTHERS % others)
        (self._instance / "etc/broker.xml").write_text(with_fixed(with_tls(configuration)))
        # Jolokia's agent asks from inside the process and has no role of Artemis.
        management = self._instance / "etc/management.xml"
        management.write_text(management.read_text().replace('"hawtio"', '"org.apache.activemq.artemis"'))


class OldArtemis(Artemis):
    """A release from before Artemis became a project of its own."""

    name = "artemis-2.44"
    version = "2.44.0"
    _group = "org.apache.activemq"


def _queues_of(destination: str) -> str:
    """How the names of the beans of its queues begin: one, or those that a topic's subscriptions have."""
    kind, _, address = destination.removeprefix("/").partition("/")
    which = f'routing-type="{"multicast" if kind == "topic" else "anycast"}"'
    if "::" in destination:
        address, _, queue = destination.partition("::")
        which = f'queue="{queue}"'
    return (
        f'org.apache.activemq.artemis:broker="localhost",component=addresses,address="{address}",'
        f"subcomponent=queues,{which}"
    )


def with_fixed(configuration: str) -> str:
    """The configuration with two addresses whose kinds the broker does not change, queues that only a role
    may read which nobody has, below ``full.`` addresses with little room, by what happens then, and below
    ``ring.``, ``last.`` and ``passing.`` queues that do not keep what comes back to them. It looks twice a
    second for addresses that it may delete, as those below ``reaped.``. Below ``paged.`` are queues that are
    soon paged to disk. It closes the connection of who reads
    below ``slow.`` and ACKs fewer than ten messages a second."""
    setting = (
        '<address-setting match="fixed.#"><auto-create-addresses>false</auto-create-addresses>'
        "<auto-create-queues>false</auto-create-queues></address-setting></address-settings>"
    )
    limited = (
        '<address-setting match="limited.#"><max-delivery-attempts>10</max-delivery-attempts>'
        "<auto-delete-queues>false</auto-delete-queues></address-setting>"
    )
    full = "".join(
        f'<address-setting match="full.{policy.lower()}.#"><max-size-bytes>20000</max-size-bytes>'
        f"<address-full-policy>{policy}</address-full-policy></address-setting>"
        for policy in ("FAIL", "DROP")
    )
    forgetful = "".join(
        f'<address-setting match="{kind}.#">{setting}</address-setting>'
        for kind, setting in {
            "ring": "<default-ring-size>5</default-ring-size><auto-delete-queues>false</auto-delete-queues>",
            "last": "<default-last-value-key>k</default-last-value-key>"
            "<auto-delete-queues>false</auto-delete-queues>",
            "slow": "<slow-consumer-threshold>10</slow-consumer-threshold>"
            "<slow-consumer-policy>KILL</slow-consumer-policy>"
            "<slow-consumer-check-period>1</slow-consumer-check-period>",
            "reaped": "<auto-delete-addresses>true</auto-delete-addresses>"
            "<auto-delete-addresses-delay>0</auto-delete-addresses-delay>",
            "paged": "<max-size-messages>10</max-size-messages>"
            f"<max-read-page-messages>{Artemis.page}</max-read-page-messages>"
            "<auto-delete-queues>false</auto-delete-queues>",
            "passing": "<auto-delete-queues>true</auto-delete-queues>"
            "<auto-delete-queues-message-count>-1</auto-delete-queues-message-count>",
        }.items()
    )
    addresses = (
        f'<addresses><address name="{Artemis.multicast}"><multicast/></address><address '
        f'name="{Artemis.anycast}"><anycast><queue name="{Artemis.anycast}"/></anycast></address></addresses>'
    )
    rights = (
        '<security-setting match="denied.#"><permission type="consume" roles="nobody"/></security-setting>'
    )
    configuration = configuration.replace("</security-settings>", f"{rights}</security-settings>")
    return configuration.replace("</address-settings>", limited + full + forgetful + setting).replace(
        "</core>", f"<address-queue-scan-period>500</address-queue-scan-period>{addresses}</core>"
    )


def _name_of(destination: str) -> str:
    return destination.removeprefix("/queue/")

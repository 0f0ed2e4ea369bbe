"""ActiveMQ Classic, put together from its libraries: a current release, and the one that Amazon MQ runs."""

from __future__ import annotations

import re
from pathlib import Path

from support.brokers.base import CONF, HOST, Broker, Standing, free_ports, is_listening
from support.brokers.cache import java, libraries
from support.brokers.jolokia import Jolokia
from support.certificates import STORE_PASSWORD

_KAHADB = '<kahaDB directory="${activemq.data:activemq-data}/kahadb"/>'
# A standby tries every half second, and not every ten, to take the store over.
_SHARED_KAHADB = _KAHADB.replace(
    "/>", '><locker><shared-file-locker lockAcquireSleepInterval="500"/></locker></kahaDB>'
)
# Quick to start, and small. A hundred thousand messages in four queues are too many for half of this heap.
JAVA_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_BEAN = "org.apache.activemq:type=Broker,brokerName=localhost"
PAGE_SIZES = (200, 230, 370)
# Producers to a queue of this policy wait (producer flow control) as soon as its messages take this memory.
_BOUNDED = """<policyEntry queue="bounded.>" producerFlowControl="true" memoryLimit="200kb">
<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>"""
# Consumers of a queue of this policy that have a message for a second are taken away without a word.
_SLOW = """<policyEntry queue="slow.>"><slowConsumerStrategy><abortSlowAckConsumerStrategy checkPeriod="100"
maxTimeSinceLastAck="500" maxSlowDuration="500"/></slowConsumerStrategy></policyEntry>"""
# The queues to which users have a right: all of tests, and not those that begin with "denied.". What one
# entry allows, no other one can forbid.
_ALLOWED = (
    "*",
    "Consumer.>",
    "ActiveMQ.>",
    "wild.>",
    "bounded.>",
    "slow.>",
    *(f"paged{size}.>" for size in PAGE_SIZES),
)
_ALL = 'read="users" write="users" admin="users"'
_RIGHTS = "\n".join(
    [
        "<authorizationPlugin><map><authorizationMap><authorizationEntries>",
        *(f'<authorizationEntry queue="{one}" {_ALL}/>' for one in _ALLOWED),
        f'<authorizationEntry topic=">" {_ALL}/>',
        "</authorizationEntries></authorizationMap></map></authorizationPlugin>",
    ]
)
# By ``amqp`` a message of AMQP 1.0 is kept as it came, by ``amqp-jms`` it becomes one of JMS.
_LISTENERS = {
    "openwire": "tcp://127.0.0.1:%d",
    "amqp": "amqp://127.0.0.1:%d",
    "amqp-jms": "amqp://127.0.0.1:%d?transport.transformer=jms",
    "mqtt": "mqtt://127.0.0.1:%d",
}
_NO_QUEUE = {"QueueSize": 0, "InFlightCount": 0}


class ActiveMQ(Broker):
    """A broker with the users' configuration, and queues with smaller pages: see :meth:`new_paged_queue`."""

    name = "activemq"
    largest_body = 8 << 20
    login, password = "spark", "spark"
    java_options: tuple[str, ...] = JAVA_OPTIONS
    # The lists of libraries. The last one is the broker's; it may have another one as its parent.
    poms: tuple[str, ...] = ("activemq.pom.xml",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.data = folder / "data"
        self._jolokia = Jolokia(0)

    def new_paged_queue(self, max_page_size: int) -> str:
        """A queue that nobody used before, whose policy has this ``maxPageSize``, one of ``PAGE_SIZES``."""
        assert max_page_size in PAGE_SIZES
        return self.new_queue().replace("/queue/", f"/queue/paged{max_page_size}.")

    def new_bounded_queue(self) -> str:
        """A queue that nobody used before, whose producers wait once it holds 200 kB."""
        return self.new_queue().replace("/queue/", "/queue/bounded.")

    def new_slow_queue(self) -> str:
        """A queue that nobody used before, whose consumers go without a word if they are slow."""
        return self.new_queue().replace("/queue/", "/queue/slow.")

    def delete_queue(self, destination: str) -> None:
        """Delete it with its messages, whoever reads it."""
        self._jolokia.call(_BEAN, "removeQueue(java.lang.String)", destination.removeprefix("/queue/"))

    def new_wild_queue(self) -> str:
        """A beginning of queues that nobody used before, to which users have a right by a wildcard too."""
        return self.new_queue().replace("/queue/", "/queue/wild.")

    @property
    def waits(self) -> bool:
        """Whether it waits for the store, which another broker has."""
        return (
            self._server is not None
            and not is_listening(self.port)
            and "is locked by another server" in self._server.said
        )

    def standby(self, folder: Path) -> ActiveMQ:
        """A broker with the same store and certificate, which takes the store over when this one ends."""
        other = type(self)(folder)
        other.data, other.authority, other.identity = self.data, self.authority, self.identity
        return other

    def classpath(self) -> str:
        """Where Java finds the broker's libraries, which are fetched first."""
        return libraries(self.name, *(Path(__file__).with_name(name) for name in self.poms))

    def launch(self) -> None:
        classpath = self.classpath()
        if not self.port:
            self._configure()
        limit, data = f"-Dstomp.maxDataLength={self.largest_body}", f"-Dactivemq.data={self.data}"
        options = (*self.java_options, self._jolokia.java_option, *stomp_properties(self), limit, data)
        command = ("org.apache.activemq.console.command.ShellCommand", "start")
        configuration = f"xbean:file:{self.folder / 'activemq.xml'}"
        self._run(java(), *options, "-classpath", classpath, *command, configuration)

    def standing(self, destination: str) -> Standing:
        kind, _, name = destination.removeprefix("/").partition("/")
        name = name.replace("*", "&ast;")
        if kind == "topic":
            beans = f"{_BEAN},destinationType=Topic,destinationName={name},endpoint=Consumer,*"
            said = self._jolokia.read_all(beans, "PendingQueueSize", "DispatchedQueueSize")
            delivered = sum(one["DispatchedQueueSize"] for one in said)
            return Standing(sum(one["PendingQueueSize"] for one in said), delivered)
        bean = f"{_BEAN},destinationType=Queue,destinationName={name}"
        (queue,) = self._jolokia.read_all(bean, "QueueSize", "InFlightCount") or [_NO_QUEUE]
        return Standing(queue["QueueSize"] - queue["InFlightCount"], queue["InFlightCount"])

    def pause(self, destination: str) -> None:
        """Deliver nothing of this queue any more."""
        name = destination.removeprefix("/queue/")
        self._jolokia.call(f"{_BEAN},destinationType=Queue,destinationName={name}", "pause()")

    def close_connections(self, _: str) -> None:
        """Close all of STOMP, as its console does."""
        beans = f"{_BEAN},connector=clientConnectors,connectorName=stomp,connectionViewType=remoteAddress,*"
        for bean in self._jolokia.search(beans):
            self._jolokia.call(bean, "stop()")

    @property
    def connections(self) -> int:
        (said,) = self._jolokia.read_all(_BEAN, "CurrentConnectionsCount")
        return int(said["CurrentConnectionsCount"])

    def _configure(self) -> None:
        self.port, self.tls_port, jolokia, *others = free_ports(3 + len(_LISTENERS))
        self.listeners = dict(zip(_LISTENERS, others, strict=True))
        self._jolokia = Jolokia(jolokia)
        text = (CONF / "activemq/activemq.xml").read_text().replace(_KAHADB, _SHARED_KAHADB)
        paged = [f'<policyEntry queue="paged{size}.>" maxPageSize="{size}"/>' for size in PAGE_SIZES]
        text = with_tls(text).replace(
            "<policyEntries>", "\n".join(["<policyEntries>", *paged, _BOUNDED, _SLOW])
        )
        text = text.replace("</plugins>", f"{_RIGHTS}</plugins>")
        connectors = "".join(
            f'<transportConnector name="{name}" uri="{_LISTENERS[name] % port}"/>'
            for name, port in self.listeners.items()
        )
        text = text.replace("</transportConnectors>", f"{connectors}</transportConnectors>")
        text = text.replace("<broker ", '<broker schedulerSupport="true" ')
        (self.folder / "activemq.xml").write_text(text)


class ManagedActiveMQ(ActiveMQ):
    """The same, but it reads the users' passwords from a file, and reads it again when it has changed."""

    _LOGIN_MODULE = """tests {
    org.apache.activemq.jaas.PropertiesLoginModule required reload=true
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
};"""

    def change_password(self, login: str, password: str) -> None:
        (self.folder / "users.properties").write_text(f"{login}={password}\n")

    def _configure(self) -> None:
        super()._configure()
        path, module = self.folder / "activemq.xml", self.folder / "login.config"
        plugin = re.compile("<simpleAuthenticationPlugin.*</simpleAuthenticationPlugin>", re.DOTALL)
        path.write_text(plugin.sub('<jaasAuthenticationPlugin configuration="tests"/>', path.read_text()))
        module.write_text(self._LOGIN_MODULE)
        (self.folder / "groups.properties").write_text(f"users={self.login}\n")
        self.change_password(str(self.login), str(self.password))
        self.java_options = (*self.java_options, f"-Djava.security.auth.login.config={module}")


class OldActiveMQ(ActiveMQ):
    """5.18, which Amazon MQ runs."""

    name = "activemq-hosted"
    poms = (*ActiveMQ.poms, "activemq-hosted.pom.xml")


class HostedActiveMQ(OldActiveMQ):
    """The same, with STOMP over WebSocket as Amazon MQ has it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.websocket_port = 0

    @property
    def dialect(self) -> str:
        return "activemq"

    @property
    def websocket_url(self) -> str:
        return f"wss://localhost:{self.websocket_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        return (*super().ports, self.websocket_port)

    def _configure(self) -> None:
        super()._configure()
        (self.websocket_port,) = free_ports(1)
        connector = f'<transportConnector name="wss" uri="wss://{HOST}:{self.websocket_port}"/>'
        configuration = self.folder / "activemq.xml"
        text = configuration.read_text()
        configuration.write_text(text.replace("</transportConnectors>", f"{connector}</transportConnectors>"))


def stomp_properties(broker: Broker) -> list[str]:
    """The options of Java by which the configurations of Java brokers name ports and key store."""
    properties = {
        "port": broker.port,
        "tls.port": broker.tls_port,
        "tls.keyStore": broker.identity.store(),
        "tls.password": STORE_PASSWORD,
    }
    return [f"-Dstomp.{name}={value}" for name, value in properties.items()]


def with_tls(configuration: str) -> str:
    """The configuration with the parts for TLS, which stand there as comments."""
    return configuration.replace("<!-- TLS:", "").replace(":TLS -->", "")

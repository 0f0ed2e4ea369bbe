"""The brokers that benchmarks talk to, each with processes of its own."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from support.brokers import BROKERS, Broker, Unavailable
from support.brokers.activemq import ActiveMQ
from support.brokers.artemis import Artemis
from support.processes import descendants

from benchmarks.bare import Peer
from benchmarks.programs import Json, program
from spark_stomp.options import parse_source_options
from spark_stomp.receiver import ask_stream_ends

NAMES = ("rabbitmq", "activemq", "artemis")
# Room for a filled queue, the compiler that a broker in earnest has, and the collector that takes least of
# two shared cores: with Java's own choice Artemis stood still for up to 0.8 seconds again and again.
_JAVA_OPTIONS = ("-Xms8g", "-Xmx8g", "-XX:+UseParallelGC")
_PREFETCH = {"activemq": "activemq.prefetchSize", "artemis": "consumer-window-size"}
_HEADERS_OF_A_FRAME = 350


@dataclass(frozen=True)
class BenchmarkBroker:
    """A running broker: who it is, and its processes."""

    name: str
    peer: Peer
    processes: tuple[int, ...]

    def options(self, destination: str) -> dict[str, str]:
        """What the connector needs, and nothing else."""
        credentials = {"login": self.peer.login, "password": self.peer.password}
        known = {key: value for key, value in credentials.items() if value is not None}
        return {"url": f"stomp://{self.peer.host}:{self.peer.port}", "destination": destination, **known}

    def prefetch(self, messages: int, body: int) -> dict[str, str]:
        """The SUBSCRIBE header for so many un-acked messages; Artemis counts bytes."""
        count = messages * (body + _HEADERS_OF_A_FRAME) if self.name == "artemis" else messages
        return {_PREFETCH.get(self.name, "prefetch-count"): str(count)}

    def program(self, action: str, destination: str, **settings: object) -> Json:
        """Settings for the program ``bare``."""
        return {"action": action, "peer": asdict(self.peer), "destination": destination, **settings}


def new_queue() -> str:
    """A queue that nobody used before."""
    return f"/queue/bench-{secrets.token_hex(6)}"


def new_stream(broker: BenchmarkBroker) -> str:
    """A stream of RabbitMQ that nobody used before. It does not count as a queue: its messages stay."""
    queue = new_queue()
    declared = {"x-queue-type": "stream", "durable": "true", "auto-delete": "false"}
    given = {**broker.options(queue), "subscribeHeaders": json.dumps(declared)}
    # A look for its end declares it.
    ask_stream_ends(parse_source_options(given), [queue])
    return queue.replace("/queue/", "/amq/queue/")


@contextmanager
def running(name: str) -> Iterator[BenchmarkBroker]:
    """The broker while the block runs; Unavailable if it cannot be had."""
    if name == "devbroker":
        with program("dev_broker", {}) as started:
            yield BenchmarkBroker(name, Peer("127.0.0.1", started.line()["port"]), (started.pid,))
        return
    before = {process.pid for process in descendants()}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        broker = BROKERS[name](Path(folder))
        try:
            yield _started(broker, before)
        finally:
            broker.stop()


def each_broker(names: str) -> Iterator[BenchmarkBroker]:
    """Those with the names, separated by commas, one after another; a word for each that cannot be had."""
    for name in names.split(","):
        with ExitStack() as stack:
            try:
                broker = stack.enter_context(running(name))
            except Unavailable as why:
                print(f"skipped: {name} cannot be had: {why}")
            else:
                yield broker


def _started(broker: Broker, before: set[int]) -> BenchmarkBroker:
    if isinstance(broker, ActiveMQ | Artemis):
        broker.java_options = _JAVA_OPTIONS
    broker.start()
    processes = tuple(process.pid for process in descendants() if process.pid not in before)
    peer = Peer("127.0.0.1", broker.port, broker.login, broker.password)
    return BenchmarkBroker(broker.name, peer, processes)

"""Kafka, and Spark's own source for it: what a benchmark compares the connector with."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.brokers.base import HOST, free_ports, is_listening
from support.brokers.cache import cached, java, maven_libraries
from support.brokers.process import Process, run

SPARK = "4.0.0"
"""The release of Spark that ``kafka_source.pom.xml`` names."""

_BROKER = Path(__file__).with_name("kafka_broker.pom.xml")
_SOURCE = Path(__file__).with_name("kafka_source.pom.xml")
_JAVA_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC")
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def pyspark() -> Path:
    """A folder for the Python path with PySpark of the release :data:`SPARK`; Unavailable without it.

    Everything else comes from the environment that runs this, so that both sides have the same of it.
    """

    def install(folder: Path) -> None:
        run(sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, f"pyspark=={SPARK}")

    return cached(f"pyspark-{SPARK}", install)


def kafka_source() -> str:
    """The value of ``spark.jars`` with Spark's Kafka source; Unavailable without it."""
    return ",".join(str(jar) for jar in sorted(_libraries(_SOURCE).glob("*.jar")))


@contextmanager
def kafka_broker(folder: Path, partitions: int) -> Iterator[str]:
    """A broker with ``partitions`` partitions a topic and its data in ``folder``; yields its address.

    Raises Unavailable if it is not available here.
    """
    port, controller = free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_settings(folder, port, controller, partitions))
    command = [java(), *_JAVA_OPTIONS, "-classpath", f"{_libraries(_BROKER)}/*"]
    run(*command, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", settings)
    broker = Process([*command, "kafka.Kafka", settings], folder / "server.log", {})
    try:
        broker.wait_ready(lambda: is_listening(port))
        yield f"{HOST}:{port}"
    finally:
        broker.stop()


def _libraries(pom: Path) -> Path:
    # Another folder as soon as anything in the list of libraries changes.
    edition = hashlib.sha256(pom.read_bytes()).hexdigest()[:8]
    fetch: Callable[[Path], None] = lambda folder: maven_libraries(pom, folder)  # noqa: E731
    return cached(f"{pom.name.partition('.')[0]}-{edition}", fetch)


def _settings(folder: Path, port: int, controller: int, partitions: int) -> str:
    """One process that is controller (KRaft) and broker."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": folder / "data",
        "num.partitions": partitions,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())

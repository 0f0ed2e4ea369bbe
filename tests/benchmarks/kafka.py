"""Kafka, to compare with: a broker, Spark's own source for it, and a Spark that has this source.

Maven has the source for some releases of Spark only. So what is compared runs on the newest of these, in an
environment of its own, as ``make matrix`` has them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from support.brokers.base import HOST, free_ports, is_listening
from support.brokers.cache import java, libraries
from support.brokers.process import Process, run
from support.processes import descendants

SPARK = "4.2.0"
"""The release of Spark whose source for Kafka ``spark_kafka.pom.xml`` names."""
_HERE = Path(__file__).parent
_TOOLS = _HERE.parents[1] / "tools"
# The partitions of a topic: one for each core.
_PARTITIONS = 2
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
broker.session.timeout.ms=60000
"""
_JAVA_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseParallelGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class Kafka:
    """One node (KRaft) on loopback. Topics are made when they are written."""

    def __init__(self, port: int, processes: tuple[int, ...]) -> None:
        self.options = {"kafka.bootstrap.servers": f"{HOST}:{port}"}
        self.processes = processes

    def publish(self, bodies: DataFrame, topic: str) -> None:
        """Write the column ``body``."""
        rows = bodies.selectExpr("body AS value")
        rows.write.format("kafka").options(**self.options, topic=topic).save()

    def read(self, spark: SparkSession, topic: str) -> DataFrame:
        """A stream of all that is in the topic, with the columns of Spark's source."""
        stream = spark.readStream.format("kafka").options(**self.options)
        return stream.options(subscribe=topic, startingOffsets="earliest").load()


@contextmanager
def running(folder: Path) -> Iterator[Kafka]:
    """The node while the block runs; Unavailable if it cannot be had."""
    port, controller = free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(
        _SETTINGS.format(host=HOST, port=port, controller=controller, folder=folder, partitions=_PARTITIONS)
    )
    classes = (java(), *_JAVA_OPTIONS, "-classpath", libraries("kafka", _HERE / "kafka.pom.xml"))
    node = uuid.uuid4().hex
    run(*classes, "kafka.tools.StorageTool", "format", "--cluster-id", node, "--config", settings)
    before = {process.pid for process in descendants()}
    server = Process((*classes, "kafka.Kafka", settings), folder / "server.log", {})
    try:
        server.wait_ready(lambda: is_listening(port))
        yield Kafka(port, tuple(one.pid for one in descendants() if one.pid not in before))
    finally:
        server.stop()


def source_classes() -> str:
    """The class path of Spark's source for Kafka; Unavailable if it cannot be had."""
    return libraries("spark-kafka", _HERE / "spark_kafka.pom.xml")


def is_here() -> bool:
    """Whether this Python has the Spark that Kafka is compared on."""
    return str(pyspark.__version__) == SPARK


def run_on_its_spark(module: str) -> int:
    """Run a module on :data:`SPARK`, with this program's arguments and the package as it is; its status."""
    sys.path.append(str(_TOOLS))
    from releases import FOLDER, Environment, install, interpreter
    from support.wheel import build

    own = Environment(SPARK, f"{sys.version_info.major}.{sys.version_info.minor}")
    own.folder.mkdir(parents=True, exist_ok=True)
    wheel, _ = build(FOLDER / "dist")
    python = install(own, interpreter(own.python) or sys.executable, wheel)
    variables = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), python)
    command = [python, "-m", module, *sys.argv[1:]]
    return subprocess.run(command, cwd=_HERE.parent, env={**os.environ, **variables}, check=False).returncode

"""Messages per second that a DataFrame's rows make at a broker, every one with a receipt of its own.

Beside a bare socket that sends ready-made frames and reads the same receipts, to a broker at wire speed and
to real ones, and beside ``send`` of stomp.py in ``foreachPartition``. One connection each.
"""

from __future__ import annotations

import argparse
import select
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from support.spark import spark_session

from benchmarks.bare import Peer
from benchmarks.brokers import NAMES, each_broker, new_queue
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.wire_broker import wire_broker
from spark_stomp import register

BARE, OURS, STOMP_PY = "bare socket", "through Spark", "stomp.py in foreachPartition"
LIMIT = "Spark alone"
BODY = 235
STOMP_PY_PART = 20
WIRE_SPEED = [Goal(OURS, BARE, at_least=0.3), Goal(OURS, STOMP_PY, at_least=5.0)]
REAL = [Goal(OURS, BARE, at_least=0.8)]
Send = Callable[[Peer, str, int], float]
_READ = 1 << 20
_PATIENCE = 60.0


def bare(peer: Peer, destination: str, messages: int) -> float:
    """Messages per second of frames made beforehand."""
    head = f"SEND\ndestination:{destination}\npersistent:true\nreceipt:s%d\ncontent-length:{BODY}\n\n"
    body = "x" * BODY + "\0"
    out = memoryview("".join([head % (10**11 + n) + body for n in range(messages)]).encode())
    with peer.connect() as connection:
        connection.setblocking(False)
        begun, receipts = time.monotonic(), 0
        while receipts < messages:
            ready = select.select([connection], [connection] if out else [], [], _PATIENCE)
            if not any(ready):
                raise TimeoutError(f"{messages - receipts} receipts are missing")
            if ready[1]:
                out = out[connection.send(out[:_READ]) :]
            if ready[0]:
                data = connection.recv(_READ)
                if not data or b"ERROR" in data:
                    raise ConnectionError(data.decode(errors="replace"))
                receipts += data.count(b"\0")
        return messages / (time.monotonic() - begun)


def rows(spark: SparkSession, messages: int) -> DataFrame:
    """That many rows in one partition, made as they are read."""
    return spark.range(0, messages, 1, 1).selectExpr(f"cast(repeat('x', {BODY}) as binary) as body")


class Nowhere(DataSource):
    """A sink that looks at nothing: what is left is Spark."""

    @classmethod
    def name(cls) -> str:
        return "nowhere"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return NowhereWriter()


class NowhereWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def spark_alone(spark: SparkSession, peer: Peer, destination: str, messages: int) -> float:
    """Rows per second of a batch write that goes nowhere."""
    begun = time.monotonic()
    rows(spark, messages).write.format("nowhere").mode("append").save()
    return messages / (time.monotonic() - begun)


def through_spark(spark: SparkSession, peer: Peer, destination: str, messages: int) -> float:
    """Rows per second of a batch write."""
    options = {"url": f"stomp://{peer.host}:{peer.port}", "destination": destination}
    if peer.login is not None and peer.password is not None:
        options |= {"login": peer.login, "password": peer.password}
    writer = rows(spark, messages).write.format("stomp").options(**options).mode("append")
    begun = time.monotonic()
    writer.save()
    return messages / (time.monotonic() - begun)


def with_stomp_py(spark: SparkSession, peer: Peer, destination: str, messages: int) -> float:
    """Rows per second of what users write without a connector, with all receipts awaited at the end."""
    begun = time.monotonic()
    rows(spark, messages).foreachPartition(partial(_send_partition, peer, destination))
    return messages / (time.monotonic() - begun)


def _send_partition(peer: Peer, destination: str, partition: Iterable[Any]) -> None:
    import stomp

    receipts = set()

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_receipt(self, frame: Any) -> None:
            receipts.discard(frame.headers["receipt-id"])

    connection = stomp.Connection12([(peer.host, peer.port)])
    connection.set_listener("receipts", Listener())
    connection.connect(peer.login, peer.password, wait=True)
    for number, row in enumerate(partition):
        receipts.add(f"r{number}")
        headers = {"persistent": "true", "receipt": f"r{number}"}
        connection.send(destination, bytes(row.body), headers=headers)
    deadline = time.monotonic() + _PATIENCE
    while receipts and time.monotonic() < deadline:
        time.sleep(0.001)
    if receipts:
        raise TimeoutError(f"{len(receipts)} receipts are missing")
    connection.disconnect()


def measure(candidates: dict[str, tuple[Send, int]], peer: Peer) -> tuple[dict[str, Figures], Series]:
    """The figures of each candidate, one after another, each with a queue of its own."""
    return {name: {"value": run(peer, new_queue(), count)} for name, (run, count) in candidates.items()}, {}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.sink")
    parser.add_argument("--messages", type=int, default=1_000_000, help="to the broker at wire speed; or 0")
    parser.add_argument("--real-messages", type=int, default=60_000, help="to each real broker")
    parser.add_argument("--brokers", default=",".join(NAMES), help="real ones; empty for none")
    add_arguments(parser, rounds=3)
    arguments = parser.parse_args()
    results = Results("sink")
    spark = spark_session("local[2]")
    register(spark)
    spark.dataSource.register(Nowhere)
    ours = partial(through_spark, spark)
    if arguments.messages:
        _wire_speed(spark, ours, results, arguments)
    count = arguments.real_messages
    real: dict[str, tuple[Send, int]] = {BARE: (bare, count), OURS: (ours, count)}
    for broker in each_broker(arguments.brokers) if arguments.brokers else ():
        ours(broker.peer, new_queue(), 20_000)  # warms up
        case = Case("To real brokers, persistent", broker.name, "messages/s", BARE, REAL)
        results.measure(case, arguments, partial(measure, real, broker.peer))
    spark.stop()


def _wire_speed(spark: SparkSession, ours: Send, results: Results, arguments: argparse.Namespace) -> None:
    simple = partial(with_stomp_py, spark)
    with wire_broker(0, 0) as port:
        peer, count = Peer("127.0.0.1", port), arguments.messages
        ours(peer, "/queue/a", count // 10)
        case = Case("To a broker at wire speed", "bodies of 235 B", "messages/s", BARE, WIRE_SPEED)
        wire: dict[str, tuple[Send, int]] = {
            BARE: (bare, count),
            LIMIT: (partial(spark_alone, spark), count),
            OURS: (ours, count),
            STOMP_PY: (simple, count // STOMP_PY_PART),
        }
        results.measure(case, arguments, partial(measure, wire, peer))


if __name__ == "__main__":
    main()

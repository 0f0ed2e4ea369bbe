"""Rows per second from a broker at wire speed to rows counted in ``foreachBatch``, on ``local[2]``.

References of the same run: ready-made record batches without any broker (Spark's own limit), and a simple
stream reader around stomp.py. The same with a journal is a ratio of that without.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.readwriter import DataStreamReader
from support.spark import spark_session

from benchmarks.ready_made import ReadyMade
from benchmarks.results import Case, Figures, Goal, Results, Series, add_arguments
from benchmarks.streams import rate
from benchmarks.wire_broker import wire_broker
from spark_stomp import register

BATCH = 50_000
WINDOW = 2 * BATCH
STOMP_PY_MESSAGES = 40_000
PATIENCE = 300.0
OURS, NARROW, LIMIT = "spark_stomp", "body and stable_id only", "ready-made batches"
OVER_TLS = "exchangeTls=true"
JOURNAL, ACKED_EARLY, STOMP_PY = "with a journal", "ackAfter=journal", "simple stomp.py"
GOALS = [
    Goal(OURS, LIMIT, at_least=0.85),
    Goal(OURS, STOMP_PY, at_least=20.0),
    Goal(JOURNAL, OURS, at_least=0.85),
    Goal(ACKED_EARLY, OURS, at_least=1.0),
]


class StompPy(DataSource):
    """What one writes in an afternoon: stomp.py's listener into a list, rows out of frames."""

    @classmethod
    def name(cls) -> str:
        return "stomp.py"

    def schema(self) -> str:
        return "destination string, message_id string, headers map<string,string>, body binary"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return StompPyReader(int(self.options["port"]))


class StompPyReader(DataSourceStreamReader):
    def __init__(self, port: int) -> None:
        self._port = port
        self._frames: list[Any] = []
        self._connection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_port": self._port}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        if self._connection is None:
            self._connect()
        return {"row": min(start["row"] + BATCH, len(self._frames))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        frames = self._frames[start["row"] : end["row"]]
        rows = [(f.headers["destination"], f.headers["message-id"], dict(f.headers), f.body) for f in frames]
        return [InputPartition(rows)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        yield from partition.value

    def commit(self, end: dict[str, int]) -> None:
        for frame in self._frames[: end["row"]]:
            self._connection.ack(frame.headers["ack"])

    def _connect(self) -> None:
        import stomp

        frames = self._frames

        class Listener(stomp.ConnectionListener):  # type: ignore[misc]
            def on_message(self, frame: Any) -> None:
                frames.append(frame)

        self._connection = stomp.Connection12([("127.0.0.1", self._port)], auto_decode=False)
        self._connection.set_listener("rows", Listener())
        self._connection.connect(wait=True)
        self._connection.subscribe("/queue/a", id="0", ack="client-individual")


def journal_rate(stream: DataStreamReader, messages: int, ack_after: str) -> float:
    """The same with ids and a new journal on the local disk, synced before Spark is told of anything."""
    with tempfile.TemporaryDirectory() as folder:
        journaled = {"journal": f"{folder}/journal", "ackAfter": ack_after, "idHeader": "message-id"}
        frame = stream.options(**journaled).load("/queue/a")
        return rate(frame, messages)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.source")
    parser.add_argument("--messages", type=int, default=400_000, help="for each candidate but stomp.py")
    add_arguments(parser, rounds=5)
    arguments = parser.parse_args()
    messages = arguments.messages
    with wire_broker(messages, WINDOW) as port, wire_broker(STOMP_PY_MESSAGES, STOMP_PY_MESSAGES) as small:
        spark = spark_session("local[2]")
        register(spark)
        spark.dataSource.register(ReadyMade)
        spark.dataSource.register(StompPy)
        case = Case("From a broker at wire speed", f"batches of {BATCH:,}", "rows/s", LIMIT, GOALS)
        Results("source").measure(case, arguments, partial(measure, spark, messages, port, small))
        spark.stop()


def measure(
    spark: SparkSession, messages: int, port: int, stomp_py_port: int
) -> tuple[dict[str, Figures], Series]:
    """Rows per second of each candidate, one after another."""
    ready = spark.readStream.format("ready-made").options(messages=messages, batch=BATCH)
    simple = spark.readStream.format("stomp.py").option("port", stomp_py_port)
    rates = {
        LIMIT: rate(ready.load(), messages),
        OURS: rate(_ours(spark, port).load("/queue/a"), messages),
        OVER_TLS: rate(_ours(spark, port).option("exchangeTls", "true").load("/queue/a"), messages),
        NARROW: rate(_ours(spark, port).schema("body binary, stable_id string").load("/queue/a"), messages),
        JOURNAL: journal_rate(_ours(spark, port), messages, "commit"),
        ACKED_EARLY: journal_rate(_ours(spark, port), messages, "journal"),
        # It reads its connection while the first batch runs.
        STOMP_PY: rate(simple.load(), STOMP_PY_MESSAGES, warm_up=False),
    }
    return {name: {"value": rows} for name, rows in rates.items()}, {}


def _ours(spark: SparkSession, port: int) -> DataStreamReader:
    options = {
        "url": f"stomp://127.0.0.1:{port}",
        "maxMessagesPerTrigger": str(BATCH),
        "prefetch": str(WINDOW),
    }
    return spark.readStream.format("stomp").options(**options)


if __name__ == "__main__":
    main()

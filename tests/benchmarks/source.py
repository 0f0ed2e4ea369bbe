"""Rows per second from a broker at wire speed to rows counted in ``foreachBatch``, on ``local[2]``.

References of the same run: ready-made record batches without any broker (Spark's own limit), and a simple
stream reader around stomp.py. The same with a journal is a ratio of that without. Prints ratios; absolute
figures depend on the machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.readwriter import DataStreamReader
from support.spark import spark_session

from benchmarks.wire_broker import Frames, Renderer, wire_broker
from spark_stomp import register

MESSAGES = 400_000
BATCH = 50_000
WINDOW = 2 * BATCH
STOMP_PY_MESSAGES = 40_000
ROUNDS = 3
FRAME = Renderer(Frames()).render(1, 1)
GOAL_OF_LIMIT, GOAL_OF_STOMP_PY, GOAL_WITH_JOURNAL = 0.4, 20.0, 0.8


class ReadyMade(DataSource):
    """Record batches of the same rows, made once: what is left is Spark."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> Any:
        from spark_stomp.schema import source_struct

        return source_struct()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ReadyMadeReader(int(self.options["messages"]))


class ReadyMadeReader(DataSourceStreamReader):
    def __init__(self, messages: int) -> None:
        self._messages = messages

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        return {"row": min(start["row"] + BATCH, self._messages)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end["row"] - start["row"])] if end != start else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import numpy as np

        from spark_stomp.arrow import RowRules, decode_frames
        from spark_stomp.framebatch import FrameBatch
        from spark_stomp.schema import Projection

        count = 1_000
        ends = np.arange(1, count + 1, dtype=np.int64) * len(FRAME)
        block = FrameBatch(FRAME * count, ends, 0, 0, "1.2", receiver="r")
        batch = decode_frames(block, Projection.of(), RowRules(None, "ms"))
        for _ in range(partition.value // count):
            yield batch


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


def rate(frame: DataFrame, messages: int) -> float:
    """Rows per second of a query over ``frame``, from its first row's batch to its last."""
    seen: list[tuple[float, int]] = []

    def sink(batch: DataFrame, batch_id: int) -> None:
        begun = time.monotonic()
        count = batch.count()
        if count:
            seen.append((begun, count))

    with tempfile.TemporaryDirectory() as folder:
        query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", folder).start()
        while sum(count for _, count in seen) < messages:
            failure = query.exception()
            if failure is not None:
                raise failure
            time.sleep(0.005)
        ended = time.monotonic()
        query.stop()
    # The first batch pays for starting workers; it is left out where there are others.
    counted = seen[1:] or seen
    return sum(count for _, count in counted) / (ended - counted[0][0])


def journal_rate(stream: DataStreamReader, ack_after: str) -> float:
    """The same with ids and a new journal on the local disk, synced before Spark is told of anything."""
    with tempfile.TemporaryDirectory() as folder:
        frame = stream.option("journal", f"{folder}/journal").option("ackAfter", ack_after)
        return rate(frame.option("idHeader", "message-id").load("/queue/a"), MESSAGES)


def median(run: Callable[[], float]) -> float:
    return statistics.median(run() for _ in range(ROUNDS))


def main() -> None:
    with wire_broker(MESSAGES, WINDOW) as port, wire_broker(STOMP_PY_MESSAGES, STOMP_PY_MESSAGES) as small:
        spark = spark_session("local[2]")
        register(spark)
        spark.dataSource.register(ReadyMade)
        spark.dataSource.register(StompPy)
        report(spark, port, small)
        spark.stop()


def report(spark: SparkSession, port: int, stomp_py_port: int) -> None:
    options = {
        "url": f"stomp://127.0.0.1:{port}",
        "maxMessagesPerTrigger": str(BATCH),
        "prefetch": str(WINDOW),
    }
    stream = spark.readStream.format("stomp").options(**options)
    ours = median(lambda: rate(stream.load("/queue/a"), MESSAGES))
    ready = spark.readStream.format("ready-made").option("messages", MESSAGES)
    limit = median(lambda: rate(ready.load(), MESSAGES))
    simple = spark.readStream.format("stomp.py").option("port", stomp_py_port)
    reference = median(lambda: rate(simple.load(), STOMP_PY_MESSAGES))
    print(f"{'spark_stomp':20} {ours:12,.0f} rows/s")
    for ack_after in ("commit", "journal"):
        journaled = median(lambda ack_after=ack_after: journal_rate(stream, ack_after))  # type: ignore[misc]
        name = f"journal, {ack_after}"
        print(
            f"{name:20} {journaled:12,.0f} rows/s   of spark_stomp without one "
            f"{journaled / ours:6.2f}   goal {GOAL_WITH_JOURNAL}"
        )
    references = (
        ("ready-made batches", limit, GOAL_OF_LIMIT),
        ("simple stomp.py", reference, GOAL_OF_STOMP_PY),
    )
    for name, rows, goal in references:
        print(f"{name:20} {rows:12,.0f} rows/s   ratio {ours / rows:6.2f}   goal {goal}")


if __name__ == "__main__":
    main()

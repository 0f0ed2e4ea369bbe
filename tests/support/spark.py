"""One Spark session for all streaming tests, and a query that remembers what it saw."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import time
import uuid
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from support.release import spark_release
from support.waiting import PATIENCE, wait_until

# A second failure would end the query: tests make a task fail once.
MASTER = "local[2,2]"
# Spark's own variable: if it is set, sessions are of Spark Connect.
REMOTE = os.environ.get("SPARK_REMOTE")


def spark_session(master: str = MASTER, **conf: str) -> SparkSession:
    """A quiet session on loopback whose Python workers run this interpreter; of Connect with SPARK_REMOTE."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.remote(REMOTE) if REMOTE else SparkSession.builder.master(master)
    builder = builder.appName("spark_stomp tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Made with the first table; each process has its own.
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/warehouse-{os.getpid()}",
        "spark.ui.showConsoleProgress": "false",
        # The progress of a query that has nothing to do; ten seconds by default.
        "spark.sql.streaming.noDataProgressEventInterval": "1s",
        **conf,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        if REMOTE:  # the server has started with the settings that Connect then says it cannot change
            warnings.simplefilter("ignore", UserWarning)
        session = builder.getOrCreate()
    if not REMOTE:
        session.sparkContext.setLogLevel("OFF")
    return session


def stomp_stream(
    spark: SparkSession, url: str, destination: str, schema: str = "", **options: Any
) -> DataFrame:
    """``readStream.format("stomp")`` with these options."""
    reader = spark.readStream.format("stomp").option("url", url)
    for key, value in options.items():
        reader = reader.option(key, value)
    if schema:
        reader = reader.schema(schema)
    return reader.load(destination)


class Recorder:
    """A foreachBatch function that keeps every batch's bodies, in order, by batch id.

    It keeps them in files, because over Connect it is called in another process. With ``error`` each call
    ends in that error.
    """

    def __init__(self, error: str | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="recorder-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._error = error
        self._known: dict[Path, tuple[int, list[bytes]]] = {}

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        rows: list[Row] = batch.select("body").collect()
        entry = (batch_id, [bytes(row.body) for row in rows])
        # Names sort in the order of the calls, and a name that ends so is a whole file.
        written = self._folder / f"{time.time_ns():020d}-{uuid.uuid4().hex}"
        written.write_bytes(pickle.dumps(entry))
        written.rename(written.with_suffix(".batch"))
        if self._error:
            raise RuntimeError(self._error)

    @property
    def batches(self) -> dict[int, list[bytes]]:
        """The bodies of each batch so far; those of a repeated batch follow the first ones."""
        batches: dict[int, list[bytes]] = defaultdict(list)
        for path in sorted(self._folder.glob("*.batch")):
            if path not in self._known:
                self._known[path] = pickle.loads(path.read_bytes())
            batch_id, bodies = self._known[path]
            batches[batch_id] += bodies
        return batches

    @property
    def bodies(self) -> list[bytes]:
        """All bodies, batch by batch."""
        batches = self.batches
        return [body for batch_id in sorted(batches) for body in batches[batch_id]]


class BatchFiles:
    """A foreachBatch function that writes a file for each batch id, and skips one that is there.

    ``stalls``, or a file ``stall`` in the folder: it writes half of the batch to ``partial`` and then waits
    to be killed.
    """

    def __init__(self, folder: Path, *, stalls: bool = False) -> None:
        self._folder = folder
        self._stalls = stalls

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        bodies = [bytes(row.body).decode() for row in batch.select("body").collect()]
        if self._stalls or (self._folder / "stall").exists():
            (self._folder / "partial").write_text("\n".join(bodies[: len(bodies) // 2]))
            while True:
                time.sleep(60)
        self.write(batch_id, bodies)

    def write(self, batch_id: int, bodies: list[str]) -> None:
        """The end of a batch; apart, so that a point can name it."""
        target = self._folder / f"batch-{batch_id}"
        if not target.exists():
            temporary = self._folder / f".batch-{batch_id}"
            temporary.write_text("\n".join(bodies))
            temporary.rename(target)


class Running:
    """A running query; a context manager that stops it. ``checkpoint`` is its checkpointLocation."""

    def __init__(
        self, frame: DataFrame, checkpoint: Path, sink: Callable[[DataFrame, int], None], **trigger: Any
    ) -> None:
        writer: DataStreamWriter = frame.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        self.checkpoint = checkpoint
        self.query: StreamingQuery = writer.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()

    def wait(
        self,
        condition: Callable[[], object],
        timeout: float = PATIENCE,
        what: str = "the condition",
        every: float | None = None,
    ) -> None:
        """Wait for ``condition``; a query that failed meanwhile fails the test with its own error."""

        def holds() -> bool:
            failure = self.query.exception()
            assert failure is None, f"the query failed while waiting for {what}: {failure}"
            return bool(condition())

        wait_until(holds, timeout, what, every)

    def finish(self, timeout: float = PATIENCE) -> None:
        """Wait for a query that ends without being stopped."""
        assert self.query.awaitTermination(int(timeout)), f"the query did not end within {timeout:g}s"

    def committed(self, batch_id: int) -> bool:
        """Whether Spark's commit log has the batch."""
        return (self.checkpoint / "commits" / str(batch_id)).exists()

    def failure(self, timeout: float = PATIENCE) -> str:
        """The text of the error that ends the query."""
        wait_until(lambda: self.query.exception() is not None, timeout, "the query's failure")
        return str(self.query.exception())


drains = pytest.mark.skipif(
    spark_release() < (4, 2), reason="before Spark 4.2 a Python source cannot tell one trigger from another"
)
single_batch = pytest.mark.skipif(
    spark_release() >= (4, 2), reason="from Spark 4.2 on AvailableNow drains a Python source"
)


def classic_only(reason: str) -> pytest.MarkDecorator:
    """A mark for what cannot be shown over Spark Connect."""
    return pytest.mark.skipif(bool(REMOTE), reason=f"over Spark Connect: {reason}")

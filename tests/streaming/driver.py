"""A driver in its own process, for tests that kill one: ``python driver.py FOLDER MODE QUEUE OPTIONS``.

Reads QUEUE with OPTIONS (JSON) on the checkpoint ``FOLDER/checkpoint`` until it is told to stop by a line on
its standard input. MODE says where the rows go:

- ``batches``: every batch as one file under ``FOLDER/output``, named by its batch id; a batch id that has a
  file already is skipped, as an idempotent sink does;
- ``available``: the same under Trigger.AvailableNow;
- ``stall``: half of the first batch to ``FOLDER/output/partial``; then it waits to be killed;
- ``files``: Spark's own file sink under ``FOLDER/output``, as JSON;
- ``parquet``: the same as Parquet;
- ``dead letters``: as ``batches``, but bodies that begin with ``bad`` go to the queue DEAD;
- ``recipe HEADING``: as the program under that heading of docs/exactly-once.md, but into ``FOLDER/output``;
- ``stomp``: the connector's sink, with the column ``id`` for ``dedupKey``: the body as text. Its options are
  those that begin with ``sink.``, without that.

The option ``sources`` is how many sources are read, whose union goes there. In the other options ``{source}``
is the number of the source.
"""

from __future__ import annotations

import json
import sys
import threading
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from support.pages import ROOT, programs
from support.spark import BatchFiles, spark_session, stomp_stream

from spark_stomp import dead_letters, register

SINK = "sink."
DEAD = "/queue/dead"
RECIPE = "recipe "


def writer(frame: DataFrame, output: Path, mode: str, sink: dict[str, str]) -> DataStreamWriter:
    if mode == "stomp":
        rows = frame.selectExpr("body", "cast(body as string) as id")
        return rows.writeStream.format("stomp").options(**sink)
    if mode in ("files", "parquet"):
        rows = frame.selectExpr("cast(body as string) as body", "stable_id")
        return rows.writeStream.format("json" if mode == "files" else mode).option("path", str(output))
    if mode == "dead letters":
        bad = "IF(startswith(CAST(body AS STRING), 'bad'), 'it is bad', NULL)"
        write = dead_letters(BatchFiles(output), DEAD, reason=bad, body="body", **sink)
        return frame.writeStream.foreachBatch(write)
    return frame.writeStream.foreachBatch(BatchFiles(output, stalls=mode == "stall"))


def recipe(heading: str, folder: str, options: dict[str, str]) -> StreamingQuery:
    """The query of a program in docs/exactly-once.md."""
    page = ROOT / "docs" / "exactly-once.md"
    names: dict[str, Any] = {"__name__": "__main__"}
    for program in (*programs(page, "Before each recipe"), *programs(page, heading)):
        text = program.replace("/data/tables/orders", f"{folder}/output")
        text = text.replace("/data/checkpoints/orders", f"{folder}/checkpoint")
        exec(text.replace("/data/", f"{folder}/"), names)
        names["broker"] = options
    query: StreamingQuery = names["query"]
    return query


def started(spark: SparkSession, folder: str, mode: str, queue: str, given: dict[str, str]) -> StreamingQuery:
    """The query that MODE says."""
    sink = {key.removeprefix(SINK): given.pop(key) for key in list(given) if key.startswith(SINK)}
    frames = []
    for number in range(int(given.pop("sources", "1"))):
        its_own = {key: value.replace("{source}", str(number)) for key, value in given.items()}
        frames.append(stomp_stream(spark, destination=queue, **its_own))
    stream = writer(reduce(DataFrame.union, frames), Path(folder) / "output", mode, sink)
    if mode == "available":
        stream = stream.trigger(availableNow=True)
    return stream.option("checkpointLocation", f"{folder}/checkpoint").start()


def main(folder: str, mode: str, queue: str, options: str) -> None:
    spark = spark_session()
    register(spark)
    given = json.loads(options)
    if mode.startswith(RECIPE):
        query = recipe(mode.removeprefix(RECIPE), folder, given)
    else:
        query = started(spark, folder, mode, queue, given)
    threading.Thread(target=stop_when_told, args=(query,), daemon=True).start()
    # Raises what made the query fail: a driver whose query is over ends.
    query.awaitTermination()
    spark.stop()


def stop_when_told(query: StreamingQuery) -> None:
    sys.stdin.readline()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

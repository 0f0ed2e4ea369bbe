"""The query of ``endurance``, in a process of its own: ``python enduring.py FOLDER SOURCES``.

SOURCES is a JSON list of options, one for each source of a union. Each batch is a line of
``FOLDER/batches.jsonl``. The numbers of its messages go to the end of ``FOLDER/numbers``, eight bytes each.
"""

from __future__ import annotations

import json
import sys
import time
from functools import reduce
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame
from support.spark import spark_session, stomp_stream

from spark_stomp import register


def main(folder: str, sources: str) -> None:
    spark = spark_session("local[2]")
    register(spark)
    place = Path(folder)

    def sink(batch: DataFrame, batch_id: int) -> None:
        heads = (
            batch.selectExpr("cast(substring(body, 1, 48) as string) as head").toArrow()["head"].to_pylist()
        )
        parts = [head.split(" ", 2)[:2] for head in heads]
        took = time.time() - np.array([float(sent) for _, sent in parts])
        line = {"at": time.time(), "batch": batch_id, "rows": len(parts)}
        if parts:
            line |= {"p50": float(np.median(took)), "most": float(took.max())}
        with (place / "numbers").open("ab") as numbers:
            numbers.write(np.array([int(number) for number, _ in parts], np.int64).tobytes())
        with (place / "batches.jsonl").open("a") as batches:
            batches.write(json.dumps(line) + "\n")

    frames = [stomp_stream(spark, **given) for given in json.loads(sources)]
    writer = reduce(DataFrame.union, frames).select("body").writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    sys.stdin.readline()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

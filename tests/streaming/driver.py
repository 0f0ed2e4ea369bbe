"""A driver of its own, for tests that kill one: ``python driver.py URL QUEUE CHECKPOINT OUTPUT MODE``.

Reads QUEUE and writes every batch as one file under OUTPUT, named by its batch id. A batch id that has a file
already is skipped, as an idempotent sink does. MODE ``run`` goes on until it is told to stop by a line on its
standard input; ``stall`` writes half of the first batch to ``OUTPUT/partial`` and then waits to be killed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame
from support.spark import spark_session, stomp_stream

from spark_stomp import register


def main(url: str, queue: str, checkpoint: str, output: str, mode: str, options: str) -> None:
    spark = spark_session()
    register(spark)
    folder = Path(output)

    def sink(batch: DataFrame, batch_id: int) -> None:
        bodies = [bytes(row.body).decode() for row in batch.select("body").collect()]
        if mode == "stall":
            (folder / "partial").write_text("\n".join(bodies[: len(bodies) // 2]))
            while True:
                time.sleep(60)
        target = folder / f"batch-{batch_id}"
        if not target.exists():
            temporary = folder / f".batch-{batch_id}"
            temporary.write_text("\n".join(bodies))
            temporary.rename(target)

    frame = stomp_stream(spark, url, queue, **json.loads(options))
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint).start()
    sys.stdin.readline()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A streaming application on ``local-cluster``: ``python application.py URL QUEUE FOLDER SETTINGS OPTIONS``.

Drains QUEUE with OPTIONS in small batches, under SETTINGS of Spark (both JSON; none if they are left out). It
waits in the middle for the file ``FOLDER/go on``, and leaves the bodies it saw in ``FOLDER/seen.json``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame
from support.spark import spark_session, stomp_stream

from spark_stomp import register


def main(url: str, queue: str, folder: str, settings: str = "{}", options: str = "{}") -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    spark = spark_session("local-cluster[2,1,1024]", **json.loads(settings))
    register(spark)
    seen: list[str] = []

    def sink(batch: DataFrame, batch_id: int) -> None:
        seen.extend(bytes(row.body).decode() for row in batch.repartition(2).select("body").collect())
        if len(seen) >= 2_000:
            (Path(folder) / "halfway").touch()
            deadline = time.monotonic() + 60
            while not (Path(folder) / "go on").exists() and time.monotonic() < deadline:
                time.sleep(0.05)

    # As on a network; between addresses of loopback there is no TLS by default.
    given = {"maxMessagesPerTrigger": 500, "frameServerTls": "true", **json.loads(options)}
    frame = stomp_stream(spark, url, queue, **given)
    writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    (Path(folder) / "seen.json").write_text(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

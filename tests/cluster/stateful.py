"""A query with state behind the source: ``python stateful.py URL QUEUE FOLDER SETTINGS``.

Counts the messages of QUEUE by their first letter with ``transformWithStateInPandas``, under SETTINGS of
Spark (JSON), and writes the new counts of each batch as ``FOLDER/output/batch-N``. A batch takes half a
second, so that kills come within one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from support.spark import spark_session, stomp_stream

from spark_stomp import register


class Count(StatefulProcessor):
    """How many messages a letter has had."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timers: Any
    ) -> Iterator[pd.DataFrame]:
        state = self._count.get()
        count = (state[0] if state else 0) + sum(map(len, rows))
        self._count.update((count,))
        yield pd.DataFrame({"letter": [key[0]], "n": [count]})

    def close(self) -> None:
        pass


def main(url: str, queue: str, folder: str, settings: str) -> None:
    spark = spark_session(**json.loads(settings))
    register(spark)
    output = Path(folder) / "output"
    output.mkdir(exist_ok=True)

    def write(batch: DataFrame, batch_id: int) -> None:
        counts = {row.letter: row.n for row in batch.collect()}
        time.sleep(0.5)  # a slow sink, so that most kills come within a batch
        target = output / f"batch-{batch_id}"
        if not target.exists():
            (output / "new").write_text(json.dumps(counts))
            (output / "new").rename(target)

    given = {"journal": f"{folder}/journal", "checkpointLocation": f"{folder}/checkpoint"}
    frame = stomp_stream(spark, url, queue, maxMessagesPerTrigger=200, **given)
    letters = frame.selectExpr("substring(CAST(body AS STRING), 1, 1) AS letter")
    counted = letters.groupBy("letter").transformWithStateInPandas(
        Count(), "letter string, n long", "Update", "None"
    )
    query = counted.writeStream.foreachBatch(write).outputMode("update")
    query.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

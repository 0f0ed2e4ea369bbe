"""``python proxied.py URL FOLDER CASES`` drains queues on ``local-cluster`` through proxies.

CASES is a JSON list: queue, port of the proxy, and options. The tasks of a case fetch through that proxy, and
``FOLDER/QUEUE.json`` gets the bodies that it saw and the secrets that its tasks were given.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType
from support.spark import Recorder, spark_session

from spark_stomp.spark.datasource import StompDataSource
from spark_stomp.spark.readers import StompStreamReader


def source_behind(proxy: int, secrets: Path) -> type[StompDataSource]:
    """The source, whose tasks go to ``proxy`` with what they would have shown the frame server itself."""

    class Behind(StompDataSource):
        @classmethod
        def name(cls) -> str:
            return "behind"

        def streamReader(self, schema: StructType) -> StompStreamReader:  # noqa: N802 - Spark's name
            reader: Any = super().streamReader(schema)

            class Redirected(type(reader)):  # type: ignore[misc]  # its class differs with Spark's release
                def partitions(self, start: Any, end: Any) -> Sequence[Any]:
                    planned = [part.value for part in super().partitions(start, end)]
                    for part in planned:
                        key = part.address.key_pair.key.decode() if part.address.key_pair else ""
                        secrets.write_text(json.dumps([part.address.token, key]))
                    return [
                        InputPartition(
                            replace(part, address=replace(part.address, host="127.0.0.1", port=proxy))
                        )
                        for part in planned
                    ]

            reader.__class__ = Redirected
            return reader

    return Behind


def drain(
    spark: SparkSession, url: str, folder: Path, queue: str, proxy: int, options: dict[str, str]
) -> None:
    secrets = folder / f"{queue}.secrets"
    spark.dataSource.register(source_behind(proxy, secrets))
    stream = spark.readStream.format("behind").options(url=url, **options)
    sink = Recorder()
    writer = stream.load(f"/queue/{queue}").writeStream.foreachBatch(sink).trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/{queue}").start()
    query.awaitTermination()
    token, key = json.loads(secrets.read_text())
    seen = {"bodies": [body.decode() for body in sink.bodies], "token": token, "key": key}
    (folder / f"{queue}.json").write_text(json.dumps(seen))


def main(url: str, folder: str, cases: str) -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    spark = spark_session("local-cluster[1,1,1024]")
    for queue, proxy, options in json.loads(cases):
        drain(spark, url, Path(folder), queue, proxy, options)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

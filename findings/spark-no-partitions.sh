#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. A batch reader whose partitions() returns an empty list, because there is nothing to
# read, is read all the same: read(None) is called once, and what it yields are rows. A stream reader's is not.
set -euo pipefail
stated="\
batch, partitions() of two: rows ['a', 'b']
batch, partitions() of none: rows ['None']
stream, partitions() of none: rows []"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition


class Queues(DataSource):
    def schema(self):
        return "queue STRING"

    def reader(self, schema):
        return Reader(self.options.get("queues", ""))

    def streamReader(self, schema):
        return StreamReader(self.options.get("queues", ""))


class Reader(DataSourceReader):
    def __init__(self, queues):
        self.queues = queues.split()

    def partitions(self):
        return [InputPartition(queue) for queue in self.queues]

    def read(self, partition):
        yield (str(partition and partition.value),)


class StreamReader(Reader, DataSourceStreamReader):
    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self):
        return {"n": 1}

    def partitions(self, start, end):
        return Reader.partitions(self)


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Queues)
for queues, title in (("a b", "two"), ("", "none")):
    found = spark.read.format("Queues").option("queues", queues).load().collect()
    print(f"batch, partitions() of {title}: rows {[row.queue for row in found]}")
found = []
stream = spark.readStream.format("Queues").load().writeStream.trigger(availableNow=True)
query = stream.foreachBatch(lambda rows, _: found.extend(rows.collect())).start()
assert query.awaitTermination(100), "the query goes on"
print(f"stream, partitions() of none: rows {[row.queue for row in found]}")
PY

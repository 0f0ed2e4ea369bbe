#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. `query.stop()` does not call `stop()` of a Python stream reader: its process gets
# SIGTERM and dies without running it, so what it holds is never given back in order. The last batch is not committed to
# the reader either.
set -euo pipefail
stated="\
partitions 0 2
commit 2
partitions 2 4
commit 4
partitions 4 6
the reader's process has ended, stop() called: False"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import os, time
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

calls, process = os.environ["work"] + "/calls", os.environ["work"] + "/process"


def note(*words):
    with open(calls, "a") as file:
        print(*words, file=file)


class Numbers(DataSource):
    def schema(self):
        return "n INT"

    def streamReader(self, schema):
        return Reader()


class Reader(DataSourceStreamReader):
    end = 0

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self):
        with open(process, "w") as file:
            file.write(str(os.getpid()))
        self.end = min(self.end + 2, 6)
        return {"n": self.end}

    def partitions(self, start, end):
        note("partitions", start["n"], end["n"])
        return [InputPartition(range(start["n"], end["n"]))]

    def read(self, partition):
        yield from ((n,) for n in partition.value)

    def commit(self, end):
        note("commit", end["n"])

    def stop(self):
        note("stop")


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Numbers)
query = spark.readStream.format("Numbers").load().writeStream.format("noop").start()
end = time.monotonic() + 60
while sum(batch.numInputRows for batch in query.recentProgress) < 6 and time.monotonic() < end:
    time.sleep(0.2)
query.stop()
pid = open(process).read()
while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
    time.sleep(0.2)
lines = open(calls).read().splitlines()
print("\n".join(line for line in lines if line != "stop"))
ended = "has ended" if not os.path.exists(f"/proc/{pid}") else "runs"
print(f"the reader's process {ended}, stop() called: {'stop' in lines}")
PY

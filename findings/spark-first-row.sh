#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. first() does not come after the first row: read() is asked for 10,000 rows, or all it
# has, before Spark gets any, however slowly they come. Rows in small record batches wait as well, in a buffer.
set -euo pipefail
stated="\
tuples: first() after 30 of 30 rows
record batches: first() after 30 of 30 rows"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import os, time
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

yielded = os.environ["work"] + "/yielded"


class Slow(DataSource):
    def schema(self):
        return "v STRING"

    def reader(self, schema):
        return Reader(self.options["as"] == "tuples")


class Reader(DataSourceReader):
    def __init__(self, tuples):
        self.tuples = tuples

    def read(self, partition):
        for number in range(30):
            with open(yielded, "w") as file:
                file.write(str(number + 1))
            yield ("row",) if self.tuples else pa.record_batch({"v": ["row"]})
            time.sleep(0.2)


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Slow)
for kind in "tuples", "record batches":
    spark.read.format("Slow").option("as", kind).load().first()
    print(f"{kind}: first() after {open(yielded).read()} of 30 rows")
PY

#!/usr/bin/env bash
# PySpark 4.3.0. A MAP column that a Python data source yields as Arrow may have a key twice, and Spark does not look. Then
# Spark's own functions find the first value, and Python, by collect() or in a UDF, has the last one.
set -euo pipefail
stated="\
m['unit'] in SQL: C
size(m) in SQL: 3
to_json(m) in SQL: {\"unit\":\"C\",\"n\":\"7\",\"unit\":\"F\"}
collect(): {'n': '7', 'unit': 'F'}
a UDF of Python: F"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.functions import udf

headers = [("unit", "C"), ("n", "7"), ("unit", "F")]


class Headers(DataSource):
    def schema(self):
        return "m MAP<STRING, STRING>"

    def reader(self, schema):
        return Reader()


class Reader(DataSourceReader):
    def read(self, partition):
        yield pa.record_batch({"m": pa.array([headers], pa.map_(pa.string(), pa.string()))})


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Headers)
rows = spark.read.format("Headers").load()
for expression in "m['unit']", "size(m)", "to_json(m)":
    print(f"{expression} in SQL:", rows.selectExpr(expression).first()[0])
print("collect():", dict(sorted(rows.first().m.items())))
print("a UDF of Python:", rows.select(udf(lambda m: m["unit"])("m")).first()[0])
PY

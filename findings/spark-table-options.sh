#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. A table made with USING ... OPTIONS asks the data source for its schema with the
# options and, at each SELECT, for its rows without them. A view made the same way reads with them.
set -euo pipefail
stated="\
CREATE TABLE: schema() with city=Bern
SELECT from the table: reader() with city=None
SELECT from the view: reader() with city=Bern"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import os
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

calls = os.environ["work"] + "/calls"


class Places(DataSource):
    def schema(self):
        with open(calls, "a") as file:
            file.write(f"schema() with city={self.options.get('city')}\n")
        return "called STRING"

    def reader(self, schema):
        return Reader(f"reader() with city={self.options.get('city')}")


class Reader(DataSourceReader):
    def __init__(self, text):
        self.text = text

    def read(self, partition):
        yield (self.text,)


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Places)
spark.sql("CREATE TABLE places USING Places OPTIONS (city 'Bern')")
print("CREATE TABLE:", open(calls).readline().strip())
spark.sql("CREATE TEMPORARY VIEW places_view USING Places OPTIONS (city 'Bern')")
print("SELECT from the table:", spark.table("places").first()[0])
print("SELECT from the view:", spark.table("places_view").first()[0])
PY

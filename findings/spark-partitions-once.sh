#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. A DataFrame asks partitions() once in its life. Further actions on it, and on DataFrames
# made of it, run read() again with the partitions of the first one: what has come since is missing until load().
set -euo pipefail
stated="\
two files, count: 2
a third file, count of the same DataFrame: 2
a filter on it, made now: 2
load() again: 3
partitions() called 2 times, read() 9 times"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import os
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

folder, calls = os.environ["work"] + "/inbox", os.environ["work"] + "/calls"


def note(name):
    with open(calls, "a") as file:
        file.write(f"{name}\n")


class Inbox(DataSource):
    def schema(self):
        return "name STRING"

    def reader(self, schema):
        return Reader()


class Reader(DataSourceReader):
    def partitions(self):
        note("partitions")
        return [InputPartition(name) for name in os.listdir(folder)]

    def read(self, partition):
        note("read")
        yield (partition.value,)


os.mkdir(folder)
for name in "a", "b":
    open(f"{folder}/{name}", "w").close()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Inbox)
inbox = spark.read.format("Inbox").load()
print("two files, count:", inbox.count())
open(f"{folder}/c", "w").close()
print("a third file, count of the same DataFrame:", inbox.count())
print("a filter on it, made now:", len(inbox.where("name != 'x'").collect()))
print("load() again:", spark.read.format("Inbox").load().count())
called = open(calls).read().split()
print(f"partitions() called {called.count('partitions')} times, read() {called.count('read')} times")
PY

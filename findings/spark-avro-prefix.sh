#!/usr/bin/env bash
# PySpark 4.2.0 with spark-avro 4.2.0: from_avro of a body that begins with the five octets of Confluent's schema registry
# (a zero and the number of the schema) raises nothing, in the mode FAILFAST too: it reads the prefix as the first fields
# and leaves the rest out. Half of a record without the prefix fails.
set -euo pipefail
stated="\
the record: id=5 name=ab
prefix and record: id=0 name=
prefix and half of the record: id=0 name=
half of the record: an error"

source "$(dirname "$0")/lib/common.sh"
python_with pyspark==4.2.0 pyarrow==26.0.1
maven_libraries "$work/avro" org.apache.spark:spark-avro_2.13:4.2.0
export PYSPARK_PYTHON="$python" SPARK_LOCAL_IP=127.0.0.1 JAVA_TOOL_OPTIONS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
cd "$work"
echo "PySpark 4.2.0, spark-avro 4.2.0"
as_stated "$work/avro/spark-avro_2.13-4.2.0.jar" <<'PY'
import sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro

SCHEMA = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}"""
# Avro's binary form: 5 as a zigzag number, the length 2, two letters.
record = bytes([10, 4]) + b"ab"
prefix = bytes([0, 0, 0, 0, 7])

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", sys.argv[1]).getOrCreate()
for name, body in (
    ("the record", record),
    ("prefix and record", prefix + record),
    ("prefix and half of the record", prefix + record[:3]),
    ("half of the record", record[:3]),
):
    frame = spark.createDataFrame([(bytearray(body),)], "body binary")
    try:
        (order,) = frame.select(from_avro("body", SCHEMA, {"mode": "FAILFAST"})).first()
        print(f"{name}: id={order.id} name={order.name}")
    except Exception:
        print(f"{name}: an error")
PY

#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. Of the values in a tuple that read() yields, some of the wrong type fail, and others are
# changed without a word: bytes for a STRING become Python's way to write them, with b and quotes, a list its own, and a
# float for an INT loses its fraction.
set -euo pipefail
stated="\
b'caf\\xc3\\xa9' for STRING: the text b'caf\\xc3\\xa9'
['a', None] for STRING: the text ['a', None]
True for STRING: the text true
1.9 for INT: 1
Decimal('1.999') for DECIMAL(10,2): 2.00
'1' for INT: an error
'abc' for BINARY: an error
('a', 'b') for ARRAY<STRING>: an error"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
from decimal import Decimal
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

values = [
    (b"caf\xc3\xa9", "STRING"),
    (["a", None], "STRING"),
    (True, "STRING"),
    (1.9, "INT"),
    (Decimal("1.999"), "DECIMAL(10,2)"),
    ("1", "INT"),
    ("abc", "BINARY"),
    (("a", "b"), "ARRAY<STRING>"),
]


class Values(DataSource):
    def schema(self):
        return "v " + values[int(self.options["number"])][1]

    def reader(self, schema):
        return Reader(values[int(self.options["number"])][0])


class Reader(DataSourceReader):
    def __init__(self, value):
        self.value = value

    def read(self, partition):
        yield (self.value,)


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Values)
for number, (value, type_name) in enumerate(values):
    try:
        seen = spark.read.format("Values").option("number", number).load().first()[0]
        seen = f"the text {seen}" if type_name == "STRING" else seen
    except PythonException:
        seen = "an error"
    print(f"{value!r} for {type_name}: {seen}")
PY

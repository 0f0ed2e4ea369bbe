#!/usr/bin/env bash
# PySpark 4.3.0, Python data sources. A Row that read() yields is matched with the schema by the names of its fields. A
# Row inside a Row is matched by position, without a word: fields of one type in another order change places.
set -euo pipefail
stated="\
Row(lon=7.4, lat=46.9) for lat, lon: lat=46.9, lon=7.4
the same Row as a struct: lat=7.4, lon=46.9
the same as a dictionary: lat=46.9, lon=7.4"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

yielded = {
    "Row(lon=7.4, lat=46.9) for lat, lon": ("lat DOUBLE, lon DOUBLE", Row(lon=7.4, lat=46.9)),
    "the same Row as a struct": ("at STRUCT<lat: DOUBLE, lon: DOUBLE>", Row(at=Row(lon=7.4, lat=46.9))),
    "the same as a dictionary": ("at STRUCT<lat: DOUBLE, lon: DOUBLE>", Row(at={"lon": 7.4, "lat": 46.9})),
}


class Places(DataSource):
    def schema(self):
        return yielded[self.options["as"]][0]

    def reader(self, schema):
        return Reader(self.options["as"])


class Reader(DataSourceReader):
    def __init__(self, title):
        self.title = title

    def read(self, partition):
        yield yielded[self.title][1]


spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(Places)
for title in yielded:
    row = spark.read.format("Places").options(**{"as": title}).load().first()
    print(f"{title}: lat={row[0].lat if 'at' in row else row.lat}, lon={row[0].lon if 'at' in row else row.lon}")
PY

#!/usr/bin/env bash
# PySpark 4.3.0. VariantVal.parseJson sorts the names of an object by characters, and Spark searches them by UTF-16, from 32
# names on. So a name with a character beyond U+FFFF is not found beside one from U+E000 on, though both are there.
set -euo pipefail
stated="\
31 names, made by Python: 7
32 names, made by Python: None
32 names, made by parse_json: 7
32 names, in to_json: True"

source "$(dirname "$0")/lib/spark.sh"
start_spark
as_stated <<'PY'
import json

from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for count in 31, 32:
    names = {**{f"n{number}": 0 for number in range(count - 2)}, "\U0001f600": 7, "\uff5e": 8}
    text = json.dumps(names, ensure_ascii=False)
    rows = spark.createDataFrame([(VariantVal.parseJson(text), text)], "made VARIANT, text STRING")
    found = "variant_get({}, '$[\"\U0001f600\"]', 'int')".format
    print(f"{count} names, made by Python:", rows.selectExpr(found("made")).first()[0])
print("32 names, made by parse_json:", rows.selectExpr(found("parse_json(text)")).first()[0])
print("32 names, in to_json:", json.loads(rows.selectExpr("to_json(made)").first()[0]) == names)
PY

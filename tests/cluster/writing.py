"""A batch write in two tasks: ``python writing.py MASTER FOLDER COUNT OPTIONS``.

Writes the ids from 0 to COUNT with OPTIONS (JSON), makes ``FOLDER/written``, and ends once ``FOLDER/go on``
is there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
from support.spark import spark_session
from support.waiting import PATIENCE, wait_until

from spark_stomp import register

# As soon as one of two tasks is done, and the other takes longer than this one did.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
}


def main(master: str, folder: str, count: str, options: str) -> None:
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    spark = spark_session(master, **{"spark.executor.memory": "512m", **SPECULATION})
    register(spark)
    ids = spark.range(0, int(count), 1, 2).selectExpr("cast(id as string) as body", "id")
    ids.write.format("stomp").mode("append").options(**json.loads(options)).save()
    (Path(folder) / "written").touch()
    wait_until((Path(folder) / "go on").exists, PATIENCE, "the test")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

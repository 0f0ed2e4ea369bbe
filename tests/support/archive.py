"""Archives the classes that Spark loads. With them its JVM starts in half the time.

``python -m support.archive`` makes the archive in the virtual environment, as `make test` does once. Without
it, or with another JVM or Spark than made it, the tests take longer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ARCHIVE = Path(sys.prefix) / "spark.jsa"
# No JVM here lives long enough for the slower compiler to pay.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# One that does not fit is not worth a word, which would stand among the rows of a program.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def quick_start() -> None:
    """JVMs that this process and its children start from now on start quickly."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _QUICK)
    if ARCHIVE.exists():
        _use(f"-XX:SharedArchiveFile={ARCHIVE}")


def _use(option: str) -> None:
    # The archive does not allow a folder with files on the class path, which conf/ would be.
    os.environ["SPARK_CONF_DIR"] = str(ARCHIVE.with_suffix(".conf"))
    os.environ["SPARK_SUBMIT_OPTS"] = f"{option} {_SILENT}"


def main() -> None:
    """Run what most tests run, and let the JVM write the archive at its end."""
    quick_start()
    _use(f"-XX:ArchiveClassesAtExit={ARCHIVE}")
    from pyspark import SparkContext

    from spark_stomp import register
    from spark_stomp.devbroker import DevBroker
    from support.spark import spark_session, stomp_stream

    spark = spark_session()
    register(spark)
    with DevBroker() as broker, TemporaryDirectory() as folder:
        broker.publish_many("/queue/a", [b"1", b"2"])
        rows = stomp_stream(spark, broker.url, "/queue/a").writeStream.format("parquet")
        places = {"path": f"{folder}/rows", "checkpointLocation": f"{folder}/checkpoint"}
        rows.options(**places).trigger(availableNow=True).start().awaitTermination()
        assert spark.read.parquet(places["path"]).count() == 2
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main()

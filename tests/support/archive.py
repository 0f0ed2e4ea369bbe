"""What lets Spark start in half the time: an archive of the JVM's classes, and PySpark's zip with bytecode.

``python -m support.archive`` makes both in the virtual environment, as `make test` does once. Without them,
or with another JVM, Spark or Python than made them, the tests take longer.
"""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ARCHIVE = Path(sys.prefix) / "spark.jsa"
# No JVM here lives long enough for the slower compiler to pay.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# One that does not fit is not worth a word, which would stand among the rows of a program.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# PEP 552: a module whose source is not looked at, and the place of its hash.
_UNCHECKED = (1).to_bytes(4, "little") + bytes(8)


def quick_start() -> None:
    """JVMs that this process and its children start from now on start quickly."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _QUICK)
    if ARCHIVE.exists():
        use = f"-XX:SharedArchiveFile={ARCHIVE}"
        _set(f"{use} -Dspark.executor.extraJavaOptions={use}")


def _set(options: str) -> None:
    # The archive does not allow a folder with files on the class path, so conf/ is left out: spark_session()
    # sets what tests need.
    os.environ["SPARK_CONF_DIR"] = str(ARCHIVE.with_suffix(".conf"))
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {_SILENT}"


def compile_zip(path: Path) -> None:
    """Add bytecode to PySpark's zip, from which its Python processes would compile a second's worth each."""
    with zipfile.ZipFile(path, "a") as file:
        names = set(file.namelist())
        for name in names:
            if name.endswith(".py") and "/tests/" not in name and f"{name}c" not in names:
                code = compile(file.read(name), f"{path}/{name}", "exec", dont_inherit=True)
                header = importlib.util.MAGIC_NUMBER + _UNCHECKED
                file.writestr(f"{name}c", header + marshal.dumps(code))


def main() -> None:
    """Run what most tests run, and let the JVM write the archive at its end."""
    quick_start()
    _set(f"-XX:ArchiveClassesAtExit={ARCHIVE}")
    import pyspark
    from pyspark import SparkContext

    from spark_stomp import register
    from spark_stomp.devbroker import DevBroker
    from support.spark import spark_session, stomp_stream

    compile_zip(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")
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

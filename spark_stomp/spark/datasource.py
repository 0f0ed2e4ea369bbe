"""``format("stomp")``: makes readers and writers; and ``register(spark)``, which makes the format known."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import StompError, UnsupportedError, WrongPython
from spark_stomp.options import (
    SinkOptions,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
    reads_streams,
)
from spark_stomp.spark.error_texts import without_traceback
from spark_stomp.spark.readers import STREAM_READER, RefusingStreamReader, StompBatchReader
from spark_stomp.spark.schema import projection, sink_columns, source_struct
from spark_stomp.spark.versions import is_known_already
from spark_stomp.spark.writers import STREAM_WRITER, StompBatchWriter, StompStreamWriter
from spark_stomp.status.files import check_status_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_HERE: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_PROBE: Final = f"""
import sys, spark_stomp, pyarrow, numpy
here = f"{{sys.version_info[0]}}.{{sys.version_info[1]}}"
here == "{_HERE}" or sys.exit(f"it is Python {{here}} and not {_HERE}")
"""
# Seconds for an interpreter to start, on a cold disk of a busy machine.
_TIMEOUT: Final = 60.0
_PLATFORM: Final = "DATABRICKS_RUNTIME_VERSION"


class StompDataSource(DataSource):
    """The STOMP source and sink of Spark.

    Options are parsed when a reader or a writer is made, because only then it is known whether they are for
    a read or a write. OptionError lists every problem at once. ``load()`` without a schema already refuses
    options that no read can take.
    """

    @classmethod
    def name(cls) -> str:
        return "stomp"

    @without_traceback
    def schema(self) -> StructType:
        """The default columns of the source. Raises OptionError if no read can take the options."""
        check_read(self.options)
        return source_struct(streams=reads_streams(self.options))

    @without_traceback
    def reader(self, schema: StructType) -> StompBatchReader:
        return StompBatchReader(parse_batch_options(self.options), projection(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            options = parse_source_options(self.options)
            check_status_file(options)
            return STREAM_READER(options, projection(schema))
        except StompError as error:
            return RefusingStreamReader(error)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> StompBatchWriter:
        return StompBatchWriter(*self._sink(schema, overwrite))

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StompStreamWriter:  # noqa: N802 - Spark's name
        return STREAM_WRITER(*self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> tuple[SinkOptions, SinkColumns]:
        if overwrite:
            raise UnsupportedError(
                "messages that were sent cannot be replaced: use mode('append') for a batch, "
                "outputMode('append') for a stream. To send the changed rows of an aggregate, use "
                "outputMode('update') with foreachBatch, and write each batch with df.write"
            )
        options = parse_sink_options(self.options)
        check_status_file(options)
        message = options.message
        return options, sink_columns(schema, message.header_columns or (), message.dedup_key or ())


@without_traceback
def register(spark: SparkSession) -> None:
    """Make ``format("stomp")`` known to ``spark``. Not needed if Spark finds the package automatically.

    Raises:
        WrongPython: Spark runs Python code in an interpreter that cannot run this package. This is not
            checked over Spark Connect, where the interpreter is on another machine, nor on Databricks, which
            provides it.

    Example::

        spark = SparkSession.builder.getOrCreate()
        spark_stomp.register(spark)
        orders = spark.readStream.format("stomp").option("url", "stomp://127.0.0.1:61613").load("/queue/orders")
    """
    if _PLATFORM not in os.environ:
        _check_python(spark)
    try:
        spark.dataSource.register(StompDataSource)
    except PySparkException as error:
        if not is_known_already(error):
            raise


def _check_python(spark: Any) -> None:
    context = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
    name = getattr(context, "pythonExec", None)
    if not isinstance(name, str) or shutil.which(name) == sys.executable:
        return
    try:
        run = subprocess.run(
            [name, "-c", _PROBE], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return
    except OSError as error:
        problem = f"it does not start here ({error.strerror})"
    else:
        if not run.returncode:
            return
        problem = run.stderr.strip().rpartition("\n")[2]
    raise WrongPython(
        f"Spark runs Python code with {shutil.which(name) or name}: {problem}. This is {sys.executable}. "
        'Before the session is made, set os.environ["PYSPARK_PYTHON"] = sys.executable, or with spark-submit '
        f"--conf spark.pyspark.python={sys.executable}"
    )

"""The stream writer for Spark 4.1 and later, which can hand over Arrow batches."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from spark_stomp.sink.writers import StompStreamWriter


class ArrowStreamWriter(StompStreamWriter, DataSourceStreamArrowWriter):
    """A StompStreamWriter that Spark recognises as taking record batches."""

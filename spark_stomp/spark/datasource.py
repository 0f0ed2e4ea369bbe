"""``format("stomp")``: makes the readers and writers, and chooses their classes for this release of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import StompError, UnsupportedError
from spark_stomp.options import (
    SinkOptions,
    check_read,
    parse_batch_options,
    parse_sink_options,
    parse_source_options,
    reads_streams,
)
from spark_stomp.spark.batch_reader import StompBatchReader
from spark_stomp.spark.error_texts import plainly
from spark_stomp.spark.schema import projection, sink_columns, source_struct
from spark_stomp.spark.stream_reader import RefusingStreamReader, StompStreamReader
from spark_stomp.spark.versions import ADMISSION_CONTROL, ARROW_STREAM_WRITER
from spark_stomp.spark.writers import StompBatchWriter, StompRowStreamWriter, StompStreamWriter
from spark_stomp.status.files import check_status_file

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StompDataSource(DataSource):
    """The STOMP source and sink of Spark.

    Options are parsed when a reader or a writer is made, because only then it is known whether they are for
    a read or a write. OptionError lists every problem at once. ``load()`` without a schema already refuses
    options that no read can take.
    """

    @classmethod
    def name(cls) -> str:
        return "stomp"

    @plainly
    def schema(self) -> StructType:
        """The default columns of the source. Raises OptionError if no read can take the options."""
        check_read(self.options)
        return source_struct(streams=reads_streams(self.options))

    @plainly
    def reader(self, schema: StructType) -> StompBatchReader:
        return StompBatchReader(parse_batch_options(self.options), projection(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        try:
            options = parse_source_options(self.options)
            check_status_file(options)
            return _stream_reader_class()(options, projection(schema))
        except StompError as error:
            return RefusingStreamReader(error)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> StompBatchWriter:
        _refuse_overwrite(overwrite)
        options = self._sink_options()
        return StompBatchWriter(options, _sink_columns(schema, options))

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StompStreamWriter:  # noqa: N802 - Spark's name
        _refuse_overwrite(overwrite)
        options = self._sink_options()
        return _stream_writer_class()(options, _sink_columns(schema, options))

    def _sink_options(self) -> SinkOptions:
        options = parse_sink_options(self.options)
        check_status_file(options)
        return options


def _sink_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    message = options.message
    return sink_columns(schema, message.header_columns or (), message.dedup_key or ())


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise UnsupportedError(
            "messages that were sent cannot be replaced: use mode('append') for a batch, "
            "outputMode('append') for a stream. To send the changed rows of an aggregate, use "
            "outputMode('update') with foreachBatch, and write each batch with df.write"
        )


def _stream_reader_class() -> type[StompStreamReader]:
    if not ADMISSION_CONTROL:
        return StompStreamReader
    from spark_stomp.spark.admission_reader import AdmissionStreamReader

    return AdmissionStreamReader


def _stream_writer_class() -> type[StompStreamWriter]:
    if not ARROW_STREAM_WRITER:
        return StompRowStreamWriter
    from spark_stomp.spark.writers import ArrowStreamWriter

    return ArrowStreamWriter

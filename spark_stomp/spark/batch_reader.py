"""``spark.read.format("stomp")``: what Spark calls to browse queues, and to read streams of RabbitMQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_stomp.arrow import decode_frames
from spark_stomp.columns import Projection
from spark_stomp.options import SourceOptions
from spark_stomp.source.reads import RowSettings, browse, read_stream
from spark_stomp.spark.error_texts import plain_iterator


class StompBatchReader(DataSourceReader):
    """Reads all queues in one task, so that ``maxMessages`` counts all messages; each stream in its own."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._rows = RowSettings.of(options, projection)

    def partitions(self) -> Sequence[InputPartition]:
        streams = self._options.destinations if self._options.starting_offsets else ()
        return [InputPartition(stream) for stream in streams or (None,)]

    @plain_iterator
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        stream = partition.value
        batches = browse(self._options) if stream is None else read_stream(self._options, stream)
        for batch, dialect in batches:
            yield decode_frames(batch, self._rows.projection, self._rows.rules(dialect, batch.receiver))

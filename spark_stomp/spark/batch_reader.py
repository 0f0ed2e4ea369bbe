"""``spark.read.format("stomp")``: what Spark calls to browse queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_stomp.arrow import decode_frames
from spark_stomp.columns import Projection
from spark_stomp.options import SourceOptions
from spark_stomp.source.browse import browse
from spark_stomp.source.tasks import RowSettings
from spark_stomp.spark.error_texts import plain_iterator


class StompBatchReader(DataSourceReader):
    """Reads all queues in one task, one after the other, so that ``maxMessages`` counts all messages."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._rows = RowSettings.of(options, projection)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    @plain_iterator
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for block, dialect in browse(self._options):
            yield decode_frames(block, self._rows.projection, self._rows.rules(dialect))

"""``spark.read.format("stomp")``: what stands in the queues now, without consuming it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_stomp.arrow import decode_block
from spark_stomp.options import SourceOptions
from spark_stomp.schema import Projection
from spark_stomp.source.look import look
from spark_stomp.source.partitions import RowSettings

__all__ = ["DestinationPartition", "StompBatchReader"]


class DestinationPartition(InputPartition):
    """One destination to look at."""

    def __init__(self, destination: str) -> None:
        self.destination = destination


class StompBatchReader(DataSourceReader):
    """One task for each destination; each looks with a connection of its own."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._rows = RowSettings(projection, options.id_header, options.body_decode_errors)

    def partitions(self) -> Sequence[InputPartition]:
        return [DestinationPartition(destination) for destination in self._options.destinations]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, DestinationPartition)
        for block, dialect in look(self._options, partition.destination):
            yield decode_block(block, self._rows.projection, self._rows.rules(dialect))

"""Spark's own limit: a source whose tasks give the same rows again and again, without any broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

# Of a record batch.
_BYTES = 1 << 20
_MOST_ROWS = 1_000


class ReadyMade(DataSource):
    """All columns of our source, or those of the given schema.

    Options: ``messages`` in all, of them ``batch`` in each batch in so many ``tasks`` (1), with bodies of
    ``body`` octets (235).
    """

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def schema(self) -> Any:
        from spark_stomp.spark.schema import source_struct

        return source_struct()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ReadyMadeReader({name: int(value) for name, value in self.options.items()}, schema.names)


class ReadyMadeReader(DataSourceStreamReader):
    def __init__(self, options: dict[str, int], columns: list[str]) -> None:
        self._columns = columns
        self._messages, self._batch = options["messages"], options["batch"]
        self._body, self._tasks = options.get("body", 235), options.get("tasks", 1)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        return {"row": min(start["row"] + self._batch, self._messages)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        ends = [start["row"] + (end["row"] - start["row"]) * n // self._tasks for n in range(self._tasks + 1)]
        return [InputPartition(stop - begin) for begin, stop in pairwise(ends) if stop > begin]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import numpy as np
        from support.columns import projection_of

        from benchmarks.wire_broker import Frames, Renderer
        from spark_stomp.arrow import RowRules, decode_frames
        from spark_stomp.frame_batch import FrameBatch

        frame = Renderer(Frames(self._body)).render(1, 1)
        count = max(1, min(_MOST_ROWS, _BYTES // len(frame)))
        ends = np.arange(1, count + 1, dtype=np.int64) * len(frame)
        block = FrameBatch(frame * count, ends, 0, 0, "1.2", receiver="r")
        batch = decode_frames(block, projection_of(*self._columns), RowRules(None, "ms"))
        for sent in range(0, partition.value, count):
            yield batch.slice(0, min(count, partition.value - sent))

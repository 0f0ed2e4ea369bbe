"""Rows as Spark 4.0 hands them to a stream writer, to record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_stomp.schema import SinkColumns

if TYPE_CHECKING:
    from pyspark.sql import Row

_MOST_ROWS = 1_000
# A column of a batch has 32-bit offsets, and rows lie in memory twice while they become one.
_MOST_BYTES = 8 << 20


def row_batches(rows: Iterable[Row], columns: SinkColumns) -> Iterator[pa.RecordBatch]:
    """Batches of at most 1,000 rows or about 8 MiB; one row always goes."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
        added = sum(map(_size, row))
        if chunk and (len(chunk) == _MOST_ROWS or size + added > _MOST_BYTES):
            yield _batch(chunk, columns.arrow_schema)
            chunk, size = [], 0
        chunk.append(row)
        size += added
    if chunk:
        yield _batch(chunk, columns.arrow_schema)


def _size(value: Any) -> int:
    """About how many bytes a value has."""
    if isinstance(value, Mapping):
        return sum(len(name) + len(text or "") for name, text in value.items())
    return len(value) if isinstance(value, (str, bytes, bytearray)) else 8


def _batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.array(map(_arrow_value, values), field.type)
        for field, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _arrow_value(value: Any) -> Any:
    """A map as Arrow takes it, a list of pairs; a time with its zone, which is the worker's own."""
    if isinstance(value, datetime):
        return value.astimezone()
    return list(value.items()) if isinstance(value, dict) else value

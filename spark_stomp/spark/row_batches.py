"""Rows as Spark 4.0 hands them to a stream writer, to record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_stomp.columns import SinkColumns
from spark_stomp.sink.cells import as_strings

if TYPE_CHECKING:
    from pyspark.sql import Row

_MOST_ROWS = 1_000
# A column of a batch has 32-bit offsets, and rows lie in memory twice while they become one.
_MOST_BYTES = 8 << 20
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


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
        _array([_arrow_value(value) for value in values], field.type)
        for field, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return _not_text(values, kind)


def _not_text(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Strings, or maps of strings, with surrogates of which Python and the JVM make no UTF-8.

    They become octets that are not UTF-8, as Spark has it from 4.1 on, and the encoder says of which row.
    """
    if pa.types.is_map(kind):
        pairs = [pair for value in values for pair in value or ()]
        ends = accumulate((len(value or ()) for value in values), initial=0)
        offsets = [None if value is None else start for start, value in zip(ends, values, strict=False)]
        names, texts = (_not_text([pair[part] for pair in pairs], pa.string()) for part in (0, 1))
        return pa.MapArray.from_arrays(pa.array([*offsets, len(pairs)], pa.int32()), names, texts)
    octets = [None if value is None else value.encode(errors="surrogatepass") for value in values]
    return as_strings(pa.array(octets, pa.binary()))


def _arrow_value(value: Any) -> Any:
    """A map as Arrow takes it, a list of pairs; a time, which is in the worker's zone, since the epoch."""
    if isinstance(value, datetime):
        return _microseconds(value)
    return list(value.items()) if isinstance(value, dict) else value


def _microseconds(local: datetime) -> int:
    """Since the epoch; also if it is in year 0 or 10000 of UTC, which datetime has not."""
    for days in (0, 1, -1):
        try:
            near = (local + timedelta(days) if days else local).astimezone(timezone.utc)
        except (OverflowError, ValueError):
            continue
        return (near - _EPOCH) // _MICROSECOND - timedelta(days) // _MICROSECOND
    raise AssertionError(local)

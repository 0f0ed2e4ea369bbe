"""Makes record batches from the rows that Spark 4.0 passes to a stream writer."""

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

# The most rows in a record batch. A judgement, not measured.
_MOST_ROWS = 1_000
# The approximate limit of a record batch in bytes. The offsets of a column have 32 bits, and 800 rows of 3
# MiB overflowed them (November 2026). Rows are also in memory twice while they become a batch. 8 MiB is a
# judgement.
_MOST_BYTES = 8 << 20
_EPOCH = datetime.fromtimestamp(0, timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def row_batches(rows: Iterable[Row], columns: SinkColumns) -> Iterator[pa.RecordBatch]:
    """Yield record batches of at most 1,000 rows and about 8 MiB. A larger row gets its own batch."""
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
        return _with_surrogates(values, kind)


def _with_surrogates(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of strings, or of maps of strings. Some contain lone surrogates, which UTF-8 cannot express.

    A surrogate becomes bytes that are not UTF-8, as in Spark 4.1 and later. An error here could not tell
    which row it is; the encoder finds these bytes later, and its error names the row.
    """
    if pa.types.is_map(kind):
        pairs = [pair for value in values for pair in value or ()]
        ends = accumulate((len(value or ()) for value in values), initial=0)
        offsets = [None if value is None else start for start, value in zip(ends, values, strict=False)]
        names, texts = (_with_surrogates([pair[part] for pair in pairs], pa.string()) for part in (0, 1))
        return pa.MapArray.from_arrays(pa.array([*offsets, len(pairs)], pa.int32()), names, texts)
    raw = [None if value is None else value.encode(errors="surrogatepass") for value in values]
    return as_strings(pa.array(raw, pa.binary()))


def _arrow_value(value: Any) -> Any:
    """The value as Arrow takes it: a map as a list of pairs, a time in microseconds since 1970."""
    if isinstance(value, datetime):
        return _microseconds(value)
    return list(value.items()) if isinstance(value, dict) else value


def _microseconds(local: datetime) -> int:
    """Microseconds since 1970 of a time in the worker's zone.

    In UTC the time may be in year 0 or 10000, which datetime cannot express. Such a time is moved by a day
    and back.
    """
    for days in (0, 1, -1):
        try:
            near = (local + timedelta(days) if days else local).astimezone(timezone.utc)
        except (OverflowError, ValueError):
            continue
        return (near - _EPOCH) // _MICROSECOND - timedelta(days) // _MICROSECOND
    raise AssertionError(local)

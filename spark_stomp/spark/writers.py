"""The writers that Spark calls: one for batches and several for streams, with the same task and commit."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from spark_stomp.columns import SinkColumns
from spark_stomp.logs import lines_about
from spark_stomp.options import SinkOptions
from spark_stomp.sink.cells import as_strings
from spark_stomp.sink.write import TaskResult, abort, commit, send_batches
from spark_stomp.spark.error_texts import without_traceback
from spark_stomp.spark.versions import ARROW_STREAM_WRITER
from spark_stomp.spark.worker_tuning import expect_input
from spark_stomp.status.files import query_name

if TYPE_CHECKING:
    from pyspark.sql import Row

# Local properties that Spark sets on the jobs of a streaming query.
_BATCH, _RUN = "streaming.sql.batchId", "spark.jobGroup.id"

# The most rows in a record batch.
_MOST_ROWS = 1_000
# The approximate limit of a record batch in bytes. The offsets of a column have 32 bits, and 800 rows of 3
# MiB overflowed them (November 2026). Rows are also in memory twice while they become a batch.
_MOST_BYTES = 8 << 20


@dataclass
class Confirmed(WriterCommitMessage):
    """The result of one task, for the commit. ``run`` is the id of the query's run, which only tasks know.

    It is None outside of a streaming query.
    """

    result: TaskResult
    run: str | None = None


class _StompWriter:
    """The base of all writers. It can be pickled, and does no I/O before a task runs."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expect_input()

    def _send(self, batches: Iterable[pa.RecordBatch], *, is_stream: bool) -> Confirmed:
        """In a task: send the rows.

        If the broker cannot be reached, a batch write and the first batch of a query fail at once. Later
        batches wait for the broker, also a batch write in ``foreachBatch``, which has their number. Only of a
        stream's own writer is it known that the broker accepted its login for an earlier one.
        """
        task = TaskContext.get()
        partition = None if task is None else task.partitionId()
        batch_id, run = (None if task is None else task.getLocalProperty(name) for name in (_BATCH, _RUN))
        with lines_about(query=query_name(self._options), batch=batch_id, partition=partition):
            later = batch_id not in (None, "0")
            known = {"patient": later, "login_accepted": later and is_stream}
            result = send_batches(batches, self._columns, self._options, **known)
            return Confirmed(result, None if batch_id is None else run)

    def _commit(self, messages: list[Any], batch_id: int | None) -> None:
        confirmed = _confirmed(messages)
        run = confirmed[0].run if confirmed else None
        commit(self._options, [task.result for task in confirmed], batch_id, run)

    def _abort(self, messages: list[Any], batch_id: int | None) -> None:
        abort(self._options, [task.result for task in _confirmed(messages)], batch_id)


def _confirmed(messages: list[Any]) -> list[Confirmed]:
    """The results of the tasks that succeeded. Spark passes None for the others."""
    return [message for message in messages if isinstance(message, Confirmed)]


class StompBatchWriter(_StompWriter, DataSourceArrowWriter):
    """The writer of ``df.write.format("stomp")``. A task that Spark retries sends its rows again."""

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Confirmed:
        return self._send(iterator, is_stream=False)

    @without_traceback
    def commit(self, messages: list[Any]) -> None:
        self._commit(messages, None)

    def abort(self, messages: list[Any]) -> None:
        self._abort(messages, None)


class StompStreamWriter(_StompWriter, DataSourceStreamWriter):
    """The writer of ``df.writeStream.format("stomp")``. A task that Spark retries sends its rows again."""

    @without_traceback
    def write(self, iterator: Iterator[Any]) -> Confirmed:
        return self._send(iterator, is_stream=True)

    @without_traceback
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._abort(messages, batchId)


class StompRowStreamWriter(StompStreamWriter):
    """The stream writer for Spark 4.0, which passes rows."""

    @without_traceback
    def write(self, iterator: Iterator[Row]) -> Confirmed:
        with _utc():
            return self._send(row_batches(iterator, self._columns), is_stream=True)


@contextmanager
def _utc() -> Iterator[None]:
    """Make UTC the time zone of this process.

    Spark makes each time one of that zone while the rows are taken. It does not say which one it is of the
    hour that comes twice when summer time ends, so that both would be sent as one.
    """
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


STREAM_WRITER: type[StompStreamWriter] = StompRowStreamWriter
"""The stream writer for this release of Spark."""

if ARROW_STREAM_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    class ArrowStreamWriter(StompStreamWriter, DataSourceStreamArrowWriter):
        """The stream writer for Spark 4.1 and later, which passes Arrow record batches."""

    STREAM_WRITER = ArrowStreamWriter


# --- rows as record batches, for Spark 4.0


def row_batches(rows: Iterable[Row], columns: SinkColumns) -> Iterator[pa.RecordBatch]:
    """Yield record batches of at most 1,000 rows and about 8 MiB. A larger row gets its own batch.

    A time of a row has no zone, and is one of UTC.
    """
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


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, data_type)
    except UnicodeEncodeError:
        return _with_surrogates(values, data_type)


def _with_surrogates(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """An array of strings, or of maps of strings. Some contain lone surrogates, which UTF-8 cannot express.

    A surrogate becomes bytes that are not UTF-8, as in Spark 4.1 and later. An error here could not tell
    which row it is; the encoder finds these bytes later, and its error names the row.
    """
    if pa.types.is_map(data_type):
        pairs = [pair for value in values for pair in value or ()]
        ends = accumulate((len(value or ()) for value in values), initial=0)
        offsets = [None if value is None else start for start, value in zip(ends, values, strict=False)]
        names, texts = (_with_surrogates([pair[part] for pair in pairs], pa.string()) for part in (0, 1))
        return pa.MapArray.from_arrays(pa.array([*offsets, len(pairs)], pa.int32()), names, texts)
    raw = [None if value is None else value.encode(errors="surrogatepass") for value in values]
    return as_strings(pa.array(raw, pa.binary()))


def _arrow_value(value: Any) -> Any:
    """The value as Arrow takes it: a map as a list of pairs."""
    return list(value.items()) if isinstance(value, dict) else value

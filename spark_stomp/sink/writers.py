"""What Spark calls to write: a batch writer and a stream writer over the same task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from spark_stomp.arrow import outgoing_messages
from spark_stomp.logs import get_log, show
from spark_stomp.options import SinkOptions
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.sender import Sender

if TYPE_CHECKING:
    from pyspark.sql import Row

log = get_log(__name__)

_ROWS_PER_BATCH = 1_000


@dataclass
class Confirmed(WriterCommitMessage):
    """The result of one task: the broker confirmed ``messages`` messages."""

    messages: int


def send_batches(batches: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions) -> Confirmed:
    """One task: send every row, and return once the broker confirmed every one."""
    with Sender(options) as sender:
        for batch in batches:
            rows = outgoing_messages(
                batch, columns, destination=options.destination, send_headers=options.send_headers
            )
            for message in rows:
                sender.send(message)
        return Confirmed(sender.finish())


class _Writer:
    """What all writers share; can be pickled, does no I/O before a task runs."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def _send(self, batches: Iterable[pa.RecordBatch]) -> Confirmed:
        return send_batches(batches, self._columns, self._options)

    def _tell_notes(self) -> None:
        """Log what the options are worth a line for. Only a commit knows whether it is the query's first."""
        show(self._options.connection.log_level)
        for note in self._options.notes:
            log.warning("%s", note)

    def _confirmed(self, messages: list[Any]) -> int:
        """How many messages all tasks had confirmed, for a line of the log in the process of the commit."""
        show(self._options.connection.log_level)
        return sum(message.messages for message in messages if isinstance(message, Confirmed))


class StompBatchWriter(_Writer, DataSourceArrowWriter):
    """``df.write.format("stomp")``. A task that Spark retries sends its rows again."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Confirmed:
        return self._send(iterator)

    def commit(self, messages: list[Any]) -> None:
        self._tell_notes()
        log.info("%d message(s) confirmed by the broker", self._confirmed(messages))

    def abort(self, messages: list[Any]) -> None:
        log.warning("the write failed after %d confirmed message(s)", self._confirmed(messages))


class StompStreamWriter(_Writer, DataSourceStreamWriter):
    """``df.writeStream.format("stomp")``; takes Arrow batches from Spark 4.1 on."""

    def write(self, iterator: Iterator[Any]) -> Confirmed:
        return self._send(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        if batchId == 0:
            self._tell_notes()
        log.info("batch %d: %d message(s) confirmed by the broker", batchId, self._confirmed(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        log.warning("batch %d failed after %d confirmed message(s)", batchId, self._confirmed(messages))


class StompRowStreamWriter(StompStreamWriter):
    """The stream writer for Spark 4.0, which hands over rows."""

    def write(self, iterator: Iterator[Row]) -> Confirmed:
        return self._send(_as_batches(iterator, self._columns))


def _as_batches(rows: Iterator[Row], columns: SinkColumns) -> Iterator[pa.RecordBatch]:
    schema = columns.arrow_schema
    while chunk := list(islice(rows, _ROWS_PER_BATCH)):
        arrays = [
            pa.array(map(_arrow_value, values), field.type)
            for field, values in zip(schema, zip(*chunk, strict=True), strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _arrow_value(value: Any) -> Any:
    """A map as Arrow takes it: a list of pairs."""
    return list(value.items()) if isinstance(value, dict) else value

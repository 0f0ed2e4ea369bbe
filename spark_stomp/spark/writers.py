"""The writers that Spark calls: one for batches and several for streams, with the same task and commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from spark_stomp.columns import SinkColumns
from spark_stomp.logs import lines_about
from spark_stomp.options import SinkOptions
from spark_stomp.sink.write import TaskResult, abort, commit, send_batches
from spark_stomp.spark.error_texts import plainly
from spark_stomp.spark.row_batches import row_batches
from spark_stomp.spark.versions import ARROW_STREAM_WRITER
from spark_stomp.spark.worker_tuning import expect_input
from spark_stomp.status.files import query_name

if TYPE_CHECKING:
    from pyspark.sql import Row

# Local properties that Spark sets on the jobs of a streaming query.
_BATCH, _RUN = "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass
class Confirmed(WriterCommitMessage):
    """The result of one task, for the commit. ``run`` is the id of the query's run, which only tasks know."""

    result: TaskResult
    run: str | None = None


class _Writer:
    """The base of all writers. It can be pickled, and does no I/O before a task runs."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expect_input()

    def _send(self, batches: Iterable[pa.RecordBatch]) -> Confirmed:
        """In a task: send the rows.

        If the broker cannot be reached, a batch write and the first batch of a stream fail at once. Later
        batches of a stream wait for the broker.
        """
        task = TaskContext.get()
        partition = None if task is None else task.partitionId()
        batch_id, run = (None if task is None else task.getLocalProperty(name) for name in (_BATCH, _RUN))
        with lines_about(query=query_name(self._options), batch=batch_id, partition=partition):
            patient = batch_id not in (None, "0")
            return Confirmed(send_batches(batches, self._columns, self._options, patient=patient), run)

    def _commit(self, messages: list[Any], batch_id: int | None) -> None:
        confirmed = _confirmed(messages)
        run = confirmed[0].run if confirmed and batch_id is not None else None
        commit(self._options, [task.result for task in confirmed], batch_id, run)

    def _abort(self, messages: list[Any], batch_id: int | None) -> None:
        abort(self._options, [task.result for task in _confirmed(messages)], batch_id)


def _confirmed(messages: list[Any]) -> list[Confirmed]:
    """The results of the tasks that succeeded. Spark passes None for the others."""
    return [message for message in messages if isinstance(message, Confirmed)]


class StompBatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of ``df.write.format("stomp")``. A task that Spark retries sends its rows again."""

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Confirmed:
        return self._send(iterator)

    @plainly
    def commit(self, messages: list[Any]) -> None:
        self._commit(messages, None)

    def abort(self, messages: list[Any]) -> None:
        self._abort(messages, None)


class StompStreamWriter(_Writer, DataSourceStreamWriter):
    """The writer of ``df.writeStream.format("stomp")``. A task that Spark retries sends its rows again."""

    @plainly
    def write(self, iterator: Iterator[Any]) -> Confirmed:
        return self._send(iterator)

    @plainly
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._abort(messages, batchId)


class StompRowStreamWriter(StompStreamWriter):
    """The stream writer for Spark 4.0, which passes rows."""

    @plainly
    def write(self, iterator: Iterator[Row]) -> Confirmed:
        return self._send(row_batches(iterator, self._columns))


if ARROW_STREAM_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    class ArrowStreamWriter(StompStreamWriter, DataSourceStreamArrowWriter):
        """The stream writer for Spark 4.1 and later, which passes Arrow record batches."""

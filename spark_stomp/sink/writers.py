"""What Spark calls to write: a batch writer and stream writers over the same task and the same commit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from spark_stomp.errors import SinkRowError, StompError
from spark_stomp.logs import get_log, lines_about, show
from spark_stomp.options import SinkOptions
from spark_stomp.plain_errors import plainly
from spark_stomp.quoting import counted
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.encoder import RowEncoder, row_encoder
from spark_stomp.sink.row_batches import row_batches
from spark_stomp.sink.sender import Sender
from spark_stomp.spark_versions import ARROW_STREAM_WRITER
from spark_stomp.status.files import query_name
from spark_stomp.status.sink import TaskFigures, report, report_failure, was_reported
from spark_stomp.transport import open_connection
from spark_stomp.worker import expect_input

if TYPE_CHECKING:
    from pyspark.sql import Row

log = get_log(__name__)

_DISCONNECT_TIMEOUT = 5.0
# Local properties that Spark sets on the jobs of a streaming query.
_BATCH, _RUN = "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass
class Confirmed(WriterCommitMessage):
    """The result of one task: the broker confirmed every message.

    ``run`` is the id of the query's run. ``refused`` is the row at which the task stopped, because it can
    never be sent: the commit fails with it. A task that failed would be tried again, and each time the rows
    before that one would be sent again.
    """

    figures: TaskFigures
    run: str | None = None
    refused: SinkRowError | None = None

    @property
    def messages(self) -> int:
        return self.figures.confirmed


def send_batches(batches: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions) -> Confirmed:
    """Send every row, and return once the broker confirmed every one. Without rows nothing is opened.

    A broker that cannot be reached fails a batch write, and the first batch of a stream, at once. In a later
    batch it was there before, so it is waited for.
    """
    batch_id, run = _property(_BATCH), _property(_RUN)
    task = TaskContext.get()
    partition = None if task is None else task.partitionId()
    with lines_about(query=query_name(options), batch=batch_id, partition=partition):
        figures, refused = _sent(batches, columns, options, patient=batch_id not in (None, "0"))
    return Confirmed(figures, run, refused)


def _sent(
    batches: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions, *, patient: bool
) -> tuple[TaskFigures, SinkRowError | None]:
    """What became of the rows, and the row at which it stopped, if there is one that can never be sent."""
    refused: SinkRowError | None = None
    encoder: RowEncoder | None = None
    with Sender(options, patient=patient) as sender:
        try:
            for batch in batches:
                if encoder is None and batch.num_rows:
                    encoder = row_encoder(options, columns, *sender.open())
                for part in () if encoder is None else encoder.slices(batch):
                    sender.send(part)
        except SinkRowError as error:
            refused = error
        return sender.finish(), refused


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


class ProvedRuns:
    """The runs of queries whose URL, TLS, login and virtual host are proved, also if there are no rows.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[tuple[str | None, str] | None] = set()

    def prove(self, options: SinkOptions, run: str | None, *, connected: bool) -> None:
        """Connect, unless a task has ``connected``, or an earlier batch of the run was done; None: no stream.

        Raises what ``open_connection`` raises.
        """
        key = None if run is None else (options.checkpoint_location, run)
        with self._lock:
            if not (connected or key in self._known or was_reported(options, run)):
                _connect(options)
            if key is not None:
                self._known.add(key)


def _connect(options: SinkOptions) -> None:
    with open_connection(options.connection) as connection:
        try:
            connection.disconnect(_DISCONNECT_TIMEOUT)
        except StompError as error:
            log.info("the connection that proved the login did not end in order: %s", error)


# Spark makes a new writer for each commit, in a process that serves many.
_proved = ProvedRuns()


class _Writer:
    """What all writers share; can be pickled, does no I/O before a task runs."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expect_input()

    def _send(self, batches: Iterable[pa.RecordBatch]) -> Confirmed:
        return send_batches(batches, self._columns, self._options)

    def _commit(self, messages: list[Any], batch_id: int | None) -> None:
        """Everything is confirmed: prove the login if no task did, and show the figures.

        Raises SinkRowError if a task found a row that cannot be sent, and what the connection raises that
        proves the login.
        """
        with lines_about(query=query_name(self._options), batch=batch_id):
            figures = self._figures(messages)
            if (refused := _refused(messages)) is not None:
                raise refused
            if not batch_id:
                # Only a commit knows whether it is the query's first.
                for note in self._options.notes:
                    log.warning("%s", note)
            run = None
            if batch_id is not None:
                run = next((one.run for one in messages if isinstance(one, Confirmed)), None)
            _proved.prove(self._options, run, connected=figures.connections > 0)
            report(self._options, figures, run, batch_id)
            log.info("%s confirmed by the broker", counted(figures.confirmed, "message"))

    def _abort(self, messages: list[Any], batch_id: int | None) -> None:
        """Spark tells nobody here why it did not succeed, nor whether the query was just stopped."""
        what = "the write" if batch_id is None else f"batch {batch_id}"
        with lines_about(query=query_name(self._options), batch=batch_id):
            confirmed = counted(self._figures(messages).confirmed, "confirmed message")
            log.warning("%s failed after %s", what, confirmed)
            why = str(_refused(messages) or "Spark's log says why, if the query was not just stopped")
            report_failure(self._options, f"{what} was not finished, after {confirmed}: {why}")

    def _figures(self, messages: list[Any]) -> TaskFigures:
        """What all tasks counted, in the process of the commit."""
        show(self._options.connection.log_level)
        figures = TaskFigures()
        for message in messages:
            if isinstance(message, Confirmed):
                figures.add(message.figures)
        return figures


def _refused(messages: list[Any]) -> SinkRowError | None:
    """The first row that a task found and that can never be sent."""
    found = (message.refused for message in messages if isinstance(message, Confirmed))
    return next((row for row in found if row is not None), None)


class StompBatchWriter(_Writer, DataSourceArrowWriter):
    """``df.write.format("stomp")``. A task that Spark retries sends its rows again."""

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Confirmed:
        return self._send(iterator)

    @plainly
    def commit(self, messages: list[Any]) -> None:
        self._commit(messages, None)

    def abort(self, messages: list[Any]) -> None:
        self._abort(messages, None)


class StompStreamWriter(_Writer, DataSourceStreamWriter):
    """``df.writeStream.format("stomp")``."""

    @plainly
    def write(self, iterator: Iterator[Any]) -> Confirmed:
        return self._send(iterator)

    @plainly
    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._abort(messages, batchId)


class StompRowStreamWriter(StompStreamWriter):
    """The stream writer for Spark 4.0, which hands over rows."""

    @plainly
    def write(self, iterator: Iterator[Row]) -> Confirmed:
        return self._send(row_batches(iterator, self._columns))


if ARROW_STREAM_WRITER:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    class ArrowStreamWriter(StompStreamWriter, DataSourceStreamArrowWriter):
        """The stream writer for Spark 4.1 and later, which can hand over Arrow batches."""

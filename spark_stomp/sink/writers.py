"""What Spark calls to write: a batch writer and a stream writer over the same task."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from spark_stomp.errors import SinkRowError, StompError
from spark_stomp.logs import get_log, lines_about, show
from spark_stomp.options import SinkOptions
from spark_stomp.plain_errors import plainly
from spark_stomp.quoting import counted
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.row_batches import row_batches
from spark_stomp.sink.task import Confirmed, send_batches
from spark_stomp.status.files import query_name
from spark_stomp.status.sink import TaskFigures, report, report_failure, was_reported
from spark_stomp.transport import open_connection
from spark_stomp.worker import expect_input

if TYPE_CHECKING:
    from pyspark.sql import Row

log = get_log(__name__)

_DISCONNECT_TIMEOUT = 5.0


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
            self._finish(messages, figures, batch_id)
            log.info("%s confirmed by the broker", counted(figures.confirmed, "message"))

    def _finish(self, messages: list[Any], figures: TaskFigures, batch_id: int | None) -> None:
        if (refused := _refused(messages)) is not None:
            raise refused
        run = None
        if batch_id is not None:
            run = next((one.run for one in messages if isinstance(one, Confirmed)), None)
        if not batch_id:
            self._tell_notes()
        _proved.prove(self._options, run, connected=figures.connections > 0)
        report(self._options, figures, run, batch_id)

    def _abort(self, messages: list[Any], batch_id: int | None) -> None:
        """Spark tells nobody here why it did not succeed, nor whether the query was just stopped."""
        what = "the write" if batch_id is None else f"batch {batch_id}"
        with lines_about(query=query_name(self._options), batch=batch_id):
            confirmed = counted(self._figures(messages).confirmed, "confirmed message")
            log.warning("%s failed after %s", what, confirmed)
            why = str(_refused(messages) or "Spark's log says why, if the query was not just stopped")
            report_failure(self._options, f"{what} was not finished, after {confirmed}: {why}")

    def _tell_notes(self) -> None:
        """Log what the options are worth a line for. Only a commit knows whether it is the query's first."""
        for note in self._options.notes:
            log.warning("%s", note)

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
    """``df.writeStream.format("stomp")``; takes Arrow batches from Spark 4.1 on."""

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

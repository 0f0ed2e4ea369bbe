"""One write: its tasks, which send rows until the broker has confirmed every message, and its end.

The end proves the login if no task has connected, and adds the figures of the tasks to the status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import SinkRowError, StompError
from spark_stomp.logs import get_log, lines_about, show
from spark_stomp.options import SinkOptions
from spark_stomp.quoting import counted
from spark_stomp.sink.encoder import RowEncoder, row_encoder
from spark_stomp.sink.sender import Sender
from spark_stomp.status.files import query_name
from spark_stomp.status.sink import TaskFigures, report, report_failure, was_reported
from spark_stomp.transport import open_connection

log = get_log(__name__)

# Seconds between two log lines of what was confirmed.
_LOG_EVERY = 10.0


@dataclass
class TaskResult:
    """What became of the rows of one task. The broker has confirmed every message.

    ``refused`` says why the task stopped at a row that can never be sent; the commit then fails with it. If
    the task itself failed, Spark would repeat it, and send the earlier rows again each time.
    """

    figures: TaskFigures
    refused: SinkRowError | None = None


def send_batches(
    batches: Iterable[pa.RecordBatch],
    columns: SinkColumns,
    options: SinkOptions,
    *,
    patient: bool = False,
    login_accepted: bool = False,
) -> TaskResult:
    """Send every row, and return once the broker has confirmed every message. Without rows, do not connect.

    ``patient`` and ``login_accepted`` are those of :class:`Sender`.

    Raises:
        StompError: not every message could be confirmed; the text says how many were.
        UnsupportedError: this broker cannot do what the options or columns ask for.
    """
    refused: SinkRowError | None = None
    encoder: RowEncoder | None = None
    with Sender(options, patient=patient, login_accepted=login_accepted) as sender:
        try:
            for batch in batches:
                if encoder is None and batch.num_rows:
                    encoder = row_encoder(options, columns, *sender.open())
                    sender.instead = encoder.instead
                for encoded in () if encoder is None else encoder.slices(batch):
                    sender.send(encoded)
        except SinkRowError as error:
            refused = error
        return TaskResult(sender.finish(), refused)


def commit(
    options: SinkOptions, results: Iterable[TaskResult], batch_id: int | None, run: str | None
) -> None:
    """End a write whose tasks have all succeeded: prove the login if no task did, and write the figures.

    Args:
        batch_id: the number of the stream's batch; None for a batch write.
        run: the id of the stream's run, also if this is a batch write in ``foreachBatch``; None if no task
            knew it.

    Raises:
        SinkRowError: a task found a row that cannot be sent.
        StompError: the login could not be proved.
    """
    with lines_about(query=query_name(options), batch=batch_id):
        figures, refused = _sum(options, results)
        if refused is not None:
            raise refused
        if not batch_id:
            # Once for each query. No other part of the sink knows that this is the first batch.
            for note in options.notes:
                log.warning("%s", note)
        in_stream = run is not None or batch_id is not None
        _proved.prove(options, run, connected=figures.connections > 0, in_stream=in_stream)
        report(options, figures, None if batch_id is None else run, batch_id)
        if batch_id is None:
            if figures.confirmed:
                log.info("%s confirmed by the broker", counted(figures.confirmed, "message"))
        else:
            _confirmation_logger.add((options.checkpoint_location, run), figures.confirmed, time.monotonic())


def abort(options: SinkOptions, results: Iterable[TaskResult], batch_id: int | None) -> None:
    """Report a write that failed.

    Spark does not say why it failed, nor whether the query was only stopped.
    """
    what = "the write" if batch_id is None else f"batch {batch_id}"
    with lines_about(query=query_name(options), batch=batch_id):
        figures, refused = _sum(options, results)
        confirmed = f" after {counted(figures.confirmed, 'confirmed message')}" if figures.confirmed else ""
        log.warning("%s failed%s", what, confirmed)
        why = str(refused or "Spark's log says why, if the query was not just stopped")
        report_failure(options, f"{what} was not finished{confirmed}: {why}")


def _sum(options: SinkOptions, results: Iterable[TaskResult]) -> tuple[TaskFigures, SinkRowError | None]:
    """The sum of what the tasks counted, and the error of the first row that can never be sent."""
    show(options.connection.log_level)
    figures, refused = TaskFigures(), None
    for result in results:
        figures.add(result.figures)
        refused = refused or result.refused
    return figures, refused


class ProvedRuns:
    """The runs of queries in which a connection has shown that URL, TLS, login and virtual host are right.

    A run without rows is proved too (contract S.8). Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[tuple[int, str | None, str | None]] = set()

    def prove(self, options: SinkOptions, run: str | None, *, connected: bool, in_stream: bool) -> None:
        """Connect, to prove that the broker accepts the login.

        That is not needed if a task has ``connected``, or if an earlier batch of this run is done. A batch
        ``in_stream`` of which no task knew the ``run`` belongs to the last one.

        Raises:
            StompError: the broker cannot be reached, or refuses TLS, login or virtual host.
        """
        # A number in place of the password.
        sink = hash(options.connection), options.checkpoint_location
        with self._lock:
            if not (connected or (in_stream and (*sink, run) in self._known) or was_reported(options, run)):
                _connect(options)
            if in_stream:
                self._known |= {(*sink, run), (*sink, None)}


def _connect(options: SinkOptions) -> None:
    with open_connection(options.connection) as connection:
        connection.require_open()
        try:
            connection.disconnect()
        except StompError as error:
            log.info("the connection that proved the login did not end in order: %s", error)


class ConfirmationLogger:
    """Logs how many messages the broker has confirmed since the last line, every ten seconds."""

    def __init__(self) -> None:
        # By run: when its next line is due, and how many messages no line has counted.
        self._unlogged: dict[object, tuple[float, int]] = {}

    def add(self, run: object, confirmed: int, now: float) -> None:
        """A batch of ``run`` is done at the monotonic time ``now``."""
        due, unlogged = self._unlogged.get(run, (0.0, 0))
        unlogged += confirmed
        if unlogged and now >= due:
            log.info("%s confirmed by the broker", counted(unlogged, "message"))
            due, unlogged = now + _LOG_EVERY, 0
        self._unlogged[run] = due, unlogged


# For the whole process: Spark makes a new writer for each commit, but runs many commits in one process.
_proved = ProvedRuns()
_confirmation_logger = ConfirmationLogger()

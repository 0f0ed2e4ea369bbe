"""One task of the sink: it sends its rows, and ends once the broker has confirmed every message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from spark_stomp.columns import SinkColumns
from spark_stomp.errors import SinkRowError
from spark_stomp.options import SinkOptions
from spark_stomp.sink.encoder import RowEncoder, row_encoder
from spark_stomp.sink.sender import Sender
from spark_stomp.status.sink import TaskFigures


@dataclass
class TaskResult:
    """What became of the rows of one task. The broker has confirmed every message.

    ``refused`` says why the task stopped at a row that can never be sent; the commit then fails with it. If
    the task itself failed, Spark would repeat it, and send the earlier rows again each time.
    """

    figures: TaskFigures
    refused: SinkRowError | None = None


def send_batches(
    batches: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions, *, patient: bool = False
) -> TaskResult:
    """Send every row, and return once the broker has confirmed every message. Without rows, do not connect.

    If ``patient``, the task waits for a broker that cannot be reached at first, up to ``reconnectTimeout``.

    Raises:
        StompError: not every message could be confirmed; the text says how many were.
        UnsupportedError: this broker cannot do what the options or columns ask for.
    """
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
        return TaskResult(sender.finish(), refused)

"""What one task of the sink does: its rows are sent, and the broker confirms every message."""

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
    """What became of the rows of one task: the broker confirmed every message.

    ``refused`` is the row at which the task stopped, because it can never be sent: the commit fails with it.
    A task that failed would be tried again, and each time the rows before that one would be sent again.
    """

    figures: TaskFigures
    refused: SinkRowError | None = None


def send_batches(
    batches: Iterable[pa.RecordBatch], columns: SinkColumns, options: SinkOptions, *, patient: bool = False
) -> TaskResult:
    """Send every row, and return once the broker confirmed every one. Without rows nothing is opened.

    If ``patient``, a broker that cannot be reached is waited for.
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

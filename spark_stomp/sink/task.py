"""One task of the sink: all rows of a partition, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from spark_stomp.errors import SinkRowError
from spark_stomp.logs import lines_about
from spark_stomp.options import SinkOptions
from spark_stomp.schema import SinkColumns
from spark_stomp.sink.encoder import RowEncoder, row_encoder
from spark_stomp.sink.sender import Sender
from spark_stomp.status.files import query_name
from spark_stomp.status.sink import TaskFigures

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

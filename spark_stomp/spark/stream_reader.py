"""What Spark calls: the stream reader, a thin layer over :class:`~spark_stomp.source.query.QueryRuntime`.

Several copies of a reader exist. One lives in a process beside the driver and is asked for offsets; it starts
the runtime at its first call. The others are unpickled in tasks and only read ranges. Constructing does
no I/O; unpickling only sets an option of the socket to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from spark_stomp.columns import Projection
from spark_stomp.errors import StompError
from spark_stomp.options import SourceOptions
from spark_stomp.source.offsets import INITIAL, Offset
from spark_stomp.source.planning import Mode
from spark_stomp.source.query import QueryRuntime, QueryStatus
from spark_stomp.source.tasks import FrameRanges, RowSettings, read_ranges
from spark_stomp.spark.error_texts import plain_iterator, plainly
from spark_stomp.spark.worker_tuning import collect_rarely, expect_input, spare_the_next_task

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


class StompStreamReader(DataSourceStreamReader):
    """Spark 4.0 and 4.1, and the base for later ones."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._rows = RowSettings.of(options, projection)
        self._options: SourceOptions | None = options
        self._runtime: QueryRuntime | None = None
        self._mode = Mode.STREAMING
        self._last_end: Offset | None = None
        self._asked = False

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get only what they need to make rows: no options with secrets, and no running parts.
        return {"_rows": self._rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expect_input()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Constant: a query begins with everything that the broker holds un-acked."""
        return INITIAL.to_dict()

    @plainly
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next batch; if nothing is new, the last end byte for byte.

        From Spark 4.2 on ``start`` is the end of the last committed batch; before, Spark passes nothing.
        """
        begun = None if start is None else Offset.from_dict(start)
        first, self._asked = not self._asked, True
        begin = begun if begun is not None else self._last_end or INITIAL
        runtime = self._running(begin)
        runtime.evidence_of_latest_offset(begun)
        if first:
            # Only now: what an earlier run planned may have taken its time.
            if self._mode is Mode.DRAIN or runtime.drains_first:
                runtime.begin_drain()
            runtime.await_subscriptions()
        # Before 4.2 any call may be the only one of its run (AvailableNow, Once), so the first one waits.
        mode = Mode.ONCE if first and start is None else self._mode_of(limit)
        if first and runtime.drains_first:
            mode = Mode.WHOLE
        end = runtime.latest_offset(begin, mode)
        self._last_end = end
        return start if start is not None and end == begin else end.to_dict()

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read the ranges between two offsets; a lost range has none."""
        begin, self._last_end = Offset.from_dict(start), Offset.from_dict(end)
        tasks = self._running(begin, self._last_end).partitions(begin, self._last_end)
        return [InputPartition(ranges) for ranges in tasks]

    @plain_iterator
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: fetch and decode."""
        assert isinstance(partition.value, FrameRanges)
        yield from read_ranges(partition.value, self._rows)
        spare_the_next_task()

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        """The batch up to ``end`` is in Spark's commit log."""
        committed = Offset.from_dict(end)
        self._running(committed).commit(committed)

    def status(self) -> QueryStatus | None:
        """What the running query is doing; None before it began. Not called by Spark."""
        return None if self._runtime is None else self._runtime.status()

    def stop(self) -> None:
        """The query ends. Spark may end the process without this call."""
        if self._runtime is not None:
            self._runtime.stop()

    def _mode_of(self, limit: ReadLimit | None) -> Mode:
        return self._mode

    def _running(self, begin: Offset, planned: Offset | None = None) -> QueryRuntime:
        """The runtime, which starts at the first call. The run goes on from ``begin``, with the batch up to
        ``planned`` if an earlier run planned one."""
        if self._runtime is None:
            assert self._options is not None, "a task's copy of the reader was asked for offsets"
            collect_rarely()
            runtime = QueryRuntime(self._options)
            try:
                runtime.start(begin, planned or begin)
            except StompError:
                runtime.stop()
                raise
            self._runtime = runtime
        return self._runtime


class RefusingStreamReader(DataSourceStreamReader):
    """For a query whose options or schema are wrong: answers every question with the error that there is.

    If ``streamReader()`` itself raises, Spark goes on to stop the reader that it did not get, and its error
    about that comes after ours.
    """

    def __init__(self, error: StompError) -> None:
        self._error = error

    @plainly
    def _refuse(self, *asked: Any) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = partitions = read = commit = cast("Any", _refuse)  # noqa: N815 - Spark's

"""The readers that Spark calls, a thin layer over :mod:`spark_stomp.source`.

Several copies of a stream reader exist. One is in a process beside the driver. Spark asks it for offsets, and
it starts the runtime at the first call. The others are unpickled in tasks, and only read ranges. Making a
reader does no I/O. Unpickling one only sets an option of the socket to Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from spark_stomp.arrow import Flaw, decode_frames
from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.columns import Projection
from spark_stomp.errors import StompError
from spark_stomp.logs import lines_about
from spark_stomp.options import SourceOptions
from spark_stomp.source.flaws import FlawCounts
from spark_stomp.source.offsets import INITIAL, Offset
from spark_stomp.source.planning import Mode
from spark_stomp.source.query import QueryRuntime
from spark_stomp.source.reads import FrameRanges, RowSettings, batch_read, read_ranges, refuse_topics
from spark_stomp.spark.error_texts import plain_iterator, without_traceback
from spark_stomp.spark.versions import ADMISSION_CONTROL
from spark_stomp.spark.worker_tuning import collect_rarely, expect_input, spare_the_next_task
from spark_stomp.status.files import query_name

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit


class StompStreamReader(DataSourceStreamReader):
    """The stream reader for Spark 4.0 and 4.1, and the base of the one for later releases."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._rows = RowSettings.of(options, projection)
        self._options: SourceOptions | None = options
        self._runtime: QueryRuntime | None = None
        self._mode = Mode.STREAMING
        self._last_end: Offset | None = None
        self._planned: Offset | None = None
        self._asked = False
        self._start: dict[str, Any] | None = None
        self._answer: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get only what they need to make rows: no options, which have secrets, and no running parts.
        return {"_rows": self._rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        expect_input()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Always the offset without logs: queues begin with what is un-acked, streams at startingOffsets."""
        return INITIAL.to_dict()

    @without_traceback
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The end of the next batch. If nothing is new, the last end, byte for byte.

        On Spark 4.2 and later, ``start`` is the end of the last committed batch. Before, it is None.
        """
        # Spark asks about a hundred times a second. This start was parsed, and reported as evidence, when it
        # came first.
        if self._runtime is not None:
            self._runtime.in_empty_batch = False
            if self._runtime.nothing_new and start == self._start:
                return self._answer
        begun = None if start is None else Offset.from_dict(start)
        first, self._asked = not self._asked, True
        begin = begun if begun is not None else self._last_end or INITIAL
        runtime = self._running(begin)
        # Before 4.2, Spark asks for the next offset only after the last planned batch is in its commit log.
        runtime.latest_offset_called(begun or self._planned)
        if first:
            # The drain begins only now: a batch that an earlier run planned comes first, and may have taken
            # long.
            if self._mode is Mode.DRAIN or runtime.drains_first:
                runtime.begin_drain()
            runtime.await_subscriptions()
        # Before 4.2 the first call may be the only one of its run (AvailableNow, Once), so it waits for
        # messages.
        mode = Mode.ONCE if first and start is None else self._mode_of(limit)
        only = mode is Mode.ONCE
        if first and runtime.drains_first:
            mode = Mode.WHOLE
        end = runtime.latest_offset(begin, mode, only=only)
        self._last_end, self._start = end, start
        self._answer = start if start is not None and end == begin else end.to_dict()
        return self._answer

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks that read the ranges between two offsets. A lost range has no task.

        After a restart Spark 4.0 and 4.1 first call ``partitions(end, end)``, with the last planned end. This
        alone proves nothing. If ``latestOffset()`` is next, ``end`` is committed, and the run begins there.
        If ``partitions(start, end)`` is, it begins at ``start``, and reads that batch again.
        """
        begin, upto = Offset.from_dict(start), Offset.from_dict(end)
        self._last_end = self._planned = upto
        if begin == upto:
            if self._runtime is not None:
                self._runtime.in_empty_batch = True
            return []
        tasks = self._running(begin, upto).partitions(begin, upto)
        return [InputPartition(ranges) for ranges in tasks]

    @plain_iterator
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: fetch the frames of a partition, and yield them as record batches."""
        assert isinstance(partition.value, FrameRanges)
        yield from read_ranges(partition.value, self._rows)
        spare_the_next_task()

    @without_traceback
    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this late, never, or before the batch up to ``end`` is committed; see commits.py."""
        committed = Offset.from_dict(end)
        self._running(committed).commit(committed)

    def stop(self) -> None:
        """End the query. Spark may end the process without this call."""
        if self._runtime is not None:
            self._runtime.stop()

    def _mode_of(self, limit: ReadLimit | None) -> Mode:
        return self._mode

    def _running(self, begin: Offset, planned: Offset | None = None) -> QueryRuntime:
        """The runtime, which starts at the first call.

        The run begins at ``begin``, with the batch up to ``planned`` if an earlier run planned one.
        """
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
    """The reader of a query whose options or schema are wrong: each of its methods raises ``error``.

    If ``streamReader()`` itself raised, Spark would try to stop the reader that it did not get, and show the
    error of that after ours.
    """

    def __init__(self, error: StompError) -> None:
        self._error = error

    @without_traceback
    def _refuse(self, *asked: Any) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = partitions = read = commit = cast("Any", _refuse)  # noqa: N815 - Spark's


class StompBatchReader(DataSourceReader):
    """Reads all queues in one task, so that ``maxMessages`` counts all messages; each stream in its own."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        refuse_topics(options)
        self._options = options
        self._rows = RowSettings.of(options, projection)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(stream) for stream in self._options.streams or (None,)]

    @plain_iterator
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        flaws, stream = FlawCounts(), partition.value and stream_name(partition.value)
        with lines_about(query=query_name(self._options)):
            for batch, dialect in batch_read(self._options, partition.value):
                rules, found = self._rows.rules(dialect, stream), Counter[Flaw]()
                yield decode_frames(batch, self._rows.projection, rules, found)
                flaws.take(found)


STREAM_READER: type[StompStreamReader] = StompStreamReader
"""The stream reader for this release of Spark."""

if ADMISSION_CONTROL:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

    class AdmissionStreamReader(StompStreamReader, SupportsTriggerAvailableNow):
        """For Spark 4.2 and later, which tells a source its trigger."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
            """A limit that limits nothing: the reader applies its own limits, in any combination.

            It must not be ReadAllAvailable, because Spark passes that only for Trigger.Once.
            """
            return ReadMaxRows((1 << 63) - 1)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Drain from now on."""
            self._mode = Mode.DRAIN

        def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
            """What the query's progress shows as ``latestOffset``. Spark does not use it as an offset."""
            return None if self._runtime is None else self._runtime.progress()

        def _mode_of(self, limit: ReadLimit | None) -> Mode:
            if self._mode is Mode.STREAMING and isinstance(limit, ReadAllAvailable):
                return Mode.ONCE
            return self._mode

    STREAM_READER = AdmissionStreamReader

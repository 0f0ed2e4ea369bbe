"""The connector driven by hand: what Spark calls, called in the order in which Spark calls it."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_stomp.columns import Projection, SinkColumns
from spark_stomp.errors import StompError
from spark_stomp.options import parse_sink_options, parse_source_options
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.sink.write import TaskResult, send_batches
from spark_stomp.source.offsets import Offset
from spark_stomp.spark.readers import StompStreamReader
from support.columns import projection_of
from support.waiting import PATIENCE, wait_until

Json = dict[str, Any]
Row = dict[str, Any]

MODES: dict[str, Callable[[Path], dict[str, str]]] = {
    "plain": lambda folder: {},
    "journal": lambda folder: {"journal": str(folder / "journal")},
    "ackAfter=journal": lambda folder: {"journal": str(folder / "journal"), "ackAfter": "journal"},
}
"""Mode -> its options, given the query's own folder."""

_TYPES = {
    "body": pa.binary(),
    "destination": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
    "priority": pa.int32(),
    "ttl": pa.int64(),
}


@dataclass(frozen=True)
class QueryStatus:
    """A snapshot of a running query.

    - ``document``: what the status file shows.
    - ``logs``: the ids of the logs that are here.
    - ``failure``: the error that Spark's next call will raise; None if there is none.
    - ``more_waiting``: the last batch probably left messages behind.
    """

    receivers: list[ReceiverStatus]
    document: Json
    logs: frozenset[str]
    failure: StompError | None
    more_waiting: bool


def status_of(reader: StompStreamReader) -> QueryStatus | None:
    """What the query of ``reader`` is doing; None before it has started."""
    query = reader._runtime
    if query is None:
        return None
    document = query._document(running=not query._stopping)
    found = query._receivers.statuses(), document, query._logs.ids, query._failure, query._more_waiting
    return QueryStatus(*found)


def log_entry(root: Path, name: str, batch: int, content: Any) -> None:
    """As Spark writes one of the offset or commit log of the checkpoint ``root``."""
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / str(batch)).write_text("v1\n{}\n" + json.dumps(content))


def publish(
    options: dict[str, str], destination: str, bodies: Iterable[bytes], *headers: tuple[str, str]
) -> int:
    """Send persistent messages, all with these headers; returns how many the broker confirmed.

    The headers are an option, so they may also say what the broker is to do.
    """
    given = {"sendHeaders": json.dumps(dict(headers))} if headers else {}
    return send_rows({**options, **given}, destination, ((body, ()) for body in bodies))


def send_rows(
    options: dict[str, str], destination: str, rows: Iterable[tuple[bytes, Iterable[tuple[str, str]]]]
) -> int:
    """Send persistent messages, each a body and headers; returns how many the broker confirmed."""
    return send_messages(
        {**options, "destination": destination}, ((destination, body, headers) for body, headers in rows)
    )


def send_messages(
    options: dict[str, str], messages: Iterable[tuple[str, bytes, Iterable[tuple[str, str]]]]
) -> int:
    """Send persistent messages, each a destination, a body and headers, over one connection; returns how many
    the broker confirmed."""
    given = [*messages]
    columns = {"destination": [one[0] for one in given], "body": [one[1] for one in given]}
    result = write_columns(options, columns | {"headers": [[*one[2]] for one in given]})
    if result.refused is not None:
        raise result.refused
    return result.figures.confirmed


def write_columns(options: dict[str, str], columns: dict[str, Any]) -> TaskResult:
    """Send the rows of these columns, each a list of values or an array, as a task of the sink does."""
    batch = pa.record_batch(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values, _TYPES.get(name))
            for name, values in columns.items()
        }
    )
    text = pa.types.is_string(batch.schema.field("body").type)
    return send_batches([batch], SinkColumns(tuple(columns), text), parse_sink_options(options))


def bodies(rows: Iterable[Row]) -> list[bytes]:
    return [row["body"] for row in rows]


class Run:
    """One run of a streaming query. ``batch`` plans and reads the next one, ``commit`` commits it."""

    def __init__(
        self, options: dict[str, str], columns: tuple[str, ...] | Projection = ("body",), **further: Any
    ) -> None:
        given = {
            "frameServerHost": "127.0.0.1",
            **options,
            **{key: str(value) for key, value in further.items()},
        }
        projection = columns if isinstance(columns, Projection) else projection_of(*columns)
        self.reader = StompStreamReader(parse_source_options(given), projection)
        self.start: Json = self.reader.initialOffset()
        self.end = self.start

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def begin(self) -> None:
        """The run begins, and nothing is told."""
        self.reader._running(Offset.from_dict(self.start))

    def idle(self) -> None:
        """Wait until the subscriptions stand, while nothing is there to be read."""
        assert self.reader.latestOffset(self.start, None) == self.start, "something came"

    def batch(self, timeout: float = PATIENCE) -> list[Row]:
        """The rows of the next batch, once there is anything new."""
        deadline = time.monotonic() + timeout
        while self.end == self.start:
            assert time.monotonic() < deadline, f"no batch within {timeout:g}s"
            self.end = self.reader.latestOffset(self.start, None)
        return self.read()

    @property
    def status(self) -> QueryStatus:
        """What the running query tells of itself."""
        status = status_of(self.reader)
        assert status is not None, "no run yet"
        return status

    def counters(self) -> list[Json]:
        """What is shown of each receiver."""
        return list(self.status.document["receivers"].values())

    def read(self) -> list[Row]:
        """The rows of the planned batch, once more."""
        partitions = self.reader.partitions(self.start, self.end)
        # As in a task: another copy of the reader, unpickled.
        task = pickle.loads(pickle.dumps(self.reader))
        return [row for partition in partitions for part in task.read(partition) for row in part.to_pylist()]

    def commit(self) -> None:
        """Spark has committed the planned batch."""
        self.reader.commit(self.end)
        self.start = self.end

    def take(self, count: int) -> list[Row]:
        """The rows of batches with ``count`` messages together; all batches but the last are committed."""
        rows: list[Row] = []
        while len(rows) < count:
            if rows:
                self.commit()
            rows += self.batch()
        return rows

    def gather(self, count: int) -> list[Row]:
        """The rows of one batch with ``count`` messages: waits for all before it plans.

        It cannot plan first and see: without a journal, an end that was told is told again until its commit.
        """
        if status_of(self.reader) is None:
            self.begin()
        wait_until(lambda: self.waiting >= count or self.status.failure is not None, what=f"{count} messages")
        deadline = time.monotonic() + PATIENCE
        while True:
            self.end = self.reader.latestOffset(self.start, None)
            rows = self.read() if self.end != self.start else []
            if len(rows) >= count:
                return rows
            assert time.monotonic() < deadline, f"{len(rows)} of {count} messages came within {PATIENCE:g}s"

    @property
    def waiting(self) -> int:
        """How many messages were received and are not committed."""
        return int(self.status.document["totals"]["rows_waiting"])

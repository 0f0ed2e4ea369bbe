"""The writers that Spark calls: their log lines, and rows that cannot be sent."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StringType, StructType, TimestampType
from support.logins import CountedUsers
from support.options import sink_options
from support.scripted import ScriptedBroker, header_of
from support.tcp import stomp_server, unused_port

from spark_stomp.columns import SinkColumns
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import ConnectionLost, LoginRefused, SinkRowError
from spark_stomp.sink.write import ConfirmationLogger, TaskResult
from spark_stomp.spark.writers import Confirmed, StompBatchWriter, StompRowStreamWriter, StompStreamWriter
from spark_stomp.status.sink import TaskFigures

QUEUE = "/queue/out"


def write(
    devbroker: DevBroker, names: Sequence[str], rows: list[tuple[Any, ...]], **options: str
) -> TaskResult:
    parsed = sink_options(devbroker.url, destination=QUEUE, **options)
    row = Row(*names)
    writer = StompRowStreamWriter(parsed, SinkColumns(tuple(names), False))
    return writer.write(iter([row(*values) for values in rows])).result


@pytest.mark.parametrize("kind", [StompBatchWriter, StompStreamWriter])
def test_a_login_in_clear_is_said_once_a_query(
    kind: type[StompBatchWriter | StompStreamWriter],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each commit of a stream comes to a new object in a new process, so that only its number tells."""
    monkeypatch.setattr("spark_stomp.sink.write._connect", lambda _: None)
    options = sink_options("stomp://broker.example", login="ada", password="a secret")
    columns = SinkColumns(("body",), False)
    for number in range(3):
        if kind is StompBatchWriter:
            StompBatchWriter(options, columns).commit([])
            break
        StompStreamWriter(options, columns).commit([], number)
    assert caplog.text.count("plain text") == 1
    assert "a secret" not in caplog.text


class Task:
    """Of Spark: batch 7, partition 2."""

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return {"streaming.sql.batchId": "7"}.get(name)

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 2


class TestABatchWriteInForeachBatch:
    """Spark tells its tasks the number of the batch, but no earlier one has logged in for them."""

    @pytest.fixture(autouse=True)
    def in_a_later_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("spark_stomp.spark.writers.TaskContext.get", Task)

    def send(self, url: str, **options: str) -> None:
        columns = SinkColumns(("body",), False)
        writer = StompBatchWriter(sink_options(url, destination=QUEUE, **options), columns)
        writer.write(iter([pa.RecordBatch.from_pydict({"body": [b"x"]}, schema=columns.arrow_schema)]))

    def test_waits_for_a_broker_that_cannot_be_reached(self) -> None:
        with pytest.raises(ConnectionLost, match="reconnectTimeout"):
            self.send(f"stomp://127.0.0.1:{unused_port()}", reconnectTimeout="1s")

    @pytest.mark.rule("S.5")
    def test_fails_at_once_if_its_login_is_refused(self) -> None:
        users = CountedUsers(ada="right")
        with DevBroker(users=users) as broker, pytest.raises(LoginRefused) as error:
            self.send(broker.url, login="ada", password="wrong", reconnectTimeout="20s")
        assert "before" not in str(error.value)
        assert users.asked == 1


class TestLogLines:
    def test_of_a_task_name_query_batch_and_partition(
        self, devbroker: DevBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("spark_stomp.spark.writers.TaskContext.get", Task)
        rows: list[tuple[Any, ...]] = [(b"1",), (None,)]
        write(devbroker, ("body",), rows, onError="drop", checkpointLocation="/c/orders")
        write(devbroker, ("body",), rows, onError="drop", queryName="mine")
        write(devbroker, ("body",), rows, onError="drop")
        assert [message.partition(": ")[0] for message in caplog.messages] == [
            "query=orders batch=7 partition=2",
            "query=mine batch=7 partition=2",
            f"query={QUEUE} batch=7 partition=2",
        ]

    def test_of_a_commit_name_query_and_batch(
        self, devbroker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", "spark_stomp")
        writer = StompStreamWriter(
            sink_options(devbroker.url, queryName="mine"), SinkColumns(("body",), False)
        )
        writer.commit([Confirmed(TaskResult(TaskFigures(confirmed=3, connections=1)), "logged")], 7)
        writer.abort([], 8)
        assert caplog.messages == [
            "query=mine batch=7: 3 messages confirmed by the broker",
            "query=mine batch=8: batch 8 failed",
        ]

    def test_of_what_is_confirmed_come_every_ten_seconds(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "spark_stomp")
        logger = ConfirmationLogger()
        for now in range(50):
            logger.add("run", 0, float(now))
        assert caplog.messages == []
        for now in range(100, 125):
            logger.add("run", 2, float(now))
        # Before a colon are the names that an earlier test has set for this thread.
        texts = [message.rpartition(": ")[2] for message in caplog.messages]
        assert texts == [f"{count} messages confirmed by the broker" for count in (2, 20, 20)]


class TestTimes:
    """Spark 4.0 makes a time of the worker's zone of each, and does not say which hour of two it is."""

    @pytest.fixture(autouse=True)
    def zone(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
        assert time.tzname == ("EST", "EDT")
        monkeypatch.undo()
        time.tzset()

    @pytest.mark.rule("S.11")
    def test_of_the_hour_that_comes_twice_differ(self) -> None:
        moments = [datetime.fromtimestamp(second, timezone.utc) for second in (1_699_162_200, 1_699_165_800)]
        kinds = StructType().add("body", StringType()).add("at", TimestampType())

        def rows() -> Iterator[Row]:
            """As a worker of Spark makes them, one after the other."""
            times = pa.array(moments, pa.timestamp("us", tz="America/New_York"))
            yield from ArrowTableToRowsConversion.convert(pa.table({"body": ["x", "x"], "at": times}), kinds)

        frames: list[bytes] = []
        broker = ScriptedBroker(b"any", lambda _, frame: frames.append(frame) or b"")
        columns = SinkColumns(("body", "at"), True, (("at", "timestamp"),))
        with stomp_server(broker.serve) as url:
            options = sink_options(url, destination=QUEUE, headerColumns="at", dedupKey="at")
            StompRowStreamWriter(options, columns).write(rows())
        sent = [frame for frame in frames if frame.startswith(b"SEND")]
        assert [header_of(frame, b"at") for frame in sent] == [
            b"2023-11-05 05\\c30\\c00.000000Z",
            b"2023-11-05 06\\c30\\c00.000000Z",
        ]
        assert len({header_of(frame, b"dedup-id") for frame in sent}) == 2

    def test_the_zone_of_the_worker_is_back_after_an_error(self, devbroker: DevBroker) -> None:
        def rows() -> Iterator[Row]:
            raise ValueError("of Spark")
            yield Row()

        columns = SinkColumns(("body",), False)
        with pytest.raises(ValueError, match="of Spark"):
            StompRowStreamWriter(sink_options(devbroker.url, destination=QUEUE), columns).write(rows())


class TestRowsThatCannotBeSent:
    """A task that raises would be tried again, and send the rows before the bad one again each time."""

    @pytest.mark.rule("S.9")
    def test_fail_the_commit_and_not_the_task(self, devbroker: DevBroker) -> None:
        rows: list[tuple[Any, ...]] = [*((b"%d" % n,) for n in range(1_500)), (None,), (b"after",)]
        result = write(devbroker, ("body",), rows)
        assert result.figures.confirmed == len(devbroker.bodies(QUEUE)) == 1_000
        message = pickle.loads(pickle.dumps(Confirmed(result)))
        options = sink_options(devbroker.url, destination=QUEUE)
        for commit in (
            lambda: StompBatchWriter(options, SinkColumns(("body",), False)).commit([message]),
            lambda: StompStreamWriter(options, SinkColumns(("body",), False)).commit([message], 7),
        ):
            with pytest.raises(SinkRowError, match=r"row 1500 of its partition .*its body is null"):
                commit()

"""The writers: what Spark hands over as rows is what stands in the queue afterwards."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row
from support.options import sink_options

from spark_stomp.arrow import decode_frames
from spark_stomp.columns import Projection, SinkColumns
from spark_stomp.devbroker import DevBroker
from spark_stomp.errors import SinkRowError
from spark_stomp.options import parse_batch_options
from spark_stomp.sink.task import TaskResult
from spark_stomp.source.browse import browse
from spark_stomp.source.tasks import RowSettings
from spark_stomp.spark.writers import Confirmed, StompBatchWriter, StompRowStreamWriter, StompStreamWriter
from spark_stomp.status.sink import TaskFigures

QUEUE = "/queue/out"


def write(
    devbroker: DevBroker,
    names: Sequence[str],
    rows: list[tuple[Any, ...]],
    *,
    text: bool = False,
    **options: str,
) -> TaskResult:
    parsed = sink_options(devbroker.url, destination=QUEUE, **options)
    row = Row(*names)
    writer = StompRowStreamWriter(parsed, SinkColumns(tuple(names), text))
    return writer.write(iter([row(*values) for values in rows])).result


def standing(devbroker: DevBroker) -> list[tuple[bytes, dict[str, str]]]:
    """Body and headers of what is in the queue."""
    options = parse_batch_options({"url": devbroker.url, "destination": QUEUE})
    rows = RowSettings(Projection.of("body", "headers"), None, "error")
    found: list[tuple[bytes, dict[str, str]]] = []
    for block, dialect in browse(options):
        batch = decode_frames(block, rows.projection, rows.rules(dialect))
        found += [(row["body"], dict(row["headers"])) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("kind", [StompBatchWriter, StompStreamWriter])
def test_a_login_in_clear_is_said_once_a_query(
    kind: type[StompBatchWriter | StompStreamWriter],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each commit of a stream comes to a new object in a new process, so that only its number tells."""
    monkeypatch.setattr("spark_stomp.sink.commit._connect", lambda _: None)
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
        writer.commit([Confirmed(TaskResult(TaskFigures(confirmed=3, connections=1)), "run")], 7)
        writer.abort([], 8)
        assert caplog.messages == [
            "query=mine batch=7: 3 messages confirmed by the broker",
            "query=mine batch=8: batch 8 failed after 0 confirmed messages",
        ]


class TestRows:
    def test_maps_of_different_keys_are_headers_of_their_own_rows(self, devbroker: DevBroker) -> None:
        rows = [(None, b"0"), ({"ab": "1", "k": "2"}, b"1"), ({}, b"2"), ({"cd": "3", "no": None}, b"3")]
        assert write(devbroker, ("headers", "body"), rows).figures.confirmed == 4
        names = ("ab", "k", "cd", "no")
        found = [
            (body, {name: headers[name] for name in names if name in headers})
            for body, headers in standing(devbroker)
        ]
        assert found == [(b"0", {}), (b"1", {"ab": "1", "k": "2"}), (b"2", {}), (b"3", {"cd": "3"})]

    def test_columns_that_are_null_throughout(self, devbroker: DevBroker) -> None:
        rows = [(b"1", None, None, None), (bytearray(b"2"), None, None, None)]
        assert (
            write(devbroker, ("body", "content_type", "headers", "destination"), rows).figures.confirmed == 2
        )
        assert devbroker.bodies(QUEUE) == [b"1", b"2"]

    def test_text(self, devbroker: DevBroker) -> None:
        assert write(devbroker, ("body",), [("ü",), ("",)], text=True).figures.confirmed == 2
        assert devbroker.bodies(QUEUE) == ["ü".encode(), b""]

    def test_more_than_one_batch_of_them(self, devbroker: DevBroker) -> None:
        assert write(devbroker, ("body",), [(b"%d" % n,) for n in range(2_500)]).figures.confirmed == 2_500
        assert devbroker.bodies(QUEUE) == [b"%d" % n for n in range(2_500)]

    def test_none(self, devbroker: DevBroker) -> None:
        assert write(devbroker, ("body",), []).figures.confirmed == 0


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

    @pytest.mark.rule("S.9")
    def test_nothing_of_their_slice_is_sent(self, devbroker: DevBroker) -> None:
        result = write(devbroker, ("body",), [(b"1",), (None,), (b"3",)])
        assert (result.figures.confirmed, devbroker.bodies(QUEUE)) == (0, [])

    def test_are_dropped_and_counted(self, devbroker: DevBroker) -> None:
        result = write(devbroker, ("body",), [(b"1",), (None,), (b"3",)], onError="drop")
        assert (result.figures.confirmed, result.figures.dropped, devbroker.bodies(QUEUE)) == (
            2,
            1,
            [b"1", b"3"],
        )
        assert result.refused is None

    def test_go_to_the_dead_letter_destination(self, devbroker: DevBroker) -> None:
        rows = [(b"1", "x"), (b"2", " bad"), (b"3", "y")]
        options = {"onError": "deadletter", "deadLetterDestination": "/queue/dead"}
        named = [(body, {name: "v"}) for body, name in rows]
        result = write(devbroker, ("body", "headers"), named, **options)
        assert (result.figures.confirmed, result.figures.dead_lettered) == (3, 1)
        assert (devbroker.bodies(QUEUE), devbroker.bodies("/queue/dead")) == ([b"1", b"3"], [b"2"])

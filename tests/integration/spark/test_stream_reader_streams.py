"""The reader of streams, driven as Spark drives it, without Spark; a test scripts RabbitMQ."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from support.columns import projection_of
from support.driven import status_of
from support.options import source_options
from support.scripted import Stream
from support.tcp import stomp_server
from support.waiting import wait_until

from spark_stomp.deadline import Deadline
from spark_stomp.errors import StreamTimeout, StreamTruncated
from spark_stomp.options import SourceOptions
from spark_stomp.source import receivers
from spark_stomp.source.planning import Mode
from spark_stomp.spark.readers import StompStreamReader

pytestmark = pytest.mark.usefixtures("quick_ends")

NAME = "/amq/queue/a"

Json = dict[str, Any]
Start = Callable[..., StompStreamReader]


@pytest.fixture
def stream() -> Stream:
    return Stream(*range(20), window=3)


@pytest.fixture
def begin(stream: Stream) -> Iterator[Start]:
    """Begins a run of a query that reads the stream."""
    with ExitStack() as undo:
        url = undo.enter_context(stomp_server(lambda connection: stream.broker.serve(connection)))

        def begin(starting: str = "earliest", **options: Any) -> StompStreamReader:
            given = {"startingOffsets": starting, "idleTimeout": "200ms", **options}
            chosen = source_options(url, NAME, **given)
            reader = StompStreamReader(chosen, projection_of("stream_offset"))
            undo.callback(reader.stop)
            return reader

        yield begin


def read(reader: StompStreamReader, start: Json, end: Json) -> list[int]:
    """The offsets of the messages of a batch."""
    batches = [batch for one in reader.partitions(start, end) for batch in reader.read(one)]
    return [offset for batch in batches for offset in batch.column("stream_offset").to_pylist()]


def next_end(reader: StompStreamReader, start: Json) -> Json:
    """The end of the next batch, which is not empty."""
    found: list[Json] = []
    wait_until(lambda: found.append(reader.latestOffset(start, None)) or found[-1] != start, what="a batch")
    return found[-1]


@pytest.mark.rule("R.1", "R.2")
def test_a_planned_batch_comes_again_and_the_others_after_it(begin: Start) -> None:
    first = begin(minMessagesPerTrigger=7, maxMessagesPerTrigger=7)
    start = first.initialOffset()
    one = next_end(first, start)
    assert read(first, start, one) == [*range(7)]
    two = next_end(first, one)
    first.stop()

    second = begin("latest", minMessagesPerTrigger=6)
    assert read(second, one, two) == [*range(7, 14)]
    three = next_end(second, two)
    assert read(second, two, three) == [*range(14, 20)]
    second.commit(three)
    assert second.latestOffset(three, None) == three


@pytest.mark.rule("R.2")
def test_40_a_planned_batch_comes_again_though_spark_names_its_end_first(begin: Start) -> None:
    """Spark 4.0 and 4.1 call ``partitions(end, end)`` at a restart, whether or not that end is committed."""
    first = begin(minMessagesPerTrigger=7, maxMessagesPerTrigger=7)
    start = first.initialOffset()
    one = next_end(first, start)
    two = next_end(first, one)
    first.stop()

    second = begin()
    assert read(second, two, two) == []
    assert read(second, one, two) == [*range(7, 14)]
    assert read(second, two, second.latestOffset()) == [*range(14, 20)]
    second.stop()

    third = begin()
    assert read(third, two, two) == []
    assert read(third, two, third.latestOffset()) == [*range(14, 20)], "it was committed"


@pytest.mark.rule("R.2")
def test_a_planned_batch_that_does_not_come_again_is_an_error(begin: Start, stream: Stream) -> None:
    first = begin(minMessagesPerTrigger=7)
    start = first.initialOffset()
    end = next_end(first, start)
    first.stop()
    # The stream ends where it did, but sends less.
    stream.offsets, stream.published = [*range(3)], [20]
    with pytest.raises(StreamTimeout, match="was not received again within maxDrainTime"):
        begin("latest", maxDrainTime="500ms").partitions(start, end)


@pytest.mark.rule("R.5")
def test_where_streams_end_is_asked_once_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue beside them has no end."""
    asked = list[list[str]]()
    other = "/amq/queue/b"

    def find_ends(_: SourceOptions, streams: list[str]) -> dict[str, int]:
        asked.append(streams)
        return {NAME: 10 * len(asked)}

    monkeypatch.setattr(receivers, "find_ends", find_ends)
    starting = json.dumps({NAME: -2, other: -2})
    names = json.dumps(["/queue/q", NAME, other])
    group = receivers.ReceiverGroup(source_options("stomp://b", names, startingOffsets=starting))

    def ends(until_now: bool) -> list[int | None]:
        group.fix_ends(until_now=until_now)
        return [one.until for one in group._streams]

    try:
        assert [ends(True), ends(True), ends(False), ends(True)] == [
            [10, 0],
            [10, 0],
            [None] * 2,
            [20, 0],
        ]
        assert asked == [[NAME, other]] * 2
    finally:
        group.stop(Deadline.after(0.0))


@pytest.mark.rule("R.4")
def test_latest_is_where_the_stream_ended_although_nothing_came(begin: Start, stream: Stream) -> None:
    first = begin("latest")
    start = first.initialOffset()
    pinned = next_end(first, start)
    assert read(first, start, pinned) == []
    assert first.latestOffset(pinned, None) == pinned
    first.stop()

    stream.offsets += range(20, 30)
    second = begin("latest", minMessagesPerTrigger=10)
    assert read(second, pinned, next_end(second, pinned)) == [*range(20, 30)]


@pytest.mark.rule("R.5")
def test_40_the_only_batch_takes_all_that_there_was(begin: Start, stream: Stream) -> None:
    stream.published = [17]  # and 18 and 19 came later
    reader = begin()
    end = reader.latestOffset()
    assert read(reader, reader.initialOffset(), end) == [*range(17)]


@pytest.mark.rule("R.5")
def test_a_run_that_has_all_of_a_stream_does_not_need_its_connection(begin: Start, stream: Stream) -> None:
    reader = begin()
    reader._mode = Mode.DRAIN
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    assert read(reader, start, end) == [*range(20)]
    stream.broker.serve = lambda connection: None  # type: ignore[method-assign]
    for one in stream.broker.sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    wait_until(
        lambda: (status := status_of(reader)) and status.receivers[0].is_away, what="a lost connection"
    )
    assert reader.latestOffset(end, None) == end


@pytest.mark.rule("R.6")
@pytest.mark.parametrize("offsets", [range(12, 20), range(3)], ids=["retention", "declared anew"])
def test_a_batch_whose_messages_are_gone_fails_the_query_or_is_without_them(
    begin: Start, stream: Stream, offsets: range
) -> None:
    first = begin(minMessagesPerTrigger=10, maxMessagesPerTrigger=10)
    start = first.initialOffset()
    end = next_end(first, start)
    two = next_end(first, end)
    first.stop()
    stream.offsets[:] = offsets
    with pytest.raises(StreamTruncated, match=f"stream {NAME}"):
        read(begin(), end, two)
    tolerant = begin(failOnDataLoss="false", minMessagesPerTrigger=3)
    again = read(tolerant, end, two)
    assert again == [offset for offset in offsets if offset >= 10]
    if not again:
        assert read(tolerant, two, next_end(tolerant, two)) == [*offsets]

"""Streams of RabbitMQ: where reading begins and ends, what a restart gives, what is gone."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from datetime import UTC, datetime
from itertools import count, takewhile
from typing import Any

import pytest
from support.brokers import RabbitMQ
from support.brokers.rabbitmq import OldRabbitMQ
from support.columns import projection_of
from support.driven import Json, Row, Run, publish
from support.proxy import FaultProxy, Way
from support.streams import messages_of, new_stream
from support.waiting import wait_until

from spark_stomp.arrow import decode_frames
from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.errors import DestinationRefused, StreamTruncated
from spark_stomp.options import parse_batch_options, parse_source_options
from spark_stomp.receiver import ask_stream_ends
from spark_stomp.receiver.stream_offsets import ask_first_offset
from spark_stomp.source.planning import Mode
from spark_stomp.source.reads import RowSettings, read_stream

pytestmark = pytest.mark.broker

# What describes the message and not its delivery (contract R.2).
OF_THE_MESSAGE = ("destination", "stable_id", "content_type", "timestamp", "body", "stream_offset")


def fill(broker: RabbitMQ, stream: str, first: int, end: int, padding: int = 0) -> None:
    """Publish the messages ``first`` to ``end - 1``."""
    bodies = (b"%d" % number + b" " * padding for number in range(first, end))
    assert publish(broker.options(), stream, bodies) == end - first


def run(broker: RabbitMQ, stream: str, starting: str | Json = "earliest", **options: Any) -> Run:
    text = starting if isinstance(starting, str) else json.dumps(starting)
    given = broker.options(**{"destination": stream, "startingOffsets": text, **options})
    return Run(given, ("body", "stream_offset", "stable_id"))


def numbers(rows: list[Row]) -> list[int]:
    return [int(row["body"]) for row in rows]


def offsets(rows: list[Row]) -> list[int]:
    return [row["stream_offset"] for row in rows]


def read(broker: RabbitMQ, stream: str, **options: Any) -> list[Row]:
    """The rows of a batch read."""
    given = parse_batch_options(broker.options(**{"destination": stream, **options}))
    projection = projection_of("body", "stream_offset")
    settings = RowSettings.of(given, projection)
    return [
        row
        for batch, dialect in read_stream(given, stream)
        for row in decode_frames(batch, projection, settings.rules(dialect, stream_name(stream))).to_pylist()
    ]


class TestBeginning:
    @pytest.mark.rule("R.1")
    def test_earliest(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 50)
        with run(rabbitmq, stream) as query:
            rows = query.take(50)
            assert numbers(rows) == offsets(rows) == [*range(50)]
            assert rows[7]["stable_id"] == f"{stream.removeprefix('/amq/queue/')}@7"

    @pytest.mark.rule("R.4")
    def test_latest_is_where_the_stream_ended_at_the_first_start(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 10)
        with run(rabbitmq, stream, "latest") as query:
            recorded = query.reader.latestOffset(query.start, None)
            assert recorded["logs"][f"stream:{stream_name(stream)}"]["next"] == 10
        fill(rabbitmq, stream, 10, 20)
        with run(rabbitmq, stream, "latest") as query:
            query.start = query.end = recorded
            assert numbers(query.take(10)) == [*range(10, 20)]

    def test_offsets_by_name(self, rabbitmq: RabbitMQ) -> None:
        one, other = new_stream(rabbitmq), new_stream(rabbitmq)
        fill(rabbitmq, one, 0, 10)
        fill(rabbitmq, other, 100, 110)
        both = {"destination": json.dumps([one, other])}
        with run(rabbitmq, one, {one: 7, other.removeprefix("/amq/queue/"): -2}, **both) as query:
            assert sorted(numbers(query.take(13))) == [7, 8, 9, *range(100, 110)]

    def test_a_time(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 10)
        between = int(time.time()) + 1
        wait_until(lambda: time.time() > between + 0.1, what="the next second")
        fill(rabbitmq, stream, 10, 20)
        with run(rabbitmq, stream, datetime.fromtimestamp(between, UTC).isoformat()) as query:
            assert numbers(query.take(10)) == [*range(10, 20)]

    def test_a_stream_that_the_subscription_declares(self, rabbitmq: RabbitMQ) -> None:
        queue = rabbitmq.new_queue()
        declared = {"x-queue-type": "stream", "durable": "true", "auto-delete": "false"}
        options = rabbitmq.options(destination=queue, subscribeHeaders=json.dumps(declared))
        with Run(options, ("body", "stream_offset")) as query:
            query.start = query.end = query.reader.latestOffset(query.start, None)
            fill(rabbitmq, queue.replace("/queue/", "/amq/queue/"), 0, 5)
            assert offsets(query.take(5)) == [*range(5)]


class TestFilter:
    """A filter of RabbitMQ (4.3.6; 3.10 has none) leaves out messages, not the ends of the stream."""

    @pytest.fixture(autouse=True)
    def filters(self, rabbitmq: RabbitMQ) -> None:
        if isinstance(rabbitmq, OldRabbitMQ):
            pytest.skip("this release has no filters")

    def send(self, broker: RabbitMQ, stream: str, colour: str) -> None:
        # Each call is a chunk of its own: RabbitMQ confirms the messages of one before the next is sent.
        assert publish(broker.options(), stream, [b"1", b"2"], ("x-stream-filter-value", colour)) == 2

    def test_a_query_that_is_started_again_behind_messages_that_it_filters_out(
        self, rabbitmq: RabbitMQ
    ) -> None:
        stream = new_stream(rabbitmq)
        options = {"subscribeHeaders": '{"x-stream-filter": "red"}', "idleTimeout": "200ms"}
        for colour in ("red", "blue", "red"):
            self.send(rabbitmq, stream, colour)
        with run(rabbitmq, stream, **options) as query:
            assert offsets(query.take(4)) == [0, 1, 4, 5]
            end = query.end
        self.send(rabbitmq, stream, "blue")
        # If it seemed to end where the last message that passes is, it would count as declared again.
        given = rabbitmq.options(destination=stream, startingOffsets="earliest", **options)
        assert ask_stream_ends(parse_source_options(given), [stream]) == {stream: 8}
        with run(rabbitmq, stream, **options) as query:
            query.start = query.end = end
            query.idle()
            self.send(rabbitmq, stream, "red")
            assert offsets(query.take(2)) == [8, 9]

    def test_is_not_asked_of_a_queue_beside_the_stream(self, rabbitmq: RabbitMQ) -> None:
        queue, stream = rabbitmq.new_queue(), new_stream(rabbitmq)
        fill(rabbitmq, queue, 0, 2)
        for colour in ("blue", "red"):
            self.send(rabbitmq, stream, colour)
        destinations = {"destination": json.dumps([queue, stream])}
        options = {"subscribeHeaders": '{"x-stream-filter": "red"}', **destinations}
        with run(rabbitmq, stream, {stream: -2}, **options) as query:
            rows = sorted((row["stream_offset"] or -1, row["body"]) for row in query.gather(4))
            assert rows == [(-1, b"0"), (-1, b"1"), (2, b"1"), (3, b"2")]


class TestEnd:
    @pytest.mark.rule("R.5")
    def test_available_now_ends_although_producers_go_on(self, rabbitmq: RabbitMQ) -> None:
        """Those of one stream, while the other is quiet."""
        busy, quiet = new_stream(rabbitmq), new_stream(rabbitmq)
        fill(rabbitmq, busy, 0, 3_000)
        fill(rabbitmq, quiet, 10_000, 10_010)
        over = threading.Event()

        def go_on() -> None:
            for number in takewhile(lambda _: not over.is_set(), count(3_000)):
                fill(rabbitmq, busy, number, number + 1)

        producer = threading.Thread(target=go_on)
        producer.start()
        try:
            both = {"destination": json.dumps([busy, quiet]), "maxMessagesPerTrigger": 1_000}
            with run(rabbitmq, busy, **both) as query:
                query.reader._mode = Mode.DRAIN
                rows: list[Row] = []
                while (end := query.reader.latestOffset(query.start, None)) != query.start:
                    query.end = end
                    rows += query.read()
                    query.commit()
        finally:
            over.set()
            producer.join()
        found = sorted(numbers(rows))
        assert found == [*range(len(found) - 10), *range(10_000, 10_010)]
        assert 3_010 <= len(found) < len(messages_of(rabbitmq, busy)) + 10

    @pytest.mark.rule("R.3")
    def test_a_cut_while_the_end_is_asked_for(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 10)
        with FaultProxy(rabbitmq.port) as proxy:
            proxy.cut_before(b"x-stream-offset:next")
            with run(rabbitmq, stream, url=proxy.url) as query:
                query.reader._mode = Mode.DRAIN
                assert offsets(query.batch()) == [*range(10)]
                assert proxy.tripped

    def test_large_messages_on_a_slow_line(self, rabbitmq: RabbitMQ) -> None:
        """A message may take longer than the silence that says where a stream ends."""
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 3, padding=900_000)
        with FaultProxy(rabbitmq.port) as proxy:
            proxy.throttle(400_000)
            given = rabbitmq.options(destination=stream, startingOffsets="earliest", url=proxy.url)
            options = parse_source_options(given)
            assert ask_stream_ends(options, [stream]) == {stream: 3}
            assert ask_first_offset(options, stream, "") == 0

    def test_a_batch_read_between_two_offsets(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 2_500)
        assert offsets(read(rabbitmq, stream, startingOffsets="earliest")) == [*range(2_500)]
        ends = {"startingOffsets": json.dumps({stream: 100}), "endingOffsets": json.dumps({stream: 1_200})}
        assert offsets(read(rabbitmq, stream, **ends)) == [*range(100, 1_200)]
        assert offsets(read(rabbitmq, stream, **ends, maxMessages=7)) == [*range(100, 107)]

    def test_a_batch_read_of_a_few_large_messages_on_a_slow_line(self, rabbitmq: RabbitMQ) -> None:
        """The receipt of DISCONNECT lies behind the others, and the rows are complete."""
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 300, padding=200_000)
        with FaultProxy(rabbitmq.port) as proxy:
            proxy.throttle(4_000_000)
            rows = read(rabbitmq, stream, startingOffsets="earliest", maxMessages=3, url=proxy.url)
        assert offsets(rows) == [0, 1, 2]


class TestAgain:
    @pytest.mark.rule("R.2")
    def test_a_planned_batch_has_the_same_messages_after_a_restart(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq, x_stream_max_segment_size_bytes=200_000)
        fill(rabbitmq, stream, 0, 3_000, padding=500)

        def digest(rows: list[Row]) -> str:
            return hashlib.sha256(repr(rows).encode()).hexdigest()

        options = rabbitmq.options(
            destination=stream, startingOffsets="earliest", maxMessagesPerTrigger=1_000
        )
        with Run(options, OF_THE_MESSAGE) as query:
            query.take(1_001)
            start, end, before = query.start, query.end, query.read()
        fill(rabbitmq, stream, 3_000, 3_100)
        with Run(options, OF_THE_MESSAGE) as query:
            query.start, query.end = start, end
            assert digest(query.read()) == digest(before)
            query.commit()
            query.batch()
            assert query.read()[0]["stream_offset"] > before[-1]["stream_offset"]

    @pytest.mark.rule("R.3")
    def test_a_cut_neither_loses_nor_doubles(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 5_000, padding=1_000)
        with FaultProxy(rabbitmq.port) as proxy:
            proxy.cut_after(1_000_000, Way.TO_CLIENT)
            with run(rabbitmq, stream, url=proxy.url) as query:
                assert offsets(query.take(5_000)) == [*range(5_000)]
                assert sum(one["reconnects"] for one in query.counters()) == 1

    @pytest.mark.rule("R.3")
    def test_a_node_that_restarts_neither_loses_nor_doubles(self, rabbitmq: RabbitMQ) -> None:
        """With short pauses, a SUBSCRIBE comes while the node boots, and is refused: it has no stream yet."""
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 100)
        with run(rabbitmq, stream, reconnectDelay="20ms", reconnectDelayMax="50ms") as query:
            rows = query.take(100)
            query.commit()
            rabbitmq.restart()
            wait_until(lambda: query.counters()[0]["connected"], what="the connection")
            fill(rabbitmq, stream, 100, 200)
            assert numbers(rows + query.take(100)) == [*range(200)]


class TestGone:
    @pytest.fixture
    def trimmed(self, rabbitmq: RabbitMQ) -> str:
        """A stream whose retention has deleted the first messages."""
        stream = new_stream(rabbitmq, x_max_length_bytes=1_000_000, x_stream_max_segment_size_bytes=200_000)
        fill(rabbitmq, stream, 0, 4_000, padding=1_000)
        # Segments are deleted one after another, behind the receipts.
        wait_until(
            lambda: messages_of(rabbitmq, stream) == messages_of(rabbitmq, stream), what="the retention"
        )
        return stream

    @pytest.mark.rule("R.6")
    def test_the_committed_offset(self, rabbitmq: RabbitMQ, trimmed: str) -> None:
        there = [offset for offset, _ in messages_of(rabbitmq, trimmed)]
        assert there[0] > 100
        gone = pytest.raises(StreamTruncated, match=f"offsets 100 to {there[0] - 1} .* are gone")
        with run(rabbitmq, trimmed, {trimmed: 100}) as query, gone:
            query.batch()
        with run(rabbitmq, trimmed, {trimmed: 100}, failOnDataLoss="false") as query:
            assert offsets(query.take(len(there))) == there

    @pytest.mark.rule("R.6")
    def test_offsets_that_never_were_messages_are_not_lost(self, rabbitmq: RabbitMQ) -> None:
        """RabbitMQ writes a record of its own into each new segment."""
        stream = new_stream(rabbitmq, x_stream_max_segment_size_bytes=200_000)
        fill(rabbitmq, stream, 0, 2_000, padding=1_000)
        there = [offset for offset, _ in messages_of(rabbitmq, stream)]
        assert there[-1] > len(there) - 1
        with run(rabbitmq, stream, maxMessagesPerTrigger=300) as query:
            assert offsets(query.take(2_000)) == there
        assert offsets(read(rabbitmq, stream, startingOffsets="earliest")) == there

    @pytest.mark.rule("R.6")
    def test_a_stream_declared_anew(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 20)
        # It connects again only when the stream is there again.
        quick = {"idleTimeout": "200ms", "reconnectDelay": "2s"}
        with run(rabbitmq, stream, **quick) as query:
            query.take(20)
            query.commit()
            committed = query.start
            rabbitmq.delete_queue(stream)
            new_stream(rabbitmq, stream.removeprefix("/amq/queue/"))
            fill(rabbitmq, stream, 0, 5)
            with pytest.raises(StreamTruncated, match="ended at offset 5"):
                query.batch()
        with run(rabbitmq, stream, **quick, failOnDataLoss="false") as query:
            query.start = query.end = committed
            assert offsets(query.take(5)) == [*range(5)]

    @pytest.mark.rule("R.6")
    def test_a_stream_declared_anew_that_was_seen_empty(self, rabbitmq: RabbitMQ) -> None:
        """When the next message comes, the new stream is longer than the old offset."""
        stream = new_stream(rabbitmq)
        fill(rabbitmq, stream, 0, 20)
        with run(rabbitmq, stream, idleTimeout="200ms") as query:
            query.take(20)
            query.commit()
            rabbitmq.delete_queue(stream)
            new_stream(rabbitmq, stream_name(stream))
            assert query.reader.latestOffset(query.start, None) == query.start
            wait_until(lambda: rabbitmq.connections == 3, what="the look at the stream")
            wait_until(lambda: rabbitmq.connections == 1, what="the end of the look")
            fill(rabbitmq, stream, 0, 60)
            with pytest.raises(StreamTruncated, match="ended at offset 0, and the next one to be read is 20"):
                query.batch()

    @pytest.mark.rule("R.6")
    def test_a_new_stream_that_ends_within_the_planned_batch(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        name = f"stream:{stream_name(stream)}"
        fill(rabbitmq, stream, 0, 95)
        start, end = ({"logs": {name: {"id": "e", "next": at}}, "version": 2} for at in (90, 100))
        with run(rabbitmq, stream) as query:
            query.start, query.end = start, end
            with pytest.raises(StreamTruncated, match=r"ended at offset 95, .* planned a batch up to 100"):
                query.read()
        with run(rabbitmq, stream, failOnDataLoss="false") as query:
            query.start, query.end = start, end
            assert query.read() == []
            query.commit()
            assert offsets(query.take(95)) == [*range(95)]


class TestRecognition:
    @pytest.mark.rule("R.8")
    def test_a_queue_is_not_read_as_a_stream(self, rabbitmq: RabbitMQ) -> None:
        queue = rabbitmq.new_queue()
        publish(rabbitmq.options(), queue, [b"0", b"1"], ("x-stream-offset", "7"))
        named = queue.replace("/queue/", "/amq/queue/")
        with run(rabbitmq, named) as query, pytest.raises(DestinationRefused, match="rabbit_classic_queue"):
            query.batch()
        with Run(rabbitmq.options(destination=queue), ("body", "redelivered", "stream_offset")) as query:
            rows = query.gather(2)
            assert [row["redelivered"] for row in rows] == [False, False]
            assert offsets(rows) == [None, None]

    @pytest.mark.rule("R.8")
    def test_a_producers_own_header_is_not_the_offset(self, rabbitmq: RabbitMQ) -> None:
        stream = new_stream(rabbitmq)
        publish(rabbitmq.options(), stream, [b"0", b"1"], ("x-stream-offset", "7"))
        with run(rabbitmq, stream) as query:
            assert offsets(query.take(2)) == [0, 1]

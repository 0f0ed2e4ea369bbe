"""``spark.read`` of a stream, with a RabbitMQ that a test scripts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest
from support.columns import projection_of
from support.scripted import ScriptedBroker, Stream, header_of, message
from support.tcp import stomp_server

from spark_stomp.arrow import decode_frames
from spark_stomp.errors import MalformedMessageError, StreamTimeout, StreamTruncated, UnsupportedError
from spark_stomp.options import SourceOptions, parse_batch_options
from spark_stomp.source.reads import RowSettings, read_stream, tail_stream

pytestmark = pytest.mark.usefixtures("quick_ends")

NAME = "/amq/queue/a"


@contextmanager
def parsed(scripted: ScriptedBroker, **options: str) -> Iterator[SourceOptions]:
    with stomp_server(scripted.serve) as url:
        yield parse_batch_options({"url": url, "destination": NAME, "idleTimeout": "200ms", **options})


def read(stream: Stream, **options: str) -> list[str]:
    """The stable id of each row."""
    found: list[str] = []
    with parsed(stream.broker, **{"startingOffsets": "earliest", **options}) as given:
        settings = RowSettings.of(given, projection_of("stable_id"))
        for batch, dialect in read_stream(given, NAME):
            rows = decode_frames(batch, settings.projection, settings.rules(dialect, "a"))
            found += rows.column("stable_id").to_pylist()
    return found


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, [*range(3, 12), 20, 21]),
        ({"startingOffsets": '{"a": 5}'}, [*range(5, 12), 20, 21]),
        ({"startingOffsets": '{"a": 5}', "endingOffsets": '{"a": 10}'}, [*range(5, 10)]),
        ({"startingOffsets": '{"a": 11}', "endingOffsets": '{"a": 21}'}, [11, 20]),
        ({"endingOffsets": '{"a": 15}'}, [*range(3, 12)]),
        ({"startingOffsets": '{"a": 22}'}, []),
        ({"startingOffsets": '{"a": 9}', "endingOffsets": '{"a": 4}'}, []),
        ({"maxMessages": "5"}, [*range(3, 8)]),
        ({"startingOffsets": "2026-11-23T08:00:00Z"}, [20, 21]),
        ({"startingOffsets": "2026-11-23T09:00:00Z"}, []),
    ],
)
def test_has_the_messages_between_two_offsets(options: dict[str, str], offsets: list[int]) -> None:
    # What lies before 3 is gone, and what lies between 11 and 20 never was a message.
    stream = Stream(*range(3, 12), 20, 21, window=3)
    stream.times = {"timestamp=1795420800": [20, 21], "timestamp=1795424400": []}
    assert read(stream, **options) == [f"a@{offset}" for offset in offsets]


def test_ends_with_what_was_there_although_more_comes() -> None:
    stream = Stream(*range(12), window=5)
    stream.published = [7]
    assert len(read(stream)) == 7
    assert read(Stream()) == []


@pytest.mark.rule("R.6")
@pytest.mark.parametrize(
    ("options", "words", "count"),
    [
        ({"startingOffsets": '{"a": 7}'}, "the stream /amq/queue/a ended at offset 6, and the next one", 3),
        ({"endingOffsets": '{"a": 7}'}, "endingOffsets has 7 for the stream /amq/queue/a, which ends at", 3),
        (
            {"startingOffsets": '{"a": 1}'},
            "offsets 1 to 2 of the stream /amq/queue/a are gone, up to 2 messages",
            3,
        ),
    ],
)
def test_of_offsets_that_are_not_there_fails_or_says_so(
    options: dict[str, str], words: str, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StreamTruncated, match=words):
        read(Stream(3, 4, 5), **options)
    with caplog.at_level(logging.ERROR):
        assert len(read(Stream(3, 4, 5), failOnDataLoss="false", **options)) == count
    assert words in caplog.text


def test_that_does_not_come_to_its_end_is_given_up() -> None:
    stream = Stream(3, 4, 5)
    stream.published = [9]  # and it does not come
    with pytest.raises(StreamTimeout, match=r"maxDrainTime \(0.5s\)"):
        read(stream, maxDrainTime="500ms")


def test_needs_a_broker_with_streams() -> None:
    with pytest.raises(UnsupportedError, match="startingOffsets is for streams of RabbitMQ"):
        read(Stream(3), broker="artemis")


@pytest.mark.parametrize("memory", ["256m", "500"])
def test_goes_on_behind_the_last_message_after_a_broken_connection(memory: str) -> None:
    # The first two connections look for the end of the stream.
    stream = Stream(*range(12), window=3, closing=[3])
    assert read(stream, maxBufferedBytes=memory) == [f"a@{offset}" for offset in range(12)]
    assert stream.begins[2:] == ["first", "offset=3"]


def test_that_is_given_up_leaves_nothing_running() -> None:
    stream = Stream(*range(12), window=3)
    with parsed(stream.broker, startingOffsets="earliest") as given:
        batches = read_stream(given, NAME)
        next(batches)
        batches.close()  # type: ignore[attr-defined]
    assert not any(thread.name.startswith("stomp-receiver") for thread in threading.enumerate())


@pytest.mark.rule("7.6")
def test_yields_what_came_before_a_malformed_message() -> None:
    def asked(number: int, frame: bytes) -> bytes:
        where, name = header_of(frame, b"x-stream-offset"), header_of(frame, b"id")
        good, last = (
            message(offset, b"x", name, [b"x-stream-offset:%d" % offset, *more])
            for offset, more in ((0, []), (1, [] if where == b"last" else [b"no colon"]))
        )
        return {b"last": last, b"first": good + last}.get(where, b"")

    with parsed(ScriptedBroker(b"RabbitMQ/3.10.8", asked), startingOffsets="earliest") as given:
        batches = read_stream(given, NAME)
        assert len(next(batches)[0].ends) == 1
        with pytest.raises(MalformedMessageError, match="no colon"):
            next(batches)


def test_does_not_mind_a_malformed_message_behind_its_end() -> None:
    stream = Stream(*range(4))
    answer = stream.broker._asked

    def asked(number: int, frame: bytes) -> bytes:
        bad = message(4, b"x", header_of(frame, b"id"), [b"x-stream-offset:4", b"no colon"])
        return answer(number, frame) + (bad if b"x-stream-offset:first" in frame else b"")

    stream.broker._asked = asked
    assert read(stream) == [f"a@{offset}" for offset in range(4)]


class TestTheNewest:
    @staticmethod
    def shown(stream: Stream, count: int, *, follows: bool = False, **options: str) -> Iterator[int]:
        """The offset of each message."""
        with parsed(stream.broker, **options) as given:
            for batch, _ in tail_stream(given, NAME, count, follows=follows):
                yield from range(batch.first_number, batch.end)

    def test_messages_up_to_the_end(self) -> None:
        """Retention may have deleted some."""
        assert [*self.shown(Stream(7, 8, 9), 9)] == [7, 8, 9]
        stream = Stream(*range(12), window=2)
        stream.published = [9]
        assert [*self.shown(stream, 5)] == [4, 5, 6, 7, 8]
        assert [*self.shown(stream, 0)] == []
        assert [*self.shown(Stream(), 5)] == []

    def test_messages_that_a_filter_leaves_out_are_not_waited_for(self) -> None:
        stream = Stream(*range(12))
        for kept in ([], [9, 10]):
            stream.times = {"offset=9": kept}
            assert [*self.shown(stream, 3)] == kept

    def test_messages_and_what_comes_then(self) -> None:
        """Also over a broken connection, and whatever is silent."""
        stream = Stream(*range(12), window=3, closing=[3])
        assert [*islice(self.shown(stream, 6, follows=True), 6)] == [6, 7, 8, 9, 10, 11]
        assert stream.begins[2:] == ["offset=6", "offset=9"]
        assert not any(thread.name.startswith("stomp-receiver") for thread in threading.enumerate())

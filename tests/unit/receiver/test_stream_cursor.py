"""How far a stream was received: what is new, what is missing, and where the next connection begins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from support.options import source_options

from spark_stomp.errors import ConnectionLost, StreamTruncated
from spark_stomp.options import SourceOptions
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import StreamCursor, begin_of, stream_receiver

STREAM = "/amq/queue/a"


class Broker:
    """Says where the stream begins and ends; ``asked`` counts how often it was asked."""

    first = end = 0
    asked = 0

    def first_offset(self, options: SourceOptions, destination: str, peer: str) -> int:
        assert (destination, peer) == (STREAM, "b:1")
        self.asked += 1
        return self.first

    def stream_ends(self, options: SourceOptions, destinations: Sequence[str], peer: str) -> dict[str, int]:
        assert (destinations, peer) == ([STREAM], "b:1")
        self.asked += 1
        return {STREAM: self.end}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(stream_receiver, "first_offset", broker.first_offset)
    monkeypatch.setattr(stream_receiver, "stream_ends", broker.stream_ends)
    return broker


def cursor(begin: int | str, **options: str) -> StreamCursor:
    given = source_options("stomp://b", STREAM, startingOffsets="latest", **options)
    return StreamCursor(given, STREAM, begin)


def taken(one: StreamCursor, *offsets: int) -> list[int]:
    """The offsets of the frames that are new, of a block with these."""
    frames = [b"MESSAGE\nx-stream-offset:%d\n\n\0" % offset for offset in offsets]
    block = MessageBlock(b"".join(frames), list(accumulate(map(len, frames))), [], [])
    return [first + at for first, part in one.take(block, "b:1") for at in range(len(part.ends))]


class TestWhereItBegins:
    @pytest.mark.parametrize(
        ("starting", "begin", "header"),
        [
            ("earliest", "first", "first"),
            ("2026-11-23T08:00:00Z", "timestamp=1795420800", "timestamp=1795420800"),
            ('{"a": 7}', 7, "offset=7"),
            ('{"a": -2}', "first", "first"),
        ],
    )
    def test_is_what_the_option_says(self, starting: str, begin: int | str, header: str) -> None:
        assert begin_of(source_options("stomp://b", STREAM, startingOffsets=starting), STREAM) == begin
        assert cursor(begin).header() == (("x-stream-offset", header),)

    @pytest.mark.rule("R.4")
    def test_at_the_end_that_the_stream_has_at_first(self, broker: Broker) -> None:
        broker.end = 40
        one = cursor("latest")
        one.locate("b:1")
        assert one.next == 40
        assert one.header() == (("x-stream-offset", "offset=40"),)
        broker.end = 50
        one.locate("b:1")
        assert (one.next, broker.asked) == (40, 1)

    @pytest.mark.rule("R.3")
    @pytest.mark.parametrize("begin", ["first", "timestamp=1", 3])
    def test_and_goes_on_behind_the_last_message(self, begin: int | str) -> None:
        one = cursor(begin)
        assert taken(one, 3, 4) == [3, 4]
        assert one.header() == (("x-stream-offset", "offset=5"),)


@pytest.mark.rule("R.3")
def test_messages_before_the_next_one_are_skipped() -> None:
    one = cursor(5)
    assert taken(one, 2, 3, 4) == []
    assert taken(one, 3, 4, 5, 6) == [5, 6]
    assert taken(one, 5, 6) == []
    assert one.next == 7


@pytest.mark.rule("R.6")
class TestAGap:
    @pytest.mark.parametrize("first", [0, 7])
    def test_that_never_had_messages_is_none(self, broker: Broker, first: int) -> None:
        one = cursor(5)
        broker.first = first
        assert taken(one, 5, 6, 9, 10) == [5, 6, 9, 10]
        assert (one.next, broker.asked) == (11, 1)

    def test_of_one_offset_is_the_record_of_a_segment(self, broker: Broker) -> None:
        """Also if the segment that was just read is deleted. But a new subscription may have come late."""
        one = cursor(5)
        broker.first = 8
        assert taken(one, 5, 6, 8, 9) == [5, 6, 8, 9]
        assert broker.asked == 0
        one.header()
        broker.first = 11
        with pytest.raises(StreamTruncated, match="offsets 10 to 10"):
            taken(one, 11)

    def test_is_not_looked_for_before_the_first_message(self, broker: Broker) -> None:
        assert taken(cursor("first"), 900) == [900]
        assert broker.asked == 0

    @pytest.mark.parametrize("first", [7, 11])
    def test_whose_messages_are_gone_fails_the_query_and_is_named(self, broker: Broker, first: int) -> None:
        broker.first = first
        with pytest.raises(
            StreamTruncated, match=f"offsets 5 to 10 of the stream {STREAM} are .* {first} now"
        ):
            taken(cursor(5), 11, 12)

    def test_is_logged_if_that_is_what_the_user_wants(
        self, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.first = 11
        assert taken(cursor(5, failOnDataLoss="false"), 11, 12) == [11, 12]
        assert "failOnDataLoss=false: offsets 5 to 10 of the stream" in caplog.text

    def test_of_which_rabbitmq_says_nothing_is_not_skipped(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object) -> int:
            raise ConnectionLost("b:1 did not say")

        monkeypatch.setattr(stream_receiver, "first_offset", lost)
        one = cursor(5)
        with pytest.raises(ConnectionLost):
            taken(one, 11)
        assert one.next == 5


@pytest.mark.rule("R.6")
class TestTheEnd:
    def test_may_be_where_reading_begins(self) -> None:
        cursor(5).check_end(5, started=False)
        cursor("first").check_end(0, started=False)

    def test_before_that_is_logged_and_the_stream_read_from_its_beginning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        one = cursor(5, failOnDataLoss="false")
        one.check_end(4, started=False)
        assert "failOnDataLoss=false: the stream" in caplog.text
        assert (one.next, one.header()) == (None, (("x-stream-offset", "first"),))

    def test_but_not_behind_messages_of_this_run(self) -> None:
        one = cursor(5, failOnDataLoss="false")
        with pytest.raises(StreamTruncated, match="Start the query again"):
            one.check_end(4, started=True)

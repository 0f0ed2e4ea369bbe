"""How far a stream was received: what is new, what is missing, and where the next connection begins."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.by_hand import block_of, of_stream
from support.options import source_options

from spark_stomp.errors import ConnectionLost, StreamTruncated
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import (
    FIRST,
    LATEST,
    ReceiverSettings,
    StreamProgress,
    StreamReading,
    StreamStart,
    began_anew,
    start_at,
    stream_reading,
    stream_start,
)
from spark_stomp.receiver.reading import ReceiverState
from spark_stomp.receiver.turns import Turn

STREAM = "/amq/queue/a"
SINCE = StreamStart("timestamp=1795420800")
PEER: Any = SimpleNamespace(peer="b:61613", beat_while=lambda work: work())


class Broker:
    """Says where the stream begins and ends; ``asked`` counts how often it was asked."""

    first = end = 0
    asked = 0

    def first_offset(self, options: SourceOptions, destination: str, peer: str) -> int:
        assert (destination, peer) == (STREAM, "b:61613")
        self.asked += 1
        return self.first

    def stream_ends(self, options: SourceOptions, destinations: Sequence[str], peer: str) -> dict[str, int]:
        assert (destinations, peer) == ([STREAM], "b:61613")
        self.asked += 1
        return {STREAM: self.end}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(stream_reading, "ask_first_offset", broker.first_offset)
    monkeypatch.setattr(stream_reading, "ask_stream_ends", broker.stream_ends)
    return broker


def options(**given: str) -> SourceOptions:
    return source_options("stomp://b", STREAM, startingOffsets="latest", **given)


class Lone(StreamReading):
    """It has no connection."""

    def __init__(self, begin: StreamStart, **given: str) -> None:
        self.held = of_stream("a#0")
        self.held.begin_at(begin)
        self.held.connected(keyed=False)
        settings = ReceiverSettings("a#0", (STREAM,), options(**given))
        super().__init__(ReceiverState(settings, self.held), Turn(settings.destinations))

    @property
    def stream(self) -> StreamProgress:
        return self.held.stream

    def take(self, *offsets: int) -> list[int]:
        """The offsets of the frames that are new, of a block with these."""
        frames = [b"MESSAGE\nx-stream-offset:%d\n\n\0" % offset for offset in offsets]
        before = self.held.log.end
        self._take_new(PEER, block_of(frames), "1.2")
        log = self.held.log
        return [one for part in log.readable(max(before, log.committed), log.end) for one in range(*part)]


class TestWhereItBegins:
    @pytest.mark.parametrize(
        ("starting", "begin", "header"),
        [
            ("earliest", FIRST, "first"),
            ("latest", LATEST, "latest"),
            ("2026-11-23T08:00:00Z", SINCE, "timestamp=1795420800"),
            ('{"a": 7}', start_at(7), "offset=7"),
            ('{"a": -2}', FIRST, "first"),
        ],
    )
    def test_is_what_the_option_says(self, starting: str, begin: StreamStart, header: str) -> None:
        assert stream_start(source_options("stomp://b", STREAM, startingOffsets=starting), STREAM) == begin
        assert StreamProgress(begin).subscribe() == (("x-stream-offset", header),)

    @pytest.mark.rule("R.3")
    @pytest.mark.parametrize("begin", [FIRST, SINCE, start_at(3)])
    def test_and_goes_on_behind_the_last_message(self, begin: StreamStart) -> None:
        one = Lone(begin)
        assert one.take(3, 4) == [3, 4]
        assert (one.stream.base, one.stream.next) == (3, 5)
        assert one.stream.subscribe() == (("x-stream-offset", "offset=5"),)


# Where a run begins, the next offset, and whether it is known that the stream does not end before it. Then
# whether all is here of a stream that ended at 10 when the run began.
TABLE = [
    (FIRST, None, False, False),
    (FIRST, None, True, False),  # messages are only late
    (SINCE, None, False, False),
    (SINCE, None, True, True),  # none since that time
    (LATEST, None, False, False),
    (LATEST, 10, False, True),
    (LATEST, 12, False, True),  # it was asked after the end that is wanted
    (start_at(3), 3, True, False),
    (start_at(10), 10, False, True),
    (start_at(12), 12, False, False),  # it may have been declared anew
    (start_at(12), 12, True, True),
    (FIRST, 9, True, False),
    (FIRST, 10, False, True),
    (FIRST, 12, True, True),
]


@pytest.mark.rule("R.5")
@pytest.mark.parametrize(("place", "following", "end_is_known", "all_is_here"), TABLE)
@pytest.mark.parametrize("wanted", [0, 11])
def test_when_all_has_come(
    place: StreamStart, following: int | None, end_is_known: bool, all_is_here: bool, wanted: int
) -> None:
    """A planned batch changes nothing of it, and is awaited itself."""
    one = StreamProgress(place, wanted)
    if following is not None:
        one.locate(following)
    if end_is_known:
        one.note_end_known()
    assert one.has_all_below(10) == all_is_here
    assert one.has_all_below(0) == (following in (None, 0) or end_is_known or place == LATEST)
    assert one.awaits_planned == ((following or 0) < wanted)


@pytest.mark.rule("R.3")
def test_messages_before_the_next_one_are_skipped() -> None:
    one = Lone(start_at(5))
    assert one.take(2, 3, 4) == []
    assert one.take(3, 4, 5, 6) == [5, 6]
    assert one.take(5, 6) == []
    assert one.stream.next == 7


@pytest.mark.rule("R.6")
class TestAGap:
    @pytest.mark.parametrize("first", [0, 7])
    def test_that_never_had_messages_is_none(self, broker: Broker, first: int) -> None:
        one = Lone(start_at(5))
        broker.first = first
        assert one.take(5, 6, 9, 10) == [5, 6, 9, 10]
        assert (one.stream.next, broker.asked) == (11, 1)

    def test_of_one_offset_is_the_record_of_a_segment(self, broker: Broker) -> None:
        """Also if the segment that was just read is deleted. But a new subscription may have come late."""
        one = Lone(start_at(5))
        broker.first = 8
        assert one.take(5, 6, 8, 9) == [5, 6, 8, 9]
        assert broker.asked == 0
        one.stream.subscribe()
        broker.first = 11
        with pytest.raises(StreamTruncated, match="offsets 10 to 10"):
            one.take(11)

    def test_many_of_a_block_cost_one_question(self, broker: Broker) -> None:
        """A filter makes them."""
        one = Lone(FIRST)
        assert one.take(0, 1, 10, 11, 20, 21, 30) == [0, 1, 10, 11, 20, 21, 30]
        assert broker.asked == 1
        broker.first = 45
        with pytest.raises(StreamTruncated, match="offsets 33 to 39"):
            one.take(32, 40, 50)

    def test_is_not_looked_for_before_the_first_message(self, broker: Broker) -> None:
        assert Lone(FIRST).take(900) == [900]
        assert broker.asked == 0

    @pytest.mark.parametrize("first", [7, 11])
    def test_whose_messages_are_gone_fails_the_query_and_is_named(self, broker: Broker, first: int) -> None:
        broker.first = first
        with pytest.raises(
            StreamTruncated, match=f"offsets 5 to 10 of the stream {STREAM} are .* {first} now"
        ):
            Lone(start_at(5)).take(11, 12)

    def test_is_logged_if_that_is_what_the_user_wants(
        self, broker: Broker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.first = 11
        assert Lone(start_at(5), failOnDataLoss="false").take(11, 12) == [11, 12]
        assert "failOnDataLoss=false: offsets 5 to 10 of the stream" in caplog.text

    def test_of_which_rabbitmq_says_nothing_is_not_skipped(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object) -> int:
            raise ConnectionLost("b:61613 did not say")

        monkeypatch.setattr(stream_reading, "ask_first_offset", lost)
        one = Lone(start_at(5))
        with pytest.raises(ConnectionLost):
            one.take(11)
        assert one.stream.next == 5


@pytest.mark.rule("R.6")
class TestTheEnd:
    @pytest.mark.parametrize(
        ("begin", "wanted", "end"), [(start_at(5), 0, 5), (start_at(5), 7, 7), (FIRST, 0, 0)]
    )
    def test_may_be_where_reading_begins_or_a_planned_batch_ends(
        self, begin: StreamStart, wanted: int, end: int
    ) -> None:
        assert not began_anew(options(), STREAM, StreamProgress(begin, wanted), end)

    @pytest.mark.parametrize(
        ("wanted", "end", "behind"),
        [(0, 4, "next one to be read is 5"), (7, 4, "to be read is 5"), (7, 6, "a batch up to 7")],
    )
    def test_before_that_is_an_error_or_logged(
        self, wanted: int, end: int, behind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        one = StreamProgress(start_at(5), wanted)
        with pytest.raises(StreamTruncated, match=f"ended at offset {end}, .*{behind}"):
            began_anew(options(), STREAM, one, end)
        tolerant = options(failOnDataLoss="false")
        assert began_anew(tolerant, STREAM, one, end)
        assert "failOnDataLoss=false: the stream" in caplog.text
        # But not behind messages of this run.
        with pytest.raises(StreamTruncated, match="Start the query again"):
            began_anew(tolerant, STREAM, one, end, started=True)

    def test_then_the_stream_is_read_from_its_beginning(self, broker: Broker) -> None:
        one = Lone(start_at(5), failOnDataLoss="false")
        broker.end = 4
        one._judge_end(broker.end, PEER)
        assert one.stream.subscribe() == (("x-stream-offset", "first"),)

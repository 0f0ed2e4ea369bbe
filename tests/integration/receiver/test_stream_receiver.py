"""The receiver of a stream of RabbitMQ, with a broker that a test scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.by_hand import of_stream
from support.options import source_options
from support.receivers import started
from support.scripted import CLOSE, Stream, header_of, read_late, receipt_for
from support.tcp import stomp_server
from support.waiting import wait_until

from spark_stomp.errors import ConnectionLost, StompError, StreamTruncated, UnsupportedError
from spark_stomp.options import SourceOptions
from spark_stomp.receiver import (
    FIRST,
    Receiver,
    ReceiverSettings,
    StreamReading,
    StreamStart,
    ask_stream_ends,
    start_at,
)
from spark_stomp.receiver.stream_offsets import ask_first_offset

pytestmark = pytest.mark.usefixtures("quick_ends")

STREAM = "/amq/queue/a"
BYTES = 140
"""More than a message of the scripted stream has, and less than two of them."""


def options_for(url: str, **options: str) -> SourceOptions:
    return source_options(url, STREAM, **{"startingOffsets": "latest", "idleTimeout": "100ms", **options})


class Lone(Receiver):
    def __init__(self, options: SourceOptions, begin: StreamStart, wanted: int) -> None:
        (settings,) = ReceiverSettings.of(options)
        self.held = of_stream(settings.name, settings.max_buffered_bytes)
        self.held.begin_at(begin, "e", wanted)
        self.news = 0
        super().__init__(settings, self.held, self._count, StreamReading)

    def _count(self) -> None:
        self.news += 1

    @property
    def offsets(self) -> list[int]:
        log = self.held.log
        return [one for part in log.readable(log.committed, log.end) for one in range(*part)]

    def commit(self, offset: int) -> None:
        self.held.log.commit(offset)
        self.wake()


@contextmanager
def running(*nodes: Stream, begin: StreamStart = FIRST, wanted: int = 0, **options: str) -> Iterator[Lone]:
    with ExitStack() as servers:
        urls = [servers.enter_context(stomp_server(node.broker.serve)) for node in nodes]
        yield servers.enter_context(started(Lone(options_for(",".join(urls), **options), begin, wanted)))


def failure(receiver: Lone) -> StompError:
    wait_until(lambda: receiver.status().failure is not None, what="the failure")
    found = receiver.status().failure
    assert found is not None
    return found


@pytest.mark.rule("R.3")
@pytest.mark.parametrize("late", [False, True])
def test_after_a_broken_connection_it_goes_on_behind_the_last_message(late: bool) -> None:
    stream = Stream(*range(7), window=3, closing=[1, 2], late=late)
    with running(stream) as receiver:
        wait_until(lambda: len(receiver.offsets) == 7, what="all messages")
        assert receiver.offsets == [*range(7)]
    assert stream.begins[0] == "first"
    assert len(stream.begins) == 3 and all(begin.startswith("offset=") for begin in stream.begins[1:])


@pytest.mark.rule("R.7")
class TestAcks:
    def test_ask_for_more_as_soon_as_messages_are_in_memory(self) -> None:
        stream = Stream(*range(9), window=3)
        with running(stream) as receiver:
            wait_until(lambda: len(stream.acks) == 3, what="an ACK for each window")
            wait_until(lambda: len(receiver.offsets) == 9, what="all messages")
            held = receiver.held
            # None is owed to a message.
            assert (held.acks.unacked, held.acks.unacked_bytes, held.oldest_unacked) == (0, 0, None)
        assert stream.acks == ["a2", "a5", "a8"]

    def test_wait_for_a_commit_while_half_of_the_memory_is_used(self) -> None:
        stream = Stream(*range(12), window=3)
        with running(stream, maxBufferedBytes=str(6 * BYTES)) as receiver:
            wait_until(lambda: receiver.status().window_full, what="a full window")
            assert receiver.offsets == [*range(6)]
            assert stream.acks == ["a2"]
            receiver.commit(6)
            wait_until(lambda: receiver.offsets == [*range(6, 12)], what="the others")

    def test_do_not_wait_while_a_planned_batch_comes(self) -> None:
        stream = Stream(*range(30), window=3)
        with running(stream, begin=start_at(0), wanted=20, maxBufferedBytes=str(6 * BYTES)) as receiver:
            wait_until(lambda: receiver.status().window_full, what="a full window")
            assert len(receiver.offsets) >= 20
        assert stream.acks[-1] == "a17"


class TestTheEnd:
    @pytest.mark.rule("R.6")
    def test_before_the_next_offset_fails_the_query(self) -> None:
        with running(Stream(*range(5)), begin=start_at(6)) as receiver:
            found = failure(receiver)
            assert not receiver.held.stream.end_is_known
        assert isinstance(found, StreamTruncated)
        assert f"the stream {STREAM} ended at offset 5, and the next one to be read is 6" in found.message

    @pytest.mark.rule("R.6")
    @pytest.mark.parametrize("wanted", [0, 8])
    def test_of_a_replica_that_is_behind_is_that_of_another_node(self, wanted: int) -> None:
        """The query goes on there, with failOnDataLoss=false too, and reads nothing again."""
        behind, whole = Stream(*range(5)), Stream(*range(9))
        with running(behind, whole, begin=start_at(6), wanted=wanted, failOnDataLoss="false") as receiver:
            wait_until(lambda: receiver.offsets == [6, 7, 8], what="what is behind the next offset")
            assert "is behind: it ends at offset 5" in str(receiver.status().connection.last_error)
            assert receiver.status().failure is None
        assert whole.begins[-1] == "offset=6"

    @pytest.mark.rule("R.6")
    def test_before_the_next_offset_on_all_nodes_fails_the_query(self) -> None:
        with running(Stream(*range(5)), Stream(*range(3)), begin=start_at(6)) as receiver:
            found = failure(receiver)
        assert isinstance(found, StreamTruncated)
        assert "is behind, and no other address of url has more" in found.message

    @pytest.mark.rule("R.6")
    @pytest.mark.parametrize(("wanted", "first_asked"), [(0, "offset=6"), (9, "next")])
    def test_before_the_next_offset_may_be_a_new_beginning(self, wanted: int, first_asked: str) -> None:
        stream = Stream(*range(5))
        with running(stream, begin=start_at(6), wanted=wanted, failOnDataLoss="false") as receiver:
            wait_until(lambda: receiver.offsets == [*range(5)], what="the stream from its beginning")
            assert receiver.held.log.id != "e" and not receiver.held.stream.awaits_planned
        assert (stream.begins[0], stream.begins[-1]) == (first_asked, "first")

    @pytest.mark.rule("R.6")
    def test_of_an_empty_stream_under_a_planned_batch_costs_no_attempt(self) -> None:
        """Its first message is awaited for as long as attempts to subscribe may take."""
        stream = Stream()
        with running(
            stream, begin=start_at(6), wanted=9, failOnDataLoss="false", connectTimeout="300ms"
        ) as receiver:
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
        assert stream.begins[-1] == "first"

    @pytest.mark.rule("R.6")
    @pytest.mark.parametrize("fail", ["true", "false"])
    @pytest.mark.parametrize("lost", [False, True], ids=["", "another connection"])
    def test_of_an_empty_stream_is_before_its_first_message(self, fail: str, lost: bool) -> None:
        """When that comes, a stream that was declared anew is longer than the old offset."""
        stream = Stream()
        with running(stream, begin=start_at(6), failOnDataLoss=fail) as receiver:
            wait_until(lambda: receiver.held.stream.end_is_known, what="the look at the empty stream")
            stream.offsets = [*range(12)]
            if lost:
                stream.cut()
            else:
                stream.publish(*range(6, 12))
            if fail == "true":
                assert "ended at offset 0, and the next one to be read is 6" in failure(receiver).message
                assert receiver.offsets == []
            else:
                wait_until(lambda: receiver.offsets == [*range(12)], what="the stream from its beginning")

    @pytest.mark.rule("R.6")
    def test_of_a_new_stream_that_grows_meanwhile_is_not_looked_for_again(self) -> None:
        class Growing(Stream):
            def _from(self, where: str) -> list[int]:
                found = super()._from(where)
                if where == "last":
                    self.offsets += range(len(self.offsets), len(self.offsets) + 5)
                return found

        with running(Growing(*range(5)), begin=start_at(6)) as receiver:
            assert "ended at offset 5, and the next one to be read is 6" in failure(receiver).message

    def test_of_a_stream_that_retention_has_emptied_is_no_end(self) -> None:
        stream = Stream()
        with running(stream, begin=start_at(6)) as receiver:
            wait_until(lambda: receiver.held.stream.end_is_known, what="the look at the empty stream")
            stream.offsets = [*range(6, 12)]
            stream.publish(*range(6, 12))
            wait_until(lambda: receiver.offsets == [*range(6, 12)], what="what comes then")

    @pytest.mark.rule("R.5")
    @pytest.mark.parametrize("begin", [start_at(5), StreamStart("timestamp=1795420800")])
    def test_is_known_after_a_silence_and_that_is_news(self, begin: StreamStart) -> None:
        stream = Stream(*range(begin.offset or 0))
        with running(stream, begin=begin) as receiver:
            wait_until(lambda: receiver.status().subscribed, what="the subscription")
            before = receiver.news
            wait_until(lambda: receiver.held.stream.end_is_known, what="the end")
            wait_until(lambda: receiver.news > before, what="news of it")
            assert receiver.status().failure is None


@pytest.mark.rule("R.8")
def test_a_broker_without_streams_is_refused_before_it_is_asked() -> None:
    stream = Stream(1)
    with running(stream, broker="activemq") as receiver:
        found = failure(receiver)
    assert isinstance(found, UnsupportedError)
    assert "startingOffsets is for streams of RabbitMQ" in found.message
    assert stream.begins == []


class Leaving(Stream):
    """It closes each connection that asks where the stream is, with the first message."""

    def _asked(self, number: int, frame: bytes) -> bytes:
        answered = super()._asked(number, frame)
        asks = frame.startswith(b"SUBSCRIBE") and header_of(frame, b"prefetch-count") in (b"1", b"1000")
        return receipt_for(frame) + answered + CLOSE if asks and answered else answered


class TestWhatTheBrokerIsAsked:
    @pytest.mark.rule("4.8")
    def test_is_asked_again_if_the_connection_ends_with_the_answer(self) -> None:
        with stomp_server(Leaving(3, 4).broker.serve) as url, read_late(), pytest.raises(ConnectionLost):
            ask_stream_ends(options_for(url), [STREAM])

    @pytest.mark.parametrize(
        ("offsets", "published", "end"), [((), [], {}), ((3, 4), [], {STREAM: 5}), ((3, 4), [7], {STREAM: 7})]
    )
    def test_where_a_stream_ends(
        self, offsets: tuple[int, ...], published: list[int], end: dict[str, int]
    ) -> None:
        """A message that is published meanwhile is behind it."""
        stream = Stream(*offsets)
        stream.published = published
        with stomp_server(stream.broker.serve) as url:
            assert ask_stream_ends(options_for(url), [STREAM], patience=0.2) == end

    def test_where_it_begins(self) -> None:
        with stomp_server(Stream(3, 4).broker.serve) as url:
            assert ask_first_offset(options_for(url), STREAM, url.removeprefix("stomp://")) == 3

"""The bare socket of the benchmarks."""

from __future__ import annotations

import threading
import time

import pytest
from benchmarks.bare import FrameCounter, Peer, Publishing, Receiving, publish, receive, sent_at

from spark_stomp.devbroker import DevBroker

HEAD = b"MESSAGE\nmessage-id:%d\nack:a-%d\n"
PLAIN = b"".join((HEAD + b"\nbody\0\n") % (number, number) for number in range(3))
WITH_NUL = HEAD % (3, 3) + b"content-length:5\n\nwi\0th\0"
RECEIPT = b"RECEIPT\nreceipt-id:r-1\n\n\0"
STREAM = PLAIN + WITH_NUL + RECEIPT + HEAD % (4, 4) + b"\nlast\0"


@pytest.mark.parametrize("size", [1, 2, 7, 50, len(STREAM)])
def test_frames_are_counted_however_they_are_cut(size: int) -> None:
    counter, handles = FrameCounter(), []
    for place in range(0, len(STREAM), size):
        handles += counter.feed(STREAM[place : place + size])
    assert handles == [b"a-%d" % number for number in range(5)]
    assert counter.receipts == [b"r-1"]


def test_a_large_frame_is_looked_through_once_it_is_there() -> None:
    counter, body = FrameCounter(), b"x" * 1_000
    counter.feed(HEAD % (0, 0) + b"content-length:%d\n\n" % len(body))
    for place in range(0, len(body), 10):
        assert counter.feed(body[place : place + 10]) == []
        assert len(counter._pieces) == place // 10 + 2, "the pieces are not joined before"
    assert counter.feed(b"\0") == [b"a-0"]


def test_an_error_of_the_broker_is_raised() -> None:
    with pytest.raises(ConnectionError, match="no such queue"):
        FrameCounter().feed(b"ERROR\nmessage:no such queue\n\n\0")


@pytest.mark.parametrize("connections", [1, 3])
def test_what_was_published_is_received_and_acked(connections: int) -> None:
    with DevBroker() as broker:
        peer = Peer("127.0.0.1", broker.port)
        publish(Publishing(peer, "/queue/a", 5_000, body=300, persistent=True))
        found = receive(Receiving(peer, "/queue/a", 5_000, connections, {"prefetch-count": "100"}))
        assert found["messages"] == 5_000
        assert broker.queue("/queue/a").depth == 0


def test_messages_at_a_rate_say_when_they_were_sent() -> None:
    with DevBroker() as broker:
        peer, began = Peer("127.0.0.1", broker.port), time.time()
        settings = Publishing(peer, "/queue/a", 200, body=100, rate=2_000)
        publisher = threading.Thread(target=publish, args=(settings,))
        publisher.start()
        publisher.join(60)
        assert time.time() - began >= 199 / 2_000
        assert broker.queue("/queue/a").depth == 200
    frame = settings.frame(b"%20d" % 1_700_000_000_000_000_000)
    body = frame.partition(b"\n\n")[2][:-1]
    assert len(body) == 100
    assert sent_at(body) == 1_700_000_000.0

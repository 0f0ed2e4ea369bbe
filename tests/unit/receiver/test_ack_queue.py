"""The queue: handles in order, each once; confirmed means receipted."""

from __future__ import annotations

import pytest

from spark_stomp.frame_batch import FrameBatch, MessageKey
from spark_stomp.receiver.ack_queue import AckQueue
from spark_stomp.receiver.blocks import Block

KEY = MessageKey("/queue/a", b"id", b"")
MANY = 1_000
SIZE = 10


def handles(first: int, count: int) -> list[bytes]:
    return [b"h%d" % number for number in range(first, first + count)]


class Connection:
    """A connection on which ``count`` messages of 10 bytes came as one block."""

    def __init__(self, count: int) -> None:
        ends = [SIZE * (at + 1) for at in range(count)]
        self.block = Block(FrameBatch(b"", ends, 0, 0, "1.2"), None, handles=handles(0, count))
        self.queue = AckQueue()
        self.queue.came(count, SIZE * count, at=0)
        self.committed = 0

    def commit(self, upto: int) -> None:
        """Everything below ``upto`` may be ACKed."""
        self.queue.push(self.block, self.committed, upto)
        self.committed = upto

    @property
    def confirmed(self) -> int:
        return self.block.confirmed

    def take(self, most: int = MANY) -> list[bytes]:
        acks = self.queue.take_acks(most)
        return [] if acks is None else acks.handles

    def send(self, upto: int, receipt: str) -> None:
        self.commit(upto)
        assert self.take()
        self.queue.sent(receipt, deadline=float(upto))


def test_no_more_at_once_than_asked_for() -> None:
    one = Connection(7)
    one.commit(3)
    one.commit(7)
    taken = [one.take(most=2) for _ in range(4)]
    assert taken == [handles(0, 2), handles(2, 2), handles(4, 2), handles(6, 1)]
    assert one.take() == []


@pytest.mark.rule("1.10")
def test_confirmed_grows_with_receipts_only() -> None:
    one = Connection(4)
    one.send(4, "r1")
    assert (one.confirmed, one.queue.next_deadline) == (0, 4.0)
    assert (one.queue.unacked, one.queue.has_pending, one.queue.owed) == (4, True, 4)
    assert one.queue.unacked_bytes == 4 * SIZE
    assert one.queue.confirm("r1")
    assert (one.confirmed, one.queue.next_deadline) == (4, None)
    assert (one.queue.unacked, one.queue.has_pending, one.queue.owed) == (0, False, 0)
    assert one.queue.unacked_bytes == 0


@pytest.mark.rule("1.10")
def test_a_later_receipt_does_not_vouch_for_an_earlier_group() -> None:
    one = Connection(9)
    for upto, receipt in ((3, "a"), (6, "b"), (9, "c")):
        one.send(upto, receipt)
    for receipt, confirmed in (("c", 3), ("b", 6)):
        one.queue.confirm(receipt)
        assert (one.confirmed, one.queue.next_deadline, one.queue.has_pending) == (confirmed, 3.0, True)
    one.queue.confirm("a")
    assert (one.confirmed, one.queue.next_deadline, one.queue.has_pending) == (9, None, False)


def test_a_receipt_of_something_else_is_not_ours() -> None:
    assert Connection(1).queue.confirm("subscribe") is None


def test_a_receipt_names_the_keys_of_redelivered_messages() -> None:
    one = Connection(1)
    one.queue.came_again(b"x", 7, at=0)
    assert one.queue.unacked_bytes == SIZE + 7
    one.queue.push_again(KEY, b"x")
    one.send(1, "r")
    acks = one.queue.confirm("r")
    assert acks is not None
    assert (acks.handles, acks.keys, acks.ranges) == ([b"x", b"h0"], (KEY,), ((one.block, 0, 1),))
    assert one.queue.unacked_bytes == 0


class TestOldestUnacked:
    """When the oldest delivery came that the broker has no confirmed ACK of."""

    def test_is_that_of_the_first_new_message_without_receipt(self) -> None:
        one = Connection(4)
        one.queue = AckQueue()
        assert one.queue.oldest_unacked is None
        one.queue.came(2, 2 * SIZE, at=1.0)
        one.queue.came(2, 2 * SIZE, at=2.0)
        assert one.queue.oldest_unacked == 1.0
        one.send(3, "r1")
        assert one.queue.oldest_unacked == 1.0, "sent, but not confirmed"
        one.queue.confirm("r1")
        assert one.queue.oldest_unacked == 2.0
        one.send(4, "r2")
        one.queue.confirm("r2")
        assert one.queue.oldest_unacked is None
        assert one.queue.unacked == 0

    def test_a_message_that_came_again_counts_from_then_until_its_receipt(self) -> None:
        queue = AckQueue()
        queue.came_again(b"h", SIZE, at=300)
        queue.came(1, SIZE, at=400)
        assert queue.oldest_unacked == 300
        queue.push_again(KEY, b"h")
        acks = queue.take_acks(MANY)
        assert acks is not None
        assert acks.handles == [b"h"]
        queue.sent("r1", deadline=0.0)
        assert queue.oldest_unacked == 300
        queue.confirm("r1")
        assert queue.oldest_unacked == 400

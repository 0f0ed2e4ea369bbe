"""The queue: handles in order, each once; confirmed means receipted."""

from __future__ import annotations

import pytest

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.ack_queue import AckQueue
from spark_stomp.receiver.marks import Marks

KEY = MessageKey("/queue/a", b"id", b"")
MANY = 1_000


def handles(first: int, count: int) -> list[bytes]:
    return [b"h%d" % number for number in range(first, first + count)]


class Connection:
    """A connection on which ``count`` messages came; the first of them has the number ``before``."""

    def __init__(self, count: int, before: int = 0) -> None:
        self.marks = Marks(committed=before, kept=before, received=before + count)
        self.before = before
        self.queue = AckQueue(self.marks)
        self.queue.came(before + count, count, at=0)

    def commit(self, upto: int, *, first: int | None = None) -> None:
        """Everything below ``upto`` may be ACKed; frames below ``first`` came on an earlier connection."""
        low = max(self.marks.committed, self.before if first is None else first)
        self.marks.advance(committed=upto, kept=upto)
        if upto > low:
            self.queue.push(low, handles(low, upto - low))
        self.queue.advance()

    def take(self, most: int = MANY) -> list[bytes]:
        acks = self.queue.take(most)
        return [] if acks is None else acks.handles

    def send(self, upto: int, receipt: str) -> None:
        self.commit(upto)
        assert self.take()
        self.queue.sent(receipt, deadline=float(upto))


def test_no_more_at_once_than_asked_for() -> None:
    one = Connection(7)
    one.commit(3)
    one.commit(7)
    assert [one.take(most=2) for _ in range(4)] == [
        handles(0, 2),
        handles(2, 2),
        handles(4, 2),
        handles(6, 1),
    ]
    assert one.take() == []


@pytest.mark.rule("1.10")
def test_confirmed_grows_with_receipts_only() -> None:
    one = Connection(4)
    one.send(4, "r1")
    assert (one.queue.confirmed, one.queue.next_deadline) == (0, 4.0)
    assert (one.queue.unacked, one.queue.pending) == (4, True)
    assert one.queue.confirm("r1")
    assert (one.queue.confirmed, one.queue.next_deadline) == (4, None)
    assert (one.queue.unacked, one.queue.pending) == (0, False)


@pytest.mark.rule("1.10")
def test_a_later_receipt_does_not_vouch_for_an_earlier_group() -> None:
    one = Connection(9)
    for upto, receipt in ((3, "a"), (6, "b"), (9, "c")):
        one.send(upto, receipt)
    one.queue.confirm("c")
    one.queue.confirm("b")
    assert (one.queue.confirmed, one.queue.next_deadline) == (0, 3.0)
    one.queue.confirm("a")
    assert (one.queue.confirmed, one.queue.next_deadline) == (9, None)


@pytest.mark.rule("1.10")
def test_a_commit_while_acks_are_being_sent_confirms_none_of_them() -> None:
    one = Connection(2)
    one.commit(1)
    assert one.take() == handles(0, 1)
    one.commit(2)
    assert (one.queue.confirmed, one.queue.pending) == (0, True)


def test_a_receipt_of_something_else_is_not_ours() -> None:
    assert Connection(1).queue.confirm("subscribe") is None


class TestAnotherConnectionBefore:
    def test_what_came_on_it_has_nothing_to_confirm(self) -> None:
        one = Connection(6, before=3)
        one.commit(6, first=7)
        assert one.take() == []
        assert one.queue.confirmed == 6
        one.commit(8, first=7)
        assert one.take() == handles(7, 1)
        assert one.queue.confirmed == 7

    def test_nor_does_it_overtake_what_is_unconfirmed(self) -> None:
        one = Connection(5)
        one.send(2, "r")
        one.commit(5, first=5)
        assert one.take() == []
        assert one.queue.confirmed == 0
        one.queue.confirm("r")
        assert one.queue.confirmed == 5


def test_a_receipt_names_the_keys_of_redelivered_messages() -> None:
    one = Connection(1)
    one.queue.came_again(b"x", at=0)
    one.queue.push_again(KEY, b"x")
    one.send(1, "r")
    acks = one.queue.confirm("r")
    assert acks is not None
    assert (acks.handles, acks.keys, acks.first) == ([b"x", b"h0"], (KEY,), 0)


class TestOldestUnacked:
    """When the oldest delivery came that the broker has no confirmed ACK of."""

    def test_is_that_of_the_first_new_frame_without_receipt(self) -> None:
        one = Connection(0)
        assert one.queue.oldest_unacked is None
        one.marks.advance(received=4)
        one.queue.came(2, 2, at=1_000_000)
        one.queue.came(4, 2, at=2_000_000)
        assert one.queue.oldest_unacked == 1_000_000
        one.send(3, "r1")
        assert one.queue.oldest_unacked == 1_000_000, "sent, but not confirmed"
        one.queue.confirm("r1")
        assert one.queue.oldest_unacked == 2_000_000
        one.send(4, "r2")
        one.queue.confirm("r2")
        assert one.queue.oldest_unacked is None
        assert one.queue.unacked == 0

    def test_a_message_that_came_again_counts_from_then_until_its_receipt(self) -> None:
        one = Connection(0, before=5)
        one.marks.advance(received=6)
        one.queue.came_again(b"h", at=300)
        one.queue.came(6, 1, at=400)
        assert one.queue.oldest_unacked == 300
        one.queue.push_again(KEY, b"h")
        assert one.take() == [b"h"]
        one.queue.sent("r1", deadline=0.0)
        assert one.queue.oldest_unacked == 300
        one.queue.confirm("r1")
        assert one.queue.oldest_unacked == 400

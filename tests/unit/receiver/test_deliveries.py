"""What a receiver makes of deliveries and of the ends of connections, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries, Offer, offer
from spark_stomp.receiver.status import Counts


class Query:
    """Two receivers of one query; handles and messages are made up as they are delivered."""

    def __init__(self) -> None:
        self.index = DedupIndex()
        self.first, self.second = (Deliveries(1 << 20, self.index) for _ in range(2))
        for receiver in (self.first, self.second):
            receiver.connected(keyed=True)
        self.handles = 0

    def deliver(self, to: Deliveries, *ids: str, again: bool = False, body: str = "") -> list[bytes]:
        """Messages of these ids, whose body is the id unless given; returns their handles.

        "" has no id, and "q:a" is "a" that came by the subscription "q".
        """
        block = MessageBlock(b"", [], [], [])
        for one in ids:
            by, _, name = one.rpartition(":")
            self.handles += 1
            block.acks.append(b"h%d" % self.handles)
            head = (f"subscription:{by}\n" if by else "") + ("redelivered:true\n" if again else "")
            head = f"MESSAGE\ndestination:/q\n{head}\n"
            block.heads += head.encode()
            block.data += f"{head}{body or name}\0".encode()
            block.ends.append(len(block.data))
            block.ids.append(name.encode() or None)
        to.receive(block, received_at=0, version="1.2", dialect="generic")
        return block.acks

    def acks(self, receiver: Deliveries, receipt: str = "r") -> list[bytes]:
        """What the receiver sends now."""
        acks = receiver.due(1_000)
        if acks is None:
            return []
        receiver.sent(receipt, 0.0)
        return acks.handles


def offered(receiver: Deliveries, upto: int) -> bool:
    return offer([Offer(receiver, upto, receiver.discards)])


def rows(receiver: Deliveries) -> list[str]:
    low, high = receiver.committed, receiver.frames.received
    data = b"".join(bytes(batch.data) for batch in receiver.frames.batches(low, high))
    return [frame.split(b"\n\n")[1].decode() for frame in data.split(b"\0")[:-1]]


def again(deliveries: Deliveries) -> Counts:
    """What became of the messages that came again."""
    return replace(deliveries.counts, delivered=0, bytes=0)


def test_every_delivery_counts_with_its_bytes(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    query.deliver(query.first, "a", again=True)
    frames = (b"MESSAGE\ndestination:/q\n\na\0", b"MESSAGE\ndestination:/q\nredelivered:true\n\na\0")
    assert query.first.counts.delivered == 3
    assert query.first.counts.bytes == 2 * len(frames[0]) + len(frames[1])
    assert query.first.frames.received == 2


@pytest.mark.parametrize(
    ("heads", "count"),
    [
        # As RabbitMQ 4.3.6 sends them from a quorum queue.
        ([["redelivered:true", "x-acquired-count:7", "x-delivery-count:7"], ["redelivered:false"]], 7),
        ([["redelivered:true", "x-delivery-count:9"], ["redelivered:true", "x-delivery-count:12"]], 12),
        # A producer's: at the first delivery, or nonsense.
        ([["redelivered:false", "x-delivery-count:9"]], 0),
        ([["redelivered:true"], ["redelivered:false", "x-delivery-count:9"]], 0),
        ([["redelivered:true", "x-delivery-count:abc"]], 0),
        ([["redelivered:true", "x-delivery-count:1234567890"]], 0),
        ([["redelivered:true", "x-delivery-count:4", "x-delivery-count:5", "x-delivery-count:1x"]], 5),
        ([["redelivered:true", "not-x-delivery-count:4"]], 0),
    ],
)
def test_the_largest_count_of_deliveries_is_kept(query: Query, heads: list[list[str]], count: int) -> None:
    data = b"".join(
        f"MESSAGE\nsubscription:q\n{''.join(line + chr(10) for line in lines)}\n".encode() for lines in heads
    )
    block = MessageBlock(data, [len(data)], [b"h"], [None], heads=data)
    query.first.receive(block, received_at=0, version="1.2", dialect="rabbitmq")
    assert query.first.delivery_count == query.first.counts.delivery_count == count
    query.deliver(query.first, "a", again=True)
    assert query.first.delivery_count == count


@pytest.fixture
def query() -> Iterator[Query]:
    made = Query()
    yield made
    made.first.close()
    made.second.close()


@pytest.mark.rule("2.3", "2.4")
def test_what_was_offered_stays_and_the_rest_is_discarded(query: Query) -> None:
    query.deliver(query.first, "a", "b", "c", "d")
    assert offered(query.first, 2)
    query.first.disconnected(redelivers=True)
    assert rows(query.first) == ["a", "b"]
    assert query.first.discards == 1
    query.first.connected(keyed=True)
    query.deliver(query.first, "c", "d", again=True)
    assert rows(query.first) == ["a", "b", "c", "d"]


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("but", [[], ["t"]])
def test_where_nothing_comes_again_everything_stays(query: Query, but: list[str]) -> None:
    query.deliver(query.first, "a", "q:b", "t:c")
    query.first.disconnected(redelivers=False, but=but)
    assert rows(query.first) == ["a", "b", "c"]
    assert query.first.discards == 0


@pytest.mark.rule("2.4")
def test_what_some_subscriptions_do_not_deliver_again_stays_with_new_numbers(query: Query) -> None:
    """A plain topic beside queues; a message that names no subscription may be its."""
    query.deliver(query.first, "q:a", "q:b", "t:c", "q:d", "t:e")
    query.deliver(query.first, "q:f")
    query.deliver(query.first, "g", "u:")
    assert offered(query.first, 1)
    chosen = Offer(query.first, 5, query.first.discards)
    query.first.disconnected(redelivers=True, but=["t", "u"])
    assert rows(query.first) == ["a", "c", "e", "g", ""]
    assert not offer([chosen])
    query.first.connected(keyed=True)
    # Their ids are still known, those of the discarded ones are not.
    query.deliver(query.first, "q:b", "q:d", "q:f", "t:c", "t:e", again=True)
    assert rows(query.first) == ["a", "c", "e", "g", "", "b", "d", "f"]
    assert again(query.first) == Counts(redelivered=5, reattached=2)
    assert offered(query.first, 8)
    query.first.commit(8)
    assert len(query.acks(query.first)) == 5


@pytest.mark.rule("4.1")
def test_old_handles_are_void_and_new_ones_are_acked(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    assert offered(query.first, 2)
    query.first.disconnected(redelivers=True)
    query.first.connected(keyed=True)
    new = query.deliver(query.first, "a", again=True)
    query.first.commit(2)
    assert query.acks(query.first) == new
    assert query.acks(query.first) == []
    assert again(query.first) == Counts(redelivered=1, reattached=1)


@pytest.mark.rule("4.3")
def test_the_mark_of_redelivery_does_not_matter(query: Query) -> None:
    query.deliver(query.first, "a")
    handles = query.deliver(query.second, "a", again=False)
    assert rows(query.second) == []
    assert offered(query.first, 1)
    query.first.commit(1)
    assert query.acks(query.second) == handles


@pytest.mark.rule("4.4")
def test_every_live_handle_is_acked_on_its_own_connection(query: Query) -> None:
    one = query.deliver(query.first, "a")
    two = query.deliver(query.second, "a") + query.deliver(query.second, "a")
    assert query.acks(query.first) + query.acks(query.second) == []
    query.first.commit(1)
    assert (query.acks(query.first), query.acks(query.second)) == (one, two)


@pytest.mark.rule("4.4")
def test_a_redelivery_is_acked_although_its_batch_was_joined_to_another(query: Query) -> None:
    """The journal has both batches, so they become one."""
    one = query.deliver(query.first, "a") + query.deliver(query.first, "b")
    two = query.deliver(query.second, "b", again=True)
    for batch in query.first.take(1 << 20):
        query.first.journaled(batch, batch.first_sequence)
    assert len(query.first.frames.held(0, 2)) == 1
    query.first.commit(1)
    assert (query.acks(query.first), query.acks(query.second)) == (one[:1], [])
    query.first.commit(2)
    assert (query.acks(query.first), query.acks(query.second)) == (one[1:], two)


@pytest.mark.rule("2.6")
def test_a_frame_that_another_delivery_counts_on_is_not_discarded(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    handles = query.deliver(query.second, "a", again=True)
    query.first.disconnected(redelivers=True)
    assert rows(query.first) == ["a"]
    query.first.commit(1)
    assert query.acks(query.second) == handles


@pytest.mark.rule("4.5")
def test_committed_and_unconfirmed_is_acked_again_and_dropped(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    query.first.commit(2)
    query.acks(query.first)
    query.first.disconnected(redelivers=True)
    assert (query.first.frames.memory_bytes, query.index.held) == (0, 0)
    handles = query.deliver(query.second, "b", again=True)
    assert rows(query.second) == []
    assert again(query.second) == Counts(redelivered=1, dropped=1)
    assert query.acks(query.second, "again") == handles
    query.second.confirm("again")
    query.deliver(query.second, "b")
    assert rows(query.second) == ["b"]


@pytest.mark.rule("4.2")
@pytest.mark.parametrize("committed", [False, True])
def test_the_same_key_with_another_body_is_new_and_counted(query: Query, committed: bool) -> None:
    query.deliver(query.first, "a")
    assert offered(query.first, 1)
    if committed:
        query.first.commit(1)
        query.first.disconnected(redelivers=True)
    query.deliver(query.second, "a", body="other")
    assert rows(query.second) == ["other"]
    assert again(query.second) == Counts(other_body=1)
    query.deliver(query.second, "a", body="other", again=True)
    assert rows(query.second) == ["other"]


@pytest.mark.rule("4.6")
def test_without_an_id_everything_is_new_and_counted(query: Query) -> None:
    query.deliver(query.first, "a", "", "", "")
    assert offered(query.first, 3)
    query.first.disconnected(redelivers=True)
    query.first.connected(keyed=True)
    query.deliver(query.first, "a", "", "", "", again=True)
    assert query.first.frames.received == 6
    assert again(query.first) == Counts(redelivered=4, reattached=1, doubled=2)


def test_what_a_closed_receiver_held_is_new_elsewhere(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    query.first.close()
    query.deliver(query.second, "a", "b", again=True)
    assert rows(query.second) == ["a", "b"]


def test_a_commit_after_the_end_changes_nothing_elsewhere(query: Query) -> None:
    query.deliver(query.first, "a")
    assert offered(query.first, 1)
    query.first.disconnected(redelivers=True)
    query.first.close()
    query.deliver(query.second, "a", again=True)
    query.first.commit(1)
    assert (query.index.held, query.index.remembered) == (1, 0)
    query.deliver(query.second, "a", again=True)
    assert again(query.second) == Counts(redelivered=2, reattached=1)


@pytest.mark.rule("4.2")
@pytest.mark.parametrize("one_connection", [True, False])
def test_the_same_message_by_another_entry_is_new(query: Query, one_connection: bool) -> None:
    """Two queues of one address each get every message."""
    other = query.first if one_connection else query.second
    query.deliver(query.first, "one:a", "one:b")
    query.deliver(other, "two:a", "two:b")
    receivers = {query.first: 4} if one_connection else {query.first: 2, other: 2}
    assert [rows(receiver) for receiver in receivers] == [
        (["a", "b"] * 2)[:count] for count in receivers.values()
    ]
    for receiver, count in receivers.items():
        assert again(receiver) == Counts()
        assert offered(receiver, count)
        receiver.disconnected(redelivers=True)
        receiver.connected(keyed=True)
    handles = query.deliver(query.first, "one:a", "one:b", again=True)
    handles += query.deliver(other, "two:a", "two:b", again=True)
    acks: list[bytes] = []
    for receiver, count in receivers.items():
        assert again(receiver) == Counts(redelivered=count, reattached=count)
        receiver.commit(count)
        acks += query.acks(receiver)
        receiver.confirm("r")
    assert acks == handles
    assert query.index.held == 0

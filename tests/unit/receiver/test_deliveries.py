"""What a receiver makes of deliveries and of the ends of connections, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.by_hand import block_of, of_queues, receive

from spark_stomp.frame_batch import FrameBatch, Ids
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.blocks import Keys, frame_keys
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.log import Log
from spark_stomp.receiver.status import Counts


class Query:
    """Two receivers of one query; handles and messages are made up as they are delivered."""

    def __init__(self) -> None:
        self.index = DedupIndex()
        self.log = Log(self.index)
        self.first, self.second = of_queues(self.log), of_queues(self.log)
        for receiver in (self.first, self.second):
            receiver.connected(keyed=True)
        self.handles = 0

    def deliver(self, to: Deliveries, *ids: str, again: bool = False, body: str = "") -> list[bytes]:
        """Messages of these ids, whose body is the id unless given; returns their handles.

        "" has no id, and "q:a" is "a" that came by the subscription "q".
        """
        frames, handles, names = list[bytes](), list[bytes](), list[bytes | None]()
        for one in ids:
            by, _, name = one.rpartition(":")
            self.handles += 1
            handles.append(b"h%d" % self.handles)
            head = (f"subscription:{by}\n" if by else "") + ("redelivered:true\n" if again else "")
            frames.append(f"MESSAGE\ndestination:/q\n{head}\n{body or name}\0".encode())
            names.append(name.encode() or None)
        receive(to, block_of(frames, handles, names))
        return handles

    def tell(self, receiver: Deliveries, count: int) -> int:
        """Spark is told of the next ``count`` messages of a receiver; returns the end that it gets."""
        receiver.number(count)
        return self.log.end

    def commit(self, receiver: Deliveries, count: int) -> None:
        """A batch with the next ``count`` messages of a receiver, and all before it, is committed."""
        self.log.commit(self.tell(receiver, count))

    def acks(self, receiver: Deliveries, receipt: str = "r") -> list[bytes]:
        """What the receiver sends now."""
        acks = receiver.take_acks(1_000)
        if acks is None:
            return []
        receiver.sent(receipt, 0.0)
        return acks.handles


def rows(receiver: Deliveries) -> list[str]:
    """The bodies of what the receiver holds and is not committed."""
    data = b"".join(
        bytes(block.batch.data) for block in receiver.inbox.all if not block.is_below(receiver.log.committed)
    )
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
    assert query.first.inbox.received == 2


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
    data = b"".join("\n".join(["MESSAGE", "subscription:q", *lines, "", ""]).encode() for lines in heads)
    receive(query.first, MessageBlock(data, [len(data)], [b"h"], [None], heads=data))
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
def test_what_was_told_stays_and_the_rest_is_dropped(query: Query) -> None:
    query.deliver(query.first, "a", "b", "c", "d")
    query.tell(query.first, 2)
    query.first.disconnected(redelivers=True)
    assert rows(query.first) == ["a", "b"]
    assert (query.first.inbox.received, query.first.inbox.pending) == (2, 0)
    query.first.connected(keyed=True)
    query.deliver(query.first, "c", "d", again=True)
    assert rows(query.first) == ["a", "b", "c", "d"]


@pytest.mark.rule("2.4")
@pytest.mark.parametrize("but", [[], ["t"]])
def test_where_nothing_comes_again_everything_stays(query: Query, but: list[str]) -> None:
    query.deliver(query.first, "a", "q:b", "t:c")
    query.first.disconnected(redelivers=False, but=but)
    assert rows(query.first) == ["a", "b", "c"]
    assert query.first.inbox.pending == 3


@pytest.mark.rule("2.4")
def test_what_names_no_subscription_may_be_of_one_that_does_not_deliver_again(query: Query) -> None:
    query.deliver(query.first, "q:a", "t:b", "c")
    query.first.disconnected(redelivers=True, but=["t", "u"])
    assert rows(query.first) == ["b", "c"]


@pytest.mark.rule("4.1")
def test_what_was_due_on_a_lost_connection_is_void(query: Query) -> None:
    query.deliver(query.first, "a")
    query.deliver(query.first, "a", again=True)
    query.commit(query.first, 1)
    query.first.disconnected(redelivers=True)
    query.first.connected(keyed=True)
    assert query.acks(query.first) == []


@pytest.mark.rule("4.4")
def test_every_live_handle_is_acked_on_its_own_connection(query: Query) -> None:
    one = query.deliver(query.first, "a")
    two = query.deliver(query.second, "a") + query.deliver(query.second, "a")
    assert query.acks(query.first) + query.acks(query.second) == []
    query.commit(query.first, 1)
    assert (query.acks(query.first), query.acks(query.second)) == (one, two)


@pytest.mark.rule("2.6")
def test_a_message_that_another_delivery_counts_on_is_not_dropped(query: Query) -> None:
    query.deliver(query.first, "a")
    query.deliver(query.first, "b")
    handles = query.deliver(query.second, "a", again=True)
    query.first.disconnected(redelivers=True)
    assert rows(query.first) == ["a"]
    query.commit(query.first, 1)
    assert query.acks(query.second) == handles


@pytest.mark.rule("4.5")
def test_committed_and_unconfirmed_is_acked_again_and_dropped(query: Query) -> None:
    query.deliver(query.first, "a", "b")
    query.commit(query.first, 2)
    query.acks(query.first)
    query.first.disconnected(redelivers=True)
    assert (query.first.inbox.memory_bytes, query.index.held) == (0, 0)
    handles = query.deliver(query.second, "b", again=True)
    assert rows(query.second) == []
    assert again(query.second) == Counts(redelivered=1, dropped=1)
    assert query.acks(query.second, "again") == handles
    query.second.confirm("again")
    query.deliver(query.second, "b")
    assert rows(query.second) == ["b"]


def test_an_id_that_repeats_costs_no_more_with_each_message(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an ``idHeader`` of one value: each key is made when the message comes, and when it goes."""
    made = []

    def counting(part: FrameBatch, ids: Ids) -> Keys:
        made.append(len(ids))
        return frame_keys(part, ids)

    monkeypatch.setattr("spark_stomp.receiver.blocks.frame_keys", counting)
    for number in range(300):
        query.deliver(query.first, "same", body=f"body {number}")
    query.commit(query.first, 300)
    query.acks(query.first)
    query.first.confirm("r")
    assert (query.index.held, query.first.counts.other_body) == (0, 299)
    assert sum(made) <= 3 * 300


@pytest.mark.rule("4.6")
def test_without_an_id_everything_is_new_and_counted(query: Query) -> None:
    query.deliver(query.first, "a", "", "", "")
    query.tell(query.first, 3)
    query.first.disconnected(redelivers=True)
    query.first.connected(keyed=True)
    query.deliver(query.first, "a", "", "", "", again=True)
    assert query.first.inbox.received == 6
    assert again(query.first) == Counts(redelivered=4, reattached=1, doubled=2)


def test_a_commit_after_the_end_changes_nothing_elsewhere(query: Query) -> None:
    query.deliver(query.first, "a")
    query.tell(query.first, 1)
    query.first.disconnected(redelivers=True)
    query.first.close()
    query.deliver(query.second, "a", again=True)
    query.log.commit(1)
    assert (query.index.held, query.index.remembered) == (1, 0)
    query.deliver(query.second, "a", again=True)
    assert again(query.second) == Counts(redelivered=2, reattached=1)


def test_committed_messages_are_reduced_to_keys_only_until_there_is_room(query: Query) -> None:
    """Their receipts may be on the way, and then nobody needs the keys."""
    small = of_queues(query.log, max_bytes=150)
    small.connected(keyed=True)
    for one in "abcd":
        query.deliver(small, one * 30)
    query.commit(small, 4)
    assert small.inbox.room <= 0
    assert small.room() > 0
    assert 0 < len(small.inbox.loaded) < 4
    assert [block.made_keys is None for block in small.inbox.loaded] == [True] * len(small.inbox.loaded)
    query.deliver(small, "a" * 30, again=True)
    assert again(small) == Counts(redelivered=1, dropped=1)
    small.close()

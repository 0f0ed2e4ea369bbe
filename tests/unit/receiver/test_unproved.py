"""Confirmed ACKs that a broker that has forgotten a subscription may not have obeyed."""

from __future__ import annotations

from itertools import count

import pytest
from support.by_hand import block_of, of_queues, receive

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.receiver.blocks import Block
from spark_stomp.receiver.unproved import UnprovedAcks

pytestmark = pytest.mark.rule("4.13")


class Connection:
    """What is confirmed over a connection, and by which subscriptions messages come."""

    def __init__(self, max_bytes: int = 1 << 20) -> None:
        self.unproved = UnprovedAcks(max_bytes)
        self.blocks: dict[str, Block] = {}

    def come(self, names: str, *by: str) -> None:
        """A read brings messages with these ids by these subscriptions."""
        data, ends = b"", []
        for name in names:
            data += b"MESSAGE\ndestination:/q\n\n%b\0" % name.encode()
            ends.append(len(data))
        block = Block(FrameBatch(data, ends, 0, 0, "1.2", "generic", "r", None), [n.encode() for n in names])
        block.subscriptions = self.unproved.came(one.encode() for one in by)
        self.blocks[names] = block

    def confirm(self, *names: str) -> None:
        self.unproved.confirm([self.blocks[one] for one in names], [])

    @property
    def left(self) -> str:
        return "".join(sorted(key.id.decode() for key in self.unproved.keys if key))


def test_a_message_proves_what_was_confirmed_before() -> None:
    one = Connection()
    one.come("ab", "s")
    one.come("c", "s")
    one.confirm("ab")
    assert one.left == "ab"
    one.come("d", "s")
    one.confirm("c")
    assert one.left == "c"


def test_only_of_its_subscription() -> None:
    one = Connection()
    one.come("ab", "s")
    one.come("cd", "s", "t")
    one.come("ef", "t")
    one.confirm("ab", "cd", "ef")
    one.come("g", "t")
    assert one.left == "abcd"
    one.come("h", "s")
    assert one.left == ""


def test_keys_take_the_place_of_frames_that_take_too_much() -> None:
    """Each later block is proved or not as before."""
    one = Connection(max_bytes=100)
    for names in "abc", "def", "ghi":
        one.come(names, "s")
    for names in "abc", "def", "ghi":
        one.confirm(names)
        assert sum(len(each.block.batch.data) for each in one.unproved._confirmed if each.block) <= 100
    assert one.left == "abcdefghi"


def test_a_block_that_has_its_keys_already() -> None:
    """Its data has gone to make room."""
    one = Connection()
    one.come("ab", "s")
    one.blocks["ab"].make_keys()
    one.blocks["ab"].batch = FrameBatch(b"", one.blocks["ab"].batch.ends, 0, 0, "1.2", "generic", "r", None)
    one.confirm("ab")
    assert one.left == "ab"


@pytest.mark.parametrize("forgotten", [True, False])
def test_only_a_forgotten_subscription_makes_them_unconfirmed(*, forgotten: bool) -> None:
    """Also those that were ACKed again."""
    receiver, handles = of_queues(), count()

    def deliver() -> None:
        names = [b"a", b"b"]
        frames = [b"MESSAGE\ndestination:/q\n\n%b\0" % name for name in names]
        block = block_of(frames, [b"%d" % next(handles) for _ in names], names)
        block.subscriptions = [b"s", b"s"]
        receive(receiver, block)

    def ack() -> None:
        assert receiver.take_acks(10) is not None
        receiver.sent("r", 0.0)
        receiver.confirm("r")

    receiver.connected(keyed=True)
    deliver()
    receiver.number(2)
    receiver.log.commit(2)
    ack()
    for again in 1, 2:
        receiver.disconnected(redelivers=True, forgotten=forgotten)
        receiver.connected(keyed=True)
        deliver()
        assert receiver.counts.dropped == 2 * again * forgotten
        assert receiver.inbox.pending == 2 * (not forgotten)
        if not forgotten:
            break
        ack()

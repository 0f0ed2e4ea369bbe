"""Inbox and log: numbers given once, the same bytes each time, and an error for what is gone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from support.by_hand import Query, block_of, receive

from spark_stomp.errors import RangeUnavailable
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.receiver import Block, DedupIndex, Log
from spark_stomp.receiver.blocks import Inbox

HEAD = b"MESSAGE\ndestination:/q\n\n"
FRAMES = [b"\n" * at + HEAD + b"%d.%d\0" % (block, at) for block in range(5) for at in range(3)]


def batch(frames: list[bytes], at: int = 0) -> FrameBatch:
    ends = [sum(map(len, frames[: index + 1])) for index in range(len(frames))]
    return FrameBatch(b"".join(frames), ends, 0, at, "1.2")


def inbox(max_bytes: int = 1 << 20) -> Inbox:
    """An inbox with five blocks of three messages each."""
    made = Inbox(max_bytes)
    for number in range(5):
        made.put(Block(batch(FRAMES[3 * number : 3 * number + 3], number), None))
    return made


def taken(made: Inbox, log: Log) -> None:
    """The log takes all that is in the inbox."""
    while made.pending:
        log.add(made.take())


@pytest.fixture
def log() -> Log:
    made = Log(DedupIndex())
    taken(inbox(), made)
    return made


def content(batches: Iterable[FrameBatch]) -> list[bytes]:
    return [bytes(one.data[low:high]) for one in batches for low, high in pairwise([0, *map(int, one.ends)])]


class TestInbox:
    def test_the_mean_is_that_of_everything_that_ever_came(self, log: Log) -> None:
        made = inbox()
        mean = sum(map(len, FRAMES)) / len(FRAMES)
        assert made.mean_bytes == mean
        taken(made, Log(DedupIndex()))
        assert (made.mean_bytes, Inbox(1).mean_bytes) == (mean, None)

    @pytest.mark.rule("5.7")
    def test_room_is_what_the_bound_leaves_until_the_data_goes(self) -> None:
        made, log = Inbox(100), Log(DedupIndex())
        for size, room in ((60, 40), (50, -10)):
            made.put(Block(FrameBatch(b"x" * size, [size], 0, 0, "1.2"), None))
            assert (made.room, made.memory_bytes) == (room, 100 - room)
        taken(made, log)
        assert made.room == -10
        log.commit(1)
        assert made.room == 50

    def test_sizes_of_what_waits(self) -> None:
        made, sizes = inbox(), [len(frame) for frame in FRAMES]
        for low in range(16):
            for high in range(low, 16):
                assert made.bytes_between(low, high) == sum(sizes[low:high])
                for room in (0, 1, sizes[0], 100, 200, 1_000):
                    fits = [end for end in range(low, high + 1) if sum(sizes[low:end]) <= room]
                    assert made.end_within(low, high, room) == fits[-1]


class TestLog:
    @pytest.mark.rule("2.1")
    def test_every_range_gives_exactly_its_frames(self, log: Log) -> None:
        for low in range(len(FRAMES) + 1):
            for high in range(low, len(FRAMES) + 1):
                assert content(log.batches(low, high)) == FRAMES[low:high]
                assert log.readable(low, high) == ([(low, high)] if low < high else [])

    @pytest.mark.rule("2.1")
    def test_a_number_is_given_once(self, log: Log) -> None:
        with pytest.raises(AssertionError, match="given once"):
            log.add(Block(batch(FRAMES[:1]), None), 14)

    @pytest.mark.rule("3.4")
    def test_committed_frames_are_an_error_and_never_no_rows(self, log: Log) -> None:
        log.commit(4)
        with pytest.raises(RangeUnavailable, match=r"\[4, 15\)"):
            next(log.batches(3, 6))
        assert content(log.batches(4, 15)) == FRAMES[4:]

    def test_frames_that_did_not_come_are_an_error(self, log: Log) -> None:
        with pytest.raises(RangeUnavailable):
            next(log.batches(10, 16))

    @pytest.mark.rule("3.4")
    def test_a_commit_in_the_middle_of_a_read_is_an_error_there(self, log: Log) -> None:
        batches = log.batches(0, 15)
        next(batches)
        log.commit(9)
        with pytest.raises(RangeUnavailable):
            next(batches)

    def test_a_commit_is_news_once_and_counts_only_what_came(self, log: Log) -> None:
        assert [log.commit(upto) for upto in (3, 3, 2, 99, 99)] == [True, False, False, True, False]
        assert log.committed == 15


@pytest.mark.rule("5.7")
def test_receipts_of_one_receiver_do_not_hold_up_another() -> None:
    """One is paused and gets no receipts, and another takes many messages."""
    query = Query(("slow", "quick"))
    query.connect()
    (slow, quick), log, index = query.queues, query.log, query.index
    frame = HEAD + b"x\0"
    for number in range(2_000):
        for receiver in (slow, quick) if number == 0 else (quick,):
            name = b"%d" % number + receiver.inbox.name.encode()
            receive(receiver, block_of([frame], [b"h" + name], [name]))
            receiver.number(1)
        log.commit(log.end)
        assert quick.take_acks(10) is not None
        quick.sent(f"r{number}", 0.0)
        quick.confirm(f"r{number}")
        assert (quick.inbox.memory_bytes, len(quick.inbox.numbered), index.held) == (0, 0, 1)
    assert log.first_held == 0

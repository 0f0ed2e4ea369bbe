"""Offsets of streams: how they are found in frames, and that they are the numbers of messages."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import StreamDeliveries
from spark_stomp.receiver.stream_log import frame_range, offsets_in

# Before a frame: EOLs that end the frame before it, and heart-beats.
LEADS = st.sampled_from([b"", b"\n", b"\n\n", b"\n\n\n"])
EOLS = st.sampled_from([b"\n", b"\r\n"])
BODIES = st.sampled_from([b"", b"b", b"\nx-stream-offset:77\n\n"])
# The offsets of some messages: most follow one another.
OFFSETS = st.builds(
    lambda first, steps: list(accumulate(steps, initial=first)),
    st.integers(0, 10**6),
    st.lists(st.sampled_from([1, 1, 1, 1, 2, 50]), max_size=12),
)


def block_of(frames: list[bytes], malformed: str | None = None) -> MessageBlock:
    ends = list(accumulate(map(len, frames)))
    return MessageBlock(b"".join(frames), ends, [b"h"] * len(frames), [], malformed=malformed)


@st.composite
def framed(draw: st.DrawFn, offset: int) -> bytes:
    eol = draw(EOLS)
    lines = [b"MESSAGE", b"x-stream-offset:%d" % offset, b"subscription:s", b"x-stream-offset:5"]
    # The first line of a name counts (STOMP 1.2).
    lines[1:3] = draw(st.permutations(lines[1:3]))
    return draw(LEADS) + eol.join([*lines, b"", draw(BODIES)]) + b"\0"


@given(st.data())
def test_the_runs_of_a_block_have_the_offset_of_each_frame(data: st.DataObject) -> None:
    offsets = data.draw(OFFSETS)
    frames = [data.draw(framed(offset)) for offset in offsets]
    runs = list(offsets_in(block_of(frames), "b"))
    assert [first + at for begin, end, first in runs for at in range(end - begin)] == offsets
    assert [begin for begin, _, _ in runs] == [0, *(end for _, end, _ in runs[:-1])]
    assert all(first > before + end - begin for (begin, end, before), (_, _, first) in pairwise(runs))


@given(st.data())
def test_a_part_of_a_block_has_its_frames(data: st.DataObject) -> None:
    frames = [data.draw(framed(number)) for number in range(data.draw(st.integers(1, 6)))]
    end = data.draw(st.integers(1, len(frames)))
    begin = data.draw(st.integers(0, end - 1))
    cut = frame_range(block_of(frames, "why"), begin, end)
    assert [cut.data[low:high] for low, high in pairwise([0, *cut.ends])] == frames[begin:end]
    assert (cut.acks, cut.ids, cut.subscriptions, cut.malformed) == ([], [], [], "why")


@pytest.mark.parametrize(
    "frame",
    [
        b"MESSAGE\ndestination:/queue/a\n\nx-stream-offset:7\n\0",
        b"MESSAGE\nmy-x-stream-offset:7\n\n\0",
        b"MESSAGE\nx-stream-offset:-7\n\n\0",
        b"MESSAGE\nx-stream-offset:7x\n\n\0",
    ],
)
def test_a_message_without_an_offset_is_an_error(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="b sent a MESSAGE of a stream without a header"):
        list(offsets_in(block_of([frame]), "b"))


def test_a_malformed_frame_has_an_offset_too() -> None:
    assert list(offsets_in(block_of([b"MESSAGE\nbad\nx-stream-offset:7\n\0"]), "b")) == [(0, 1, 7)]


@pytest.mark.rule("R.1")
@given(st.data())
def test_messages_have_the_numbers_that_the_broker_gave_them(data: st.DataObject) -> None:
    offsets = data.draw(OFFSETS)
    begin = data.draw(st.one_of(st.just("first"), st.integers(0, offsets[0])))
    held = StreamDeliveries(1 << 20, "a#0")
    held.begin_at(begin, "e")
    held.connected(keyed=False)
    base = begin if isinstance(begin, int) else None
    assert (held.base, held.next, held.log.id) == (base, base, "e")
    left, came = offsets, list[int]()
    while left:
        # Frames come in parts whose offsets follow one another.
        run = next((at for at in range(1, len(left)) if left[at] != left[at - 1] + 1), len(left))
        count = data.draw(st.integers(1, run))
        frames = [b"MESSAGE\n\n%d\0" % offset for offset in left[:count]]
        held.receive_from(left[0], block_of(frames), received_at=0, version="1.2", dialect="rabbitmq")
        came, left = offsets[: len(came) + count], left[count:]
        assert held.next == came[-1] + 1
        assert held.base == (offsets[0] if base is None else base)
        assert held.inbox.pending == 0
        assert [
            n for low, high in held.log.readable(held.base, came[-1] + 1) for n in range(low, high)
        ] == came
    # What is read between two offsets are the messages between them.
    low = data.draw(st.integers(held.base, offsets[-1]))
    high = data.draw(st.integers(low, held.next))
    read = [part for at, end in held.log.readable(low, high) for part in held.log.batches(at, end)]
    between = [offset for offset in offsets if low <= offset < high]
    bodies = b"".join(bytes(batch.data) for batch in read).split(b"MESSAGE\n\n")[1:]
    assert [int(body.rstrip(b"\0")) for body in bodies] == between
    assert held.log.next_held(low) == next(offset for offset in offsets if offset >= low)
    assert held.log.bytes_between(low, high) == sum(len(b"MESSAGE\n\n%d\0" % one) for one in between)

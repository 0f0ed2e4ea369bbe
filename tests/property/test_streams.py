"""Offsets of streams: how they are found in frames, and how they belong to sequence numbers."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import StreamDeliveries
from spark_stomp.receiver.stream_log import offsets_in, part

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
    cut = part(block_of(frames, "why"), begin, end)
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


class Model:
    """The offsets of all frames in a list, by their sequence numbers."""

    def __init__(self, base: int | None) -> None:
        self.base = base
        self.offsets: list[int] = []

    def offset_after(self, sequence: int) -> int | None:
        return self.offsets[sequence - 1] + 1 if sequence else self.base

    def sequence_of(self, offset: int) -> int:
        return sum(one < offset for one in self.offsets)


@pytest.mark.rule("R.1")
@given(st.data())
def test_offsets_and_sequence_numbers_belong_together(data: st.DataObject) -> None:
    offsets = data.draw(OFFSETS)
    begin = data.draw(st.one_of(st.just("first"), st.integers(0, offsets[0])))
    held = StreamDeliveries(1 << 20, "a#0")
    held.begin_at("e", begin)
    held.connected(keyed=False)
    model = Model(begin if isinstance(begin, int) else None)
    assert (held.next, held.sequence_of(0)) == (model.base, 0)
    if model.base is None:
        model.base = offsets[0]
    left = offsets
    while left:
        # Frames come in parts whose offsets follow one another.
        run = next((at for at in range(1, len(left)) if left[at] != left[at - 1] + 1), len(left))
        count = data.draw(st.integers(1, run))
        held.receive_from(
            left[0], block_of([b"MESSAGE\n\n\0"] * count), received_at=0, version="1.2", dialect="rabbitmq"
        )
        model.offsets += left[:count]
        left = left[count:]
        received = len(model.offsets)
        assert held.next == model.offset_after(received)
        assert [held.offset_of(one) for one in range(received)] == model.offsets
        assert [held.offset_after(one) for one in range(received + 1)] == [
            model.offset_after(one) for one in range(received + 1)
        ]
        for offset in {near + step for near in [0, *offsets] for step in (-1, 0, 1)}:
            assert held.sequence_of(offset) == model.sequence_of(offset)

"""Offsets of streams: how they are found in frames, and that they are the numbers of messages."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.by_hand import of_stream
from support.options import source_options

from spark_stomp.errors import RemoteProtocolError
from spark_stomp.protocol import MessageBlock
from spark_stomp.protocol.frames import HeaderPairs
from spark_stomp.receiver import (
    FIRST,
    ReceiverSettings,
    StreamReading,
    StreamStart,
    start_at,
    stream_reading,
)
from spark_stomp.receiver.reading import ReceiverState
from spark_stomp.receiver.stream_offsets import frame_range, offsets_in
from spark_stomp.receiver.turns import Turn

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
    assert [first + one for begin, end, first in runs for one in range(end - begin)] == offsets
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
    base = data.draw(st.none() | st.integers(0, offsets[0]))
    held = of_stream("a#0")
    held.begin_at(FIRST if base is None else start_at(base), "e")
    held.connected(keyed=False)
    stream = held.stream
    assert (stream.base, stream.next, held.log.id) == (base, base, "e")
    rest, came = offsets, list[int]()
    while rest:
        # Frames come in parts whose offsets follow one another.
        run = next((end for end in range(1, len(rest)) if rest[end] != rest[end - 1] + 1), len(rest))
        count = data.draw(st.integers(1, run))
        frames = [b"MESSAGE\n\n%d\0" % offset for offset in rest[:count]]
        held.receive_from(rest[0], block_of(frames), received_at=0, version="1.2", dialect="rabbitmq")
        came, rest = offsets[: len(came) + count], rest[count:]
        assert stream.next == came[-1] + 1
        assert stream.base == (offsets[0] if base is None else base)
        assert held.inbox.pending == 0
        assert [
            n for low, high in held.log.readable(stream.base, came[-1] + 1) for n in range(low, high)
        ] == came
    # What is read between two offsets are the messages between them.
    low = data.draw(st.integers(stream.base, offsets[-1]))
    high = data.draw(st.integers(low, stream.next))
    read = [batch for part in held.log.readable(low, high) for batch in held.log.batches(*part)]
    between = [offset for offset in offsets if low <= offset < high]
    bodies = b"".join(bytes(batch.data) for batch in read).split(b"MESSAGE\n\n")[1:]
    assert [int(body.rstrip(b"\0")) for body in bodies] == between
    assert held.log.next_held(low) == next(offset for offset in offsets if offset >= low)
    assert held.log.bytes_between(low, high) == sum(len(b"MESSAGE\n\n%d\0" % one) for one in between)


class Broker:
    """A stream in segments: each but the first begins with a record. It has one subscription."""

    def __init__(self) -> None:
        self.segments, self.end = [[0, 1, 2]], 3
        self._reading: list[int] = []
        self._at = 0

    def publish(self, count: int, *, rolls: bool) -> None:
        """``rolls``: into a new segment."""
        if rolls:
            self.segments.append([])
            self.end += 1
        self.segments[-1] += range(self.end, self.end + count)
        self.end += count

    def retain(self, count: int) -> None:
        """Keep so many segments. The one that is being read is read to its end all the same."""
        del self.segments[:-count]

    def first_offset(self, *_: object) -> int:
        return self.segments[0][0]

    def subscribe(self, headers: HeaderPairs, early: int) -> None:
        """It begins with a whole chunk: ``early`` offsets before what it has to send."""
        ((_, value),) = headers
        self._at = int(value.removeprefix("offset=")) - early if value != "first" else 0
        self._reading = []

    def send(self, most: int) -> list[int]:
        sent = list[int]()
        for segment in (self._reading, *self.segments):
            for offset in segment:
                if offset >= self._at and len(sent) < most:
                    self._reading, self._at = segment, offset + 1
                    sent.append(offset)
        return sent


OPTIONS = source_options("stomp://b", "/amq/queue/a", startingOffsets="earliest")
ACTIONS = st.lists(st.sampled_from(["publish", "roll", "retain", "subscribe", "send", "send"]), max_size=40)


@pytest.mark.rule("R.1", "R.3", "R.6")
@given(ACTIONS, st.sampled_from([FIRST, start_at(0), start_at(2), start_at(3)]), st.data())
def test_each_message_comes_once_and_what_retention_took_is_named(
    actions: list[str], place: StreamStart, data: st.DataObject
) -> None:
    broker, lost, few = Broker(), list[str](), st.integers(1, 3)
    published = [*range(3)]
    held = of_stream("a#0")
    held.begin_at(place)
    held.connected(keyed=False)
    settings = ReceiverSettings("a#0", ("/amq/queue/a",), OPTIONS)
    shared, turn = ReceiverState(settings, held), Turn(settings.destinations)
    reading = StreamReading(shared, turn)
    broker.subscribe(held.stream.subscribe(), 0)
    with (
        patch.object(stream_reading, "ask_first_offset", broker.first_offset),
        patch.object(stream_reading, "_lost", lambda _, text, __: lost.append(text)),
    ):
        for action in actions:
            if action in ("publish", "roll"):
                before = broker.end
                broker.publish(data.draw(few), rolls=action == "roll")
                published += range(before + (action == "roll"), broker.end)
            elif action == "retain":
                broker.retain(data.draw(few))
            elif action == "subscribe":
                reading = StreamReading(shared, turn, before=reading)
                broker.subscribe(held.stream.subscribe(), data.draw(few) - 1)
            elif sent := broker.send(data.draw(few)):
                frames = [b"MESSAGE\nx-stream-offset:%d\n\n\0" % offset for offset in sent]
                reading._take_new(
                    cast("Any", SimpleNamespace(peer="b", beat_while=lambda work: work())),
                    block_of(frames),
                    "1.2",
                )
    stream = held.stream
    begin, end = stream.base or 0, stream.next or 0
    came = [one for part in held.log.readable(begin, end) for one in range(*part)]
    named = [
        range(int(low), int(high) + 1) for low, high in re.findall(r"offsets (\d+) to (\d+)", "".join(lost))
    ]
    wanted = [one for one in published if begin <= one < end]
    assert came == [one for one in wanted if not any(one in gone for gone in named)]
    assert stream.has_all_below(end) and stream.why_too_early(broker.end) is None

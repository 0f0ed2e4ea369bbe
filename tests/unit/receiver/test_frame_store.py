"""The store: dense numbers, the same bytes each time, and an error for what is gone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.journals import key

from spark_stomp.errors import RangeUnavailable
from spark_stomp.frame_batch import FrameBatch, Ids
from spark_stomp.receiver.frame_store import FrameStore, Held


def append(store: FrameStore, batch: FrameBatch, ids: Ids | None = None) -> int:
    return store.append(Held(batch, ids, store.marks))


def filled(blocks: int = 5) -> tuple[FrameStore, list[bytes]]:
    """A store with ``blocks`` reads of three frames each, and those frames."""
    store, frames = FrameStore(1 << 20), []
    for number in range(blocks):
        three = [b"MESSAGE\n\n%d.%d\0" % (number, index) + b"\n" * index for index in range(3)]
        ends = [sum(len(frame) for frame in three[: index + 1]) for index in range(3)]
        append(store, FrameBatch(b"".join(three), ends, 0, number, "1.2"))
        frames += three
    return store, frames


def content(batches: Iterable[FrameBatch]) -> list[bytes]:
    frames = []
    for batch in batches:
        begin = 0
        for end in batch.ends:
            frames.append(bytes(batch.data[begin:end]))
            begin = end
    return frames


def test_every_range_gives_exactly_its_frames() -> None:
    store, frames = filled()
    for low in range(len(frames) + 1):
        for high in range(low, len(frames) + 1):
            assert content(store.batches(low, high)) == frames[low:high]


def test_the_mean_is_that_of_everything_that_ever_came() -> None:
    store, frames = filled()
    mean = sum(map(len, frames)) / len(frames)
    assert store.mean_bytes == mean
    store.release(len(frames))
    assert store.mean_bytes == mean
    assert filled(blocks=0)[0].mean_bytes is None


def test_runs_carry_sequence_time_and_version() -> None:
    store, _ = filled()
    batches = list(store.batches(1, 8))
    assert [batch.first_sequence for batch in batches] == [1, 3, 6]
    assert [batch.received_at for batch in batches] == [0, 1, 2]
    assert {batch.version for batch in batches} == {"1.2"}


@pytest.mark.rule("3.4")
def test_released_frames_are_an_error_and_never_no_rows() -> None:
    store, frames = filled()
    store.release(4)
    with pytest.raises(RangeUnavailable, match=r"\[4, 15\)"):
        store.batches(3, 6)
    assert content(store.batches(4, 15)) == frames[4:]


def test_frames_not_received_are_an_error() -> None:
    store, _ = filled()
    with pytest.raises(RangeUnavailable):
        store.batches(10, 16)


@pytest.mark.rule("3.4")
def test_release_in_the_middle_of_a_read_is_an_error_there() -> None:
    store, _ = filled()
    batches = store.batches(0, 15)
    next(batches)
    store.release(9)
    with pytest.raises(RangeUnavailable):
        next(batches)


@pytest.mark.rule("2.1")
def test_what_was_not_released_is_not_freed() -> None:
    store, frames = filled()
    store.release(4)
    store.free(15)
    assert content(store.batches(4, 15)) == frames[4:]


@pytest.mark.parametrize("end", range(17))
def test_numbers_of_discarded_frames_go_to_others(end: int) -> None:
    store, frames = filled()
    store.marks.advance(kept=min(end, 15))
    store.discard()
    assert store.received == min(end, 15)
    assert content(store.batches(0, store.received)) == frames[:end]
    assert store.bytes_between(0, store.received) == sum(map(len, frames[:end]))
    first = append(store, FrameBatch(b"MESSAGE\n\nx\0", [11], 0, 9, "1.2"))
    assert first == min(end, 15)
    assert content(store.batches(0, first + 1)) == [*frames[:end], b"MESSAGE\n\nx\0"]
    store.release(first + 1)
    store.free(first + 1)
    assert store.memory_bytes == 0


@pytest.mark.rule("5.7")
def test_room_is_what_the_bound_leaves() -> None:
    store = FrameStore(max_bytes=100)
    for size, room in ((60, 40), (50, -10)):
        append(store, FrameBatch(b"x" * size, [size], 0, 0, "1.2"))
        assert (store.room, store.memory_bytes) == (room, 100 - room)
    store.release(1)
    store.free(1)
    assert store.room == 50


def test_ids_of_every_range_as_long_as_their_frames_are_held() -> None:
    store, _ = filled(blocks=0)
    frame = b"MESSAGE\n\n\0"
    for ids in ([b"0", b"1", None], None, [b"4", b"5"]):
        count = 2 if ids is None else len(ids)
        ends = [len(frame) * (number + 1) for number in range(count)]
        append(store, FrameBatch(frame * count, ends, 0, 0, "1.2"), ids)
    first, _, last = store.held(0, 7)
    assert store.ids(0, 7) == [(first, [b"0", b"1", None]), (last, [b"4", b"5"])]
    assert store.ids(1, 6) == [(first, [b"1", None]), (last, [b"4"])]
    store.release(3)
    store.free(3)
    assert store.ids(0, 7) == [(last, [b"4", b"5"])]
    store.marks.advance(kept=6)
    store.discard()
    assert store.ids(0, 7) == [(last, [b"4"])]


@pytest.mark.parametrize("indices", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_only_some_frames_of_a_read_are_taken(indices: list[int]) -> None:
    store, _ = filled(blocks=1)
    three = [b"MESSAGE\n\n%d\0\n" % index * (index + 1) for index in range(3)]
    ends = [sum(map(len, three[: index + 1])) for index in range(3)]
    held = Held(FrameBatch(b"".join(three), ends, 0, 0, "1.2"), [b"0", b"1", b"2"], store.marks)
    held.select(indices)
    store.append(held)
    assert content(store.batches(3, store.received)) == [three[index] for index in indices]
    assert store.ids(3, 6) == [(held, [b"%d" % index for index in indices])]
    store.release(store.received)
    store.free(store.received)
    assert store.memory_bytes == 0


def test_keys_of_every_range() -> None:
    store, _ = filled(blocks=1)
    frame = b"MESSAGE\ndestination:/q\n\n%d\0"
    for number in range(3):
        data = frame % (2 * number) + frame % (2 * number + 1)
        ids = [b"%d" % (2 * number), b"%d" % (2 * number + 1)]
        append(store, FrameBatch(data, [len(data) // 2, len(data)], 0, 0, "1.2"), ids)
    keys = [key(b"%d" % number, b"%d" % number) for number in range(6)]
    for low in range(3, 9):
        for high in range(low, 10):
            assert store.keys(low, high) == keys[low - 3 : high - 3]


def test_a_batch_that_is_in_the_journal_has_its_keys() -> None:
    store = filled(blocks=0)[0]
    data = b"MESSAGE\ndestination:/q\n\nbody\0"
    append(store, FrameBatch(data, [len(data)], 0, 0, "1.2"), [b"1"])
    (batch,) = store.next_batches(0, 1 << 20)
    store.make_keys(batch)
    store.journaled(0, 70)
    assert (store.memory_bytes, store.keys(0, 1)) == (0, [key(b"1")])
    assert store.position_from(0) == 70

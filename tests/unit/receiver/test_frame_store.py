"""The store: dense numbers, the same bytes each time, and an error for what is gone."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator

import pytest
from support.keys import key

from spark_stomp.errors import RangeUnavailable
from spark_stomp.framebatch import FrameBatch, Ids
from spark_stomp.receiver.frame_store import FrameStore

_opened: list[FrameStore] = []


def append(store: FrameStore, batch: FrameBatch, ids: Ids | None = None) -> int:
    return store.append(store.prepare(batch, ids))


@pytest.fixture(autouse=True)
def close_stores() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def filled(max_bytes: int = 1 << 20, blocks: int = 5) -> tuple[FrameStore, list[bytes]]:
    """A store with ``blocks`` reads of three frames each, and those frames."""
    store, frames = FrameStore(max_bytes), []
    _opened.append(store)
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


@pytest.mark.parametrize("max_bytes", [1, 40, 1 << 20], ids=["spilled", "partly spilled", "in memory"])
def test_every_range_gives_exactly_its_frames(max_bytes: int) -> None:
    store, frames = filled(max_bytes)
    for low in range(len(frames) + 1):
        for high in range(low, len(frames) + 1):
            assert content(store.batches(low, high)) == frames[low:high]


def test_freed_frames_have_no_size() -> None:
    store, frames = filled()
    store.release(6)
    store.free(6)
    assert store.bytes_between(0, 9) == store.bytes_between(6, 9) == sum(map(len, frames[6:9]))
    store.release(15)
    store.free(15)
    assert store.bytes_between(0, 15) == 0


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


@pytest.mark.rule("2.1")
def test_reading_again_gives_the_same() -> None:
    store, _ = filled(max_bytes=30)
    assert content(store.batches(2, 13)) == content(store.batches(2, 13))


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


def test_what_was_released_is_freed_in_whole_blocks() -> None:
    store, _ = filled(max_bytes=70)
    assert store.memory_bytes > 0
    assert store.spilled_bytes > 0
    store.release(4)
    store.free(4)
    assert content(store.batches(4, 5)) == [b"MESSAGE\n\n1.1\0\n"]
    store.release(15)
    store.free(15)
    assert (store.memory_bytes, store.spilled_bytes) == (0, 0)


@pytest.mark.rule("2.1")
def test_what_was_not_released_is_not_freed() -> None:
    store, frames = filled()
    store.release(4)
    store.free(15)
    assert content(store.batches(4, 15)) == frames[4:]


@pytest.mark.parametrize("max_bytes", [1, 40, 1 << 20], ids=["spilled", "partly spilled", "in memory"])
@pytest.mark.parametrize("end", range(17))
def test_numbers_of_discarded_frames_go_to_others(max_bytes: int, end: int) -> None:
    store, frames = filled(max_bytes)
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
    assert (store.memory_bytes, store.spilled_bytes) == (0, 0)


def test_numbers_go_on_after_a_release() -> None:
    store, _ = filled()
    store.release(15)
    first = append(store, FrameBatch(b"MESSAGE\n\n\0", [10], 0, 9, "1.2"))
    assert (first, store.received, store.released) == (15, 16, 15)
    assert content(store.batches(15, 16)) == [b"MESSAGE\n\n\0"]


@pytest.mark.rule("5.7")
def test_memory_stays_within_the_bound_however_much_arrives() -> None:
    store, frames = filled(max_bytes=100, blocks=200)
    assert store.memory_bytes <= 100
    assert content(store.batches(0, 600)) == frames


def test_memory_is_full_until_there_is_room_for_what_did_not_fit() -> None:
    """Also if something small does fit meanwhile."""
    store = FrameStore(max_bytes=100)
    for size in (60, 50, 10):
        assert store.memory_is_full == (size == 10)
        append(store, FrameBatch(b"x" * size, [size], 0, 0, "1.2"))
    assert (store.memory_bytes, store.memory_is_full) == (70, True)
    store.release(1)
    store.free(1)
    assert (store.memory_bytes, store.memory_is_full) == (10, False)


@pytest.mark.rule("5.7")
def test_memory_is_not_full_for_ever_after_a_message_that_never_fits() -> None:
    store = FrameStore(max_bytes=100, max_spilled=1_000)
    for number, size in enumerate((10, 150, 10, 10)):
        append(store, FrameBatch(b"x" * size, [size], 0, 0, "1.2"))
        # There is always one in memory.
        store.release(number if number != 1 else 0)
        store.free(store.released)
    assert (store.memory_bytes, store.memory_is_full) == (10, False)


@pytest.mark.rule("5.7")
def test_what_the_files_take_beyond_their_share_is_not_read_into_memory() -> None:
    store = FrameStore(max_bytes=100, max_spilled=100)
    assert store.read_size == 100
    for size in (60, 50, 80):
        append(store, FrameBatch(b"x" * size, [size], 0, 0, "1.2"))
    assert (store.memory_bytes, store.disk_bytes, store.read_size) == (60, 130, 10)
    store.release(1)
    store.free(1)
    assert (store.memory_bytes, store.disk_bytes, store.read_size) == (0, 130, 70)


def test_bytes_between_counts_frames_as_they_came() -> None:
    store, frames = filled()
    for low in range(0, 16, 2):
        for high in range(low, 16):
            assert store.bytes_between(low, high) == sum(map(len, frames[low:high]))


def test_end_within_is_the_last_frame_that_fits() -> None:
    store, frames = filled()
    store.release(2)
    for low in range(2, 15):
        for budget in range(0, 120, 7):
            expected = low
            while expected < 15 and sum(map(len, frames[low : expected + 1])) <= budget:
                expected += 1
            assert store.end_within(low, 15, budget) == expected
            assert store.end_within(low, low + 1, budget) == min(expected, low + 1)


def test_what_a_full_disk_does_not_take_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, frames = filled(max_bytes=1, blocks=2)
    before = store.spilled_bytes, store.memory_bytes
    with monkeypatch.context() as full:
        full.setattr("os.pwrite", no_space)
        append(store, FrameBatch(b"MESSAGE\n\n\0", [10], 0, 0, "1.2"))
    assert (store.spilled_bytes, store.memory_bytes) == (before[0], before[1] + 10)
    assert store.room <= 0
    append(store, FrameBatch(b"MESSAGE\n\nx\0", [11], 0, 0, "1.2"))
    assert store.spilled_bytes == before[0] + 11
    assert store.room > 0
    assert content(store.batches(0, 8)) == [*frames, b"MESSAGE\n\n\0", b"MESSAGE\n\nx\0"]


def test_a_broken_disk_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_disk(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    store, frames = filled(max_bytes=1, blocks=2)
    monkeypatch.setattr("os.pwrite", broken_disk)
    before = store.spilled_bytes
    with pytest.raises(Exception, match=r"un-acked and stay on the broker.*lower maxSpillBytes or prefetch"):
        append(store, FrameBatch(b"MESSAGE\n\n\0", [10], 0, 0, "1.2"))
    assert (store.received, store.spilled_bytes) == (6, before)
    monkeypatch.undo()
    append(store, FrameBatch(b"MESSAGE\n\nx\0", [11], 0, 0, "1.2"))
    assert content(store.batches(0, 7)) == [*frames, b"MESSAGE\n\nx\0"]


def test_ids_of_every_range_as_long_as_their_frames_are_held() -> None:
    store, _ = filled(blocks=0)
    frame = b"MESSAGE\n\n\0"
    for ids in ([b"0", b"1", None], None, [b"4", b"5"]):
        count = 2 if ids is None else len(ids)
        ends = [len(frame) * (number + 1) for number in range(count)]
        append(store, FrameBatch(frame * count, ends, 0, 0, "1.2"), ids)
    assert store.ids(0, 7) == [(0, [b"0", b"1", None]), (5, [b"4", b"5"])]
    assert store.ids(1, 6) == [(1, [b"1", None]), (5, [b"4"])]
    store.release(3)
    store.free(3)
    assert store.ids(0, 7) == [(5, [b"4", b"5"])]
    store.marks.advance(kept=6)
    store.discard()
    assert store.ids(0, 7) == [(5, [b"4"])]


@pytest.mark.parametrize("max_bytes", [1, 1 << 20], ids=["spilled", "in memory"])
@pytest.mark.parametrize("indices", [[0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_only_some_frames_of_a_read_are_taken(max_bytes: int, indices: list[int]) -> None:
    store, _ = filled(max_bytes, blocks=1)
    three = [b"MESSAGE\n\n%d\0\n" % index * (index + 1) for index in range(3)]
    ends = [sum(map(len, three[: index + 1])) for index in range(3)]
    held = store.prepare(FrameBatch(b"".join(three), ends, 0, 0, "1.2"), [b"0", b"1", b"2"])
    held.select(indices)
    store.append(held)
    assert content(store.batches(3, store.received)) == [three[index] for index in indices]
    assert store.ids(3, 6) == [(3, [b"%d" % index for index in indices])]
    store.release(store.received)
    store.free(store.received)
    assert (store.memory_bytes, store.spilled_bytes) == (0, 0)


def test_frames_that_are_not_taken_leave_nothing() -> None:
    store, _ = filled(max_bytes=1)
    before = store.spilled_bytes
    store.abandon(store.prepare(FrameBatch(b"MESSAGE\n\n\0", [10], 0, 0, "1.2")))
    assert store.spilled_bytes == before


@pytest.mark.parametrize("max_bytes", [1, 1 << 20], ids=["spilled", "in memory"])
def test_keys_need_no_reading(max_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = filled(max_bytes, blocks=1)
    frame = b"MESSAGE\ndestination:/q\n\n%d\0"
    for number in range(3):
        data = frame % (2 * number) + frame % (2 * number + 1)
        ids = [b"%d" % (2 * number), b"%d" % (2 * number + 1)]
        append(store, FrameBatch(data, [len(data) // 2, len(data)], 0, 0, "1.2"), ids)
    monkeypatch.setattr("os.pread", None)
    keys = [key(b"%d" % number, b"%d" % number) for number in range(6)]
    for low in range(3, 9):
        for high in range(low, 10):
            assert store.keys(low, high) == keys[low - 3 : high - 3]


def test_a_batch_that_is_in_the_journal_has_its_keys() -> None:
    store = filled(blocks=0)[0]
    data = b"MESSAGE\ndestination:/q\n\nbody\0"
    append(store, FrameBatch(data, [len(data)], 0, 0, "1.2"), [b"1"])
    (held,) = store.next_held(0, 1 << 20)
    store.make_keys(held.load())
    store.journaled(0, 70)
    assert (store.memory_bytes, store.keys(0, 1)) == (0, [key(b"1")])
    assert store.position_from(0) == 70

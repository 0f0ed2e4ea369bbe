"""Batches of raw frames, and the index of who holds which: every range, against plain lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp import frame_batch
from spark_stomp.frame_batch import FrameBatch, FrameIndex, bytes_between, end_within, joined, merged_ranges


def frames_of(batch: FrameBatch) -> list[bytes]:
    bounds = [0, *(int(end) for end in batch.ends)]
    return [bytes(batch.data[low:high]) for low, high in pairwise(bounds)]


def batch(first: int, *frames: bytes, at: int = 5) -> FrameBatch:
    ends = [sum(map(len, frames[: index + 1])) for index in range(len(frames))]
    return FrameBatch(b"".join(frames), ends, first, at, "1.2", "generic", "r")


class TestFrameBatch:
    def test_a_part_is_numbered_as_before_and_copies_nothing(self) -> None:
        whole = batch(10, b"a", b"bb", b"ccc", b"dddd")
        part = whole.part(11, 13)
        assert frames_of(part) == [b"bb", b"ccc"]
        assert (part.first_number, part.end, part.received_at) == (11, 13, 5)
        assert isinstance(part.data, memoryview)
        assert whole.part(0, 99) is whole

    def test_joined_batches_keep_the_times_of_their_frames(self) -> None:
        both = FrameBatch.join([batch(3, b"a", b"bb", at=1), batch(5, b"ccc", at=2)])
        assert frames_of(both) == [b"a", b"bb", b"ccc"]
        assert (both.first_number, both.end) == (3, 6)
        assert list(np.asarray(both.received_at)) == [1, 1, 2]
        assert both.origin == ("r", "1.2", "generic")

    def test_a_part_of_a_joined_batch_keeps_them_too(self) -> None:
        part = FrameBatch.join([batch(3, b"a", at=1), batch(4, b"b", at=2)]).part(4, 5)
        assert (frames_of(part), list(np.asarray(part.received_at))) == ([b"b"], [2])


class TestJoined:
    def test_as_many_as_have_room_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(frame_batch, "_JOINED_BYTES", 5)
        bodies = (b"aa", b"bbb", b"c", b"d" * 9, b"e")
        found = joined([batch(number, body) for number, body in enumerate(bodies)])
        assert [frames_of(one) for one in found] == [[b"aa", b"bbb"], [b"c"], [b"d" * 9], [b"e"]]

    def test_one_that_stays_alone_is_not_copied(self) -> None:
        only = batch(0, b"a", b"bb")
        assert list(joined([only])) == [only]

    def test_none_of_another_version(self) -> None:
        other = replace(batch(1, b"b"), version="1.1")
        assert [one.version for one in joined([batch(0, b"a"), other])] == ["1.2", "1.1"]

    def test_parts_of_a_journal_that_lost_messages_stay_apart(self) -> None:
        """Or the column ``sequence`` would be wrong behind the gap."""
        found = joined([batch(0, b"a", b"b", b"c"), batch(5, b"d", b"e"), batch(7, b"f")])
        assert [(one.first_number, one.end) for one in found] == [(0, 3), (5, 8)]


@dataclass
class Held:
    ends: list[int]

    def cut(self, count: int) -> None:
        del self.ends[count:]


def index_of(sizes: list[list[int]], first: int = 0) -> FrameIndex[Held]:
    """One piece for each list of frame sizes; an empty list is a piece without frames."""
    index: FrameIndex[Held] = FrameIndex(lambda held: held.ends)
    for piece in sizes:
        ends = [sum(piece[: number + 1]) for number in range(len(piece))]
        index.append(first, len(piece), sum(piece), Held(ends))
        first += len(piece)
    return index


pieces = st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1, max_size=6)


class TestFrameIndex:
    @given(pieces, st.integers(0, 3))
    def test_bytes_of_every_range(self, sizes: list[list[int]], first: int) -> None:
        flat = [size for piece in sizes for size in piece]
        index = index_of(sizes, first)
        for low in range(len(flat) + 1):
            for high in range(low, len(flat) + 1):
                assert bytes_between([index], first + low, first + high) == sum(flat[low:high])

    @given(pieces, st.integers(0, 60), st.integers(1, 3))
    def test_the_last_frame_that_fits(self, sizes: list[list[int]], budget: int, cut: int) -> None:
        """In one index, or in several of consecutive frames: the same."""
        flat = [size for piece in sizes for size in piece]
        begin = sum(map(len, sizes[:cut]))
        parts = [(index_of(sizes[:cut]), begin), (index_of(sizes[cut:], begin), len(flat))]
        for low in range(len(flat) + 1):
            for high in range(low, len(flat) + 1):
                expected = low
                while expected < high and sum(flat[low : expected + 1]) <= budget:
                    expected += 1
                assert end_within([(index_of(sizes), len(flat))], low, high, budget) == expected
                assert end_within(parts, low, high, budget) == expected

    @given(pieces)
    def test_pieces_of_every_range(self, sizes: list[list[int]]) -> None:
        index = index_of(sizes)
        count = sum(map(len, sizes))
        for low in range(count + 1):
            for high in range(low, count + 1):
                held = [n for piece in index.overlapping(low, high) for n in range(piece.first, piece.end)]
                assert set(range(low, high)) <= set(held)
                assert all(piece.first < high and piece.end > low for piece in index.overlapping(low, high))

    @given(pieces, st.sets(st.integers(0, 5)))
    def test_what_is_behind_removed_pieces_is_as_it_was(self, sizes: list[list[int]], gone: set[int]) -> None:
        index = index_of(sizes)
        every = [piece for piece in index if piece.end > piece.first]
        removed = [piece for at, piece in enumerate(every) if at in gone]
        for piece in removed:
            index.remove(piece.first)
        remaining = [piece for piece in every if piece not in removed]
        assert index.overlapping(0, sum(map(len, sizes))) == remaining
        for piece in remaining:
            if any(piece.first < one.first for one in removed):
                continue
            assert bytes_between([index], piece.first, piece.end) == piece.size


@pytest.mark.parametrize(
    ("ranges", "merged"), [([], []), ([(1, 2), (2, 5)], [(1, 5)]), ([(1, 2), (3, 5)], [(1, 2), (3, 5)])]
)
def test_ranges_that_touch_become_one(ranges: list[tuple[int, int]], merged: list[tuple[int, int]]) -> None:
    assert merged_ranges(ranges) == merged

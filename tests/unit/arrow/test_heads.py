"""Where header areas and bodies lie."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.arrow.heads import (
    NO_END,
    Area,
    area_of,
    compact,
    ends_by_lf,
    ends_by_search,
    first_feeds,
    lf_scan_pays,
    line_feeds,
)
from spark_stomp.framebatch import FrameBatch


def frame_batch(*frames: bytes) -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames])
    return FrameBatch(b"".join(frames), ends, 0, 0, "lenient", receiver="r")


def stretches(area: Area) -> list[bytes]:
    octets = area.octets.tobytes()
    return [octets[start:stop] for start, stop in zip(area.starts, area.stops, strict=True)]


class TestArea:
    @pytest.mark.parametrize(
        "lead", [b"", b"\n", b"\r\n", b"\r\n\n\r\n", b"\0", b" \n", b"\n" * 31, b"\n" * 32, b"\r\n" * 5000]
    )
    def test_what_leads_is_skipped_and_the_nul_is_left_out(self, lead: bytes) -> None:
        area = area_of(frame_batch(b"MESSAGE\n\na\0", lead + b"MESSAGE\n\nb\0", b"\nMESSAGE\n\n\0"))
        assert stretches(area) == [b"MESSAGE\n\na", b"MESSAGE\n\nb", b"MESSAGE\n\n"]

    def test_a_memoryview_is_not_copied(self) -> None:
        data = bytearray(b"xxMESSAGE\n\n\0")
        view = memoryview(data)[2:]
        area = area_of(FrameBatch(view, np.array([len(view)]), 0, 0, "1.2", receiver="r"))
        assert stretches(area) == [b"MESSAGE\n\n"]
        assert np.shares_memory(area.octets, np.frombuffer(data, np.uint8))

    def test_subset(self) -> None:
        area = area_of(frame_batch(b"a\n\n\0", b"b\n\n\0", b"c\n\n\0"))
        assert stretches(area.subset(np.array([0, 2]))) == [b"a\n\n", b"c\n\n"]


class TestEnds:
    AREA = area_of(
        frame_batch(
            b"MESSAGE\na:b\n\nbody\n\n\0",
            b"\nMESSAGE\n\n\n\0",
            b"MESSAGE\na:b\r\n\r\nno plain end\0",
            b"MESSAGE\nend:at the very end\n\n\0",
            b"MESSAGE\r\n\r\n\0",
        )
    )
    HEADS = (b"MESSAGE\na:b\n\n", b"MESSAGE\n\n", b"MESSAGE\nend:at the very end\n\n")

    @pytest.mark.parametrize("way", ["lf", "search"])
    def test_the_first_empty_line_of_each_frame(self, way: str) -> None:
        area = self.AREA
        if way == "lf":
            lf = line_feeds(area.octets)
            ends = ends_by_lf(area, lf, first_feeds(area, lf))
        else:
            ends = ends_by_search(area)
        assert (ends == NO_END).tolist() == [False, False, True, False, True]
        plain = np.flatnonzero(ends != NO_END)
        heads = compact(area.subset(plain), ends[plain])
        assert stretches(heads) == list(self.HEADS)
        assert heads.octets.tobytes() == b"".join(self.HEADS)

    def test_without_any_lf_there_is_no_end(self) -> None:
        area = Area(np.frombuffer(b"xy", np.uint8), None, np.array([0, 1]), np.array([1, 2]))
        lf = line_feeds(area.octets)
        assert ends_by_lf(area, lf, np.zeros(2, np.int64)).tolist() == [NO_END, NO_END]


@pytest.mark.parametrize(("body", "pays"), [(235, True), (10_000, False)])
def test_long_bodies_are_not_searched_for_lfs(body: int, pays: bool) -> None:
    assert lf_scan_pays(area_of(frame_batch(*[b"MESSAGE\n\n" + b"x" * body + b"\0"] * 3))) is pays


@pytest.mark.parametrize(
    ("size", "step", "pays"), [(2**20, 2, True), (2**24 + 8, 8, True), (2**24 + 8, 7, False)]
)
def test_large_batches_are_not_searched_for_lfs_if_they_have_many(size: int, step: int, pays: bool) -> None:
    octets = np.zeros(size, np.uint8)
    octets[::step] = ord("\n")
    starts = np.arange(size // 64, dtype=np.int64) * 64
    assert lf_scan_pays(Area(octets, None, starts, starts + 63)) is pays


class TestLineFeeds:
    def test_wherever_a_stretch_that_is_searched_at_a_time_ends(self) -> None:
        octets = np.full(700_000, ord("x"), np.uint8)
        places = [0, 1, 262_143, 262_144, 262_145, 524_287, 524_288, 699_999]
        octets[places] = ord("\n")
        found = line_feeds(octets)
        assert (found.tolist(), found.dtype) == (places, np.int32)

    def test_none(self) -> None:
        assert line_feeds(np.empty(0, np.uint8)).tolist() == []

    @pytest.mark.parametrize(
        "starts",
        [
            [0, 4, 8],  # equally far apart
            [1, 5, 9],
            [0, 4, 9],  # not quite
            [0, 3, 8],
            [0, 4, 6],
            [0, 4],
            [0, 1, 2],  # none between two
            [0, 4, 8, 12],  # fewer than it seems
            [13, 14],  # behind the last
            [6],
        ],
    )
    def test_the_first_of_each_stretch(self, starts: list[int]) -> None:
        lf = np.array([2, 3, 6, 7, 10, 11], np.int32)
        area = Area(np.empty(0, np.uint8), None, np.array(starts), np.array([*starts[1:], 20]))
        assert first_feeds(area, lf).tolist() == np.searchsorted(lf, starts).tolist()

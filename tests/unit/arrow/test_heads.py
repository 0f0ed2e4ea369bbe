"""Where header areas and bodies lie."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.arrow.heads import Area, area_of, beginnings, first_feeds, line_feeds
from spark_stomp.frame_batch import FrameBatch


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


class TestBeginnings:
    def test_short_frames_stay_where_they_are(self) -> None:
        area = area_of(frame_batch(*[b"MESSAGE\na:b\n\n" + b"x" * 1000 + b"\0"] * 3))
        assert beginnings(area) is area

    def test_of_long_bodies_little_is_copied(self) -> None:
        frame = b"MESSAGE\na:b\n\n" + b"\n" * 10_000 + b"\0"
        found = stretches(beginnings(area_of(frame_batch(*[frame] * 3, b"MESSAGE\nshort:1\n\n\0"))))
        assert found == [frame[: 2 * len(b"MESSAGE\nshort:1\n\n") + 1024]] * 3 + [b"MESSAGE\nshort:1\n\n"]

    def test_as_much_as_long_heads_need(self) -> None:
        head = b"MESSAGE\na:" + b"y" * 5000 + b"\n\n"
        found = stretches(beginnings(area_of(frame_batch(*[head + b"x" * 90_000 + b"\0"] * 3))))
        assert all(one.startswith(head) and len(one) < 3 * len(head) for one in found)


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

"""Where heads and bodies begin and end, and how little is copied for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.headers import (
    Area,
    area_of,
    beginnings,
    first_feeds,
    line_feeds,
    uniform_headers,
)
from spark_stomp.frame_batch import FrameBatch


def frame_batch(*frames: bytes) -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames])
    return FrameBatch(b"".join(frames), ends, 0, 0, "lenient", receiver="r")


def stretches(area: Area) -> list[bytes]:
    octets = area.array.tobytes()
    return [octets[start:stop] for start, stop in zip(area.starts, area.stops, strict=True)]


class TestArea:
    def test_a_memoryview_is_not_copied(self) -> None:
        data = bytearray(b"xxMESSAGE\n\n\0")
        view = memoryview(data)[2:]
        area = area_of(FrameBatch(view, np.array([len(view)]), 0, 0, "1.2", receiver="r"))
        assert stretches(area) == [b"MESSAGE\n\n"]
        assert np.shares_memory(area.array, np.frombuffer(data, np.uint8))


class TestBeginnings:
    def test_of_long_bodies_little_is_copied(self) -> None:
        frame = b"MESSAGE\na:b\n\n" + b"\n" * 10_000 + b"\0"
        found = stretches(beginnings(area_of(frame_batch(*[frame] * 3, b"MESSAGE\nshort:1\n\n\0"))))
        assert found == [frame[: 2 * len(b"MESSAGE\nshort:1\n\n") + 1024]] * 3 + [b"MESSAGE\nshort:1\n\n"]


class TestLineFeeds:
    def test_wherever_a_stretch_that_is_searched_at_a_time_ends(self) -> None:
        octets = np.full(700_000, ord("x"), np.uint8)
        places = [0, 1, 262_143, 262_144, 262_145, 524_287, 524_288, 699_999]
        octets[places] = ord("\n")
        found = line_feeds(octets)
        assert (found.tolist(), found.dtype) == (places, np.int32)


def test_a_short_line_at_the_end_of_2_gib() -> None:
    """Its name would end beyond 32 bits. The bytes are not made: only the positions of their LFs are read."""
    name, end = b"n" * 30, 2**31 - 1
    octets = b"MESSAGE\n" + name + b":1\n\n\0"
    starts, stops = np.array([0, end - 24]), np.array([len(octets) - 1, end - 1])
    area = Area(np.frombuffer(octets, np.uint8), pa.py_buffer(octets), starts, stops)
    lf = np.array([7, 40, 41, end - 16, end - 6, end - 5], np.int32)
    found = uniform_headers(area, lf, first_feeds(area, lf), "1.2")
    assert found is not None
    assert found.rows.tolist() == [0]
    assert found.headers.column(name.decode()).to_pylist() == ["1"]

"""Frames of one layout; and what is refused as not uniform."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.heads import Area, area_of, first_feeds, line_feeds
from spark_stomp.arrow.uniform import UniformHeaders, read_layouts, uniform_headers
from spark_stomp.frame_batch import FrameBatch


def read(*frames: bytes, version: str = "1.2") -> tuple[UniformHeaders, list[bytes]] | None:
    """The headers, and what follows them in each frame; None unless all frames have one layout."""
    data = b"".join(frame + b"\0" for frame in frames)
    ends = np.cumsum([len(frame) + 1 for frame in frames])
    area = area_of(FrameBatch(data, ends, 0, 0, version, receiver="r"))
    lf = line_feeds(area.octets)
    found = uniform_headers(area, lf, first_feeds(area, lf), version)
    if found is None or len(found.rows) < len(frames):
        return None
    return found.headers, [
        data[end:stop] for end, stop in zip(area.starts + found.sizes, area.stops, strict=True)
    ]


def test_columns_lines_and_bodies() -> None:
    found = read(b"MESSAGE\na:1\nb:x:y\n\nbody", b"\nMESSAGE\na:\nb:2\n\n")
    assert found is not None
    headers, bodies = found
    assert headers.column("a").to_pylist() == ["1", ""]
    assert headers.column("b").to_pylist() == ["x:y", "2"]
    assert headers.column("c").to_pylist() == [None, None]
    lines = headers.first_lines()
    assert lines.offsets.tolist() == [0, 2, 4]
    assert lines.names.to_pylist() == ["a", "b", "a", "b"]
    assert lines.values.to_pylist() == ["1", "x:y", "", "2"]
    assert bodies == [b"body", b""]


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


@pytest.mark.parametrize("body", [b"", b"\n", b"x\n\ny\nz:\n\n"])
def test_lfs_in_bodies(body: bytes) -> None:
    found = read(b"MESSAGE\na:1\n\n" + body, b"MESSAGE\na:2\n\nplain", b"MESSAGE\na:3\n\n" + body)
    assert found is not None
    assert found[0].column("a").to_pylist() == ["1", "2", "3"]
    assert found[1] == [body, b"plain", body]


def test_of_repeated_headers_the_first_wins() -> None:
    found = read(*[b"MESSAGE\na:1\nb:2\na:3\n\n"] * 2)
    assert found is not None
    headers = found[0]
    assert headers.column("a").to_pylist() == ["1", "1"]
    assert headers.first_lines().values.to_pylist() == ["1", "2"] * 2
    assert headers.first_lines().offsets.tolist() == [0, 2, 4]
    assert headers.all_lines().values.to_pylist() == ["1", "2", "3"] * 2


def test_names_that_differ_only_in_their_escapes_are_repeats() -> None:
    found = read(b"MESSAGE\nx\\cy:1\nx\\ny:\\c\nx\\cy:3\n\n")
    assert found is not None
    assert found[0].first_lines().names.to_pylist() == ["x:y", "x\ny"]
    assert found[0].first_lines().values.to_pylist() == ["1", ":"]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(b"MESSAGE\nab:1\nb:2\n\n", id="a longer name"),
        pytest.param(b"MESSAGE\nb:1\na:2\n\n", id="another order"),
        pytest.param(b"MESSAGE\na:1\n\nb:2\n\n", id="one header less"),
        pytest.param(b"MESSAGE\na:1\nb:2\nc:3\n\n", id="one header more"),
        pytest.param(b"MESSAGE\na:1\nb:2\r\n\r\n\n", id="a CR before the LF"),
        pytest.param(b"MESSAGE\na:1\nb:2\n\r\nx", id="an empty line with a CR"),
        pytest.param(b"MESSAGE\n\n", id="no header"),
    ],
)
def test_anything_else_is_not_uniform(second: bytes) -> None:
    first = b"MESSAGE\na:1\nb:2\n\n"
    assert read(first, first) is not None
    assert read(first, second) is None
    assert read(first, second, first) is None
    assert read(second, first) is None


def test_frames_with_a_cr_are_left_out_where_it_may_end_a_line() -> None:
    frames = [b"MESSAGE\na:1\nb:2\n\n", b"MESSAGE\na:1\r\nb:2\n\n", b"MESSAGE\na:3\nb:4\n\n"]
    assert [found.tolist() for found in rows_of(frames, "1.2")] == [[0, 2]]
    assert [found.tolist() for found in rows_of(frames, "1.1")] == [[0, 1, 2]]
    assert rows_of(frames[1:2], "1.2") == []


def test_in_the_lenient_dialect_nothing_is_read() -> None:
    assert rows_of([b"MESSAGE\na:1\n\n"], "lenient") == []


def rows_of(frames: list[bytes], version: str) -> list[np.ndarray]:
    """The rows of each layout."""
    ends = np.cumsum([len(frame) + 1 for frame in frames])
    data = b"".join(frame + b"\0" for frame in frames)
    return [found.rows for found in read_layouts(area_of(FrameBatch(data, ends, 0, 0, version)), version)]


def test_frames_of_another_layout_are_passed_over() -> None:
    frames = [b"MESSAGE\na:%d\n%s\n" % (i, b"b:x\n" if i % 3 else b"") for i in range(9)]
    data = b"".join(frame + b"\0" for frame in frames)
    ends = np.cumsum([len(frame) + 1 for frame in frames])
    area = area_of(FrameBatch(data, ends, 0, 0, "1.2", receiver="r"))
    lf = line_feeds(area.octets)
    found = uniform_headers(area, lf, first_feeds(area, lf), "1.2")
    assert found is not None
    assert found.rows.tolist() == [0, 3, 6]
    assert found.headers.column("a").to_pylist() == ["0", "3", "6"]
    assert (area.starts[found.rows] + found.sizes == area.stops[found.rows]).all()

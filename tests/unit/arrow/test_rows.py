"""Which path each frame of a batch takes, and that all come back in order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow import decode as module
from spark_stomp.arrow.columns import HeaderLines
from spark_stomp.arrow.decode import in_order, read_rows
from spark_stomp.frame_batch import FrameBatch


def frame_batch(*frames: bytes, version: str = "1.2") -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames])
    return FrameBatch(b"".join(frames), ends, 0, 0, version, receiver="r")


def plain(number: int, layout: int, padding: int = 0) -> bytes:
    extra = b"".join(b"x%d-%d:y\n" % (layout, k) for k in range(layout % 7))
    return b"MESSAGE\nn:%d\nlayout:%d\n%s\n%d%s\0" % (number, layout, extra, number, b"." * padding)


@pytest.mark.parametrize("padding", [0, 5000], ids=["in place", "copied out"])
@pytest.mark.parametrize("layouts", [1, 2, 4, 5, 50])
def test_any_number_of_layouts(layouts: int, padding: int) -> None:
    frames = [plain(number, number * 7 % layouts, padding) for number in range(100)]
    rows = read_rows(frame_batch(*frames))
    assert rows.column("n").to_pylist() == [str(number) for number in range(100)]
    assert rows.column("layout").to_pylist() == [str(number * 7 % layouts) for number in range(100)]
    assert rows.column("x1-0").to_pylist() == [
        "y" if number * 7 % layouts == 1 else None for number in range(100)
    ]
    assert rows.bodies().to_pylist() == [b"%d" % number + b"." * padding for number in range(100)]
    assert rows.first_lines().values.to_pylist()[:2] == ["0", "0"]
    assert np.diff(rows.all_lines().offsets).tolist() == [
        2 + number * 7 % layouts % 7 for number in range(100)
    ]


@pytest.mark.parametrize("layouts", [1, 2, 3, 12])
def test_several_layouts_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch, layouts: int) -> None:
    monkeypatch.delattr(module, "exact_frames")
    read_rows(frame_batch(*(plain(number, number % layouts) for number in range(200))))


def test_layouts_of_few_frames_take_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    original = module.exact_frames
    monkeypatch.setattr(
        module, "exact_frames", lambda area, version: decoded.append(len(area)) or original(area, version)
    )
    names = [b"MESSAGE\nx%d:1\n\n\0" % number for number in range(160)]
    read_rows(frame_batch(*names))
    assert decoded == [160 - 11]


def test_only_frames_that_need_it_take_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    original = module.exact_frames
    monkeypatch.setattr(
        module, "exact_frames", lambda area, version: decoded.append(len(area)) or original(area, version)
    )
    frames = [plain(number, 1) for number in range(20)]
    frames[5] = b"\nMESSAGE\r\nn:5\nlayout:1\r\n\r\nexact\n\n\0"
    rows = read_rows(frame_batch(*frames))
    assert decoded == [1]
    assert rows.column("n").to_pylist() == [str(number) for number in range(20)]
    assert rows.bodies().to_pylist()[4:7] == [b"4", b"exact\n\n", b"6"]


@pytest.mark.parametrize("padding", [0, 5000])
def test_all_on_the_exact_path(padding: int) -> None:
    frames = [b"MESSAGE\r\nn:%d\r\n\r\n%s\0" % (number, b"." * padding) for number in range(3)]
    rows = read_rows(frame_batch(*frames))
    assert rows.column("n").to_pylist() == ["0", "1", "2"]
    assert rows.bodies().to_pylist() == [b"." * padding] * 3


def lines(*messages: list[tuple[str, str]]) -> HeaderLines:
    offsets = np.cumsum([0, *map(len, messages)], dtype=np.int32)
    pairs = [pair for message in messages for pair in message]
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    return HeaderLines(offsets, pa.array(names, pa.string()), pa.array(values, pa.string()))


def test_the_lines_of_parts_are_interleaved() -> None:
    one = lines([("a", "1")], [("a", "2")])
    other = lines([("b", "3"), ("c", "4")], [], [("d", "5")])
    merged = in_order([one, other], np.array([2, 0, 3, 4, 1]))
    assert merged.offsets.tolist() == [0, 2, 3, 3, 4, 5]
    assert merged.offsets.dtype == np.int32
    assert merged.names.to_pylist() == ["b", "c", "a", "d", "a"]
    assert merged.values.to_pylist() == ["3", "4", "1", "5", "2"]


def test_parts_without_any_line() -> None:
    merged = in_order([lines([]), lines([])], np.array([1, 0]))
    assert merged.offsets.tolist() == [0, 0, 0]
    assert merged.names.to_pylist() == []

"""Which way each frame of a block is read, and that all come back in order."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.framebatch import FrameBatch
from spark_stomp.arrow import rows as module
from spark_stomp.arrow.rows import read_rows


def block(*frames: bytes, version: str = "1.2") -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames])
    return FrameBatch(b"".join(frames), ends, version, 0, "r", 0)


def plain(number: int, layout: int, padding: int = 0) -> bytes:
    extra = b"".join(b"x%d-%d:y\n" % (layout, k) for k in range(layout % 7))
    return b"MESSAGE\nn:%d\nlayout:%d\n%s\n%d%s\0" % (number, layout, extra, number, b"." * padding)


@pytest.mark.parametrize("padding", [0, 5000], ids=["in place", "copied out"])
@pytest.mark.parametrize("layouts", [1, 2, 4, 5, 50])
def test_any_number_of_layouts(layouts: int, padding: int) -> None:
    frames = [plain(number, number * 7 % layouts, padding) for number in range(100)]
    rows = read_rows(block(*frames))
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


@pytest.mark.parametrize(("layouts", "mixed"), [(2, False), (3, False), (40, True)])
def test_few_layouts_are_read_one_by_one_and_many_as_a_mixture(
    monkeypatch: pytest.MonkeyPatch, layouts: int, mixed: bool
) -> None:
    called = []
    original = module.mixed_headers
    monkeypatch.setattr(module, "mixed_headers", lambda *args: called.append(1) or original(*args))
    read_rows(block(*(plain(number, number % layouts) for number in range(200))))
    assert bool(called) is mixed


def test_only_odd_frames_reach_the_frame_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    original = module.exact_frames
    monkeypatch.setattr(
        module, "exact_frames", lambda area, version: decoded.append(len(area)) or original(area, version)
    )
    frames = [plain(number, 1) for number in range(20)]
    frames[5] = b"\nMESSAGE\r\nn:5\nlayout:1\r\n\r\nodd\n\n\0"
    rows = read_rows(block(*frames))
    assert decoded == [1]
    assert rows.column("n").to_pylist() == [str(number) for number in range(20)]
    assert rows.bodies().to_pylist()[4:7] == [b"4", b"odd\n\n", b"6"]


@pytest.mark.parametrize("padding", [0, 5000])
def test_all_odd(padding: int) -> None:
    frames = [b"MESSAGE\r\nn:%d\r\n\r\n%s\0" % (number, b"." * padding) for number in range(3)]
    rows = read_rows(block(*frames))
    assert rows.column("n").to_pylist() == ["0", "1", "2"]
    assert rows.bodies().to_pylist() == [b"." * padding] * 3

"""Which path each frame of a batch takes, and that all come back in order."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.arrow import decode as module
from spark_stomp.arrow.decode import read_rows
from spark_stomp.frame_batch import FrameBatch


def frame_batch(*frames: bytes, version: str = "1.2") -> FrameBatch:
    ends = np.cumsum([len(frame) for frame in frames])
    return FrameBatch(b"".join(frames), ends, 0, 0, version, receiver="r")


def plain(number: int, layout: int, padding: int = 0) -> bytes:
    extra = b"".join(b"x%d-%d:y\n" % (layout, k) for k in range(layout % 7))
    return b"MESSAGE\nn:%d\nlayout:%d\n%s\n%d%s\0" % (number, layout, extra, number, b"." * padding)


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

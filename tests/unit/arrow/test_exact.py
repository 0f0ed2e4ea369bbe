"""Odd frames, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from spark_stomp.framebatch import FrameBatch
from spark_stomp.arrow.exact import ExactHeaders, exact_frames
from spark_stomp.arrow.heads import area_of
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.protocol import Frame


def decode(data: bytes, *ends: int) -> list[Frame]:
    return exact_frames(area_of(FrameBatch(data, np.array(ends), "1.2", 0, "r", 0)), "1.2")


def test_frames_in_order() -> None:
    first, second = b"MESSAGE\r\na:1\r\n\r\nx\0", b"\nMESSAGE\ncontent-length:3\n\n\0\0\0\0"
    frames = decode(first + second, len(first), len(first + second))
    assert [frame.body for frame in frames] == [b"x", b"\0\0\0"]
    assert frames[0].headers == (("a", "1"),)


def test_an_incomplete_frame_is_an_error_rather_than_a_wait() -> None:
    data = b"MESSAGE\na:1\n\0"
    with pytest.raises(FrameSyntaxError):
        decode(data, len(data))
    with pytest.raises(FrameSyntaxError, match="incomplete"):
        decode(b"MESSAGE\na:1\n\n", 13)


def test_headers() -> None:
    headers = ExactHeaders([Frame("MESSAGE", (("a", "1"), ("b", "2"), ("a", "3"))), Frame("MESSAGE")])
    assert headers.column("a").to_pylist() == ["1", None]
    assert headers.first_lines().offsets.tolist() == [0, 2, 2]
    assert headers.first_lines().names.to_pylist() == ["a", "b"]
    assert headers.first_lines().values.to_pylist() == ["1", "2"]
    assert headers.all_lines().offsets.tolist() == [0, 3, 3]
    assert headers.all_lines().values.to_pylist() == ["1", "2", "3"]

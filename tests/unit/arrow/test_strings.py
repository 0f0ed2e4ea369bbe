"""The tools between numpy and Arrow strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.columns import gather, text_of, unescape


def positions(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_gather_of_one_piece_does_not_copy() -> None:
    source = pa.py_buffer(b"..ab.c")
    array = gather(pa.binary(), source, positions(2), positions(4))
    assert array.to_pylist() == [b"ab"]
    assert array.buffers()[2].address == source.address


@pytest.mark.parametrize("length", [235, 1_000, 4_000, 10_240])
def test_gather_copies_once(length: int) -> None:
    """The room that is asked for is enough at once: what grows in between doubles, and holds both copies."""
    count, gap = 1_000, 228
    starts = np.arange(count, dtype=np.int64) * (length + gap)
    text = pa.py_buffer(bytes(count * (length + gap)))
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(watched)
    try:
        copied = len(gather(pa.binary(), text, starts, starts + length))  # freed before the pool is
    finally:
        pa.set_memory_pool(usual)
    assert copied == count
    assert count * length < watched.max_memory() < 1.25 * count * length


class TestUnescape:
    """STOMP 1.2, "Value Encoding"."""

    def test_without_escapes_nothing_is_copied(self) -> None:
        array = pa.array(["a", "b"])
        assert unescape(array) is array


def test_text_of_nothing() -> None:
    text, offsets = text_of(pa.array([], pa.string()))
    assert (text.tobytes(), offsets.tolist()) == (b"", [0])

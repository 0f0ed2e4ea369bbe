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


@pytest.mark.parametrize("size", [4000, 5000])
def test_gather_of_long_pieces(size: int) -> None:
    first, second = b"a" * size, b"b" * (size + 200)
    starts = positions(1, 2 + size, 2 + size)
    array = gather(
        pa.binary(),
        pa.py_buffer(b"." + first + b"." + second),
        starts,
        starts + positions(size, 0, size + 200),
    )
    array.validate(full=True)
    assert array.to_pylist() == [first, b"", second]


@pytest.mark.parametrize("lengths", [[0, 0, 0], [1, 0, 5], [300, 299, 301], [1, 10_000, 0], [7] * 100])
@pytest.mark.parametrize("gap", [0, 1, 250])
def test_gather_makes_room_for_pieces_longer_than_the_gaps(lengths: list[int], gap: int) -> None:
    text = b"".join(bytes([65 + i % 26]) * length + b"." * gap for i, length in enumerate(lengths))
    starts = np.cumsum([0, *(length + gap for length in lengths[:-1])])
    array = gather(pa.binary(), pa.py_buffer(text), starts, starts + positions(*lengths))
    array.validate(full=True)
    assert array.to_pylist() == [bytes([65 + i % 26]) * length for i, length in enumerate(lengths)]


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


def test_text_of_nothing() -> None:
    text, offsets = text_of(pa.array([], pa.string()))
    assert (text.tobytes(), offsets.tolist()) == (b"", [0])


class TestUnescape:
    """STOMP 1.2, "Value Encoding"."""

    def test_without_escapes_nothing_is_copied(self) -> None:
        array = pa.array(["a", "b"])
        assert unescape(array) is array

    @pytest.mark.parametrize("size", [1, 7, 8, 9, 64, 300])
    def test_many_escapes_in_strings_of_many_sizes(self, size: int) -> None:
        plain = [":" * (place % size) + "x" * (place % 3) for place in range(2 * size)]
        array = pa.array([text.replace(":", "\\c") for text in plain])
        assert unescape(array).to_pylist() == plain

"""Header lines of several parts in the order of their messages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.headers import HeaderLines, in_order, nulls


def lines(*messages: list[tuple[str, str]]) -> HeaderLines:
    offsets = np.cumsum([0, *map(len, messages)], dtype=np.int32)
    pairs = [pair for message in messages for pair in message]
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    return HeaderLines(offsets, pa.array(names, pa.string()), pa.array(values, pa.string()))


def test_parts_are_interleaved() -> None:
    one = lines([("a", "1")], [("a", "2")])
    other = lines([("b", "3"), ("c", "4")], [], [("d", "5")])
    merged = in_order([one, other], np.array([2, 0, 3, 4, 1]))
    assert merged.offsets.tolist() == [0, 2, 3, 3, 4, 5]
    assert merged.offsets.dtype == np.int32
    assert merged.names.to_pylist() == ["b", "c", "a", "d", "a"]
    assert merged.values.to_pylist() == ["3", "4", "1", "5", "2"]


def test_without_any_line() -> None:
    merged = in_order([lines([]), lines([])], np.array([1, 0]))
    assert merged.offsets.tolist() == [0, 0, 0]
    assert merged.names.to_pylist() == []


def test_nulls_are_strings() -> None:
    assert nulls(2).equals(pa.array([None, None], pa.string()))

"""What every way of reading headers yields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.strings import Ints, Positions

__all__ = ["HeaderLines", "Headers", "in_order", "nulls"]


class HeaderLines(NamedTuple):
    """Header lines of many messages; those of message i are the elements [offsets[i]:offsets[i + 1]]."""

    offsets: Positions
    names: pa.Array
    values: pa.Array


class Headers(Protocol):
    """The decoded headers of some messages."""

    def column(self, name: str) -> pa.Array:
        """The first value of one header for each message; null where it is absent."""
        ...

    def first_lines(self) -> HeaderLines:
        """The lines without repeats: the first wins (STOMP 1.2, "Repeated Header Entries")."""
        ...

    def all_lines(self) -> HeaderLines:
        """The lines as sent, repeats included."""
        ...


def in_order(parts: Sequence[HeaderLines], order: Ints) -> HeaderLines:
    """The lines of all messages: message i is number ``order[i]`` of all the parts' messages."""
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    starts = np.cumsum(counts) - counts
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[order])))
    places = np.repeat(starts[order] - offsets[:-1], counts[order]) + np.arange(offsets[-1])
    taken = pa.array(places)
    names = pa.concat_arrays([part.names for part in parts]).take(taken)
    values = pa.concat_arrays([part.values for part in parts]).take(taken)
    return HeaderLines(offsets.astype(np.int32), names, values)


def nulls(count: int) -> pa.Array:
    """The column of a header that no message has."""
    return pa.nulls(count, pa.string())

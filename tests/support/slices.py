"""Encoded slices for tests of the sender."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from spark_stomp.sink.window import EncodedSlice, receipt_id


def encoded(bodies: Iterable[bytes], destination: str = "/queue/out", first: int = 0) -> EncodedSlice:
    """One slice of persistent messages; its receipts are numbered from ``first`` on."""
    frames = [
        b"SEND\ndestination:%b\npersistent:true\nreceipt:%b\ncontent-length:%d\n\n%b\0"
        % (destination.encode(), receipt_id(first + place).encode(), len(body), body)
        for place, body in enumerate(bodies)
    ]
    ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
    return EncodedSlice(memoryview(b"".join(frames)), ends, first)


def slices(bodies: list[bytes], size: int, destination: str = "/queue/out") -> Iterator[EncodedSlice]:
    """Slices of ``size`` messages."""
    for first in range(0, len(bodies), size):
        yield encoded(bodies[first : first + size], destination, first)

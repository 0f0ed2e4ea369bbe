"""Frames of one layout, beyond what property/test_arrow_decode reaches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_stomp.arrow.headers import Area, first_feeds, uniform_headers


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

"""Frames of any layouts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.exact_path import ExactPathRules
from spark_stomp.arrow.heads import Area
from spark_stomp.arrow.mixed import MixedHeaders, mixed_headers


def read(*heads: bytes, version: str = "1.2") -> tuple[MixedHeaders | None, list[int]]:
    text = b"".join(heads)
    bounds = np.cumsum([0, *map(len, heads)])
    area = Area(np.frombuffer(text, np.uint8), pa.py_buffer(text), bounds[:-1], bounds[1:])
    headers, exact = mixed_headers(area, ExactPathRules(version))
    return headers, exact.tolist()


def test_columns_and_lines() -> None:
    headers, exact = read(b"MESSAGE\na:1\nb::x:\n\n", b"MESSAGE\n\n", b"MESSAGE\nb:\\c\\\\\nc:\n\n")
    assert headers is not None
    assert exact == []
    assert headers.column("a").to_pylist() == ["1", None, None]
    assert headers.column("b").to_pylist() == [":x:", None, ":\\"]
    assert headers.column("zz").to_pylist() == [None] * 3
    lines = headers.first_lines()
    assert lines.offsets.tolist() == [0, 2, 2, 4]
    assert lines.names.to_pylist() == ["a", "b", "b", "c"]
    assert lines.values.to_pylist() == ["1", ":x:", ":\\", ""]
    assert headers.all_lines().values.to_pylist() == lines.values.to_pylist()


def test_a_header_that_all_have() -> None:
    headers, _ = read(b"MESSAGE\na:1\nb:2\n\n", b"MESSAGE\nb:3\n\n")
    assert headers is not None
    assert headers.column("b").to_pylist() == ["2", "3"]


def test_no_header_at_all() -> None:
    headers, exact = read(b"MESSAGE\n\n", b"MESSAGE\n\n")
    assert headers is not None
    assert exact == []
    assert headers.first_lines().offsets.tolist() == [0, 0, 0]
    assert headers.column("a").to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("version", "head"),
    [
        pytest.param("1.2", b"MESSAGE\r\na:1\n\n", id="a CR"),
        pytest.param("1.2", b"MESSAGE\na:1\nb:2\na:3\n\n", id="a repeat"),
        pytest.param("1.1", b"MESSAGE\na\\c:1\n\n", id="an escaped name"),
        pytest.param("lenient", b"MESSAGE\nA:1\n\n", id="a capital"),
        pytest.param("lenient", b"MESSAGE\na:1 \n\n", id="a blank"),
        pytest.param("lenient", b"MESSAGE\n \nbody:1\n\n", id="an empty line with a blank"),
    ],
)
def test_rows_that_need_the_exact_path_are_named(version: str, head: bytes) -> None:
    plain = b"MESSAGE\nb:1\n\n"
    headers, exact = read(plain, head, plain, head, version=version)
    assert headers is None
    assert exact == [1, 3]


def test_repeats_among_many_names() -> None:
    heads = [
        b"MESSAGE\n" + b"".join(b"h%d:x\n" % (row * 10 + k) for k in range(10)) + b"\n" for row in range(10)
    ]
    assert read(*heads)[1] == []
    heads[7] = heads[7].replace(b"h75:", b"h70:")
    assert read(*heads)[1] == [7]

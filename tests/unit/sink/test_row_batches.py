"""Rows to record batches: bounded in rows and in bytes, so that no column overflows."""

from __future__ import annotations

from pyspark.sql import Row

from spark_stomp.schema import SinkColumns
from spark_stomp.sink.row_batches import row_batches

COLUMNS = SinkColumns(("body", "headers"), False)


def sizes(*bodies: int, header: int = 0) -> list[int]:
    row = Row("body", "headers")
    rows = (row(b"x" * size, {"name": "x" * header}) for size in bodies)
    return [batch.num_rows for batch in row_batches(rows, COLUMNS)]


def test_a_thousand_rows() -> None:
    assert sizes(*[1] * 2_500) == [1_000, 1_000, 500]


def test_eight_mebibytes_and_one_row_always_goes() -> None:
    """800 rows of 3 MiB in one batch are a column that overflows."""
    mebibyte = 1 << 20
    assert sizes(*[3 * mebibyte] * 5, 20 * mebibyte, 1, 1) == [2, 2, 1, 1, 2]


def test_headers_count() -> None:
    assert sizes(0, 0, 0, header=5 << 20) == [1, 1, 1]


def test_none() -> None:
    assert sizes() == []

"""Rows to record batches: bounded in rows and in bytes, so that no column overflows."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from pyspark.sql import Row

from spark_stomp.columns import SinkColumns
from spark_stomp.sink.cells import as_binary
from spark_stomp.spark.writers import row_batches

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


@pytest.mark.parametrize(
    "moment", [datetime(1, 1, 1), datetime(1969, 7, 20, 20, 17, 40, 1), datetime(9999, 12, 31, 23, 59)]
)
def test_a_time_is_one_of_utc(moment: datetime) -> None:
    columns = SinkColumns(("body", "at"), False, (("at", "timestamp"),))
    (batch,) = row_batches([Row("body", "at")(b"", moment), Row("body", "at")(b"", None)], columns)
    assert batch.column("at").to_pylist() == [moment.replace(tzinfo=timezone.utc), None]


def test_surrogates_are_octets_that_are_not_utf8() -> None:
    """As they are on later releases of Spark: the encoder finds the row."""
    columns = SinkColumns(("body", "destination", "headers"), True)
    row = Row("body", "destination", "headers")
    rows = [row("a", None, None), row("\ud800", "/q", {})]
    rows.append(row("ü", "\udfff", {"a": "ü", "\ud800": None, "b": "\ud800"}))
    (batch,) = row_batches(rows, columns)
    bodies, destinations = (as_binary(batch.column(name)).to_pylist() for name in ("body", "destination"))
    assert bodies == [b"a", b"\xed\xa0\x80", "ü".encode()]
    assert destinations == [None, b"/q", b"\xed\xbf\xbf"]
    maps = batch.column("headers")
    assert maps.is_valid().to_pylist() == [False, True, True]
    assert as_binary(maps.keys).to_pylist() == [b"a", b"\xed\xa0\x80", b"b"]
    assert as_binary(maps.items).to_pylist() == ["ü".encode(), None, b"\xed\xa0\x80"]
    assert maps.offsets.to_pylist() == [0, 0, 0, 3]

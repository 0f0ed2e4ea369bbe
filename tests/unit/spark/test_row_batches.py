"""Rows to record batches: bounded in rows and in bytes, so that no column overflows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
from pyspark.sql import Row
from pyspark.sql.types import TimestampType

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


@pytest.fixture
def far_west(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_west")
@pytest.mark.parametrize("second", [1_700_000_000, 1_699_162_200, 1_699_165_800])
def test_times_do_not_depend_on_the_time_zone_of_the_worker(second: int) -> None:
    """Spark 4.0 gives them in that zone, without saying so; two of these are the hour that comes twice."""
    columns = SinkColumns(("body", "at"), False, (("at", "timestamp"),))
    (batch,) = row_batches([Row("body", "at")(b"", TimestampType().fromInternal(second * 10**6))], columns)
    assert batch.column("at")[0].as_py() == datetime.fromtimestamp(second, timezone.utc)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("moment", [datetime(1, 1, 1), datetime(1, 1, 1, 12), datetime(9999, 12, 31, 23, 59)])
def test_the_first_and_the_last_year(zone: str, moment: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """In UTC it may be a year that Python has not; Arrow has it, and the encoder refuses it."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    columns = SinkColumns(("body", "at"), False, (("at", "timestamp"),))
    try:
        (batch,) = row_batches([Row("body", "at")(b"", moment)], columns)
    finally:
        monkeypatch.undo()
        time.tzset()
    away = batch.column("at").cast("int64")[0].as_py() / 1e6 - (moment - datetime(1970, 1, 1)).total_seconds()
    assert round(away / 3600) == {"UTC": 0, "America/New_York": 5, "Asia/Tokyo": -9}[zone]


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

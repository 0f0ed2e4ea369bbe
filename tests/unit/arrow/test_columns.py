"""Columns made of headers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.columns import (
    HeaderLines,
    after_last,
    header_list,
    header_map,
    nulls,
    redelivered,
    timed,
    timestamps,
)
from spark_stomp.columns import Projection

MICROSECONDS = pa.timestamp("us", tz="UTC")
LAST = 253_402_300_799


def strings(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


class TestIdsWithinAHeader:
    def test_what_follows_the_last_separator(self) -> None:
        ids = strings("18,11", "2147483675,11", "a,b\n,c", "11", "", None)
        assert after_last(ids, ",").to_pylist() == ["11", "11", "c", "11", "", None]

    def test_the_separator_is_no_pattern(self) -> None:
        assert after_last(strings("a.b", "ab"), ".").to_pylist() == ["b", "ab"]

    def test_the_whole_value_without_a_separator(self) -> None:
        assert after_last(strings("18,11"), None).to_pylist() == ["18,11"]

    def test_with_the_time_that_completes_it(self) -> None:
        ids, times = strings("11", "12", None, "", "13"), strings("7", None, "9", "9", "0")
        assert timed(ids, times).to_pylist() == ["11@7", None, None, None, None]


class TestTimestamps:
    def test_milliseconds(self) -> None:
        assert timestamps(strings("1700000000123"), "ms", MICROSECONDS).cast(pa.int64()).to_pylist() == [
            1_700_000_000_123_000
        ]

    def test_seconds(self) -> None:
        assert timestamps(strings("1700000000"), "s", MICROSECONDS).cast(pa.int64()).to_pylist() == [
            1_700_000_000_000_000
        ]

    @pytest.mark.parametrize(
        "malformed", [None, "", " 1", "1 ", "-1", "+1", "0x10", "1.5", "now", "٣", "9" * 19, "9" * 30]
    )
    def test_malformed_is_null_and_the_others_stay(self, malformed: str | None) -> None:
        column = timestamps(strings("1", malformed, "002"), "ms", MICROSECONDS)
        assert column.type == MICROSECONDS
        assert column.cast(pa.int64()).to_pylist() == [1000, None, 2000]

    @pytest.mark.parametrize(("unit", "last"), [("s", LAST), ("ms", LAST * 1000 + 999)])
    def test_the_year_9999_is_the_last(self, unit: str, last: int) -> None:
        column = timestamps(strings(str(last), str(last + 1)), unit, MICROSECONDS)  # type: ignore[arg-type]
        assert column[0].as_py().year == 9999
        assert column[1].as_py() is None

    def test_all_absent(self) -> None:
        assert timestamps(strings(None, None), "ms", MICROSECONDS).to_pylist() == [None, None]


class TestRedelivered:
    def test_plain(self) -> None:
        assert redelivered(strings("true", "false")).to_pylist() == [True, False]

    def test_case_absence_and_nonsense(self) -> None:
        values = strings("TRUE", "False", None, "", "yes", "true ")
        assert redelivered(values).to_pylist() == [True, False, None, None, None, None]


class TestNested:
    LINES = HeaderLines(np.array([0, 2, 2, 3], np.int32), strings("a", "b", "c"), strings("1", "2", "3"))

    def test_map(self) -> None:
        kind = Projection.of("headers").arrow_schema.field(0).type
        column = header_map(self.LINES, kind)
        column.validate(full=True)
        assert column.type == kind
        assert column.to_pylist() == [[("a", "1"), ("b", "2")], [], [("c", "3")]]

    def test_list(self) -> None:
        kind = Projection.of("header_history").arrow_schema.field(0).type
        column = header_list(self.LINES, kind)
        column.validate(full=True)
        assert column.type == kind
        assert column.to_pylist()[0] == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
        assert column.to_pylist()[1] == []


def test_nulls_are_strings() -> None:
    assert nulls(2).equals(pa.array([None, None], pa.string()))

"""Columns made of headers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_stomp.arrow.columns import (
    timestamps,
    unquoted,
)

MICROSECONDS = pa.timestamp("us", tz="UTC")
LAST = 253_402_300_799


def strings(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


class TestTimestamps:
    @pytest.mark.parametrize(("unit", "last"), [("s", LAST), ("ms", LAST * 1000 + 999)])
    def test_the_year_9999_is_the_last(self, unit: str, last: int) -> None:
        column = timestamps(strings(str(last), str(last + 1)), unit, MICROSECONDS)  # type: ignore[arg-type]
        assert column[0].as_py().year == 9999
        assert column[1].as_py() is None

    @pytest.mark.parametrize(
        "malformed", [None, "", " 1", "1 ", "-1", "+1", "0x10", "1.5", "now", "٣", "9" * 19, "9" * 30]
    )
    def test_malformed_is_null_and_the_others_stay(self, malformed: str | None) -> None:
        column = timestamps(strings("1", malformed, "002"), "ms", MICROSECONDS)
        assert column.type == MICROSECONDS
        assert column.cast(pa.int64()).to_pylist() == [1000, None, 2000]


class TestUnquoted:
    """RabbitMQ: what a MESSAGE says of a queue, and the name that a SEND to it needs."""

    @pytest.mark.parametrize(
        ("quoted", "plain"),
        [
            ("/queue/caf%C3%A9%20", "/queue/café "),
            ("/queue/50%25", "/queue/50%"),
            ("/queue/caf%25C3%25A9", "/queue/caf%C3%A9"),  # this is its name
            ("/queue/a%2Fb%E6%BC%A2", "/queue/a%2Fb漢"),  # a slash stays quoted
            ("/queue/%C3", "/queue/%C3"),  # the name is no text
            ("/queue/%c3%a9%", "/queue/%c3%a9%"),
        ],
    )
    def test_all_but_the_slash(self, quoted: str, plain: str) -> None:
        others = ["/queue/a", None, "/queue/a"]
        assert unquoted(strings(quoted, *others)).to_pylist() == [plain, *others]

    def test_names_without_a_sign(self) -> None:
        names = strings("/queue/é", None)
        assert unquoted(names) is names

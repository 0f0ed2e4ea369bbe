"""Columns made of headers, bodies as text, and the tools between numpy and Arrow strings."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow import columns
from spark_stomp.arrow.columns import (
    HeaderLines,
    TextSource,
    body_text,
    charset_of,
    gather,
    header_lines,
    text_of,
    timestamps,
    unescape,
    unquoted,
)
from spark_stomp.errors import BodyDecodeError

MICROSECONDS = pa.timestamp("us", tz="UTC")
LAST = 253_402_300_799


def strings(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def test_names_that_are_texts_of_python() -> None:
    """No bitmap without a null: pyarrow up to 25 ends the process if it has to count those of keys."""
    names = columns.strings(["a", "", "b"])
    assert names.buffers()[0] is None
    assert columns.strings(["a", None, b"c", None]).null_count == 2
    for keys in (
        names,
        columns.strings(["x", "a", "", "b"]).slice(1),
        pa.concat_arrays([names[:1], names[1:]]),
    ):
        made = header_lines(
            HeaderLines(np.array([0, 2, 3], np.int32), keys, names), pa.map_(pa.string(), pa.string())
        )
        made.validate(full=True)
        assert made.to_pylist() == [[("a", "a"), ("", "")], [("b", "b")]]


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


def test_gather_of_one_piece_does_not_copy() -> None:
    source = pa.py_buffer(b"..ab.c")
    array = gather(pa.binary(), source, np.array([2]), np.array([4]))
    assert array.to_pylist() == [b"ab"]
    assert array.buffers()[2].address == source.address


@pytest.mark.parametrize("length", [235, 1_000, 4_000, 10_240])
def test_gather_copies_once(length: int) -> None:
    """The room that is asked for is enough at once: what grows in between doubles, and holds both copies."""
    count, gap = 1_000, 228
    starts = np.arange(count, dtype=np.int64) * (length + gap)
    text = pa.py_buffer(bytes(count * (length + gap)))
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(watched)
    try:
        copied = len(gather(pa.binary(), text, starts, starts + length))  # freed before the pool is
    finally:
        pa.set_memory_pool(usual)
    assert copied == count
    assert count * length < watched.max_memory() < 1.25 * count * length


def test_without_escapes_nothing_is_copied() -> None:
    array = pa.array(["a", "b"])
    assert unescape(array) is array


def test_text_of_nothing() -> None:
    text, offsets = text_of(pa.array([], pa.string()))
    assert (text.tobytes(), offsets.tolist()) == (b"", [0])


def texts(*rows: tuple[bytes, str | None], on_error: Literal["error", "null"] = "error") -> list[str | None]:
    bodies = TextSource(
        pa.array([body for body, _ in rows], pa.binary()),
        pa.array([kind for _, kind in rows], pa.string()),
        pa.array([f"id-{i}" for i in range(len(rows))]),
        pa.array(["/queue/x"] * len(rows)),
    )
    column = body_text(bodies, on_error).values
    column.validate(full=True)
    assert column.type == pa.string()
    values: list[str | None] = column.to_pylist()
    return values


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        (None, "utf-8"),
        ("text/plain", "utf-8"),
        ("text/plain;charset=latin-1", "latin-1"),
        ("text/plain; Charset = UTF-16 ; x=y", "UTF-16"),
        ('text/plain; charset="iso-8859-15"', "iso-8859-15"),
        ("text/plain; charset=", "utf-8"),
        ("text/plain; xcharset=latin-1", "utf-8"),
    ],
)
def test_charset_of(content_type: str | None, charset: str) -> None:
    assert charset_of(content_type) == charset


def test_an_empty_body_in_a_charset_that_nobody_knows() -> None:
    """It holds nothing that could be read wrongly."""
    assert texts((b"", "a;charset=none-such"), (b"x", None)) == ["", "x"]


class TestUndecodable:
    def test_names_message_destination_and_charset(self) -> None:
        with pytest.raises(BodyDecodeError) as caught:
            texts((b"ok", None), (b"\xff", None))
        words = (
            "[STOMP_BODY_UNDECODABLE]",
            "'id-1'",
            "'/queue/x'",
            "not valid utf-8",
            "bodyDecodeErrors=null",
        )
        for word in (*words, "every restart fails on it too"):
            assert word in str(caught.value)

    @pytest.mark.parametrize("charset", ["klingon", "hex", "rot13", "idna", "unicode_escape", "undefined"])
    def test_unknown_charset(self, charset: str) -> None:
        with pytest.raises(BodyDecodeError, match=f"its charset '{charset}' is unknown"):
            texts((b"x", f"text/plain;charset={charset}"))

    @pytest.mark.parametrize("charset", ["\n\x1b" + "k" * 60_000, "utf" + "-" * 60_000 + "8"])
    def test_a_charset_is_quoted_in_short(self, charset: str) -> None:
        with pytest.raises(BodyDecodeError) as caught:
            texts((b"\xff", f"text/plain;charset={charset}"))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600

    def test_lone_surrogates_are_no_text(self) -> None:
        assert texts((b"+2AA-", "x;charset=utf-7"), on_error="null") == [None]

    @pytest.mark.rule("7.8")
    def test_null_with_the_reason_where_that_is_asked_for(self) -> None:
        octets, names = pa.array([b"x", b"good", b"\xff"], pa.binary()), pa.array(["m"] * 3)
        found = body_text(
            TextSource(octets, strings("a;charset=none-such", None, None), names, names), "column"
        )
        assert found.values.to_pylist() == [None, "good", None]
        assert sorted(found.reasons) == [0, 2]
        assert found.reasons[0] == "the body's charset 'none-such' is unknown"
        assert found.reasons[2] == "the body is not UTF-8"

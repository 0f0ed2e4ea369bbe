"""spark_stomp.quoting: what a peer said cannot pass for a line of ours, nor fill a log; plurals; numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stomp.quoting import counted, duration, line, quoted, shown, whole_number


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("no such queue", "no such queue"),
        ("Grüße, 漢字 😀", "Grüße, 漢字 😀"),
        ("one\r\ntwo\tthree", r"one\r\ntwo\tthree"),
        ("\x1b[2Jgone\x07\x7f\x9b", r"\x1b[2Jgone\x07\x7f\x9b"),
        ("\u2028line\u202eright to left", r"\u2028line\u202eright to left"),
        ("\ud800", r"\ud800"),
        (r"C:\new", r"C:\new"),
        ("", ""),
    ],
)
def test_what_is_no_letter_is_escaped(said: str, text: str) -> None:
    assert shown(said) == text
    assert quoted(said) == f"'{text}'"


def test_a_long_text_is_cut() -> None:
    assert shown("x" * 60_000, 100) == "x" * 100 + "..."
    assert shown("x" * 100, 100) == "x" * 100
    assert quoted("\n" * 60_000, 2) == r"'\n\n...'"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 messages"), (1, "1 message"), (2, "2 messages"), (12_345, "12,345 messages")]
)
def test_things_are_counted(number: int, text: str) -> None:
    assert counted(number, "message") == text


def test_nothing_is_told_as_such() -> None:
    assert quoted(None) == "(none)"


@given(st.text())
def test_it_is_one_printable_line(said: str) -> None:
    assert shown(said, 50).isprintable()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        *((text, None) for text in ("9" * 19, "", "-1", " 1", "1_0", "²", "٣")),
    ],
)
def test_a_number_has_ascii_digits_and_not_too_many(text: str, number: int | None) -> None:
    assert whole_number(text) == whole_number(text.encode()) == number


@given(st.text(), st.sampled_from([1, 1_000]))
def test_a_sentence_is_one_printable_line_whose_end_is_seen(said: str, times: int) -> None:
    text = line(f"{said * times}; try again")
    assert text.isprintable()
    assert text.endswith("; try again")
    assert len(text) <= 10 * 4_003


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (2.34, "2.3 s"),
        (59.9, "59 s"),
        (61, "1 min 1 s"),
        (7325, "2 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text

"""The exact path: what needs it, and how its frames are decoded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.exact_path import ExactHeaders, ExactPathRules, exact_frames
from spark_stomp.arrow.heads import area_of
from spark_stomp.errors import FrameSyntaxError
from spark_stomp.framebatch import FrameBatch
from spark_stomp.protocol import Frame

ALL = ("1.0", "1.1", "1.2", "lenient")


@pytest.mark.parametrize("version", ALL)
def test_plain_headers_never_need_it(version: str) -> None:
    rules = ExactPathRules(version)
    names, values = pa.array(["message-id", "x_1"]), pa.array(["ID:a b:c", ""])
    assert not rules.name_needs_exact(b"message-id")
    assert not rules.values_need_exact(values)
    assert rules.exact_lines(names, values).tolist() == []
    assert rules.cr_positions(np.frombuffer(b"MESSAGE\na:b\n\n", np.uint8)).tolist() == []


@pytest.mark.parametrize(
    ("version", "exact"), [("1.0", False), ("1.1", False), ("1.2", True), ("lenient", True)]
)
def test_cr_is_data_before_1_2(version: str, exact: bool) -> None:
    rules = ExactPathRules(version)
    assert rules.name_needs_exact(b"a\r") is exact
    assert rules.values_need_exact(pa.array(["x", "a\rb"])) is exact
    assert bool(rules.cr_positions(np.frombuffer(b"a\rb", np.uint8)).size) is exact


@pytest.mark.parametrize("value", ["\r", "x\r", "\t\r", "\0", "\t", "\x0c", "\x0e", " ", "é"])
def test_other_controls_are_not_taken_for_a_cr(value: str) -> None:
    assert ExactPathRules("1.2").values_need_exact(pa.array(["a", value, ""])) is ("\r" in value)


def test_no_values_do_not_need_it() -> None:
    assert not ExactPathRules("1.2").values_need_exact(pa.array([], pa.string()))


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_escaped_names_need_it_in_a_mixture(version: str) -> None:
    names, values = pa.array(["a", "b\\c", "c"]), pa.array(["\\c", "x", "y"])
    assert ExactPathRules(version).exact_lines(names, values).tolist() == [1]


def test_1_0_has_no_escapes() -> None:
    rules, names = ExactPathRules("1.0"), pa.array(["b\\c"])
    assert rules.exact_lines(names, pa.array(["\\"])).tolist() == []
    assert rules.unescaped(names) is names


@pytest.mark.parametrize("name", ["Name", "a b", "a\t", "é", " a"])
def test_lenient_folds_names(name: str) -> None:
    rules = ExactPathRules("lenient")
    assert rules.name_needs_exact(name.encode())
    assert rules.exact_lines(pa.array(["a", name]), pa.array(["", ""])).tolist() == [1]
    assert not ExactPathRules("1.1").name_needs_exact(name.encode())


@pytest.mark.parametrize("value", [" a", "a ", " ", "\ta", "aé"])
def test_lenient_strips_values(value: str) -> None:
    rules, values = ExactPathRules("lenient"), pa.array(["", value, "a a"])
    assert rules.values_need_exact(values)
    assert rules.exact_lines(pa.array(["a", "b", "c"]), values).tolist() == [1]
    assert not ExactPathRules("1.2").values_need_exact(values)


def decode(data: bytes, *ends: int) -> list[Frame]:
    return exact_frames(area_of(FrameBatch(data, np.array(ends), 0, 0, "1.2", receiver="r")), "1.2")


def test_frames_in_order() -> None:
    first, second = b"MESSAGE\r\na:1\r\n\r\nx\0", b"\nMESSAGE\ncontent-length:3\n\n\0\0\0\0"
    frames = decode(first + second, len(first), len(first + second))
    assert [frame.body for frame in frames] == [b"x", b"\0\0\0"]
    assert frames[0].headers == (("a", "1"),)


def test_an_incomplete_frame_is_an_error_rather_than_a_wait() -> None:
    data = b"MESSAGE\na:1\n\0"
    with pytest.raises(FrameSyntaxError):
        decode(data, len(data))
    with pytest.raises(FrameSyntaxError, match="incomplete"):
        decode(b"MESSAGE\na:1\n\n", 13)


def test_headers() -> None:
    headers = ExactHeaders([Frame("MESSAGE", (("a", "1"), ("b", "2"), ("a", "3"))), Frame("MESSAGE")])
    assert headers.column("a").to_pylist() == ["1", None]
    assert headers.first_lines().offsets.tolist() == [0, 2, 2]
    assert headers.first_lines().names.to_pylist() == ["a", "b"]
    assert headers.first_lines().values.to_pylist() == ["1", "2"]
    assert headers.all_lines().offsets.tolist() == [0, 3, 3]
    assert headers.all_lines().values.to_pylist() == ["1", "2", "3"]

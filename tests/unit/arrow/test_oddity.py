"""What the vectorised decoder leaves to the exact one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_stomp.arrow.oddity import ExactPathRules

ALL = ("1.0", "1.1", "1.2", "lenient")


@pytest.mark.parametrize("version", ALL)
def test_plain_headers_are_never_odd(version: str) -> None:
    oddity = ExactPathRules(version)
    names, values = pa.array(["message-id", "x_1"]), pa.array(["ID:a b:c", ""])
    assert not oddity.in_name(b"message-id")
    assert not oddity.in_values(values)
    assert oddity.odd_lines(names, values).tolist() == []
    assert oddity.cr_positions(np.frombuffer(b"MESSAGE\na:b\n\n", np.uint8)).tolist() == []


@pytest.mark.parametrize(
    ("version", "odd"), [("1.0", False), ("1.1", False), ("1.2", True), ("lenient", True)]
)
def test_cr_is_data_before_1_2(version: str, odd: bool) -> None:
    oddity = ExactPathRules(version)
    assert oddity.in_name(b"a\r") is odd
    assert oddity.in_values(pa.array(["x", "a\rb"])) is odd
    assert bool(oddity.cr_positions(np.frombuffer(b"a\rb", np.uint8)).size) is odd


@pytest.mark.parametrize("value", ["\r", "x\r", "\t\r", "\0", "\t", "\x0c", "\x0e", " ", "é"])
def test_other_controls_are_not_taken_for_a_cr(value: str) -> None:
    assert ExactPathRules("1.2").in_values(pa.array(["a", value, ""])) is ("\r" in value)


def test_no_values_are_not_odd() -> None:
    assert not ExactPathRules("1.2").in_values(pa.array([], pa.string()))


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_escaped_names_are_odd_in_a_mixture(version: str) -> None:
    names, values = pa.array(["a", "b\\c", "c"]), pa.array(["\\c", "x", "y"])
    assert ExactPathRules(version).odd_lines(names, values).tolist() == [1]


def test_1_0_has_no_escapes() -> None:
    oddity, names = ExactPathRules("1.0"), pa.array(["b\\c"])
    assert oddity.odd_lines(names, pa.array(["\\"])).tolist() == []
    assert oddity.unescaped(names) is names


@pytest.mark.parametrize("name", ["Name", "a b", "a\t", "é", " a"])
def test_lenient_folds_names(name: str) -> None:
    oddity = ExactPathRules("lenient")
    assert oddity.in_name(name.encode())
    assert oddity.odd_lines(pa.array(["a", name]), pa.array(["", ""])).tolist() == [1]
    assert not ExactPathRules("1.1").in_name(name.encode())


@pytest.mark.parametrize("value", [" a", "a ", " ", "\ta", "aé"])
def test_lenient_strips_values(value: str) -> None:
    oddity, values = ExactPathRules("lenient"), pa.array(["", value, "a a"])
    assert oddity.in_values(values)
    assert oddity.odd_lines(pa.array(["a", "b", "c"]), values).tolist() == [1]
    assert not ExactPathRules("1.2").in_values(values)

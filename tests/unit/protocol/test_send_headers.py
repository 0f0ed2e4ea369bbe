"""Sets of header names, and the values of a header."""

from __future__ import annotations

import pytest

from spark_stomp.protocol.encoder import HeaderNames, ValueRule

NAMES = HeaderNames(frozenset({"exclusive"}), ("x-max-",), frozenset({"x-max-mine"}))


@pytest.mark.parametrize(
    ("name", "found"),
    [("exclusive", True), ("Exclusive", False), ("x-max-length", True), ("x-max-", True), ("x-max", False),
     ("x-max-mine", False), ("X-Max-length", False), ("", False), (1, False)],
)  # fmt: skip
def test_names(name: object, found: bool) -> None:
    assert (name in NAMES) is found


@pytest.mark.parametrize(
    ("name", "found"), [("Exclusive", True), ("X-MAX-length", True), ("x-max-mine", False), ("ex", False)]
)
def test_names_in_any_case(name: str, found: bool) -> None:
    names = HeaderNames(NAMES.names, NAMES.prefixes, NAMES.but, any_case=True)
    assert (name in names) is found


def test_values() -> None:
    digits = ValueRule("a", "[0-9]+", "be a number")
    assert [digits.allows(value) for value in (b"12", b"", b"1\n", b"x")] == [True, False, False, False]
    others = digits._replace(allowed=False)
    assert [others.allows(value) for value in (b"12", b"", b"1\n", b"x")] == [False, True, True, True]

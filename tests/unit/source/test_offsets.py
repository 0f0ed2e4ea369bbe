"""Offsets: versioned, stable as text, and refused where they make no sense."""

from __future__ import annotations

import json

import pytest

from spark_stomp.errors import OffsetError
from spark_stomp.source.offsets import INITIAL, Offset, Position

OFFSET = Offset({"/queue/b#0": Position("bb", 7), "/queue/a#1": Position("aa", 0)})


def test_round_trip_keeps_value_and_text() -> None:
    text = OFFSET.to_json()
    assert Offset.from_dict(json.loads(text)) == OFFSET
    assert Offset.from_dict(json.loads(text)).to_json() == text
    assert json.dumps(OFFSET.to_dict()) == text


def test_text_does_not_depend_on_the_order_of_receivers() -> None:
    other = Offset(dict(reversed(list(OFFSET.positions.items()))))
    assert other.to_json() == OFFSET.to_json()
    assert list(json.loads(OFFSET.to_json())) == ["receivers", "version"]


@pytest.mark.rule("6.4")
def test_the_text_of_this_format_never_changes() -> None:
    assert INITIAL.to_json() == '{"receivers": {}, "version": 1}'
    assert OFFSET.to_json() == (
        '{"receivers": {"/queue/a#1": {"epoch": "aa", "sequence": 0}, '
        '"/queue/b#0": {"epoch": "bb", "sequence": 7}}, "version": 1}'
    )


@pytest.mark.rule("6.4")
def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(OffsetError, match=r"version 3; this release reads versions 1 and 2"):
        Offset.from_dict({"receivers": {}, "version": 3})


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        {},
        {"version": 1},
        {"version": 1, "receivers": []},
        {"version": 1, "receivers": {"a": {"epoch": "e"}}},
        {"version": 1, "receivers": {"a": {"epoch": "e", "sequence": -1}}},
        {"version": 1, "receivers": {"a": {"epoch": 5, "sequence": 1}}},
    ],
)
def test_anything_else_is_refused(raw: object) -> None:
    with pytest.raises(OffsetError):
        Offset.from_dict(raw)

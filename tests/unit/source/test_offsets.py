"""Offsets: versioned, stable as text, and refused where they make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.options import source_options

from spark_stomp.errors import OffsetError
from spark_stomp.receiver import ReceiverSettings
from spark_stomp.receiver.deliveries import new_epoch
from spark_stomp.source.offsets import INITIAL, JOURNAL, STREAM, Offset, Position

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "0.3"
OFFSET = Offset({"/queue/b#0": Position("bb", 7), "/queue/a#1": Position("aa", 0)})
JOURNALED = Offset({JOURNAL: Position("77ab", 5000)})
STREAMS = Offset({STREAM + "a": Position("90cd", 700), STREAM + "b": Position("e0", 9, 9)})
FROM_BASE = Offset({JOURNAL: Position("77ab", 5000, 400), "/queue/a#0": Position("aa", 3)})


def test_round_trip_keeps_value_and_text() -> None:
    text = OFFSET.to_json()
    assert Offset.from_dict(json.loads(text)) == OFFSET
    assert Offset.from_dict(json.loads(text)).to_json() == text
    assert json.dumps(OFFSET.to_dict()) == text


def test_text_does_not_depend_on_the_order_of_receivers() -> None:
    other = Offset(dict(reversed(list(OFFSET.positions.items()))))
    assert other.to_json() == OFFSET.to_json()
    assert list(json.loads(OFFSET.to_json())) == ["receivers", "version"]


def test_text_does_not_grow_with_the_destinations() -> None:
    queues = json.dumps([f"/queue/plant.{number}.measurements" for number in range(500)])
    settings = ReceiverSettings.of(source_options("stomp://b", queues))
    offset = Offset({one.name: Position(new_epoch(), 10**12) for one in settings})
    assert len(offset.positions) == 4
    assert len(offset.to_json()) < 2_000


@pytest.mark.rule("6.4", "R.1")
@pytest.mark.parametrize("text", (GOLDEN / "offsets.jsonl").read_text(encoding="utf-8").splitlines())
def test_the_text_of_this_format_never_changes(text: str) -> None:
    offset = Offset.from_dict(json.loads(text))
    assert offset.to_json() == text
    assert offset in (INITIAL, OFFSET, JOURNALED, FROM_BASE, STREAMS)


@pytest.mark.rule("6.4")
def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(OffsetError, match=r"version 2; this release reads version 1\."):
        Offset.from_dict({"receivers": {}, "version": 2})


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
        {"version": 1, "receivers": {}, "journal": {"id": "j", "sequence": 1, "base": 2}},
        {"version": 1, "receivers": {}, "streams": []},
        {"version": 1, "receivers": {}, "streams": {"a": {"epoch": "e"}}},
        {"version": 1, "receivers": {}, "streams": {"a": {"epoch": "e", "offset": 1, "base": 2}}},
    ],
)
def test_anything_else_is_refused(raw: object) -> None:
    with pytest.raises(OffsetError):
        Offset.from_dict(raw)

"""Offsets: versioned, stable as text, and refused where they make no sense."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from support.by_hand import Query, block_of, receive
from support.golden import GOLDEN

from spark_stomp.errors import OffsetError
from spark_stomp.receiver import DedupIndex, Log
from spark_stomp.source.offsets import INITIAL, JOURNAL, MEMORY, STREAM, LogEnd, Offset, Range, plan

OFFSET = Offset({MEMORY: LogEnd("aa", 7)})
JOURNALED = Offset({JOURNAL: LogEnd("77ab", 5000)})
STREAMS = Offset({STREAM + "a": LogEnd("90cd", 700), STREAM + "b": LogEnd("e0", 9, 9)})
FROM_BASE = Offset({JOURNAL: LogEnd("77ab", 5000, 400), MEMORY: LogEnd("aa", 3)})


def golden(name: str) -> list[str]:
    return (GOLDEN / "0.3" / name).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("offset", [INITIAL, OFFSET, JOURNALED, STREAMS, FROM_BASE])
def test_round_trip_keeps_value_and_text(offset: Offset) -> None:
    text = offset.to_json()
    assert Offset.from_dict(json.loads(text)) == offset
    assert Offset.from_dict(json.loads(text)).to_json() == text
    assert json.dumps(offset.to_dict()) == text


def test_text_does_not_depend_on_the_order_of_logs() -> None:
    other = Offset(dict(reversed(list(STREAMS.ends.items()))))
    assert other.to_json() == STREAMS.to_json()
    assert list(json.loads(STREAMS.to_json())) == ["logs", "version"]


@pytest.mark.rule("6.4", "R.1")
@pytest.mark.parametrize("text", golden("offsets.jsonl"))
def test_the_text_of_this_format_never_changes(text: str) -> None:
    offset = Offset.from_dict(json.loads(text))
    assert offset.to_json() == text
    assert offset in (INITIAL, OFFSET, JOURNALED, FROM_BASE, STREAMS)


@pytest.mark.parametrize("text", golden("offsets-1.jsonl"))
def test_a_checkpoint_of_before_is_refused_with_a_sentence(text: str) -> None:
    """It has numbers for each receiver."""
    with pytest.raises(OffsetError, match=r"version 1; this release reads version 2\. Use the release that"):
        Offset.from_dict(json.loads(text))


@pytest.mark.rule("6.4")
def test_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(OffsetError, match=r"version 3; this release reads version 2\."):
        Offset.from_dict({"logs": {}, "version": 3})


@pytest.mark.rule("6.4")
def test_a_log_of_a_later_release_is_refused_by_name() -> None:
    """A batch that was planned with it would be read without its messages."""
    with pytest.raises(OffsetError, match=r"a log that this release does not know: .table:a.\. Use the"):
        Offset.from_dict({"logs": {"memory": {"id": "e", "next": 1}, "table:a": {"row": 1}}, "version": 2})


@pytest.mark.parametrize(
    "raw",
    [
        *(None, {}, {"version": 2}, {"version": 2, "logs": []}),
        {"version": 2, "logs": {"memory": {"id": "e"}}},
        {"version": 2, "logs": {"memory": {"id": "e", "next": -1}}},
        {"version": 2, "logs": {"memory": {"id": 5, "next": 1}}},
        {"version": 2, "logs": {"journal": {"id": "j", "next": 1, "base": 2}}},
        {"version": 2, "logs": {"stream:a": {"id": "e", "next": 1, "base": -1}}},
        {"version": 2, "receivers": {"a": {"epoch": "e", "sequence": 1}}},
    ],
)
def test_anything_else_is_refused(raw: object) -> None:
    with pytest.raises(OffsetError):
        Offset.from_dict(raw)


LOGS = [MEMORY, JOURNAL, STREAM + "a"]


def through_json(*offsets: Offset) -> list[Offset]:
    """These offsets as a run finds them in its checkpoint."""
    return [Offset.from_dict(json.loads(offset.to_json())) for offset in offsets]


@pytest.mark.parametrize("name", LOGS)
class TestTheNextBatch:
    """Which messages it has, by what became of a log between its two offsets."""

    @pytest.mark.rule("6.1")
    def test_of_the_same_log_goes_on_whatever_its_base_was(self, name: str) -> None:
        start, end = through_json(Offset({name: LogEnd("e", 3, 2)}), Offset({name: LogEnd("e", 9, 2)}))
        assert plan(start, end) == [Range(name, "e", 3, 9)]

    @pytest.mark.rule("3.2")
    @pytest.mark.parametrize("base", [0, 4])
    def test_of_another_log_begins_at_its_base(self, name: str, base: int) -> None:
        """However far the old one was read: nothing of it after that was told."""
        for old in (2, 300):
            before, after = Offset({name: LogEnd("old", old)}), Offset({name: LogEnd("new", 9, base)})
            start, end = through_json(before, after)
            assert plan(start, end) == [Range(name, "new", base, 9)]

    def test_of_a_log_that_is_absent_has_none_of_it(self, name: str) -> None:
        other = next(one for one in LOGS if one != name)
        start, end = through_json(Offset({name: LogEnd("e", 3)}), Offset({other: LogEnd("f", 2)}))
        assert plan(start, end) == [Range(other, "f", 0, 2)]

    @pytest.mark.rule("6.1")
    @pytest.mark.parametrize("base", [0, 4])
    def test_of_a_log_that_was_absent_begins_at_its_base(self, name: str, base: int) -> None:
        for start in through_json(INITIAL, Offset({"stream:other": LogEnd("f", 5)})):
            (end,) = through_json(Offset({**start.ends, name: LogEnd("e", 9, base)}))
            assert plan(start, end) == [Range(name, "e", base, 9)]

    def test_of_a_log_that_did_not_move_has_none_of_it(self, name: str) -> None:
        (same,) = through_json(Offset({name: LogEnd("e", 3, 3)}))
        assert plan(same, same) == plan(INITIAL, same) == []


class TestWhatIsCarried:
    """Positions of logs that a run does not have."""

    @pytest.fixture
    def end(self) -> Callable[[Offset], Offset]:
        """The end of a batch of one message of a run without a journal."""
        query = Query(log=Log(DedupIndex(), "new"))
        query.connect(keyed=False)

        def of(start: Offset) -> Offset:
            receive(query.queues[0], block_of([b"MESSAGE\n\n\0"], [b"h"]))
            return through_json(query.end(start))[0]

        return of

    @pytest.mark.rule("J.13")
    def test_that_of_a_journal_until_it_is_there_again(self, end: Callable[[Offset], Offset]) -> None:
        """Otherwise a later run would not learn that its messages are missing."""
        start = Offset({JOURNAL: LogEnd("j", 7, 2), MEMORY: LogEnd("old", 99)})
        first = end(start)
        second = end(first)
        assert first == Offset({JOURNAL: LogEnd("j", 7, 2), MEMORY: LogEnd("new", 1)})
        assert second == Offset({JOURNAL: LogEnd("j", 7, 2), MEMORY: LogEnd("new", 2)})
        assert plan(start, first) == [Range(MEMORY, "new", 0, 1)]
        assert plan(first, second) == [Range(MEMORY, "new", 1, 2)]
        again = Offset({JOURNAL: LogEnd("j", 9)})
        assert plan(second, again) == [Range(JOURNAL, "j", 7, 9)]

    @pytest.mark.rule("R.4")
    def test_those_of_streams_too(self, end: Callable[[Offset], Offset]) -> None:
        start = Offset({STREAM + "a": LogEnd("s", 40)})
        assert end(start) == Offset({MEMORY: LogEnd("new", 1), STREAM + "a": LogEnd("s", 40)})

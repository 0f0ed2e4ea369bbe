"""The dedup index: the quick way and the closer look, and nothing left behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.keys import key

from spark_stomp.framebatch import MessageKey
from spark_stomp.receiver.dedup import COMMITTED, DedupIndex, HeldAt


class Receiver:
    """Holds what it is told."""

    def __init__(self) -> None:
        self.committed = 0
        self.pinned: list[int] = []
        self.keys: dict[int, MessageKey] = {}

    def pin(self, sequence: int) -> None:
        self.pinned.append(sequence)

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[MessageKey]:
        assert [self.keys[at].id for at, _ in wanted] == [name for _, name in wanted]
        return [self.keys[at] for at, _ in wanted]


@pytest.fixture
def receivers() -> list[Receiver]:
    return [Receiver(), Receiver()]


@pytest.fixture
def index(receivers: list[Receiver]) -> DedupIndex:
    made = DedupIndex(max_remembered=3)
    assert [made.register(receiver) for receiver in receivers] == [0, 1]
    return made


class TestHeld:
    def test_new_ids_are_held_until_they_are_dropped(self, index: DedupIndex) -> None:
        assert index.add_new([b"1", b"2"], HeldAt(0, 0))
        assert index.add_new([b"3"], HeldAt(1, 0))
        index.remove([b"1", b"2"], HeldAt(0, 0))
        assert index.held == 1
        assert index.add_new([b"1", b"2"], HeldAt(1, 1))

    @pytest.mark.parametrize("ids", [[b"4", b"1"], [b"4", b"4"], [b"4", None], [b"", b"4"], [None]])
    def test_known_repeated_or_missing_ids_need_a_closer_look(
        self, index: DedupIndex, ids: list[bytes | None]
    ) -> None:
        index.add_new([b"1"], HeldAt(0, 0))
        assert not index.add_new(ids, HeldAt(1, 0))
        assert index.held == 1

    def test_committed_ids_too(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"1")])
        assert not index.add_new([b"1"], HeldAt(0, 0))

    def test_known_says_where_every_message_of_an_id_is(
        self, index: DedupIndex, receivers: list[Receiver]
    ) -> None:
        receivers[0].keys = {7: key(b"1"), 8: key(b"2")}
        receivers[1].keys = {3: key(b"1", b"other")}
        index.add_new([b"1", b"2"], HeldAt(0, 7))
        index.add(b"1", HeldAt(1, 3))
        index.remember_unconfirmed([key(b"1", b"third")])
        assert index.find([b"1", b"9", None, b""]) == {
            key(b"1"): HeldAt(0, 7),
            key(b"1", b"other"): HeldAt(1, 3),
            key(b"1", b"third"): COMMITTED,
        }

    def test_one_of_several_messages_with_an_id_is_dropped_alone(
        self, index: DedupIndex, receivers: list[Receiver]
    ) -> None:
        receivers[1].keys = {0: key(b"1", b"b"), 1: key(b"1", b"c")}
        index.add_new([b"1", b"2"], HeldAt(0, 0))
        index.add(b"1", HeldAt(1, 0))
        index.add(b"1", HeldAt(1, 1))
        index.remove([b"1", b"2"], HeldAt(0, 0))
        assert set(index.find([b"1"]).values()) == {HeldAt(1, 0), HeldAt(1, 1)}
        index.remove([b"1"], HeldAt(1, 0))
        assert set(index.find([b"1"]).values()) == {HeldAt(1, 1)}
        index.remove([b"1"], HeldAt(1, 1))
        assert index.held == 0

    def test_marks_and_pins_are_those_of_the_receiver(
        self, index: DedupIndex, receivers: list[Receiver]
    ) -> None:
        receivers[1].committed = 5
        assert [index.committed(owner) for owner in (0, 1, COMMITTED.owner)] == [0, 5, 0]
        assert index.committed(COMMITTED.owner) > COMMITTED.sequence
        index.pin(HeldAt(1, 9))
        assert (receivers[0].pinned, receivers[1].pinned) == ([], [9])


class TestCommitted:
    @pytest.mark.rule("4.5")
    def test_is_bounded_and_the_oldest_goes_first(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"%d" % number) for number in range(5)])
        assert {found.id for found in index.find([b"%d" % number for number in range(5)])} == {
            b"2",
            b"3",
            b"4",
        }


def test_what_is_at_risk_is_counted_once(index: DedupIndex) -> None:
    index.expect_doubles(3)
    assert [index.take_doubles(2), index.take_doubles(2), index.take_doubles(2)] == [2, 1, 0]


class TestJournaled:
    """With a journal confirmed keys are remembered: a broker that is killed may forget what it confirmed."""

    @pytest.fixture
    def index(self) -> DedupIndex:
        return DedupIndex(max_remembered=3, journaled=True)

    @pytest.mark.rule("J.9")
    def test_confirmed_is_still_known(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        assert index.find([b"1"]) == {key(b"1"): COMMITTED}
        assert not index.add_new([b"1"], HeldAt(0, 0))

    @pytest.mark.rule("J.9")
    def test_beyond_the_bound_confirmed_ones_go_first_and_uncounted(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"unconfirmed")])
        index.remember_confirmed([key(b"1"), key(b"2"), key(b"3")])
        assert index.find([b"unconfirmed", b"1", b"2", b"3"]).keys() == {
            key(b"unconfirmed"),
            key(b"2"),
            key(b"3"),
        }
        assert (index.remembered, index.evicted) == (3, 0)
        index.remember_unconfirmed([key(b"4"), key(b"5"), key(b"6")])
        assert index.find([b"unconfirmed"]) == {}
        assert (index.remembered, index.evicted) == (3, 1)

    def test_what_is_not_in_the_journal_yet_is_given_out_once(self, index: DedupIndex) -> None:
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        index.remember_confirmed([key(b"2"), None])
        assert index.take_unwritten() == [key(b"1"), key(b"2")]
        assert index.take_unwritten() == []

    def test_without_one_nothing_is_noted(self) -> None:
        index = DedupIndex()
        index.remember_unconfirmed([key(b"1")])
        index.confirm([key(b"1")])
        assert (index.find([b"1"]), index.take_unwritten(), index.remembered) == ({}, [], 0)

"""The key book: the quick way and the closer look, and nothing left behind."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest

from spark_stomp.protocol import HEARTBEAT, Frame, FrameDecoder
from spark_stomp.receiver.keys import SETTLED, IdRuns, Key, KeyBook, Place, Remembered, frame_keys


def key(name: bytes, body: bytes = b"body", destination: str = "/q") -> Key:
    data = b"MESSAGE\ndestination:%b\n\n%b\0" % (destination.encode(), body)
    (made,) = frame_keys(data, [len(data)], [name], "1.2")
    assert made is not None
    return made


class Receiver:
    """Holds what it is told."""

    def __init__(self) -> None:
        self.committed = 0
        self.pinned: list[int] = []
        self.keys: dict[int, Key] = {}

    def pin(self, sequence: int) -> None:
        self.pinned.append(sequence)

    def keys_at(self, wanted: Sequence[tuple[int, bytes]]) -> list[Key]:
        assert [self.keys[at].id for at, _ in wanted] == [name for _, name in wanted]
        return [self.keys[at] for at, _ in wanted]


@pytest.fixture
def receivers() -> list[Receiver]:
    return [Receiver(), Receiver()]


@pytest.fixture
def book(receivers: list[Receiver]) -> KeyBook:
    made = KeyBook(most_settled=3)
    assert [made.enroll(receiver) for receiver in receivers] == [0, 1]
    return made


class TestFrameKeys:
    def test_destination_id_and_body_make_the_key(self) -> None:
        assert key(b"1") == key(b"1")
        assert len({key(b"1"), key(b"2"), key(b"1", b"other"), key(b"1", destination="/other")}) == 4

    def test_headers_and_line_ends_are_not_part_of_it(self) -> None:
        data = b"\n\nMESSAGE\r\nredelivered:true\r\ndestination:/q\r\n\r\nbody\0\n"
        assert frame_keys(data, [len(data) - 1], [b"1"], "1.2") == [key(b"1")]

    def test_without_an_id_there_is_none(self) -> None:
        assert frame_keys(b"MESSAGE\n\n\0" * 3, [10, 20, 30], [None, b"", b"1"], "1.2")[:2] == [None, None]

    @pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "lenient"])
    @pytest.mark.parametrize(
        "head",
        [
            b"destination:/q",
            b"destination:/q\ndestination:/other",
            b"a:b\ndestination:/queue/\xc3\xa4",
            b"destination:/a\\cb",
            b"destination: /q ",
            b"no-destination:/q",
            b"x:y\ndestination:/q\ncontent-length:9",
        ],
    )
    def test_the_quick_way_and_the_decoder_agree(self, version: str, head: bytes) -> None:
        frame = b"\n\nMESSAGE\n%b\n\nb\n\nd\nody\n\0" % head
        decoder = FrameDecoder(version)
        decoder.receive_data(frame)
        while not isinstance(decoded := decoder.next_event(), Frame):
            assert decoded is HEARTBEAT
        (made,) = frame_keys(frame, [len(frame)], [b"1"], version)
        assert made is not None
        assert made.destination == (decoded.get("destination") or "")
        assert made.body == hashlib.blake2b(decoded.body, digest_size=16).digest()


class TestHeld:
    def test_new_ids_are_held_until_they_are_dropped(self, book: KeyBook) -> None:
        assert book.hold_new([b"1", b"2"], Place(0, 0))
        assert book.hold_new([b"3"], Place(1, 0))
        book.drop([b"1", b"2"], Place(0, 0))
        assert book.held == 1
        assert book.hold_new([b"1", b"2"], Place(1, 1))

    @pytest.mark.parametrize("ids", [[b"4", b"1"], [b"4", b"4"], [b"4", None], [b"", b"4"], [None]])
    def test_known_repeated_or_missing_ids_need_a_closer_look(
        self, book: KeyBook, ids: list[bytes | None]
    ) -> None:
        book.hold_new([b"1"], Place(0, 0))
        assert not book.hold_new(ids, Place(1, 0))
        assert book.held == 1

    def test_settled_ids_too(self, book: KeyBook) -> None:
        book.settle([key(b"1")])
        assert not book.hold_new([b"1"], Place(0, 0))

    def test_known_says_where_every_message_of_an_id_is(
        self, book: KeyBook, receivers: list[Receiver]
    ) -> None:
        receivers[0].keys = {7: key(b"1"), 8: key(b"2")}
        receivers[1].keys = {3: key(b"1", b"other")}
        book.hold_new([b"1", b"2"], Place(0, 7))
        book.hold(b"1", Place(1, 3))
        book.settle([key(b"1", b"third")])
        assert book.known([b"1", b"9", None, b""]) == {
            key(b"1"): Place(0, 7),
            key(b"1", b"other"): Place(1, 3),
            key(b"1", b"third"): SETTLED,
        }

    def test_one_of_several_messages_with_an_id_is_dropped_alone(
        self, book: KeyBook, receivers: list[Receiver]
    ) -> None:
        receivers[1].keys = {0: key(b"1", b"b"), 1: key(b"1", b"c")}
        book.hold_new([b"1", b"2"], Place(0, 0))
        book.hold(b"1", Place(1, 0))
        book.hold(b"1", Place(1, 1))
        book.drop([b"1", b"2"], Place(0, 0))
        assert set(book.known([b"1"]).values()) == {Place(1, 0), Place(1, 1)}
        book.drop([b"1"], Place(1, 0))
        assert set(book.known([b"1"]).values()) == {Place(1, 1)}
        book.drop([b"1"], Place(1, 1))
        assert book.held == 0

    def test_marks_and_pins_are_those_of_the_receiver(self, book: KeyBook, receivers: list[Receiver]) -> None:
        receivers[1].committed = 5
        assert [book.committed(owner) for owner in (0, 1, SETTLED.owner)] == [0, 5, 0]
        assert book.committed(SETTLED.owner) > SETTLED.sequence
        book.pin(Place(1, 9))
        assert (receivers[0].pinned, receivers[1].pinned) == ([], [9])


class TestSettled:
    def test_is_forgotten_once_its_ack_is_confirmed(self, book: KeyBook) -> None:
        book.settle([key(b"1"), None, key(b"1", b"other")])
        book.forget([key(b"1"), key(b"unknown")])
        assert book.known([b"1"]) == {key(b"1", b"other"): SETTLED}
        book.forget([key(b"1", b"other")])
        assert book.hold_new([b"1"], Place(0, 0))

    def test_is_bounded_and_the_oldest_goes_first(self, book: KeyBook) -> None:
        book.settle([key(b"%d" % number) for number in range(5)])
        assert {found.id for found in book.known([b"%d" % number for number in range(5)])} == {
            b"2",
            b"3",
            b"4",
        }


def test_what_is_at_risk_is_counted_once(book: KeyBook) -> None:
    book.put_at_risk(3)
    assert [book.take_at_risk(2), book.take_at_risk(2), book.take_at_risk(2)] == [2, 1, 0]


def test_runs_of_ids() -> None:
    runs = IdRuns()
    runs.add(0, [b"0", b"1", None])
    runs.add(5, [b"5", b"6"])
    assert runs.count(1, 6) == 2
    assert runs.take_below(1) == [(0, [b"0"])]
    assert runs.take_from(6) == [(6, [b"6"])]
    assert runs.take_below(9) == [(1, [b"1", None]), (5, [b"5"])]


class TestJournaled:
    """With a journal confirmed keys are remembered: a broker that is killed may forget what it confirmed."""

    @pytest.fixture
    def book(self) -> KeyBook:
        return KeyBook(most_settled=3, journaled=True)

    def test_confirmed_is_still_known(self, book: KeyBook) -> None:
        book.settle([key(b"1")])
        book.forget([key(b"1")])
        assert book.known([b"1"]) == {key(b"1"): SETTLED}
        assert not book.hold_new([b"1"], Place(0, 0))

    def test_beyond_the_bound_confirmed_ones_go_first_and_uncounted(self, book: KeyBook) -> None:
        book.settle([key(b"unconfirmed")])
        book.retire([key(b"1"), key(b"2"), key(b"3")])
        assert book.known([b"unconfirmed", b"1", b"2", b"3"]).keys() == {
            key(b"unconfirmed"),
            key(b"2"),
            key(b"3"),
        }
        assert (book.settled, book.evicted) == (3, 0)
        book.settle([key(b"4"), key(b"5"), key(b"6")])
        assert book.known([b"unconfirmed"]) == {}
        assert (book.settled, book.evicted) == (3, 1)

    def test_what_is_not_in_the_journal_yet_is_given_out_once(self, book: KeyBook) -> None:
        book.settle([key(b"1")])
        book.forget([key(b"1")])
        book.retire([key(b"2"), None])
        assert book.take_unsaved() == [key(b"1"), key(b"2")]
        assert book.take_unsaved() == []

    def test_without_one_nothing_is_noted(self) -> None:
        book = KeyBook()
        book.settle([key(b"1")])
        book.forget([key(b"1")])
        assert (book.known([b"1"]), book.take_unsaved(), book.settled) == ({}, [], 0)


class TestRemembered:
    def test_the_oldest_go_first_whatever_was_taken_out(self) -> None:
        remembered = Remembered()
        keys = [key(b"%d" % number) for number in range(6)]
        remembered.add(keys)
        remembered.discard(keys[0])
        remembered.discard(keys[3])
        assert remembered.forget_oldest(2) == 2
        assert [name for name in (b"0", b"1", b"2", b"3", b"4", b"5") if remembered.of(name)] == [b"4", b"5"]
        assert remembered.forget_oldest(5) == 2
        assert len(remembered) == 0

    def test_an_id_may_mean_several_messages(self) -> None:
        remembered = Remembered()
        one, other, third = (key(b"1", body) for body in (b"a", b"b", b"c"))
        remembered.add([one, other, one])
        remembered.add([third])
        assert remembered.of(b"1") == [one, other, third]
        remembered.discard(one)
        assert remembered.of(b"1") == [other, third]
        remembered.discard(other)
        remembered.discard(third)
        assert (remembered.of(b"1"), remembered.has_any([b"1"])) == ([], False)

    def test_what_comes_and_goes_leaves_nothing(self) -> None:
        remembered = Remembered()
        for number in range(10_000):
            remembered.add([key(b"%d" % number)])
            remembered.discard(key(b"%d" % number))
        assert len(remembered._order) <= 2_000

"""Encoded slices, and the window: bounded, confirmed in any order, sent again exactly."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.slices import encoded, slices

from spark_stomp.sink.window import RECEIPT_BASE, RawSends, ReceiptWindow, receipt_id, receipt_number


def taken(window: ReceiptWindow) -> list[int]:
    """The numbers of all that may go now."""
    found: list[int] = []
    while piece := window.next_sends(0.0):
        found += [receipt - RECEIPT_BASE for receipt in piece.receipts]
    return found


def confirm(window: ReceiptWindow, *numbers: int) -> None:
    window.confirm([RECEIPT_BASE + number for number in numbers], 0.0)


def bodies_of(piece: RawSends) -> list[bytes]:
    return [frame.partition(b"\n\n")[2] for frame in bytes(piece.frames).split(b"\0")[:-1]]


def test_a_slice_has_its_frames_in_place_and_their_destinations() -> None:
    part = encoded([b"body 0", b"", b"2"], "/queue/a")
    frames = [bytes(part.frames(n, n + 1)) for n in range(3)]
    assert [frame.partition(b"\n\n")[2] for frame in frames] == [b"body 0\0", b"\0", b"2\0"]
    assert b"".join(frames) == bytes(part.frames(0, len(part))) == bytes(part.data)
    assert bytes(part.frames(0, 0)) == bytes(part.frames(2, 2)) == b""
    assert [part.destination(n) for n in range(3)] == ["/queue/a"] * 3


@pytest.mark.parametrize("number", [0, 1, 99_999_999_999])
def test_receipts_have_one_length_and_their_number(number: int) -> None:
    receipt = receipt_id(number)
    assert len(receipt) == len(receipt_id(0))
    assert receipt_number(receipt) == number


@pytest.mark.parametrize(
    "receipt", ["", "s1", "t100000000000", "s1000000000000", "s10000000000x", "s" + 12 * "²", "s" + 12 * "٣"]
)
def test_any_other_receipt_has_none(receipt: str) -> None:
    assert receipt_number(receipt) is None


def test_a_little_room_in_a_large_window_is_not_used_at_once() -> None:
    window = ReceiptWindow(100, 1 << 20)
    window.add(encoded([b"x"] * 200))
    taken(window)
    confirm(window, *range(10))
    assert taken(window) == []
    confirm(window, *range(10, 30))
    assert taken(window) == list(range(100, 130))
    confirm(window, *range(30, 130))
    assert taken(window) == list(range(130, 200))


def test_what_is_written_together_is_bounded() -> None:
    window = ReceiptWindow(1000, 64 << 20)
    window.add(encoded([b"x" * (300 << 10)] * 8 + [b"y" * (2 << 20)]))
    pieces = [len(piece.receipts) for piece in iter(lambda: window.next_sends(0.0), None)]
    assert pieces == [3, 3, 2, 1]
    window.begin_again()
    assert taken(window) == [0]
    confirm(window, 0)
    assert taken(window) == [1, 2]
    confirm(window, 1, 2)
    assert [len(piece.receipts) for piece in iter(lambda: window.next_sends(0.0), None)] == [3, 1]


@pytest.mark.rule("S.3")
def test_what_was_not_confirmed_is_sent_again_and_nothing_else() -> None:
    window = ReceiptWindow(8, 1 << 20)
    for part in slices([b"%d" % n for n in range(6)], 3):
        window.add(part)
        taken(window)
    window.add(encoded([b"6", b"7", b"8"], first=6))
    assert taken(window) == [6, 7]
    confirm(window, 0, 4, 6)
    assert (window.unconfirmed, window.in_flight) == (5, 5)
    window.begin_again()
    assert (window.unconfirmed, window.in_flight) == (5, 0)
    piece = window.next_sends(0.0)
    assert piece is not None and bodies_of(piece) == [b"1"]
    confirm(window, 1)
    assert taken(window) == [2, 3]
    confirm(window, 2)
    window.begin_again()
    assert taken(window) == [3]
    confirm(window, 3)
    assert taken(window) == [5, 7]
    assert window.resent == 6
    confirm(window, 5, 7)
    assert taken(window) == [8]
    assert (window.unconfirmed, window.resent) == (1, 6)


@pytest.mark.rule("S.3")
def test_after_a_lost_connection_each_receipt_lets_one_more_go() -> None:
    window = ReceiptWindow(6, 1 << 20)
    window.add(encoded([b"x"] * 40))
    assert len(taken(window)) == 6
    window.begin_again()
    sent = []
    for _ in range(5):
        sent.append(taken(window))
        confirm(window, *sent[-1])
    assert [len(numbers) for numbers in sent] == [1, 2, 4, 6, 6]
    assert [number for numbers in sent for number in numbers] == [*range(19)]


def test_slices_are_let_go_once_they_are_confirmed() -> None:
    window = ReceiptWindow(100, 1 << 20)
    for part in slices([b"x"] * 30, 10):
        window.add(part)
        taken(window)
    confirm(window, *range(10, 20))
    assert len(window._held) == 2
    confirm(window, *range(10), *range(20, 30))
    assert (window._held, window.in_flight, window.in_flight_bytes) == ([], 0, 0)


def test_destinations_are_known_while_a_message_waits() -> None:
    window = ReceiptWindow(100, 1 << 20)
    assert window.first_destination() == "(none)"
    window.add(encoded([b"x"], "/queue/a"))
    taken(window)
    window.add(encoded([b"y"], "/queue/b", first=1))
    taken(window)
    receipt = f"s{RECEIPT_BASE + 1}"
    assert (window.first_destination(), window.destination(receipt)) == ("/queue/a", "/queue/b")
    confirm(window, 0, 1)
    assert window.destination(receipt) is None
    assert window.destination(None) is window.destination("another") is None


def test_seconds_under_way() -> None:
    window = ReceiptWindow(100, 1 << 20)
    window.add(encoded([b"x"] * 3))
    window.next_sends(5.0)
    assert window.confirm([RECEIPT_BASE + 1], 7.0).tolist() == [2.0]
    window.begin_again()
    window.next_sends(8.0)
    assert window.confirm([RECEIPT_BASE], 9.0).tolist() == [1.0]


@given(
    st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=8), max_size=6),
    st.integers(1, 10),
    st.integers(1, 2000),
    st.randoms(use_true_random=False),
)
def test_every_message_goes_until_it_is_confirmed_in_order_within_the_bounds(
    sizes: list[list[int]], most_messages: int, most_bytes: int, random: Random
) -> None:
    """Connections break at any time, receipts come in any order."""
    window = ReceiptWindow(most_messages, most_bytes)
    flying: list[int] = []
    tried, confirmed, last, first = set[int](), set[int](), -1, 0
    for lengths in [*sizes, []]:
        if lengths:
            window.add(encoded([b"x" * length for length in lengths], first=first))
            first += len(lengths)
        while window.unsent or (not lengths and window.in_flight):
            new = taken(window)
            assert all(one > other for one, other in zip(new, [last, *new], strict=False))
            assert not confirmed & {*new}
            last = max([last, *new])
            flying, tried = flying + new, tried | {*new}
            assert window.in_flight == len(flying) <= most_messages
            assert window.in_flight_bytes <= most_bytes or len(flying) == 1
            assert window.unconfirmed == len(tried - confirmed)
            if random.random() < 0.2:
                window.begin_again()
                flying, last = [], -1
            elif flying:
                random.shuffle(flying)
                number = flying.pop()
                confirmed.add(number)
                confirm(window, number)
    assert confirmed == {*range(first)}


def test_the_largest_that_is_not_confirmed() -> None:
    window = ReceiptWindow(1_000, 1 << 20)
    assert window.largest_in_flight() == 0
    part = encoded([b"x" * 10, b"x" * 5_000, b"x" * 100])
    window.add(part)
    assert window.largest_in_flight() == 0
    taken(window)
    assert window.largest_in_flight() == len(part.frames(1, 2))
    confirm(window, 1)
    assert window.largest_in_flight() == len(part.frames(2, 3))

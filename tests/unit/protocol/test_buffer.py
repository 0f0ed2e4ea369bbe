"""spark_stomp.protocol.reader: received bytes."""

from __future__ import annotations

from spark_stomp.protocol.reader import SMALL_PIECE, ReceiveBuffer


def test_nothing_is_there_before_it_is_pulled() -> None:
    buffer = ReceiveBuffer()
    assert not buffer.pull()
    buffer.append(b"ab")
    assert buffer.data == b""
    assert buffer.pull()
    assert buffer.data == b"ab"
    assert not buffer.pull()


def test_a_first_piece_is_not_copied() -> None:
    buffer, piece = ReceiveBuffer(), b"some octets"
    buffer.append(piece)
    buffer.pull()
    assert buffer.data is piece


def test_pieces_are_joined_in_order() -> None:
    buffer = ReceiveBuffer()
    for piece in (b"a", b"b", b"c"):
        buffer.append(piece)
    buffer.pull()
    assert buffer.data == b"abc"
    assert isinstance(buffer.data, bytes)


def test_later_changes_of_what_was_appended_do_not_matter() -> None:
    buffer, piece = ReceiveBuffer(), bytearray(b"ab")
    buffer.append(piece)
    piece[0] = 0
    buffer.pull()
    assert buffer.data == b"ab"


def test_a_short_tail_moves_to_the_front_of_new_bytes() -> None:
    buffer = ReceiveBuffer(b"xxab")
    buffer.start = 2
    buffer.append(b"cd")
    buffer.pull()
    assert (buffer.data, buffer.start) == (b"abcd", 0)
    assert isinstance(buffer.data, bytes)


def test_a_long_tail_is_copied_once_and_then_grows() -> None:
    buffer = ReceiveBuffer(b"xabcd")
    buffer.start = 1
    buffer.append(b"e")
    buffer.pull()
    grown = buffer.data
    assert (bytes(grown), buffer.start) == (b"abcde", 0)
    buffer.append(b"f")
    buffer.pull()
    assert buffer.data is grown
    assert grown == b"abcdef"


def test_what_follows_a_grown_frame_is_bytes_again() -> None:
    buffer = ReceiveBuffer(b"abcd")
    buffer.append(b"e")
    buffer.pull()
    buffer.consume(3)
    assert (buffer.data, buffer.start) == (b"de", 0)
    assert isinstance(buffer.data, bytes)


def test_consuming_bytes_copies_nothing() -> None:
    octets = b"abcd"
    buffer = ReceiveBuffer(octets)
    buffer.consume(3)
    assert buffer.data is octets
    assert buffer.start == 3


def test_peek_is_relative_to_the_start() -> None:
    buffer = ReceiveBuffer(b"abcdef")
    buffer.consume(2)
    assert buffer.peek(1, 3) == b"de"
    assert buffer.start == 2


def test_take_gives_everything_unread() -> None:
    buffer = ReceiveBuffer(b"abcd")
    buffer.consume(1)
    buffer.append(b"ef")
    assert buffer.take() == b"bcdef"
    assert buffer.take() == b""
    assert not buffer.pull()


def test_its_length_is_all_that_is_unread() -> None:
    buffer = ReceiveBuffer(b"abcd")
    buffer.consume(1)
    assert len(buffer) == 3
    buffer.append(b"ef")
    assert len(buffer) == 5
    buffer.pull()
    assert len(buffer) == 5


def test_what_was_wanted_is_not_mixed_with_a_shorter_rest() -> None:
    for rest, alone in ((b"", True), (b"x", True), (b"x" * 9999, True), (b"x" * 10_000, False)):
        buffer = ReceiveBuffer(b"ab")
        buffer.start = 1
        buffer.append(b"c" * 5000)
        buffer.append(b"d" * 4999 + rest)
        assert buffer.pull(10_000)
        whole = b"b" + b"c" * 5000 + b"d" * 4999
        assert (buffer.data, buffer.start) == (whole if alone else whole + rest, 0)
        assert len(buffer) == 10_000 + len(rest)
        assert buffer.pull() is (alone and bool(rest))
        assert bytes(buffer.data).endswith(whole + rest if rest else whole)


def test_what_was_wanted_is_one_piece_even_behind_a_long_tail() -> None:
    buffer = ReceiveBuffer(b"abcd")
    buffer.append(b"ef")
    assert buffer.pull(6)
    assert buffer.data == b"abcdef"
    assert isinstance(buffer.data, bytes)


def test_a_rest_that_begins_in_an_earlier_piece_is_not_left() -> None:
    buffer = ReceiveBuffer(b"abcd")
    buffer.append(b"e" * SMALL_PIECE)
    buffer.append(b"f" * SMALL_PIECE)
    assert buffer.pull(SMALL_PIECE)
    assert len(buffer.data) == 4 + 2 * SMALL_PIECE
    assert not buffer.pull()


def test_small_pieces_take_little_room() -> None:
    buffer = ReceiveBuffer()
    large = b"x" * SMALL_PIECE
    for piece in (b"a", b"b", b"c", large, b"d", b"e", b"", large, large):
        buffer.append(piece)
    assert [bytes(piece)[:3] for piece in buffer._pieces] == [b"a", b"bc", b"xxx", b"de", b"xxx", b"xxx"]
    assert buffer._pieces[2] is large
    assert len(buffer) == 5 + 3 * SMALL_PIECE
    assert buffer.pull()
    assert buffer.data == b"abc" + large + b"de" + 2 * large


def test_nothing_is_no_piece() -> None:
    buffer = ReceiveBuffer()
    buffer.append(b"")
    assert not buffer.pull()

"""spark_stomp.protocol.decoder: received bytes."""

from __future__ import annotations

from spark_stomp.protocol.decoder import SMALL_PIECE, ReceiveBuffer


def test_pieces_are_joined_in_order_once_they_are_pulled() -> None:
    buffer, changed = ReceiveBuffer(), bytearray(b"a")
    for piece in (b"", changed, b"b", b"", b"c"):
        buffer.append(piece)
    changed[0] = 0
    assert (buffer.data, len(buffer)) == (b"", 3)
    assert buffer.pull() and not buffer.pull()
    assert (buffer.data, type(buffer.data)) == (b"abc", bytes)
    buffer.consume(1)
    buffer.append(b"def")
    assert (len(buffer), buffer.peek(0, 1)) == (5, b"b")
    assert (buffer.take(), buffer.take(), buffer.pull()) == (b"bcdef", b"", False)


def test_what_was_wanted_is_not_mixed_with_a_shorter_rest() -> None:
    for rest, alone in ((b"", True), (b"x", True), (b"x" * 9999, True), (b"x" * 10_000, False)):
        buffer = ReceiveBuffer()
        buffer.append(b"ab")
        assert buffer.pull()
        buffer.start = 1
        buffer.append(b"c" * 5000)
        buffer.append(b"d" * 4999 + rest)
        assert buffer.pull(10_000)
        whole = b"b" + b"c" * 5000 + b"d" * 4999
        assert (buffer.data, buffer.start) == (whole if alone else whole + rest, 0)
        assert len(buffer) == 10_000 + len(rest)
        assert buffer.pull() is (alone and bool(rest))
        assert bytes(buffer.data).endswith(whole + rest if rest else whole)


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

"""spark_stomp.protocol.decoder: received bytes."""

from __future__ import annotations

from itertools import accumulate, pairwise

from spark_stomp.protocol.decoder import LARGE_PIECE, SMALL_PIECE, ReceiveBuffer


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


class TestLargePieces:
    """A large piece is not copied for the frame that begins before it."""

    PIECE = bytes(range(256)) * (LARGE_PIECE // 256)

    def test_the_frame_is_completed_and_the_rest_is_the_piece_itself(self) -> None:
        buffer = ReceiveBuffer(b"abc")
        buffer.append(self.PIECE)
        assert buffer.pull(10)
        assert buffer.data == b"abc" + self.PIECE[:7] and len(buffer) == 3 + LARGE_PIECE
        buffer.consume(10)
        assert buffer.pull()
        assert buffer.data is self.PIECE and buffer.start == 7 and len(buffer) == LARGE_PIECE - 7
        assert not buffer.pull()

    def test_nothing_is_lost_or_repeated(self) -> None:
        sent = b"ab" + self.PIECE + b"cd" + self.PIECE * 2 + self.PIECE[:5]
        for wanted in (0, 1, 3, 70_000, LARGE_PIECE + 1, 2 * LARGE_PIECE):
            buffer, found = ReceiveBuffer(), b""
            for begin, end in pairwise(accumulate([0, 2, LARGE_PIECE, 2, LARGE_PIECE, LARGE_PIECE, 5])):
                buffer.append(sent[begin:end])
                while buffer.pull(wanted):
                    count = min(wanted or 1_000, len(buffer.data) - buffer.start)
                    found += buffer.peek(0, count)
                    buffer.consume(count)
            assert found + buffer.take() == sent

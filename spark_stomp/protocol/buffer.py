"""Octets received and not read yet. The cost is linear in their number, however they are split.

Nothing is searched here. Readers keep their own offsets, relative to ``start``. These stay valid when more
data is added, so nothing needs to be searched twice.
"""

from __future__ import annotations

from typing import Final

SMALL_PIECE: Final = 4096
"""Pieces of fewer octets are joined as they come: many small objects would take far more memory."""


class ReceiveBuffer:
    """Octets in two parts: ``data``, which a reader reads, and the pieces that have arrived since.

    ``data[start:]`` is unread. ``data`` is ``bytes`` as long as that is cheap (slices of it need no second
    copy) and a ``bytearray`` while one frame trickles in.
    """

    __slots__ = ("_pieces", "_waiting", "data", "start")

    def __init__(self, data: bytes = b"") -> None:
        self.data: bytes | bytearray = data
        self.start = 0
        self._pieces: list[bytes | bytearray] = []
        self._waiting = 0  # octets in the pieces

    def __len__(self) -> int:
        """How many octets are unread, including those that were not pulled yet."""
        return len(self.data) - self.start + self._waiting

    def append(self, data: bytes) -> None:
        """Take what was received. A large piece is kept as it is until ``pull``; small ones are joined."""
        if not data:
            return
        pieces = self._pieces
        self._waiting += len(data)
        if not pieces or len(data) >= SMALL_PIECE:
            pieces.append(bytes(data))
            return
        if not isinstance(pieces[-1], bytearray):
            pieces.append(bytearray())
        pieces[-1] += data

    def pull(self, wanted: int = 0) -> bool:
        """Add to ``data`` what has arrived; False if nothing has.

        Each octet is copied a constant number of times. The unread tail is copied only if it is not longer
        than the new octets, or once into a growing ``bytearray``, or once when all that was wanted is there.

        Args:
            wanted: how many unread octets the reader waits for, if it knows. A rest that is shorter than that
                is left for the next time, so that ``data`` is exactly what was wanted.
        """
        pieces = self._pieces
        if not pieces:
            return False
        tail = len(self.data) - self.start
        if tail > self._waiting and not wanted:
            self._grow()
        else:
            rest = self._cut(len(self) - wanted) if len(self) < 2 * wanted else b""
            parts = [memoryview(self.data)[self.start :], *pieces] if tail else pieces
            self.data = b"".join(parts)  # a single piece is not copied
            self.start = 0
            pieces.clear()
            self._waiting = 0
            self.append(rest)
        return True

    def _cut(self, spare: int) -> bytes:
        """Remove and return the last ``spare`` octets if they are a part of the last piece."""
        last = self._pieces[-1]
        if not 0 < spare < len(last):
            return b""
        self._pieces[-1] = last[:-spare]
        return bytes(last[-spare:])

    def _grow(self) -> None:
        if not isinstance(self.data, bytearray):
            self.data = bytearray(memoryview(self.data)[self.start :])
            self.start = 0
        for piece in self._pieces:
            self.data += piece
        self._pieces.clear()
        self._waiting = 0

    def consume(self, count: int) -> None:
        """Mark ``count`` octets as read. What follows becomes ``bytes`` again if it was a ``bytearray``."""
        self.start += count
        if isinstance(self.data, bytearray):
            self.data = bytes(memoryview(self.data)[self.start :])
            self.start = 0

    def peek(self, begin: int, end: int) -> bytes:
        """A copy of the octets from ``begin`` to ``end``, offsets relative to ``start``."""
        return bytes(memoryview(self.data)[self.start + begin : self.start + end])

    def take(self) -> bytes:
        """Everything unread; the buffer is empty afterwards."""
        rest = b"".join((memoryview(self.data)[self.start :], *self._pieces))
        self.clear()
        return rest

    def clear(self) -> None:
        """Drop everything."""
        self.data = b""
        self._pieces.clear()
        self.start = self._waiting = 0

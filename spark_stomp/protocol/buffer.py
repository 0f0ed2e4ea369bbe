"""What was received and not read yet, at a cost linear in what arrives, however it is split.

Nothing is searched here. Readers keep their own offsets, relative to ``start``, and those stay valid while
more data joins: what has been searched once need not be searched again.
"""

from __future__ import annotations

__all__ = ["ReceiveBuffer"]


class ReceiveBuffer:
    """Octets in two parts: ``data`` that a reader looks at, and what has arrived since.

    ``data[start:]`` is unread. ``data`` is ``bytes`` as long as that is cheap (slices of it need no second
    copy) and a ``bytearray`` while one frame trickles in.
    """

    __slots__ = ("_incoming", "data", "start")

    def __init__(self, data: bytes = b"") -> None:
        self.data: bytes | bytearray = data
        self.start = 0
        self._incoming: bytes | bytearray = b""

    def __len__(self) -> int:
        """How many octets are unread, those that were not pulled yet included."""
        return len(self.data) - self.start + len(self._incoming)

    def append(self, data: bytes) -> None:
        """Take what was received. A first piece is kept as it is; more are joined until ``pull``."""
        if not self._incoming:
            self._incoming = bytes(data)
            return
        if not isinstance(self._incoming, bytearray):
            self._incoming = bytearray(self._incoming)
        self._incoming += data

    def pull(self) -> bool:
        """Add to ``data`` what has arrived; False where nothing has.

        The unread tail is copied only where it is not longer than what joins it, or once, into a growing
        ``bytearray``: each octet is copied a constant number of times.
        """
        incoming = self._incoming
        if not incoming:
            return False
        self._incoming = b""
        tail = len(self.data) - self.start
        if tail <= len(incoming):
            self.data = b"".join((memoryview(self.data)[self.start :], incoming)) if tail else bytes(incoming)
            self.start = 0
            return True
        if not isinstance(self.data, bytearray):
            self.data = bytearray(memoryview(self.data)[self.start :])
            self.start = 0
        self.data += incoming
        return True

    def consume(self, count: int) -> None:
        """Count the next ``count`` octets as read; what follows a trickled frame becomes ``bytes`` again."""
        self.start += count
        if isinstance(self.data, bytearray):
            self.data = bytes(memoryview(self.data)[self.start :])
            self.start = 0

    def peek(self, begin: int, end: int) -> bytes:
        """A copy of the octets from ``begin`` to ``end``, offsets relative to ``start``."""
        return bytes(memoryview(self.data)[self.start + begin : self.start + end])

    def take(self) -> bytes:
        """Everything unread; the buffer is empty afterwards."""
        rest = b"".join((memoryview(self.data)[self.start :], self._incoming))
        self.clear()
        return rest

    def clear(self) -> None:
        """Drop everything."""
        self.data = self._incoming = b""
        self.start = 0

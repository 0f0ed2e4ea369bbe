"""Message keys from raw frames, and the stable ids of a receiver's frames (contract 4)."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b

from spark_stomp.framebatch import Ends, MessageKey
from spark_stomp.protocol import NEED_DATA, Frame, FrameDecoder, Limits

__all__ = ["NO_LIMITS", "Ids", "IdsBySequence", "frame_keys"]

Ids = Sequence[bytes | None]

_ANY = sys.maxsize
# In these a header of plain ASCII without backslash and CR means what it says.
_STRICT = frozenset({"1.1", "1.2"})
_DESTINATION = b"\ndestination:"
_LF = 0x0A
NO_LIMITS = Limits(max_command=_ANY, max_header_line=_ANY, max_headers=_ANY, max_body=_ANY, max_frame=_ANY)
"""For frames that were checked against the limits when they came."""


def frame_keys(data: bytes | memoryview, ends: Ends, ids: Ids, version: str) -> list[MessageKey | None]:
    """The keys of the complete MESSAGE frames in ``data``, which end at ``ends`` and whose stable ids are
    ``ids``; None for a frame without one."""
    raw = bytes(data)
    # Every message of a query with a journal passes here once, so what is plain is not decoded.
    if version in _STRICT and raw.isascii() and b"\\" not in raw and b"\r" not in raw:
        return _plain_keys(raw, ends, ids)
    keys: list[MessageKey | None] = []
    begin = 0
    for end, name in zip(ends, ids, strict=True):
        keys.append(_decoded_key(raw[begin:end], name, version) if name else None)
        begin = end
    return keys


def _plain_keys(raw: bytes, ends: Ends, ids: Ids) -> list[MessageKey | None]:
    """The same if every header means what it says."""
    keys: list[MessageKey | None] = []
    find, value, destination = raw.find, b"", ""
    begin = 0
    for end, name in zip(ends, ids, strict=True):
        if not name:
            keys.append(None)
            begin = end
            continue
        while raw[begin] == _LF:
            begin += 1
        body = find(b"\n\n", begin, end) + 2
        at = find(_DESTINATION, begin, body)
        found = raw[at + len(_DESTINATION) : find(b"\n", at + 1, body)] if at >= 0 else b""
        if found != value:
            value, destination = found, found.decode()
        keys.append(MessageKey(destination, name, blake2b(raw[body : end - 1], digest_size=16).digest()))
        begin = end
    return keys


def _decoded_key(data: bytes, name: bytes, version: str) -> MessageKey:
    decoder = FrameDecoder(version, NO_LIMITS)
    decoder.receive_data(data)
    while not isinstance(frame := decoder.next_event(), Frame):
        # EOLs may lead it.
        assert frame is not NEED_DATA
    return MessageKey(frame.get("destination") or "", name, blake2b(frame.body, digest_size=16).digest())


class IdsBySequence:
    """The stable ids of one receiver's frames, by sequence number; dense within each run."""

    def __init__(self) -> None:
        self._runs: deque[tuple[int, Ids]] = deque()

    def add(self, first: int, ids: Ids) -> None:
        self._runs.append((first, ids))

    def take_below(self, upto: int) -> list[tuple[int, Ids]]:
        """Remove and return what lies below ``upto``."""
        taken: list[tuple[int, Ids]] = []
        while self._runs and self._runs[0][0] < upto:
            first, ids = self._runs.popleft()
            count = min(len(ids), upto - first)
            taken.append((first, ids[:count]))
            if count < len(ids):
                self._runs.appendleft((first + count, ids[count:]))
        return taken

    def take_from(self, low: int) -> list[tuple[int, Ids]]:
        """Remove and return what lies at and beyond ``low``."""
        kept = self.take_below(low)
        taken, self._runs = list(self._runs), deque(kept)
        return taken

    def count(self, low: int, high: int) -> int:
        """How many frames of [low, high) have an id."""
        return sum(
            len(part) - part.count(None)
            for first, ids in self._runs
            if (part := ids[max(low - first, 0) : max(high - first, 0)])
        )

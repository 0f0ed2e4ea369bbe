"""Encoded messages, and which of those that a task has sent the broker has not confirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_stomp.arrow.columns import Ints
from spark_stomp.quoting import shown, whole_number

# Receipts are numbers after this letter, all of one length.
RECEIPT_PREFIX: Final = "s"
RECEIPT_BASE: Final = 10**11
_DESTINATION: Final = b"SEND\ndestination:"

# A slice is not cut into smaller pieces than this part of the window: many small writes cost more than
# waiting for a few more receipts.
_SMALLEST_PART = 4
# Bytes that are written together; a WebSocket and TLS make copies of them.
_LARGEST_PIECE = 1 << 20


def receipt_id(number: int) -> str:
    """The receipt that the frame with this number asks for; all ids of a task have one length."""
    return f"{RECEIPT_PREFIX}{RECEIPT_BASE + number}"


def receipt_number(receipt: str) -> int | None:
    """The number of a receipt that a frame asked for; None for any other receipt."""
    number = whole_number(receipt[1:])
    if number is None or receipt[:1] != RECEIPT_PREFIX or len(receipt) != len(receipt_id(0)):
        return None
    return number - RECEIPT_BASE


@dataclass(frozen=True)
class EncodedSlice:
    """The SEND frames of consecutive rows.

    Every frame asks for a receipt of its own: frame i for ``receipt_id(first_receipt + i)``. So one of them
    can be sent again as it is, on any connection of the same version and dialect.

    Attributes
    ----------
    data : whole frames, one after the other.
    ends : the end of each frame in ``data``, exclusive.
    first_receipt : the number of the first frame's receipt; the next slice goes on after the last one's.
    dropped, dead_lettered : rows that could not be sent: left out, or sent to the dead letter destination.
    """

    data: memoryview
    ends: Ints
    first_receipt: int
    dropped: int = 0
    dead_lettered: int = 0

    def __len__(self) -> int:
        """The number of frames; 0 if all rows were dropped."""
        return len(self.ends)

    def frames(self, start: int, stop: int) -> memoryview:
        """The frames from ``start`` up to ``stop``, in place."""
        first = int(self.ends[start - 1]) if start else 0
        return self.data[first : int(self.ends[stop - 1]) if stop else 0]

    def destination(self, frame: int) -> str:
        """Where frame number ``frame`` of this slice goes, as it stands on the wire; for error texts."""
        head = bytes(self.frames(frame, frame + 1)[:2048]).partition(b"\n\n")[0] + b"\n"
        return head[len(_DESTINATION) :].partition(b"\n")[0].decode(errors="replace")


class Piece(NamedTuple):
    """Frames to be written together, and the numbers of their receipts."""

    frames: memoryview
    receipts: Sequence[int]


class _Held:
    """A slice of which not every message is confirmed."""

    def __init__(self, part: EncodedSlice) -> None:
        self.part = part
        self.sent = 0
        self.sizes = np.diff(part.ends, prepend=0)
        self.confirmed = np.zeros(len(part), np.bool_)
        self.sent_at = np.zeros(len(part), np.float64)
        self.left = len(part)

    def end_within(self, start: int, room: int) -> int:
        """Up to which frame those from ``start`` on have ``room`` bytes in all, or fewer."""
        begin = int(self.part.ends[start - 1]) if start else 0
        return int(np.searchsorted(self.part.ends, begin + room, side="right"))

    def piece(self, start: int, stop: int) -> Piece:
        """Frames from ``start``, up to ``stop`` or as many as may be written together."""
        stop = min(stop, max(self.end_within(start, _LARGEST_PIECE), start + 1))
        first = RECEIPT_BASE + self.part.first_receipt
        return Piece(self.part.frames(start, stop), range(first + start, first + stop))


class Window:
    """Which messages were sent and not confirmed.

    At most ``most_messages`` and ``most_bytes`` at a time, but always one. Besides these it holds the rest of
    the slice that is being sent. It is not thread-safe.
    """

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._held: list[_Held] = []
        self.unconfirmed = 0
        self.unconfirmed_bytes = 0
        self.confirmed = 0

    def add(self, part: EncodedSlice) -> None:
        """Take a slice; all frames of earlier ones were sent."""
        self._held.append(_Held(part))

    @property
    def unsent(self) -> bool:
        """Whether the last slice has frames that were not sent."""
        return bool(self._held) and self._held[-1].sent < len(self._held[-1].part)

    def take(self, now: float) -> Piece | None:
        """The next frames to send at ``now``; None if there are none, or the window is too full for them."""
        if not self.unsent:
            return None
        held = self._held[-1]
        start, stop = held.sent, self._end(held)
        if stop <= start:
            return None
        piece = held.piece(start, stop)
        held.sent = stop = start + len(piece.receipts)
        held.sent_at[start:stop] = now
        self.unconfirmed += stop - start
        self.unconfirmed_bytes += len(piece.frames)
        return piece

    def _end(self, held: _Held) -> int:
        """Up to which of its frames ``held`` may be sent now."""
        start, count = held.sent, len(held.part)
        by_bytes = held.end_within(start, self._most_bytes - self.unconfirmed_bytes)
        stop = min(count, start + self._most_messages - self.unconfirmed, by_bytes)
        if not self.unconfirmed:
            return max(stop, start + 1)
        few = stop - start < self._most_messages // _SMALLEST_PART
        little = int(held.sizes[start:stop].sum()) < self._most_bytes // _SMALLEST_PART
        return start if stop < count and few and little else stop

    def confirm(self, receipts: list[int], now: float) -> npt.NDArray[np.float64]:
        """The broker confirmed these at ``now``; returns how many seconds each was under way."""
        numbers = np.array(receipts, np.int64) - RECEIPT_BASE
        times = []
        for held in self._held:
            places = numbers - held.part.first_receipt
            if len(self._held) > 1:
                places = places[(places >= 0) & (places < len(held.part))]
            held.confirmed[places] = True
            held.left -= len(places)
            self.unconfirmed_bytes -= int(held.sizes[places].sum())
            times.append(now - held.sent_at[places])
        self._held = [held for held in self._held if held.left]
        self.unconfirmed -= len(receipts)
        self.confirmed += len(receipts)
        return np.concatenate(times)

    def send_again(self, now: float) -> Iterator[Piece]:
        """What was sent before ``now``, on a connection that is gone, and was not confirmed."""
        for held in self._held:
            waiting = ~held.confirmed[: held.sent]
            held.sent_at[: held.sent][waiting] = now
            edges = np.flatnonzero(np.diff(waiting, prepend=False, append=False))
            for start, stop in edges.reshape(-1, 2).tolist():
                while start < stop:
                    piece = held.piece(start, stop)
                    yield piece
                    start += len(piece.receipts)

    def first_destination(self) -> str:
        """Where the oldest unconfirmed message goes, to be shown."""
        for held in self._held:
            return shown(held.part.destination(int(np.argmin(held.confirmed))))
        return "(none)"

    def destination(self, receipt: str | None) -> str | None:
        """Where the unconfirmed message with this receipt goes, to be shown; None if there is none."""
        number = receipt_number(receipt or "")
        for held in self._held:
            place = -1 if number is None else number - held.part.first_receipt
            if 0 <= place < held.sent and not held.confirmed[place]:
                return shown(held.part.destination(place))
        return None

"""Encoded messages, and the window: the messages that were sent and are not confirmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_stomp.arrow.columns import Ints
from spark_stomp.quoting import shown, whole_number

# A receipt is this letter and twelve digits: the number of the frame plus RECEIPT_BASE. All have the same
# length, up to 9 * 10**11 frames in a task.
RECEIPT_PREFIX: Final = "s"
RECEIPT_BASE: Final = 10**11
_DESTINATION: Final = b"SEND\ndestination:"

# A slice is not cut into pieces of less than a fourth of the window: many small writes cost more than waiting
# for a few more receipts. A judgement, not measured.
_SMALLEST_PART = 4
# Bytes of one write. A WebSocket and TLS copy them: more takes more memory. A judgement, not measured.
_LARGEST_PIECE = 1 << 20


def receipt_id(number: int) -> str:
    """The receipt that the frame with this number asks for. All receipts have the same length."""
    return f"{RECEIPT_PREFIX}{RECEIPT_BASE + number}"


def receipt_number(receipt: str) -> int | None:
    """The number of the frame that asked for this receipt; None if it is no receipt of a frame."""
    number = whole_number(receipt[1:])
    if number is None or receipt[:1] != RECEIPT_PREFIX or len(receipt) != len(receipt_id(0)):
        return None
    return number - RECEIPT_BASE


@dataclass(frozen=True)
class EncodedSlice:
    """The SEND frames of consecutive rows.

    Every frame asks for its own receipt: frame i for ``receipt_id(first_receipt + i)``. So each frame can be
    sent again unchanged, on any connection of the same version and dialect.

    Attributes
    ----------
    data : whole frames, one after another.
    ends : the end of each frame in ``data``, in bytes, exclusive.
    first_receipt : the number of the first frame's receipt. The next slice continues after the last frame's.
    dropped, dead_lettered : how many rows could not be sent and were left out, or became dead letters.
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
        """The bytes of the frames from ``start`` up to ``stop``, exclusive; not copied."""
        first = int(self.ends[start - 1]) if start else 0
        return self.data[first : int(self.ends[stop - 1]) if stop else 0]

    def destination(self, frame: int) -> str:
        """The destination of this frame of the slice, escaped as on the wire; for error texts."""
        head = bytes(self.frames(frame, frame + 1)[:2048]).partition(b"\n\n")[0] + b"\n"
        return head[len(_DESTINATION) :].partition(b"\n")[0].decode(errors="replace")


class Piece(NamedTuple):
    """Frames to write together, and the numbers of their receipts, with RECEIPT_BASE."""

    frames: memoryview
    receipts: Sequence[int]


class _Held:
    """A slice with messages that are not confirmed."""

    def __init__(self, part: EncodedSlice) -> None:
        self.part = part
        self.sent = 0
        self.sizes = np.diff(part.ends, prepend=0)
        self.confirmed = np.zeros(len(part), np.bool_)
        self.sent_at = np.zeros(len(part), np.float64)
        self.left = len(part)

    def end_within(self, start: int, room: int) -> int:
        """The end, exclusive, of the frames from ``start`` on that fit into ``room`` bytes."""
        begin = int(self.part.ends[start - 1]) if start else 0
        return int(np.searchsorted(self.part.ends, begin + room, side="right"))

    def piece(self, start: int, stop: int) -> Piece:
        """The frames from ``start`` up to ``stop``, or fewer: as many as one write takes."""
        stop = min(stop, max(self.end_within(start, _LARGEST_PIECE), start + 1))
        first = RECEIPT_BASE + self.part.first_receipt
        return Piece(self.part.frames(start, stop), range(first + start, first + stop))


class Window:
    """The messages that were sent and are not confirmed.

    They are at most ``most_messages`` with at most ``most_bytes``; one larger message may be sent alone.
    Besides these the window holds the rest of the slice that is being sent. It is not thread-safe.
    """

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._held: list[_Held] = []
        self.unconfirmed = 0
        self.unconfirmed_bytes = 0
        self.confirmed = 0

    def add(self, part: EncodedSlice) -> None:
        """Take the next slice. All frames of earlier slices must have been sent."""
        self._held.append(_Held(part))

    @property
    def unsent(self) -> bool:
        """Whether the last slice has frames that were not sent yet."""
        return bool(self._held) and self._held[-1].sent < len(self._held[-1].part)

    def take(self, now: float) -> Piece | None:
        """The next frames to send at ``now`` (monotonic seconds).

        None if there are none, or if the window has too little room for them.
        """
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
        """The end, exclusive, of the frames of ``held`` that may be sent now."""
        start, count = held.sent, len(held.part)
        by_bytes = held.end_within(start, self._most_bytes - self.unconfirmed_bytes)
        stop = min(count, start + self._most_messages - self.unconfirmed, by_bytes)
        if not self.unconfirmed:
            return max(stop, start + 1)
        few = stop - start < self._most_messages // _SMALLEST_PART
        little = int(held.sizes[start:stop].sum()) < self._most_bytes // _SMALLEST_PART
        return start if stop < count and few and little else stop

    def confirm(self, receipts: list[int], now: float) -> npt.NDArray[np.float64]:
        """Note receipts that came at ``now`` (monotonic seconds).

        Args:
            receipts: their numbers, with RECEIPT_BASE.

        Returns:
            The seconds from sending each message to its receipt.
        """
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
        """The messages that were sent on a lost connection and not confirmed.

        They count as sent again at ``now`` (monotonic seconds).
        """
        for held in self._held:
            waiting = ~held.confirmed[: held.sent]
            held.sent_at[: held.sent][waiting] = now
            edges = np.flatnonzero(np.diff(waiting, prepend=False, append=False))
            for start, stop in edges.reshape(-1, 2).tolist():
                while start < stop:
                    piece = held.piece(start, stop)
                    yield piece
                    start += len(piece.receipts)

    def largest_unconfirmed(self) -> int:
        """The bytes of the largest message that was sent and is not confirmed; 0 if there is none."""
        waiting = (held.sizes[: held.sent][~held.confirmed[: held.sent]] for held in self._held)
        return max((int(sizes.max(initial=0)) for sizes in waiting), default=0)

    def first_destination(self) -> str:
        """The destination of the oldest message that is not confirmed, printable; for error texts."""
        for held in self._held:
            return shown(held.part.destination(int(np.argmin(held.confirmed))))
        return "(none)"

    def destination(self, receipt: str | None) -> str | None:
        """The destination of the message that waits for this receipt, printable; None if there is none."""
        number = receipt_number(receipt or "")
        for held in self._held:
            place = -1 if number is None else number - held.part.first_receipt
            if 0 <= place < held.sent and not held.confirmed[place]:
                return shown(held.part.destination(place))
        return None

"""Encoded messages, and the window: which of them may be sent now, and which are confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_stomp.arrow.columns import Ints
from spark_stomp.protocol import escape
from spark_stomp.quoting import shown, whole_number

# A receipt is this letter and twelve digits: the number of the frame plus RECEIPT_BASE. All have the same
# length, up to 9 * 10**11 frames in a task.
RECEIPT_PREFIX: Final = "s"
RECEIPT_BASE: Final = 10**11
_DESTINATION: Final = b"SEND\ndestination:"

# A slice is not cut into pieces of less than a fourth of the window: many small writes cost more than waiting
# for a few more receipts.
_SMALLEST_SHARE = 4
# Bytes of one write. A WebSocket and TLS copy them: more takes more memory.
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
    destinations : where the frames go.
    version : the version of STOMP in which they are encoded.
    """

    data: memoryview
    ends: Ints
    first_receipt: int
    dropped: int = 0
    dead_lettered: int = 0
    destinations: frozenset[str] = frozenset()
    version: str = "1.2"

    def __len__(self) -> int:
        """The number of frames; 0 if all rows were dropped."""
        return len(self.ends)

    def frames(self, start: int, stop: int) -> memoryview:
        """The bytes of the frames from ``start`` up to ``stop``, exclusive; not copied."""
        first = int(self.ends[start - 1]) if start else 0
        return self.data[first : int(self.ends[stop - 1]) if stop else 0]

    def destination(self, frame: int) -> str:
        """The destination of this frame, for error texts. One of some 2 KiB is cut, and is escaped."""
        head = bytes(self.frames(frame, frame + 1)[:2048]).partition(b"\n\n")[0] + b"\n"
        wire = head[len(_DESTINATION) :].partition(b"\n")[0].decode(errors="replace")
        return next((name for name in self.destinations if escape(name, self.version) == wire), wire)


class RawSends(NamedTuple):
    """Frames to write together, and the numbers of their receipts, with RECEIPT_BASE."""

    frames: memoryview
    receipts: Sequence[int]


class _Held:
    """A slice with messages that are not confirmed.

    Attributes
    ----------
    sent : the frames before it were sent on this connection, or are confirmed.
    tried : the frames before it were sent on this connection or an earlier one.
    """

    def __init__(self, encoded: EncodedSlice) -> None:
        self.encoded = encoded
        self.sent = self.tried = 0
        self.sizes = np.diff(encoded.ends, prepend=0)
        self.confirmed = np.zeros(len(encoded), np.bool_)
        self.sent_at = np.zeros(len(encoded), np.float64)
        self.remaining = len(encoded)

    @property
    def unsent(self) -> bool:
        """Whether there are frames to be sent on this connection."""
        return self.sent < len(self.encoded)

    def go_to(self, place: int) -> None:
        """The next frame to be sent is this one, or the first one after it that is not confirmed."""
        rest = self.confirmed[place:]
        self.sent = place + (len(rest) if rest.all() else int(np.argmin(rest)))

    def run_end(self) -> int:
        """The end, exclusive, of the frames from ``sent`` on that are not confirmed, and all or none new."""
        end = self.tried if self.sent < self.tried else len(self.encoded)
        rest = self.confirmed[self.sent : end]
        return self.sent + int(np.argmax(rest)) if rest.any() else end

    def end_within(self, start: int, room: int) -> int:
        """The end, exclusive, of the frames from ``start`` on that fit into ``room`` bytes."""
        begin = int(self.encoded.ends[start - 1]) if start else 0
        return int(np.searchsorted(self.encoded.ends, begin + room, side="right"))

    def sends(self, start: int, stop: int) -> RawSends:
        """The frames from ``start`` up to ``stop``, or fewer: as many as one write takes."""
        stop = min(stop, max(self.end_within(start, _LARGEST_PIECE), start + 1))
        first = RECEIPT_BASE + self.encoded.first_receipt
        return RawSends(self.encoded.frames(start, stop), range(first + start, first + stop))


class ReceiptWindow:
    """The messages of one task that are not confirmed.

    At most ``most_messages`` with at most ``most_bytes`` are in flight: sent on this connection, and not
    confirmed. One larger message may be sent alone. After a lost connection one message is sent alone, and
    each receipt lets one more be in flight. So if a broker ends the connection because of a message, that one
    is soon alone, and the others are not sent again and again. It is not thread-safe.

    Attributes
    ----------
    in_flight, in_flight_bytes : the messages in flight, and the bytes of their frames.
    confirmed : how many messages were confirmed.
    resent : how many messages were sent again.
    """

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages = self._most = most_messages
        self._most_bytes = most_bytes
        self._held: list[_Held] = []
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.confirmed = 0
        self.resent = 0

    def add(self, encoded: EncodedSlice) -> None:
        """Take the next slice."""
        self._held.append(_Held(encoded))

    def begin_again(self) -> None:
        """The connection is lost: all that is not confirmed has to be sent again."""
        for held in self._held:
            held.go_to(0)
        self.in_flight = self.in_flight_bytes = 0
        self._most = 1

    @property
    def unsent(self) -> bool:
        """Whether there are frames to be sent on this connection."""
        return any(held.unsent for held in self._held)

    @property
    def unfinished(self) -> bool:
        """Whether there are messages that are not confirmed, whether they were sent or not."""
        return bool(self._held)

    @property
    def unconfirmed(self) -> int:
        """How many messages were sent, on any connection, and are not confirmed."""
        return sum(int(np.count_nonzero(~held.confirmed[: held.tried])) for held in self._held)

    @property
    def destinations(self) -> frozenset[str]:
        """The destinations of the slices."""
        return frozenset().union(*(held.encoded.destinations for held in self._held))

    def next_sends(self, now: float) -> RawSends | None:
        """The next frames to send at ``now`` (monotonic seconds), the oldest ones first.

        None if there are none, or if the window has too little room for them.
        """
        held = next((held for held in self._held if held.unsent), None)
        if held is None:
            return None
        start, stop = held.sent, self._end(held)
        if stop <= start:
            return None
        sends = held.sends(start, stop)
        stop = start + len(sends.receipts)
        self.resent += max(0, min(stop, held.tried) - start)
        held.tried = max(held.tried, stop)
        held.sent_at[start:stop] = now
        held.go_to(stop)
        self.in_flight += stop - start
        self.in_flight_bytes += len(sends.frames)
        return sends

    def _end(self, held: _Held) -> int:
        """The end, exclusive, of the frames of ``held`` that may be sent now."""
        start, count = held.sent, held.run_end()
        by_bytes = held.end_within(start, self._most_bytes - self.in_flight_bytes)
        stop = min(count, start + self._most - self.in_flight, by_bytes)
        if not self.in_flight:
            return max(stop, start + 1)
        few = stop - start < self._most // _SMALLEST_SHARE
        little = int(held.sizes[start:stop].sum()) < self._most_bytes // _SMALLEST_SHARE
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
            places = numbers - held.encoded.first_receipt
            if len(self._held) > 1:
                places = places[(places >= 0) & (places < len(held.encoded))]
            held.confirmed[places] = True
            held.remaining -= len(places)
            self.in_flight_bytes -= int(held.sizes[places].sum())
            times.append(now - held.sent_at[places])
        self._held = [held for held in self._held if held.remaining]
        self.in_flight -= len(receipts)
        self.confirmed += len(receipts)
        self._most = min(self._most_messages, self._most + len(receipts))
        return np.concatenate(times)

    def largest_in_flight(self) -> int:
        """The bytes of the largest message in flight; 0 if there is none."""
        waiting = (held.sizes[: held.sent][~held.confirmed[: held.sent]] for held in self._held)
        return max((int(sizes.max(initial=0)) for sizes in waiting), default=0)

    def first_receipt(self) -> str | None:
        """The receipt of the oldest message that is not confirmed; None if there is none."""
        for held in self._held:
            return receipt_id(held.encoded.first_receipt + int(np.argmin(held.confirmed)))
        return None

    def first_destination(self) -> str:
        """The destination of the oldest message that is not confirmed, printable; for error texts."""
        return self.destination(self.first_receipt()) or "(none)"

    def destination(self, receipt: str | None) -> str | None:
        """The destination of the message that waits for this receipt, printable; None if there is none."""
        found = self._waiting(receipt)
        return None if found is None else shown(found[0].encoded.destination(found[1]))

    def frame(self, receipt: str) -> bytes:
        """The frame of the message that waits for this receipt."""
        found = self._waiting(receipt)
        assert found is not None
        held, place = found
        return bytes(held.encoded.frames(place, place + 1))

    def alike(self, receipt: str) -> list[str]:
        """The receipts of all messages that are not confirmed and go where that of ``receipt`` goes."""
        return self._to(self.frame(receipt).partition(b"\n\n")[0].split(b"\n")[1])

    def sent_to(self, destination: str) -> list[str]:
        """The receipts of all messages to ``destination`` that are not confirmed."""
        versions = {held.encoded.version for held in self._held}
        lines = (f"destination:{escape(destination, version)}".encode() for version in sorted(versions))
        return [receipt for line in lines for receipt in self._to(line)]

    def _to(self, line: bytes) -> list[str]:
        """The same, by the header line, which is the first one of each frame."""
        head = b"SEND\n" + line + b"\n"
        return [
            receipt_id(held.encoded.first_receipt + place)
            for held in self._held
            for place in np.flatnonzero(~held.confirmed).tolist()
            if held.encoded.frames(place, place + 1)[: len(head)] == head
        ]

    def take_out(self, receipts: Iterable[str]) -> None:
        """Hold the messages that wait for these receipts no more. None is in flight."""
        for receipt in receipts:
            found = self._waiting(receipt)
            assert found is not None
            held, place = found
            held.confirmed[place] = True
            held.remaining -= 1
            held.go_to(held.sent)
        self._held = [held for held in self._held if held.remaining]

    def _waiting(self, receipt: str | None) -> tuple[_Held, int] | None:
        number = receipt_number(receipt or "")
        for held in self._held:
            place = -1 if number is None else number - held.encoded.first_receipt
            if 0 <= place < len(held.encoded) and not held.confirmed[place]:
                return held, place
        return None

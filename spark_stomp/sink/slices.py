"""What the encoder hands to the sender: SEND frames ready for the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_stomp.arrow.columns import Ints
from spark_stomp.quoting import whole_number

RECEIPT_PREFIX: Final = "s"
RECEIPT_BASE: Final = 10**11
_DESTINATION: Final = b"SEND\ndestination:"


def receipt_id(number: int) -> str:
    """The receipt that the frame with this number asks for; all ids of a task have one length."""
    return f"{RECEIPT_PREFIX}{RECEIPT_BASE + number}"


def receipt_number(receipt: str | bytes) -> int | None:
    """The number of a receipt that a frame asked for; None for any other receipt."""
    number = whole_number(receipt[1:])
    if receipt[:1] not in ("s", b"s") or number is None or len(receipt) != 1 + len(str(RECEIPT_BASE)):
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

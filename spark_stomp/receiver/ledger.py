"""The ack ledger: from sequence numbers to ack handles, and what the broker confirmed of them.

Invariants (contract 1 and 4): a handle leaves the ledger at most once, in the order of delivery, and only
when its sequence number was committed; "acked" grows only when the receipt for it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["AckGroup", "AckLedger"]


@dataclass(frozen=True, slots=True)
class AckGroup:
    """ACKs sent together; the last one carries ``receipt``. ``deadline`` is monotonic seconds."""

    upto: int
    receipt: str
    deadline: float


class AckLedger:
    """Handles of one connection's deliveries. Not thread-safe: the receiver's thread owns it."""

    def __init__(self) -> None:
        self._handles: deque[tuple[int, Sequence[bytes]]] = deque()
        self._groups: dict[str, AckGroup] = {}  # in the order of sending
        self._receipted: set[str] = set()
        self._sent = 0
        self._confirmed = 0

    @property
    def sent(self) -> int:
        """Every handle below this sequence number was sent in an ACK."""
        return self._sent

    @property
    def confirmed(self) -> int:
        """The broker confirmed by receipt that it processed the ACKs of everything below this number."""
        return self._confirmed

    @property
    def next_deadline(self) -> float | None:
        """When the oldest outstanding receipt is overdue; None where none is outstanding."""
        return min(
            (group.deadline for group in self._groups.values() if group.receipt not in self._receipted),
            default=None,
        )

    def add(self, first_sequence: int, handles: Sequence[bytes]) -> None:
        """Frames numbered from ``first_sequence`` came with these handles."""
        self._handles.append((first_sequence, handles))

    def take(self, upto: int) -> list[bytes]:
        """Remove and return, in order, the handles of everything below ``upto`` not taken before."""
        taken: list[bytes] = []
        while self._handles and self._handles[0][0] < upto:
            first, handles = self._handles.popleft()
            count = min(len(handles), upto - first)
            taken.extend(handles[:count])
            if count < len(handles):
                self._handles.appendleft((first + count, handles[count:]))
        self._sent = max(self._sent, upto)
        return taken

    def await_receipt(self, group: AckGroup) -> None:
        """The ACKs of ``group`` were handed to the connection."""
        self._groups[group.receipt] = group

    def confirm(self, receipt: str) -> bool:
        """A RECEIPT came; False where it belongs to no group of ACKs.

        Receipts may come in any order. A later group's receipt does not vouch for an earlier group, so the
        confirmed mark stays below the oldest group that is still outstanding.
        """
        if receipt not in self._groups:
            return False
        self._receipted.add(receipt)
        for oldest in list(self._groups.values()):
            if oldest.receipt not in self._receipted:
                break
            self._confirmed = oldest.upto
            self._receipted.remove(oldest.receipt)
            del self._groups[oldest.receipt]
        return True

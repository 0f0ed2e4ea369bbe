"""The ack ledger: the ack handles of one connection, which of them were sent, and which are confirmed.

A ledger lives as long as its connection, because a handle is valid only there. Handles of new frames are kept
by sequence number. Handles of redelivered messages are attached to the place of the message (``HeldAt``),
maybe in another receiver.

Invariants (contract 1 and 4):

- A handle leaves the ledger at most once, and only if its message is committed.
- ``confirmed`` grows only if a receipt came, or if nothing was left to confirm.
- ``confirmed <= sent``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.dedup import HeldAt

# Microseconds. New frames that come within this time share one entry, with the arrival time of the first. It
# only gives the age of the oldest un-acked message. A judgement, not measured.
_ARRIVAL_STEP = 100_000
# Handles of consecutive reads are joined in lists of up to this many. A judgement, not measured.
_HANDLES_IN_LIST = 1_000
# An attached message: sequence number of the held frame, running number of the delivery, key, handle, time.
_Attached = tuple[int, int, MessageKey, bytes, int]


@dataclass(frozen=True, slots=True)
class Acks:
    """ACKs to be sent together, in this order.

    Attributes:
        upto: once these ACKs are sent, all new frames below this sequence number are ACKed.
        handles: the ack handles.
        keys: the keys of the redelivered messages among them.
        since: when the first redelivered one came, in microseconds since 1970; None if there is none.
    """

    upto: int
    handles: list[bytes]
    keys: tuple[MessageKey, ...] = ()
    since: int | None = None


@dataclass(slots=True)
class AckGroup:
    """ACKs that were sent together. The last one asked for the receipt with the id ``receipt``.

    ``deadline`` is when this receipt is overdue, by the clock of
    :meth:`~spark_stomp.receiver.pause.BoundedReader.receipt_deadline`. ``confirmed``: whether it came.
    """

    acks: Acks
    receipt: str
    deadline: float
    confirmed: bool = False


class AckLedger:
    """The ack handles of one connection. Not thread-safe. Times are microseconds since 1970.

    ``start``: everything below this sequence number was committed before the connection was opened.
    """

    def __init__(self, start: int = 0) -> None:
        self._handles: deque[tuple[int, list[bytes]]] = deque()
        self._attached: dict[int, list[_Attached]] = {}  # a heap for each owner
        # New frames that came at about one time: the number after the last one, and the time.
        self._arrivals: deque[tuple[int, int]] = deque()
        # In the order of sending. The first one is not confirmed; later ones may be.
        self._groups: deque[AckGroup] = deque()
        self._sent = start
        self._confirmed = start
        self._delivered = 0
        self._acked_before = 0  # handles of all groups before the first one in _groups
        self._receipted_handles = 0

    @property
    def sent(self) -> int:
        """Every handle of a new frame below this sequence number was sent in an ACK."""
        return self._sent

    @property
    def confirmed(self) -> int:
        """The broker confirmed by receipts that it processed the ACKs of all frames below this number."""
        return self._confirmed

    @property
    def unacked(self) -> int:
        """How many deliveries on this connection have no ACK confirmed by a receipt."""
        return self._delivered - self._receipted_handles

    @property
    def oldest_unacked(self) -> int | None:
        """When the oldest un-acked message came; None if all are acked. Reads every attached entry."""
        new = next((at for end, at in self._arrivals if end > self._confirmed), None)
        attached = (entry[-1] for heap in self._attached.values() for entry in heap)
        sent = (group.acks.since for group in self._awaited)
        return min((at for at in (new, *attached, *sent) if at is not None), default=None)

    @property
    def _awaited(self) -> list[AckGroup]:
        return [group for group in self._groups if not group.confirmed]

    @property
    def awaited(self) -> int:
        """How many groups of ACKs were sent and have no receipt yet."""
        return len(self._awaited)

    @property
    def unconfirmed(self) -> list[bytes]:
        """The handles of all ACKs that were sent and have no receipt yet, in the order of sending."""
        return [handle for group in self._awaited for handle in group.acks.handles]

    @property
    def next_deadline(self) -> float | None:
        """When the next awaited receipt is overdue; None if no receipt is awaited."""
        return min((group.deadline for group in self._awaited), default=None)

    def receipt_is_behind(self, prefetch: int) -> bool:
        """Whether the broker may still send messages before the oldest awaited receipt.

        By then it can send ``prefetch`` messages in all, and one more for each ACK up to that receipt.
        False once all of these have come, or if no receipt is awaited.
        """
        if not self._groups:
            return False
        acked = self._acked_before + len(self._groups[0].acks.handles)
        return self._delivered < prefetch + acked

    def add(self, first_sequence: int, handles: Sequence[bytes], at: int = 0) -> None:
        """New frames, numbered from ``first_sequence``, came with these handles at the time ``at``."""
        if not handles:
            return
        self._delivered += len(handles)
        end = first_sequence + len(handles)
        # If a read brings one message, an entry for each read would cost more than the handles.
        if self._arrivals and at - self._arrivals[-1][1] < _ARRIVAL_STEP:
            self._arrivals[-1] = (end, self._arrivals[-1][1])
        else:
            self._arrivals.append((end, at))
        if self._handles:
            first, last = self._handles[-1]
            if first + len(last) == first_sequence and len(last) + len(handles) <= _HANDLES_IN_LIST:
                last.extend(handles)
                return
        self._handles.append((first_sequence, list(handles)))

    def attach(self, held_at: HeldAt, key: MessageKey, handle: bytes, at: int = 0) -> None:
        """The message at ``held_at`` was redelivered with this handle at the time ``at``."""
        # The running number keeps the order of delivery. It is unique, so a heap never compares keys.
        entry = (held_at.sequence, self._delivered, key, handle, at)
        heappush(self._attached.setdefault(held_at.owner, []), entry)
        self._delivered += 1

    def take(self, committed: int, committed_of: Callable[[int], int], most: int) -> Acks | None:
        """Take the handles that are due, attached ones first; None if nothing is due.

        Takes at most ``most`` attached handles, and handles of at most ``most`` new frames. New frames below
        ``committed`` are due. An attached handle is due if its held frame is below ``committed_of(owner)``.
        """
        attached = self._take_attached(committed_of, most)
        if not attached and not self._skip_without_handle(committed):
            return None
        upto = min(committed, self._sent + most)
        handles = [entry[3] for entry in attached] + self._take_new(upto)
        self._sent = max(self._sent, upto)
        since = min((entry[-1] for entry in attached), default=None)
        return Acks(self._sent, handles, tuple([entry[2] for entry in attached]), since)

    def pending(self, committed: int, committed_of: Callable[[int], int]) -> bool:
        """Whether any ACK is due (see :meth:`take`), or was sent and is not confirmed."""
        return (
            bool(self._groups)
            or self._confirmed < committed
            or any(heap[0][0] < committed_of(owner) for owner, heap in self._attached.items())
        )

    def sent_with(self, group: AckGroup) -> None:
        """The ACKs of ``group`` were passed to the connection; the last one asks for a receipt."""
        self._groups.append(group)

    def confirm(self, receipt: str) -> AckGroup | None:
        """A RECEIPT came: returns the group of ACKs that it confirms, or None if it is for something else.

        Receipts may come in any order. The receipt of a later group does not confirm an earlier one, so
        ``confirmed`` stays below the oldest group whose receipt is still awaited.
        """
        group = next((group for group in self._awaited if group.receipt == receipt), None)
        if group is None:
            return None
        group.confirmed = True
        self._receipted_handles += len(group.acks.handles)
        while self._groups and self._groups[0].confirmed:
            oldest = self._groups.popleft()
            self._confirmed = oldest.acks.upto
            self._acked_before += len(oldest.acks.handles)
        while self._arrivals and self._arrivals[0][0] <= self._confirmed:
            self._arrivals.popleft()
        return group

    def _take_attached(self, committed_of: Callable[[int], int], most: int) -> list[_Attached]:
        taken: list[_Attached] = []
        for owner, heap in list(self._attached.items()):
            committed = committed_of(owner)
            while heap and heap[0][0] < committed and len(taken) < most:
                taken.append(heappop(heap))
            if not heap:
                del self._attached[owner]
        return taken

    def _take_new(self, upto: int) -> list[bytes]:
        taken: list[bytes] = []
        while self._handles and self._handles[0][0] < upto:
            first, handles = self._handles.popleft()
            count = min(len(handles), upto - first)
            taken.extend(handles[:count])
            if count < len(handles):
                self._handles.appendleft((first + count, handles[count:]))
        return taken

    def _skip_without_handle(self, committed: int) -> bool:
        """Skip committed frames that came on an earlier connection: they have no handle in this ledger.

        Returns False if nothing is left to ACK below ``committed``.
        """
        if self._handles and self._handles[0][0] < committed:
            self._sent = max(self._sent, self._handles[0][0])
            return True
        self._sent = max(self._sent, committed)
        if not self._groups:
            self._confirmed = self._sent
        return False

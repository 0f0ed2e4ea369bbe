"""The ack ledger: the handles of one connection's deliveries, and which of them the broker confirmed.

A ledger lives as long as its connection, because a handle is valid only there. It has two kinds of handles:
those of new frames, by sequence number, and those of redelivered messages, attached to the frame that is held
already, maybe by another receiver.

Invariants (contract 1 and 4): a handle leaves the ledger at most once, and only when its message is
committed; ``confirmed`` grows only when the receipt came, or if nothing was left to confirm; and
``confirmed <= sent``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.dedup import HeldAt

# Of messages that come within so many microseconds, the first one's time stands for all.
_AT_ONCE = 100_000
# Handles of several reads that are kept together.
_TOGETHER = 1_000
# Of an attached message: its sequence number, the number of this delivery, the key, the handle, when it came.
_Attached = tuple[int, int, MessageKey, bytes, int]


@dataclass(frozen=True, slots=True)
class Acks:
    """ACKs to be sent together, in order. With them, everything below ``upto`` is ACKed.

    ``keys`` are those of redelivered messages among them, and ``since`` is when the first of these came.
    """

    upto: int
    handles: list[bytes]
    keys: tuple[MessageKey, ...] = ()
    since: int | None = None


@dataclass(slots=True)
class AckGroup:
    """ACKs that were sent; the last one carries ``receipt``, which came if ``confirmed``.

    ``deadline`` is from :meth:`~spark_stomp.receiver.pause.BoundedReader.receipt_deadline`.
    """

    acks: Acks
    receipt: str
    deadline: float
    confirmed: bool = False


class AckLedger:
    """Handles of one connection's deliveries. Not thread-safe. Times are microseconds since 1970.

    ``start``: everything below this number was committed before the connection was there.
    """

    def __init__(self, start: int = 0) -> None:
        self._handles: deque[tuple[int, list[bytes]]] = deque()
        self._attached: dict[int, list[_Attached]] = {}  # by owner, each a heap
        self._arrivals: deque[tuple[int, int]] = deque()  # the end of new frames that came at a time
        # In the order of sending; the first one is not confirmed.
        self._groups: deque[AckGroup] = deque()
        self._sent = start
        self._confirmed = start
        self._delivered = 0
        self._acked_before = 0  # handles of all groups before the first of these
        self._receipted_handles = 0

    @property
    def sent(self) -> int:
        """Every handle below this sequence number was sent in an ACK."""
        return self._sent

    @property
    def confirmed(self) -> int:
        """The broker confirmed by receipt that it processed the ACKs of everything below this number."""
        return self._confirmed

    @property
    def unacked(self) -> int:
        """How many deliveries the broker counts as un-acked, as far as we know."""
        return self._delivered - self._receipted_handles

    @property
    def oldest_unacked(self) -> int | None:
        """When the oldest of those came; None if there is none. Looks at everything attached."""
        new = next((at for end, at in self._arrivals if end > self._confirmed), None)
        attached = (entry[-1] for heap in self._attached.values() for entry in heap)
        sent = (group.acks.since for group in self._awaited)
        return min((at for at in (new, *attached, *sent) if at is not None), default=None)

    @property
    def _awaited(self) -> list[AckGroup]:
        return [group for group in self._groups if not group.confirmed]

    @property
    def awaited(self) -> int:
        """How many groups were sent whose receipt has not come."""
        return len(self._awaited)

    @property
    def unconfirmed(self) -> list[bytes]:
        """The handles of the groups that :attr:`awaited` counts."""
        return [handle for group in self._awaited for handle in group.acks.handles]

    @property
    def next_deadline(self) -> float | None:
        """When the oldest awaited receipt is overdue; None if none is awaited."""
        return min((group.deadline for group in self._awaited), default=None)

    def receipt_is_behind(self, prefetch: int) -> bool:
        """Whether messages may still come that a broker with this prefetch sent before the oldest awaited
        receipt: it delivers no more than the prefetch and the ACKs up to there allow."""
        if not self._groups:
            return False
        acked = self._acked_before + len(self._groups[0].acks.handles)
        return self._delivered < prefetch + acked

    def add(self, first_sequence: int, handles: Sequence[bytes], at: int = 0) -> None:
        """New frames numbered from ``first_sequence`` came with these handles at the time ``at``."""
        self._delivered += len(handles)
        end = first_sequence + len(handles)
        # Where messages trickle, an entry for each of them would cost more than the handles.
        if self._arrivals and at - self._arrivals[-1][1] < _AT_ONCE:
            self._arrivals[-1] = (end, self._arrivals[-1][1])
        else:
            self._arrivals.append((end, at))
        if self._handles:
            first, last = self._handles[-1]
            if first + len(last) == first_sequence and len(last) + len(handles) <= _TOGETHER:
                last.extend(handles)
                return
        self._handles.append((first_sequence, list(handles)))

    def attach(self, held_at: HeldAt, key: MessageKey, handle: bytes, at: int = 0) -> None:
        """The message at ``held_at`` came once more, with this handle, at the time ``at``."""
        # The running number keeps the order of delivery, and always decides when two entries are compared.
        entry = (held_at.sequence, self._delivered, key, handle, at)
        heappush(self._attached.setdefault(held_at.owner, []), entry)
        self._delivered += 1

    def take(self, committed: int, committed_of: Callable[[int], int], most: int) -> Acks | None:
        """Take the handles that are due, in order: at most ``most`` of new frames, and as many attached ones.

        New frames below ``committed`` are committed; ``committed_of`` gives this number for an owner of
        attached ones.
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
        """Whether anything is due (see :meth:`take`), or sent and not confirmed."""
        return (
            bool(self._groups)
            or self._confirmed < committed
            or any(heap[0][0] < committed_of(owner) for owner, heap in self._attached.items())
        )

    def sent_with(self, group: AckGroup) -> None:
        """These ACKs were handed to the connection, with a receipt."""
        self._groups.append(group)

    def confirm(self, receipt: str) -> AckGroup | None:
        """A RECEIPT came; returns the group of ACKs that it confirms, None if there is none.

        Receipts may come in any order. A later group's receipt does not confirm an earlier group, so the
        confirmed mark stays below the oldest group whose receipt is still awaited.
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
        """Skip committed numbers that have no handle here: they came on an earlier connection.

        False if nothing is left to ACK below ``committed``.
        """
        if self._handles and self._handles[0][0] < committed:
            self._sent = max(self._sent, self._handles[0][0])
            return True
        self._sent = max(self._sent, committed)
        if not self._groups:
            self._confirmed = self._sent
        return False

"""The ack queue: the ACKs of one connection, which are due, which were sent, and which are confirmed.

A queue lives as long as its connection, because a handle is valid only there. Until a message may be ACKed,
its handles wait with the message (``Held``); then they are pushed to the queues of the connections that
brought them.

Invariants (contract 1 and 4):

- A handle leaves the queue at most once. Those of new frames leave it in the order of the frames.
- ``confirmed`` grows only if a receipt came, or if nothing was left to confirm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.marks import Marks

# Microseconds. New frames that come within this time share one entry, with the arrival time of the first. It
# only gives the age of the oldest un-acked message. A judgement, not measured.
_ARRIVAL_STEP = 100_000


@dataclass(frozen=True, slots=True)
class Acks:
    """ACKs to be sent together, in this order.

    Attributes:
        handles: the ack handles.
        keys: the keys of the redelivered messages among them.
        first: the sequence number of the first new frame among them; None if there is none.
    """

    handles: list[bytes]
    keys: tuple[MessageKey, ...] = ()
    first: int | None = None


@dataclass(slots=True)
class _Group:
    """ACKs that are sent together. The last one asks for the receipt with the id ``receipt``.

    ``deadline`` is when this receipt is overdue. ``confirmed``: whether it came.
    """

    acks: Acks
    receipt: str = ""
    deadline: float = float("inf")
    confirmed: bool = False


class AckQueue:
    """The ACKs of one connection. Not thread-safe. Times are microseconds since 1970.

    ``marks`` are those of the receiver whose connection this is.

    Attributes:
        confirmed: the broker confirmed by receipts that it processed the ACKs of all frames below this
            number, as far as they have a handle here. All of them may be ACKed.
        closed: whether the connection has ended. Then all handles are void, and nobody takes them.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._new: deque[tuple[int, Sequence[bytes]]] = deque()
        self._again: deque[tuple[MessageKey, bytes]] = deque()
        # New frames that came at about one time: the number after the last one, and the time.
        self._arrivals: deque[tuple[int, int]] = deque()
        self._again_since: dict[bytes, int] = {}  # when each redelivered message came, until its receipt
        # In the order of sending. The first one is not confirmed; later ones may be.
        self._groups: deque[_Group] = deque()
        self._delivered = 0
        self._acked_before = 0  # handles of all groups before the first one in _groups
        self._receipted_handles = 0
        self.confirmed = marks.committed
        self.closed = False

    @property
    def unacked(self) -> int:
        """How many deliveries on this connection have no ACK confirmed by a receipt."""
        return self._delivered - self._receipted_handles

    @property
    def oldest_unacked(self) -> int | None:
        """When the oldest un-acked message came; None if all are acked."""
        new = next((at for end, at in self._arrivals if end > self.confirmed), None)
        again = next(iter(self._again_since.values()), None)
        return min((at for at in (new, again) if at is not None), default=None)

    @property
    def _awaited(self) -> list[_Group]:
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

    @property
    def pending(self) -> bool:
        """Whether any ACK is due, or was sent and is not confirmed."""
        return bool(self._groups or self._again or self._new)

    def receipt_is_behind(self, prefetch: int) -> bool:
        """Whether the broker may still send messages before the oldest awaited receipt.

        By then it can send ``prefetch`` messages in all, and one more for each ACK up to that receipt.
        False once all of these have come, or if no receipt is awaited.
        """
        if not self._groups:
            return False
        acked = self._acked_before + len(self._groups[0].acks.handles)
        return self._delivered < prefetch + acked

    # --- messages come

    def came(self, end: int, count: int, at: int) -> None:
        """``count`` new frames came, the last of which is ``end - 1``."""
        if not count:
            return
        self._delivered += count
        # If a read brings one message, an entry for each read would cost more than the handles.
        if self._arrivals and at - self._arrivals[-1][1] < _ARRIVAL_STEP:
            self._arrivals[-1] = (end, self._arrivals[-1][1])
        else:
            self._arrivals.append((end, at))

    def came_again(self, handle: bytes, at: int) -> None:
        """A known message was redelivered with this handle."""
        self._delivered += 1
        self._again_since[handle] = at

    # --- ACKs

    def push(self, first: int, handles: Sequence[bytes]) -> None:
        """Frames from ``first`` on, which came with these handles, may be ACKed."""
        if handles:
            self._new.append((first, handles))

    def push_again(self, key: MessageKey, handle: bytes) -> None:
        """A redelivered message, which came with this handle, may be ACKed."""
        self._again.append((key, handle))

    def take(self, most: int) -> Acks | None:
        """Take the handles that are due, those of redelivered messages first; None if nothing is due.

        Takes at most ``most`` of these, and at most ``most`` of new frames. Call :meth:`sent` next.
        """
        if not (self._again or self._new):
            return None
        again = [self._again.popleft() for _ in range(min(most, len(self._again)))]
        first, handles = self._new[0][0] if self._new else None, [handle for _, handle in again]
        while self._new and most:
            number, new = self._new.popleft()
            handles += new[:most]
            if len(new) > most:
                self._new.appendleft((number + most, new[most:]))
            most -= min(most, len(new))
        acks = Acks(handles, tuple([key for key, _ in again]), first)
        self._groups.append(_Group(acks))
        return acks

    def sent(self, receipt: str, deadline: float) -> None:
        """The ACKs that :meth:`take` returned were sent; the last one asks for ``receipt``.

        ``deadline`` is when this receipt is overdue, by the clock of
        :meth:`~spark_stomp.receiver.pause.BoundedReader.receipt_deadline`.
        """
        self._groups[-1].receipt, self._groups[-1].deadline = receipt, deadline

    def confirm(self, receipt: str) -> Acks | None:
        """A RECEIPT came: returns the ACKs that it confirms, or None if it is for something else.

        Receipts may come in any order. The receipt of a later group does not confirm an earlier one, so
        ``confirmed`` stays below the oldest group whose receipt is still awaited.
        """
        group = next((group for group in self._awaited if group.receipt == receipt), None)
        if group is None:
            return None
        group.confirmed = True
        self._receipted_handles += len(group.acks.handles)
        for handle in group.acks.handles if self._again_since else ():
            self._again_since.pop(handle, None)
        while self._groups and self._groups[0].confirmed:
            self._acked_before += len(self._groups.popleft().acks.handles)
        self.advance()
        return group.acks

    def advance(self) -> None:
        """Raise ``confirmed`` to the first frame whose ACK is not confirmed, or to all that may be ACKed."""
        sent = (group.acks.first for group in self._groups if group.acks.first is not None)
        due = self._new[0][0] if self._new else self._marks.committed
        self.confirmed = max(self.confirmed, next(sent, due))
        while self._arrivals and self._arrivals[0][0] <= self.confirmed:
            self._arrivals.popleft()

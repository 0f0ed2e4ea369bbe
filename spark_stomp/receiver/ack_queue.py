"""The ack queue: the ACKs of one connection, which are due, which were sent, and which are confirmed.

A queue lives as long as its connection, because a handle is valid only there. Until a message may be ACKed,
its handles wait with the message (``Block``); then they are pushed to the queues of the connections that
brought them.

Invariant (contract 1 and 4): a handle leaves the queue at most once. Those of new messages leave it in the
order of delivery.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from spark_stomp.frame_batch import MessageKey
from spark_stomp.receiver.blocks import Block

# Messages of a block that are ACKed together: the block, and the first and the last of them plus one.
BlockRange = tuple[Block, int, int]

# Seconds. New messages that come within this time share one entry, with the arrival time of the first.
# It only gives the age of the oldest un-acked message.
_ARRIVAL_STEP = 0.1


@dataclass(frozen=True, slots=True)
class Acks:
    """ACKs to be sent together, in this order.

    Attributes:
        handles: the ack handles.
        keys: the keys of the redelivered messages among them.
        ranges: the new messages among them.
    """

    handles: list[bytes]
    keys: tuple[MessageKey, ...] = ()
    ranges: tuple[BlockRange, ...] = ()


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

    Attributes:
        unacked_bytes: how many bytes the deliveries have whose ACK is not confirmed. The size of a
            redelivered message is a guess.
        receipted: how many handles have a receipt.
        owed: how many new messages may be ACKed, and their ACK is not confirmed.
        closed: whether there is no connection, or it has ended. Then all handles are void, and nobody takes
            them.
    """

    def __init__(self, *, closed: bool = False) -> None:
        self._new: deque[BlockRange] = deque()
        self._again: deque[tuple[MessageKey, bytes]] = deque()
        # New messages that came at about one time: how many had come by then, and the time.
        self._arrivals: deque[tuple[int, float]] = deque()
        # When each redelivered message came, and its size, until its receipt.
        self._again_since: dict[bytes, tuple[float, int]] = {}
        # In the order of sending. The first one is not confirmed; later ones may be.
        self._groups: deque[_Group] = deque()
        self._delivered = self._new_delivered = self._new_confirmed = 0
        self._acked_before = 0  # handles of all groups before the first one in _groups
        self.receipted = 0
        self.unacked_bytes = self.owed = 0
        self.closed = closed

    @property
    def unacked(self) -> int:
        """How many deliveries on this connection have no ACK confirmed by a receipt."""
        return self._delivered - self.receipted

    @property
    def oldest_unacked(self) -> float | None:
        """When the oldest un-acked message came, monotonic; None if all are acked."""
        new = self._arrivals[0][1] if self._arrivals else None
        again = next((at for at, _ in self._again_since.values()), None)
        return min((at for at in (new, again) if at is not None), default=None)

    @property
    def _open_groups(self) -> list[_Group]:
        return [group for group in self._groups if not group.confirmed]

    @property
    def awaited(self) -> int:
        """How many groups of ACKs were sent and have no receipt yet."""
        return len(self._open_groups)

    @property
    def unconfirmed(self) -> list[bytes]:
        """The handles of all ACKs that were sent and have no receipt yet, in the order of sending."""
        return [handle for group in self._open_groups for handle in group.acks.handles]

    @property
    def next_deadline(self) -> float | None:
        """When the next awaited receipt is overdue; None if no receipt is awaited."""
        return min((group.deadline for group in self._open_groups), default=None)

    @property
    def has_pending(self) -> bool:
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

    def came(self, count: int, size: int, at: float) -> None:
        """``count`` new messages came at the monotonic time ``at``, ``size`` bytes in all."""
        self._delivered += count
        self._new_delivered += count
        self.unacked_bytes += size
        # An entry for each read that brings one message would cost more than the handles.
        since = at
        if self._arrivals and at - self._arrivals[-1][1] < _ARRIVAL_STEP:
            since = self._arrivals.pop()[1]
        self._arrivals.append((self._new_delivered, since))

    def came_again(self, handle: bytes, size: int, at: float) -> None:
        """A known message of about ``size`` bytes was redelivered with this handle."""
        self._delivered += 1
        self.unacked_bytes += size
        self._again_since[handle] = at, size

    # --- ACKs

    def push(self, block: Block, start: int, stop: int) -> None:
        """The messages [start, stop) of ``block``, which came on this connection, may be ACKed."""
        self._new.append((block, start, stop))
        self.owed += stop - start

    def push_again(self, key: MessageKey, handle: bytes) -> None:
        """A redelivered message, which came with this handle, may be ACKed."""
        self._again.append((key, handle))

    def take_acks(self, most: int) -> Acks | None:
        """Take the handles that are due, those of redelivered messages first; None if nothing is due.

        Takes at most ``most`` of these, and at most ``most`` of new messages. Call :meth:`sent` next.
        """
        if not (self._again or self._new):
            return None
        again = [self._again.popleft() for _ in range(min(most, len(self._again)))]
        handles, ranges = [handle for _, handle in again], list[BlockRange]()
        while self._new and most:
            block, start, stop = self._new.popleft()
            upto = min(stop, start + most)
            handles += block.handles[start:upto]
            ranges.append((block, start, upto))
            if upto < stop:
                self._new.appendleft((block, upto, stop))
            most -= upto - start
        acks = Acks(handles, tuple([key for key, _ in again]), tuple(ranges))
        self._groups.append(_Group(acks))
        return acks

    def sent(self, receipt: str, deadline: float) -> None:
        """The ACKs that :meth:`take_acks` returned were sent; the last one asks for ``receipt``.

        ``deadline`` is when this receipt is overdue, by the clock of
        :meth:`~spark_stomp.receiver.pause.BoundedReader.receipt_deadline`.
        """
        self._groups[-1].receipt, self._groups[-1].deadline = receipt, deadline

    def confirm(self, receipt: str) -> Acks | None:
        """A RECEIPT came: returns the ACKs that it confirms, or None if it is for something else.

        Receipts may come in any order. The receipt of a later group does not confirm an earlier one.
        """
        group = next((group for group in self._open_groups if group.receipt == receipt), None)
        if group is None:
            return None
        group.confirmed = True
        self.receipted += len(group.acks.handles)
        for handle in group.acks.handles if self._again_since else ():
            self.unacked_bytes -= self._again_since.pop(handle, (0, 0))[1]
        for block, start, stop in group.acks.ranges:
            block.confirmed += stop - start
            self.owed -= stop - start
            self._new_confirmed += stop - start
            self.unacked_bytes -= block.bytes_between(start, stop)
        while self._groups and self._groups[0].confirmed:
            self._acked_before += len(self._groups.popleft().acks.handles)
        while self._arrivals and self._arrivals[0][0] <= self._new_confirmed:
            self._arrivals.popleft()
        return group.acks

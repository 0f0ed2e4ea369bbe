"""How far the turn of one connection is, and what it brought that does not count as received yet.

A broker that cannot deliver a message ends the connection right after those before it. They are redelivered,
and would give second rows if Spark had been told about them and they have no stable id.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.turns import Turn

# Seconds that one poll waits if nothing comes and nobody wakes the thread.
_POLL: Final = 1.0
# Seconds without a message after which the last ones are taken. The ERROR because of a message follows those
# before it at once.
_SETTLED: Final = 0.2
# Seconds without a message, and with none un-acked, after which a careful turn is over.
_EMPTY: Final = 1.0

# Each block comes with the time of its receipt, in microseconds since 1970.
_Blocks = Sequence[tuple[MessageBlock, int]]


class TurnState:
    """The state of a turn. One that is not careful is *reading* as long as its connection lasts.

    - *reading*: all that came counts as received.
    - *settling*: the last messages of a careful turn do not, until the connection has outlived them.
    - *over*: it has done what it is for. What comes now is dropped, because the broker redelivers it.

    Attributes:
        is_over: whether it is over.
        count, size: how many messages came that do not count as received, and how many bytes they have.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.is_over = False
        self.count = self.size = 0
        self._settling: list[tuple[MessageBlock, int]] = []
        self._last = 0.0

    def poll_timeout(self) -> float:
        """How many seconds a poll may wait."""
        return max(0.0, self._last + _SETTLED - time.monotonic()) if self._settling else _POLL

    def put(self, block: MessageBlock, received_at: int) -> _Blocks:
        """``block`` came. Returns it if it counts as received at once."""
        if not self._turn.is_careful:
            return [(block, received_at)]
        self.count += len(block.ends)
        self.size += len(block.data)
        if not self.is_over:
            self._settling.append((block, received_at))
            self._last = time.monotonic()
        return ()

    def take_settled(self, deliveries: Deliveries, most: int | None) -> _Blocks:
        """Take the messages that settle if the connection has outlived them.

        They are also taken if there is no more room in memory, or if the broker sends nothing more before an
        ACK: it lets ``most`` messages be un-acked; None if that is not known.
        """
        stopped = most is not None and self.count + deliveries.acks.unacked >= most
        due = stopped or self.size >= deliveries.inbox.room or not self.poll_timeout()
        return self.take() if self._settling and due else ()

    def take(self) -> _Blocks:
        """Take all messages that settle."""
        blocks, self._settling = self._settling, []
        self.count = self.size = 0
        return blocks

    def next(self, deliveries: Deliveries, achieved: int, quiet: float) -> bool:
        """Go on to the next state if it is time; returns whether the connection may end.

        ``achieved`` messages need nothing more, and ``quiet`` is how many seconds ago something came. A turn
        that is over waits until everything is ACKed that was taken.
        """
        nothing_left = quiet >= _EMPTY and not self.count + deliveries.acks.unacked
        if self._turn.is_careful and (nothing_left or achieved > self._turn.suspects):
            self.is_over = True
            self._settling.clear()
        return self.is_over and not deliveries.acks.unacked

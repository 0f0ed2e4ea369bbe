"""What a careful connection brings is put aside for a moment, because its end may take it back.

A broker that cannot deliver a message ends the connection right after those before it. They are redelivered,
and would give second rows if Spark had been told about them and they have no stable id.
"""

from __future__ import annotations

import time
from typing import Final

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.turns import Turn

# Seconds without a message after which the last ones are taken. The ERROR because of a message follows those
# before it at once.
_SETTLED: Final = 0.2
# Seconds without a message, and with none un-acked, after which a careful turn is over.
_EMPTY: Final = 1.0


class Aside:
    """The messages of one connection that are put aside, and whether its turn is over.

    Attributes:
        turn: what the connection reads.
        careful: whether that differs from what the options say. Otherwise nothing is put aside.
        is_over: whether the turn has done what it is for.
        count, size: how many messages are here, and how many bytes they have.
    """

    def __init__(self, turn: Turn, *, careful: bool) -> None:
        self.turn = turn
        self.is_over = False
        self.count = 0
        self.careful = careful
        self._blocks: list[tuple[MessageBlock, int]] = []
        self.size = 0
        self._last = 0.0

    @property
    def is_needed(self) -> bool:
        """Whether messages have to be put aside."""
        return self.turn.prefetch is not None

    def put(self, block: MessageBlock, received_at: int) -> None:
        """``block`` came at the time ``received_at``, in microseconds since 1970."""
        self._blocks.append((block, received_at))
        self._last = time.monotonic()
        self.count += len(block.ends)
        self.size += len(block.data)

    def left(self, otherwise: float) -> float:
        """For how many seconds messages still have to wait here; ``otherwise`` if there are none."""
        return max(0.0, self._last + _SETTLED - time.monotonic()) if self._blocks else otherwise

    def due(self, deliveries: Deliveries, most: int | None) -> list[tuple[MessageBlock, int]]:
        """Take the messages if the connection has outlived them. Each block comes with its time.

        They are also taken if there is no more room in memory, or if the broker sends nothing more before an
        ACK: it lets ``most`` messages be un-acked; None if that is not known. Once the turn is over, nothing
        is taken.
        """
        stopped = most is not None and self.count + deliveries.unacked >= most
        due = self.size >= deliveries.inbox.room or stopped or not self.left(1.0)
        return self.take() if due and not self.is_over else []

    def take(self) -> list[tuple[MessageBlock, int]]:
        """Take all messages."""
        blocks, self._blocks = self._blocks, []
        self.count = self.size = 0
        return blocks

    def is_done(self, deliveries: Deliveries, achieved: int, quiet: float) -> bool:
        """Whether a careful turn has done what it is for, and everything is ACKed that was taken.

        ``achieved`` messages need nothing more, and ``quiet`` is how many seconds ago something came. What is
        here then is not taken any more: the broker redelivers it.
        """
        if not self.is_over:
            nothing_left = quiet >= _EMPTY and not self.count + deliveries.unacked
            self.is_over = nothing_left or achieved > self.turn.suspects
        return self.is_over and not deliveries.unacked

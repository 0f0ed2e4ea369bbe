"""What the last few batches say of the next one: whether to wait for more messages, and for how long."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

REFILL_PART, REFILL_MAX = 0.5, 0.5
"""How long a streaming batch waits for the window to refill: this part of the last batch's duration, but no
more seconds than this, ..."""

STALL_PART, STALL_MAX, STALL_GAP = 0.9, 1.0, 2.0
"""... these if many messages came and less than half as many are there: the broker stands still,
or sends the first messages no later than so many seconds after the last batch. If they come fast, the part
counts from the latest one, ..."""

REFILL_RATE = 100.0
"""... and if there is something, only after a batch that had so many messages a second."""

REFILL_BUSY = 5_000.0
"""If a batch had so many messages a second, the next ones wait for more in any case: a batch costs Spark as
much as some 10,000 messages."""

REMEMBERED_BATCHES = 4
"""So many of the last batches say what to expect of the next one."""


@dataclass(frozen=True)
class LastBatch:
    """It had so many ``messages``, and ``seconds`` after it was cut, at the monotonic time ``ended``, Spark
    asked for the next one. This made room in the window. ``left_many``: it left half as many behind, or more.
    """

    messages: int = 0
    seconds: float = 0.0
    ended: float = 0.0
    left_many: bool = False

    def refill_until(self, new: int, since: float | None, heard: float, *, acking: bool) -> float:
        """How long the next batch may wait for the window to fill again, while ``new`` messages are there.

        ``since``: when the oldest of them was first seen. A broker that stood still sends few at first, so
        that the wait counts from there unless that was long after the last batch. ``heard``: when the latest
        came, or a receipt for ACKs; if they come fast enough, the wait counts from there. ``acking``: the
        broker has not confirmed all ACKs, so it is sure to be busy with them.
        """
        if not (self.is_busy and 2 * new < self.messages):
            return self.ended + min(self.seconds * REFILL_PART, REFILL_MAX)
        begun = self.ended if since is None or since > self.ended + STALL_GAP else max(self.ended, since)
        # At the rate so far, half as many as in this batch will be there before the longest wait is over.
        fast_enough = 2 * new * STALL_MAX >= self.messages * (heard - begun)
        silent_since = max(begun, heard) if fast_enough else begun
        longest = begun + STALL_MAX
        return longest if acking else min(silent_since + self.seconds * STALL_PART, longest)

    @property
    def is_slow(self) -> bool:
        """Whether so few messages come that none is worth a wait."""
        return self.messages < self.seconds * REFILL_RATE

    @property
    def is_busy(self) -> bool:
        """Whether so many messages come that a larger batch is worth a wait."""
        return 0 < self.seconds * REFILL_BUSY <= self.messages


class RecentBatches:
    """The last few batches, and what they say of the next one."""

    def __init__(self) -> None:
        self._done = deque([LastBatch()], maxlen=REMEMBERED_BATCHES)
        self._cut: tuple[LastBatch, float] | None = None

    def cut(self, messages: int, left: int, now: float) -> None:
        """A batch was cut, which leaves so many behind, and Spark works on it."""
        self._cut = LastBatch(messages, left_many=2 * left >= messages), now

    def asked_again(self, now: float) -> None:
        """Spark asks for the next batch: the last one is done, if there was one."""
        if self._cut is not None:
            batch, since = self._cut
            self._done.append(replace(batch, seconds=now - since, ended=now))
            self._cut = None

    @property
    def expected(self) -> LastBatch:
        """As much as the last one, or as the largest if many messages came.

        A broker that reads the ACKs of thousands of messages sends none for up to a second. A small batch
        that is cut then does not mean that fewer come.
        """
        last = self._done[-1]
        busy = (one for one in self._done if one.is_busy)
        largest = max(busy, key=lambda one: (one.messages, one.seconds), default=last)
        return replace(largest, ended=last.ended, left_many=last.left_many)

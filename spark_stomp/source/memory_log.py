"""The log of queues in memory."""

from __future__ import annotations

from collections.abc import Mapping

from spark_stomp.receiver import Deliveries, Log
from spark_stomp.source.logs import Shares, Statuses, row_counts
from spark_stomp.source.offsets import MEMORY, LogEnd
from spark_stomp.source.planning import Available
from spark_stomp.status.receivers import RowCounts


class MemoryLog:
    """The messages of the queues that ``receivers`` (by name) read, in memory: they share ``messages``.

    A message gets its number when the end of its batch is chosen. The log of an earlier run ended with it.
    """

    name = MEMORY
    base = 0
    end_to_name = None

    def __init__(self, messages: Log, receivers: Mapping[str, Deliveries]) -> None:
        self.id = messages.id
        self.frames = messages
        self._receivers = receivers

    @property
    def received_end(self) -> int:
        return self.frames.end + sum(one.inbox.pending for one in self._receivers.values())

    @property
    def rows(self) -> RowCounts:
        return row_counts(self._receivers.values())

    def begin(self, known: LogEnd | None, planned: LogEnd | None) -> None:
        """What an earlier run had comes again."""

    def available(self, low: int, statuses: Statuses) -> list[Available]:
        if self.frames.end > low:
            # Spark was told about these, and asks again from before them.
            return [Available(self.name, self.frames, low, self.frames.end, full=True)]
        return [
            Available(
                one.name,
                inbox,
                0,
                one.pending,
                one.window_full,
                window=one.window,
                window_bytes=one.window_bytes,
            )
            for inbox, one in ((self._receivers[name].inbox, statuses[name]) for name in self._receivers)
        ]

    def take(self, low: int, shares: Shares) -> int | None:
        if self.name in shares:
            return low + shares[self.name]
        wanted = [(self._receivers[name], shares[name]) for name in shares if name in self._receivers]
        if any(deliveries.inbox.pending < count for deliveries, count in wanted):
            return None
        for deliveries, count in wanted:
            deliveries.number(count)
        return self.frames.end

    def is_here(self, high: int) -> bool:
        return True

    def readable(self, low: int, high: int) -> list[tuple[int, int]]:
        return self.frames.readable(low, high)

    def commit(self, upto: int) -> bool:
        return self.frames.commit(upto)

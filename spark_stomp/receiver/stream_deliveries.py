"""What a receiver holds of one stream of RabbitMQ.

Unlike those of a queue, messages of a stream stay on the broker, and a subscription begins where it is told
to. So there are no duplicates to recognise, nothing is dropped when a connection breaks, and ACKs do not wait
for commits. The broker's offsets are the numbers in the log, which messages get on receipt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver.dedup import DedupIndex
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.log import Log

_ENDLESS: Final = 1 << 62


class StreamDeliveries(Deliveries):
    """All that the receiver of one stream holds. Thread-safe.

    Attributes:
        begin: where the run begins: an offset, or a value of the header ``x-stream-offset``.
        base: the offset where the run begins; None before it is known.
        wanted: the end of the batch that is planned already; 0 if none is.
        end_is_known: whether the stream is known not to end before the offset that comes next.
    """

    def __init__(self, max_bytes: int, name: str) -> None:
        super().__init__(max_bytes, Log(DedupIndex()), name)
        self.end_is_known = False
        self.begin_at(0)

    def begin_at(self, begin: int | str, name: str = "", wanted: int = 0) -> None:
        """The run begins at ``begin``, with a log called ``name``, or with a new one.

        A batch up to the offset ``wanted`` is planned already. Call this before anything is received.
        """
        with self.lock:
            self.begin, self.wanted = begin, wanted
            self.log = Log(self._index, name)
            self.base: int | None = None
            if isinstance(begin, int):
                self.locate(begin)

    def locate(self, base: int) -> None:
        """The first message will have the offset ``base``, or a higher one."""
        self.base = base
        self.log.begin_at(base)

    @property
    def next(self) -> int | None:
        """The offset after the last message; None before it is known."""
        return None if self.base is None else self.log.end

    def receive_from(
        self, offset: int, block: MessageBlock, *, received_at: int, version: str, dialect: str
    ) -> None:
        """Take messages with consecutive offsets, the first of which is ``offset``."""
        with self.lock:
            if self.base is None:
                self.locate(offset)
            self.receive(block, received_at=received_at, version=version, dialect=dialect)
            while self.inbox.pending:
                self.log.add(self.inbox.take(), offset)

    def disconnected(self, *, redelivers: bool, but: Collection[str] = ()) -> None:
        """The connection ended. Nothing is dropped: the next one begins behind the last message."""
        super().disconnected(redelivers=False)

    @property
    def awaits_planned(self) -> bool:
        """Whether some of the planned batch has not come yet."""
        return (self.next or 0) < self.wanted

    def room(self) -> int:
        """How many more bytes may be held. A planned batch is always received whole, to be readable."""
        return _ENDLESS if self.awaits_planned else super().room()

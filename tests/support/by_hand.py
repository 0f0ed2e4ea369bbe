"""What receivers hold, and the logs and batches of a query, by hand: no thread, no socket, no broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from itertools import accumulate
from pathlib import Path
from typing import Any

from spark_stomp.frame_batch import FrameBatch
from spark_stomp.protocol import MessageBlock
from spark_stomp.receiver import (
    DedupIndex,
    Deliveries,
    Log,
    ReceiverSettings,
    ReceiverStatus,
    StreamDeliveries,
)
from spark_stomp.receiver.dedup import MAX_REMEMBERED
from spark_stomp.source.journal_log import JournalLog, recover
from spark_stomp.source.journal_writer import JournalWriter
from spark_stomp.source.logs import Logs, SourceLog
from spark_stomp.source.memory_log import MemoryLog
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import Available, BatchLimits, rotated
from spark_stomp.source.stream_log import StreamLog
from support.journals import local_journal

BUFFER = 1 << 20


def of_queues(log: Log | None = None, name: str = "r", max_bytes: int = BUFFER) -> Deliveries:
    """What a receiver of queues holds. Without ``log`` it has one to itself."""
    return Deliveries(max_bytes, log or Log(DedupIndex()), name)


def of_stream(name: str, max_bytes: int = BUFFER) -> StreamDeliveries:
    """What the receiver of a stream holds."""
    return StreamDeliveries(max_bytes, name)


def block_of(
    frames: Sequence[bytes], handles: Iterable[bytes] = (), ids: Iterable[bytes | None] = ()
) -> MessageBlock:
    """The frames of one read, with their ack handles and stable ids."""
    heads = b"".join(frame[: frame.find(b"\n\n") + 2] for frame in frames)
    return MessageBlock(b"".join(frames), [*accumulate(map(len, frames))], [*handles], [*ids], heads=heads)


def receive(held: Deliveries, block: MessageBlock, dialect: str = "generic") -> None:
    """The connection of a receiver brings this."""
    held.receive(block, received_at=0, version="1.2", dialect=dialect)


class Query:
    """Receivers of queues with these names, and of the streams of these settings, with their logs.

    The test says what comes, and asks for batches as Spark does.
    """

    def __init__(
        self,
        queues: Sequence[str] = ("r",),
        streams: Sequence[ReceiverSettings] = (),
        *,
        log: Log | None = None,
        buffer: int = BUFFER,
        tolerant: bool = False,
    ) -> None:
        self.log = log or Log(DedupIndex())
        self.index = self.log.index
        self.queues = [of_queues(self.log, name, buffer) for name in queues]
        self.streams = [of_stream(one.name, buffer) for one in streams]
        self.stream_logs = [*map(StreamLog, streams, self.streams)]
        logs = [*([self._log_of_queues(tolerant)] if queues else ()), *self.stream_logs]
        lock = nullcontext() if self.index.journaled else self.index.lock
        self.logs = Logs(logs, lock, tolerant=tolerant)

    def _log_of_queues(self, tolerant: bool) -> SourceLog:
        return MemoryLog(self.log, {one.inbox.name: one for one in self.queues})

    @property
    def receivers(self) -> list[Deliveries]:
        return [*self.queues, *self.streams]

    def connect(self, *, keyed: bool = True) -> None:
        for one in self.receivers:
            one.connected(keyed=keyed)

    @property
    def statuses(self) -> list[ReceiverStatus]:
        boxes = [(one.inbox, one.acked) for one in self.receivers]
        return [
            ReceiverStatus(box.name, True, box.pending, box.received, box.ackable, acked, 0.0, False, None)
            for box, acked in boxes
        ]

    def available(self, start: Offset, turn: int = 0) -> list[Available]:
        """What a batch can take, as one look shows it; the receivers take turns."""
        return rotated(self.logs.available(start, self.statuses), turn)

    def end(self, start: Offset, **limits: Any) -> Offset:
        """The end of a batch of what is there."""
        chosen = self.logs.take_batch(start, self.available(start), BatchLimits(**limits))
        assert chosen is not None
        return chosen[0]

    def read(self, start: Offset, end: Offset) -> dict[str, list[FrameBatch]]:
        """The messages of a batch, by the names of the logs that are here."""
        return {
            part.name: [batch for ticket in self.logs.tickets(part) for batch in self.logs.read(ticket)]
            for part, _ in self.logs.ranges(start, end)[0]
        }

    def close(self) -> None:
        for one in self.receivers:
            one.close()


class Journaled(Query):
    """With a journal in ``folder``, which takes what came when ``writer`` steps."""

    def __init__(
        self,
        folder: Path,
        queues: Sequence[str] = ("r",),
        streams: Sequence[ReceiverSettings] = (),
        *,
        max_bytes: int = 1 << 30,
        ack_when_durable: bool = False,
        id_header: str = "message-id",
        most: int = MAX_REMEMBERED,
        buffer: int = BUFFER,
        tolerant: bool = False,
    ) -> None:
        self.journal = local_journal(folder, max_bytes, tolerant=tolerant)
        self._max_bytes, self._ack_when_durable = max_bytes, ack_when_durable
        log = recover(self.journal, DedupIndex(most, journaled=True), id_header, most=most)
        super().__init__(queues, streams, log=log, buffer=buffer, tolerant=tolerant)

    def _log_of_queues(self, tolerant: bool) -> SourceLog:
        self.writer = JournalWriter(
            self.journal,
            self.log,
            self.queues,
            max_bytes=self._max_bytes,
            ack_when_durable=self._ack_when_durable,
            changed=lambda: None,
        )
        return JournalLog(self.writer, [one.inbox.name for one in self.queues], tolerant=tolerant)

    def close(self) -> None:
        super().close()
        self.writer.stop(5.0)

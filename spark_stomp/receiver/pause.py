"""Reading no more than there is room for, and what that means for the receipts of ACKs.

A receiver that has no room leaves its socket unread: it is paused. What comes meanwhile waits in the socket
and at the broker, and the broker's answers wait behind it. So no deadline for an answer runs out during a
pause (contract 5.13). Times are monotonic seconds, but ``since``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from spark_stomp.errors import ReceiptTimeout
from spark_stomp.logs import get_log
from spark_stomp.protocol import Event
from spark_stomp.receiver.deliveries import Deliveries
from spark_stomp.receiver.subscription import ReceiverSettings
from spark_stomp.transport import Connection

log = get_log(__name__)

# The least that is read at once while there is room, in bytes.
_LEAST_READ = 64 << 10
_MOST_READ = 4 << 20
# A receiver with a slow sink is paused nearly all of the time. So its pauses count too as time in which a
# receipt should have come: ackReceiptTimeout is over at the latest when this many buffers were read.
_BUFFERS = 10
# A receiver may pause many times a second. Of one pause in so many seconds the log tells, if it lasts so
# long: most batches are committed within that time.
_TOLD_EVERY = 60.0
_TOLD_AFTER = 1.0


class BoundedReader:
    """Reads the connections of one receiver as far as its ``deliveries`` have room.

    ``changed`` is called when a pause begins and when it ends, and each time that nothing is read: what was
    committed meanwhile can be trimmed. Once ``stopping`` is set, nothing is kept any more, so there is room.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: Deliveries,
        changed: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._options = settings.options
        self._buffer = settings.max_buffered_bytes
        self._stopping = stopping
        self._deliveries = deliveries
        self._changed = changed
        self._since: float | None = None
        self._released = 0
        self._told_at: float | None = None
        self._resting = False
        self._rested = 0.0
        self._unread = 0.0
        # At the end of the last pause: what had come, in bytes, and how long nothing had been read.
        self._resumed_at = (0, 0.0)
        self._counted_pauses = 0.0
        # By the receipts' clock, a receipt came last, or something that the broker sent before one.
        self._patient_from = self._receipt_clock()

    @property
    def paused_since(self) -> float | None:
        """Since when nothing is read, in seconds since 1970; None if it is. May be called from any thread."""
        # After a commit there is room, perhaps enough; the receiver's thread has yet to look.
        return self._since if self._deliveries.frames.released == self._released else None

    def poll(self, connection: Connection, timeout: float) -> list[Event]:
        """One round of the connection, which reads as much as there is room for."""
        self._released = self._deliveries.frames.released
        if self._deliveries.room() <= 0 and not (connection.ended or self._stopping.is_set()):
            self._pause()
            return self._rest(connection, timeout)
        self.resume()
        return connection.poll(timeout, min(max(self._deliveries.frames.room, _LEAST_READ), _MOST_READ))

    def _rest(self, connection: Connection, timeout: float) -> list[Event]:
        self._changed()
        self._resting, before = True, connection.rested
        try:
            return connection.rest(timeout)
        finally:
            self._rested = time.monotonic()
            self._unread += connection.rested - before
            self._resting = False

    def clock(self, at: float | None = None) -> float:
        """Now, or ``at``, by a clock that stands still while connections are left unread.

        By this clock is the deadline for a connection, and nearly so those for receipts.
        """
        return (time.monotonic() if at is None else at) - self._unread

    def _receipt_clock(self, at: float | None = None) -> float:
        return self.clock(at) + self._counted_pauses

    def receipt_deadline(self) -> float:
        """When the receipt for ACKs that are sent now is overdue."""
        return self._receipt_clock() + self._options.ack_receipt_timeout

    def active_at(self, heard: float) -> float:
        """When silence began if something came at ``heard`` last: not while the connection is left unread.

        May be called from any thread.
        """
        # In this order: it notes when it rested before it says that it does so no more.
        return time.monotonic() if self._resting else max(heard, self._rested)

    def receipt_came(self) -> None:
        """A receipt for ACKs was read."""
        self._patient_from = self._receipt_clock()

    def check_receipts(self, connection: Connection, *, counted: bool) -> None:
        """Raise ReceiptTimeout if the oldest awaited receipt for ACKs is overdue.

        A large batch may take longer to be confirmed than one group of ACKs may: as long as receipts come, or
        messages that the broker may have sent before, the connection is alive. ``counted``: the broker's
        window counts messages, so that it is known how many those may be.
        """
        deadline = self._deliveries.receipt_deadline
        if deadline is None:
            return
        if not counted or self._deliveries.receipt_is_behind(self._options.prefetch):
            self._patient_from = max(self._patient_from, self._receipt_clock(connection.last_frame_byte))
        timeout = self._options.ack_receipt_timeout
        if self._receipt_clock() >= max(deadline, self._patient_from + timeout):
            raise ReceiptTimeout(
                f"the broker did not confirm ACKs within ackReceiptTimeout ({timeout:g}s): the connection "
                "counts as dead"
            )

    def _pause(self) -> None:
        now = time.time()
        if self._since is None:
            self._since = now
        is_news = self._told_at is None or now >= self._told_at + _TOLD_EVERY
        if not is_news or now < self._since + _TOLD_AFTER:
            return
        self._told_at = now
        log.warning(
            "paused: %d bytes are held, all that maxBufferedBytes allows this receiver. More messages wait "
            "at the broker until %s. To hold more, raise maxBufferedBytes",
            self._deliveries.frames.memory_bytes,
            "Spark commits"
            if self._options.journal is None
            else "the journal has taken these (see journalMaxBytes)",
        )

    def resume(self) -> None:
        """There is room, or the connection has ended."""
        if self._since is None:
            return
        self._since = None
        came, unread = self._resumed_at
        self._resumed_at = self._deliveries.counts.bytes, self._unread
        read = (self._resumed_at[0] - came) / self._buffer
        share = self._options.ack_receipt_timeout / _BUFFERS
        self._counted_pauses += min(self._unread - unread, read * share)
        self._changed()

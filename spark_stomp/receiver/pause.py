"""How a receiver reads: in large pieces, only what it has room for, with deadlines that allow for pauses.

A receiver that has no room in memory leaves its socket unread: it is paused. Messages then wait in the socket
and at the broker, and the broker's answers wait behind them. So no deadline for an answer runs out during a
pause (contract 5.13). Times are monotonic seconds, except where it says "since 1970".
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

# Bytes. One poll may read as much as there is room for, but never less than the first number, and never more
# than the second.
_MIN_READ = 64 << 10
_MAX_READ = 4 << 20
# RabbitMQ writes each message by itself, so a receiver that is faster reads about six messages at a time. If
# the last read had fewer bytes than this, and more messages than this wait for Spark, the receiver waits so
# many seconds before it reads. With default options on RabbitMQ that gave 1.26 of the messages a second, and
# took half of the reader's processor time. Waits of 1 and 2 ms gave less, 8 and 16 no more (November 2026).
_SMALL_READ = 64 << 10
_MANY_WAIT = 1_000
_GATHER = 0.004
# With a slow sink a receiver is paused nearly all of the time. If pauses did not count towards
# ackReceiptTimeout, a broker that confirms nothing would be waited for more than 60 times as long (November
# 2026). So a pause counts, but no more than a tenth of the timeout for each maxBufferedBytes that was read
# before it: a receipt is overdue at the latest when this many times maxBufferedBytes were read.
_BUFFERS_PER_TIMEOUT = 10
# Seconds. A receiver may pause many times a second. The log gets one line a minute at most, and only about a
# pause that lasts longer than most batches take.
_WARN_EVERY = 60.0
_WARN_AFTER = 1.0


class BoundedReader:
    """Reads from the connections of one receiver as long as its ``deliveries`` have room.

    ``changed`` is called in every round of a pause, because the journal may then be able to delete committed
    frames, and when the pause ends. Once ``stopping`` is set, no message is taken, so there is always room.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        deliveries: Deliveries,
        changed: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._options = settings.options
        self._warns = not settings.of_batch
        self._buffer = settings.max_buffered_bytes
        self._window = settings.options.prefetch * len(settings.destinations)
        self._stopping = stopping
        self._deliveries = deliveries
        self._changed = changed
        self.heard_at: float | None = None  # seconds since 1970
        self._last_read = 0  # bytes
        self._since: float | None = None
        self._ackable = 0
        self._warned_at: float | None = None
        self._resting = False
        self._rested = 0.0
        self._unread = 0.0
        # Totals at the end of the last pause: bytes received, and seconds for which the connection was left
        # unread.
        self._resumed_at = (0, 0.0)
        self._counted_pauses = 0.0
        # By the clock for receipts: when the last receipt came, or the last bytes that may precede the next.
        self._patient_from = self._receipt_clock()

    @property
    def paused_since(self) -> float | None:
        """When the present pause began, in seconds since 1970; None if there is none.

        Any thread may read this.
        """
        # A commit may have made room. Until the receiver's thread has looked whether it did, the receiver
        # does not count as paused.
        return self._since if self._deliveries.inbox.ackable == self._ackable else None

    def poll(self, connection: Connection, timeout: float) -> list[Event]:
        """One round of the connection: send, and read as much as there is room for.

        Returns the events that came. Without room nothing is read, but ACKs and heart-beats are sent.
        """
        self._ackable = self._deliveries.inbox.ackable
        if self._deliveries.room() <= 0 and not (connection.ended or self._stopping.is_set()):
            self._pause()
            return self._rest(connection, timeout)
        self.resume()
        self._gather()
        before = connection.received
        events = connection.poll(timeout, min(max(self._deliveries.inbox.room, _MIN_READ), _MAX_READ))
        self._last_read = connection.received - before
        if self._last_read:
            self.heard_at = time.time()
        return events

    def _gather(self) -> None:
        """Let more bytes come in before the next read, if the last one was small and Spark is behind.

        No message is read more than this one wait later, because each read takes all that has come.
        """
        inbox = self._deliveries.inbox
        if 0 < self._last_read < _SMALL_READ and inbox.received - inbox.ackable > _MANY_WAIT:
            time.sleep(_GATHER)

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
        """The time now, or the time ``at``, by a clock that stops while the connection is left unread.

        The time limits for reconnecting and subscribing use this clock.
        """
        return (time.monotonic() if at is None else at) - self._unread

    def _receipt_clock(self, at: float | None = None) -> float:
        """The clock for receipts: now, or ``at``, with only a limited part of each pause counted."""
        return self.clock(at) + self._counted_pauses

    def receipt_deadline(self) -> float:
        """When the receipt for ACKs that are sent now will be overdue, by the clock for receipts."""
        return self._receipt_clock() + self._options.ack_receipt_timeout

    def active_at(self, heard: float) -> float:
        """When the present silence began. ``heard`` is when something was last received.

        A pause is not silence. During a pause this is the time now, and afterwards the end of the pause at
        the earliest. Any thread may call this.
        """
        # Read in this order: _rest sets _rested before it clears _resting.
        return time.monotonic() if self._resting else max(heard, self._rested)

    def receipt_came(self) -> None:
        """A receipt for ACKs was read."""
        self._patient_from = self._receipt_clock()

    def check_receipts(self, connection: Connection, *, counted: bool) -> None:
        """Raise ReceiptTimeout if the oldest awaited receipt for ACKs is overdue.

        The receipts of a large batch may take longer than ``ackReceiptTimeout`` in all. The connection counts
        as alive as long as receipts come, or messages that the broker may have sent before the next receipt.
        ``counted``: the broker limits un-acked messages by number, so it is known how many those may be.
        """
        acks = self._deliveries.acks
        deadline = acks.next_deadline
        if deadline is None:
            return
        if not counted or acks.receipt_is_behind(self._window):
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
        is_news = self._warned_at is None or now >= self._warned_at + _WARN_EVERY
        if not (self._warns and is_news) or now < self._since + _WARN_AFTER:
            return
        self._warned_at = now
        log.warning(
            "paused: %d bytes are held, all that maxBufferedBytes allows this receiver. More messages wait "
            "on the broker until %s. To hold more, raise maxBufferedBytes",
            self._deliveries.inbox.memory_bytes,
            "Spark has processed some of these"
            if self._options.journal is None
            else "the journal has taken these (see journalMaxBytes)",
        )

    def resume(self) -> None:
        """End the pause, if there is one: there is room, or the connection has ended."""
        if self._since is None:
            return
        self._since = None
        came, unread = self._resumed_at
        self._resumed_at = self._deliveries.counts.bytes, self._unread
        read = (self._resumed_at[0] - came) / self._buffer
        share = self._options.ack_receipt_timeout / _BUFFERS_PER_TIMEOUT
        self._counted_pauses += min(self._unread - unread, read * share)
        self._changed()

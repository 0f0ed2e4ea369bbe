"""The thread between receivers and journal. It makes frames durable; then they may be offered and ACKed.

Invariants:

- A frame is offered to Spark, and with ``ackAfter=journal`` ACKed, only after it is durable (contract J.1).
- A frame is deleted only after Spark has committed it, and after the broker has confirmed its ACK or its
  message key is durable in the journal. So a redelivered message is recognised (contract J.8 to J.11).
- At a bound, frames wait in the receivers until commits and receipts make room (contract J.12).
- Below the position ``acked`` that the journal has, each message has a confirmed ACK or a durable key. So the
  next run recognises each message that the broker may redeliver, however many wait for Spark.
- ``keep_from <= log.committed <= log.end``: the frames of the last committed batch are kept if there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_stomp.errors import JournalError, JournalFull, StompError
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log
from spark_stomp.receiver import Deliveries, Log
from spark_stomp.threads import Worker

log = get_log(__name__)

# Bytes taken from each receiver at once. What is taken from all receivers is made durable together: one sync
# for many frames, and not much memory.
_GROUP_BYTES = 4 << 20
# Seconds without a frame after which the journal is flushed.
_FLUSH_AFTER = 0.2
# Objects that are deleted together while there is room: keys are written before, and what is committed.
_TRIM_OBJECTS = 16

# After so many more confirmed ACKs the journal is told how far they are: a restart makes keys of all messages
# behind that.
_FLUSH_ACKS = 100_000


class JournalWriter:
    """Writes the frames of ``receivers`` into ``journal``, in its own thread.

    - ``messages``: the log of ``journal``, with the messages that earlier runs left there.
    - ``max_bytes``: the bound of the journal's size.
    - ``ack_when_durable``: ACK a message as soon as it is durable (``ackAfter=journal``).
    - ``changed``: called whenever more frames are durable, and when the thread ends.
    """

    def __init__(
        self,
        journal: Journal,
        messages: Log,
        receivers: Sequence[Deliveries],
        *,
        max_bytes: int,
        ack_when_durable: bool,
        changed: Callable[[], None],
    ) -> None:
        self.journal = journal
        self._receivers = receivers
        self.log = messages
        self._index = messages.index
        self._max_bytes = max_bytes
        self.ack_when_durable = ack_when_durable
        self._changed = changed
        self._keep_from = journal.committed_before
        if ack_when_durable:
            messages.permit_acks(messages.end)
        self._is_full = False
        self._flush_acks = journal.acked + _FLUSH_ACKS
        # The first step deletes whatever may go: the last run may have ended on a full disk.
        self._trim_objects = 1
        self._worker = Worker("stomp-journal", self._run, ended=self._ended, unexpected=JournalError)

    @property
    def failure(self) -> StompError | None:
        """The error that ended the writer."""
        return self._worker.failure

    @property
    def max_bytes(self) -> int:
        """How many bytes the journal may have."""
        return self._max_bytes

    @property
    def full(self) -> bool:
        """Whether frames wait because the journal has its largest size."""
        return self._is_full and self.unwritten > 0

    @property
    def unwritten(self) -> int:
        """How many frames were received and are not durable yet."""
        return sum(receiver.inbox.pending for receiver in self._receivers)

    def start(self) -> None:
        self._worker.start()

    def wake(self) -> None:
        """A receiver has new frames, or other news: let the thread look. May be called from any thread."""
        self._worker.wake()

    def commit(self, position: int) -> bool:
        """Spark has committed everything below ``position``. False if that was known already."""
        with self._index.lock:
            before = self.log.committed
            if not self.log.commit(position):
                return False
            # The frames of this batch are kept until the next commit if there is room.
            self._keep_from = before
            # The commit may have made room. The writer's thread will check that.
            self._is_full = False
        self._worker.wake()
        return True

    def stop(self, timeout: float) -> None:
        """Take no more frames, and close the journal, within ``timeout`` seconds.

        If the writer's thread takes longer, it closes the journal when it ends.
        """
        if self._worker.stop(timeout):
            self.journal.close()

    # Everything below runs in the writer's thread.

    def _run(self) -> None:
        try:
            while not self._worker.is_stopping:
                if not self.step() and not self._worker.wait(_FLUSH_AFTER):
                    self.journal.flush()
                    self._worker.wait()
            self.journal.commit(self.log.committed)
            self.journal.flush()
        except StompError as error:
            log.error("%s", error)
            if isinstance(error, JournalFull):
                self._make_room()
            raise

    def _ended(self) -> None:
        self._changed()
        if self._worker.is_stopping:
            self.journal.close()

    def _make_room(self) -> None:
        """The disk is full: before the query fails, Spark gets what is durable, and all of that is deleted.

        Otherwise each start would find a full disk again.
        """
        self._is_full = True
        try:
            while self._holds_anything() and not self._worker.is_stopping:
                self._worker.wait()
                self._trim(self.log.committed)
        except StompError as error:
            log.error("no room was made: %s", error)

    def step(self) -> bool:
        """Delete and write what is possible now. False if nothing was written.

        For the writer's thread only.
        """
        self._trim(self._keep_from, self._trim_objects)
        self._trim_objects = _TRIM_OBJECTS
        written = self._write()
        if written:
            self._changed()
        return written

    def _write(self) -> bool:
        """Make waiting frames durable. False if there were none, or if there was no room."""
        if self.unwritten and (linger := self.journal.linger):
            self._worker.sleep(linger)
        with_room = filter(self._has_room, self._receivers)
        taken = [(one, block) for one in with_room for block in one.pin_next(_GROUP_BYTES)]
        if not taken:
            return False
        positions = self.journal.append([block.batch for _, block in taken])
        for (one, block), position in zip(taken, positions, strict=True):
            one.journaled(block, position)
        if self.ack_when_durable:
            self.log.permit_acks(self.log.end)
        return True

    def _has_room(self, receiver: Deliveries) -> bool:
        if not receiver.inbox.pending:
            return False
        self._is_full = self._bound_is_reached()
        return not self._is_full

    def _bound_is_reached(self) -> bool:
        if not self._lacks_space():
            return False
        # Ask this before the trim: a commit or a receipt that comes after the trim makes room only in the
        # next step.
        more_may_go = self._holds_anything()
        self._trim(self.log.committed)
        # If no commit and no receipt can make room, one group is written, however small the bound is.
        return more_may_go and self._lacks_space()

    def _lacks_space(self) -> bool:
        return self.journal.size + _GROUP_BYTES > self._max_bytes

    def _holds_anything(self) -> bool:
        return self.log.committed < self.log.end or self.log.first_held is not None

    def _trim(self, upto: int, least: int = 1) -> None:
        """Delete committed frames below ``upto``, if their ACKs are confirmed or their keys are durable.

        They are deleted if that deletes ``least`` objects or more.
        """
        with self._index.lock:
            held, awaits_acks = self.log.first_held, self._index.awaits_acks
            owes_many = self._index.owes_many
        acked = self.log.end if held is None else held
        if owes_many and not self._lacks_space():
            # Newer keys would push theirs out of the journal before long, so their frames stay.
            acked, awaits_acks = self.journal.acked, False
        # Commits come while frames are gathered, too. The journal deletes only what it knows to be committed.
        self.journal.commit(self.log.committed, acked)
        upto = min(upto, acked)
        trims = self.journal.can_trim(upto, least)
        if awaits_acks or trims:
            self.journal.remember(self._index.take_unwritten())
        if acked >= self._flush_acks:
            self.journal.flush()
            self._flush_acks = acked + _FLUSH_ACKS
        if trims:
            self.journal.trim(upto)

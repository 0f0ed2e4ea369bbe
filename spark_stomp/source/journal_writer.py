"""The thread between receivers and journal. It makes frames durable; then they may be offered and ACKed.

Invariants:

- A frame is offered to Spark, and with ``ackAfter=journal`` ACKed, only after it is durable (contract 1).
- A frame is deleted only after Spark has committed it, and after the broker has confirmed its ACK or its
  message key is durable in the journal. So a redelivered message is recognised (contract 4).
- At a bound, frames wait in the receivers until commits and receipts make room (contract 5).
- The journal holds at most as many uncommitted frames as keys are remembered, plus one group. So the next run
  can recognise each of them on redelivery.
- ``keep_from <= committed <= journal.end``: the frames of the last committed batch are kept if there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from spark_stomp.errors import JournalError, StompError
from spark_stomp.frame_batch import FrameBatch
from spark_stomp.journal import Journal
from spark_stomp.logs import get_log, in_context
from spark_stomp.receiver import MAX_REMEMBERED, DedupIndex, Deliveries

log = get_log(__name__)

# Bytes taken from each receiver at once. What is taken from all receivers is made durable together. A
# judgement, not measured: one sync for many frames, and not much memory.
_GROUP_BYTES = 4 << 20
# Seconds without a frame after which the journal is flushed. A judgement, not measured.
_FLUSH_AFTER = 0.2
# Objects that are deleted together while there is room: keys are written before, and what is committed. A
# judgement, not measured.
_TRIM_OBJECTS = 16

Bound = Literal["journalMaxBytes", "dedup index"]
"""Why frames wait for room: the journal has reached its largest size, or it has as many uncommitted frames as
the dedup index can remember."""


class JournalWriter:
    """Writes the frames of ``receivers`` into ``journal``, in its own thread.

    - ``recovered``: the frames that earlier runs left in the journal.
    - ``index``: the dedup index of ``recovered`` and all ``receivers``.
    - ``max_bytes``, ``max_uncommitted``: bounds of the journal's size, and of its uncommitted frames.
    - ``ack_when_durable``: ACK a message as soon as it is durable (``ackAfter=journal``).
    - ``changed``: called whenever more frames are durable, and when the thread ends.
    """

    def __init__(
        self,
        journal: Journal,
        recovered: Deliveries,
        receivers: Sequence[Deliveries],
        index: DedupIndex,
        *,
        max_bytes: int,
        max_uncommitted: int = MAX_REMEMBERED,
        ack_when_durable: bool,
        changed: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._receivers = receivers
        self._all = (recovered, *receivers)
        self._index = index
        self._max_bytes = max_bytes
        self._max_uncommitted = max_uncommitted
        self._ack_when_durable = ack_when_durable
        self._changed = changed
        # Held to change one of the next two attributes. Reading one needs no lock.
        self._lock = threading.Lock()
        self._committed, self._keep_from = journal.committed, journal.committed_before
        if ack_when_durable:
            recovered.permit_acks()
        self._bound: Bound | None = None
        # The first step deletes whatever may go: the last run may have ended on a full disk.
        self._trim_objects = 1
        self._failure: StompError | None = None
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=in_context(self._run), name="stomp-journal", daemon=True)

    @property
    def failure(self) -> StompError | None:
        """The error that ended the writer."""
        return self._failure

    @property
    def acks_when_durable(self) -> bool:
        """Whether messages are ACKed as soon as they are durable (``ackAfter=journal``)."""
        return self._ack_when_durable

    @property
    def most_uncommitted(self) -> tuple[int, int]:
        """How many messages and bytes of the journal may wait for Spark's commit."""
        return self._max_uncommitted, self._max_bytes

    @property
    def full(self) -> bool:
        """Whether frames wait because the journal is at a bound."""
        return self.full_because is not None

    @property
    def full_because(self) -> Bound | None:
        """The bound that makes frames wait; None if none wait for room."""
        return self._bound if self.unwritten else None

    @property
    def committed(self) -> int:
        """Everything below this position is committed."""
        return self._committed

    @property
    def unwritten(self) -> int:
        """How many frames were received and are not durable yet."""
        return sum(receiver.unwritten for receiver in self._receivers)

    def has_written(self, received: Mapping[str, int]) -> bool:
        """Whether the frames below ``received``, sequence numbers by epoch, are durable or were discarded."""
        return all(
            one.durable >= min(received.get(one.epoch, 0), one.frames.received) for one in self._receivers
        )

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """A receiver has new frames, or other news: let the thread look. May be called from any thread."""
        self._work.set()

    def commit(self, position: int) -> bool:
        """Spark has committed everything below ``position``. False if that was known already."""
        with self._lock:
            if position <= self._committed:
                return False
            # The frames of this batch are kept until the next commit if there is room.
            self._keep_from, self._committed = self._committed, position
            # The commit may have made room. The writer's thread will check that.
            self._bound = None
        # Only after the mark was set. The writer's thread reports frames and then reads the mark; this thread
        # sets the mark and then reports the commit. So one of the two sees frames that come meanwhile.
        # Nothing is deleted too early: frames that are not freed are not trimmed, and keys are written first.
        for one in self._all:
            one.commit_position(position)
        self._work.set()
        return True

    def stop(self, timeout: float) -> None:
        """Take no more frames, and close the journal, within ``timeout`` seconds.

        If the writer's thread takes longer, it closes the journal when it ends.
        """
        self._stopping.set()
        self._work.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if not self._thread.is_alive():
            self._journal.close()

    # Everything below runs in the writer's thread.

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._work.clear()
                if not self.step() and not self._work.wait(_FLUSH_AFTER):
                    self._journal.flush()
                    self._work.wait()
            self._journal.commit(self._committed)
            self._journal.flush()
        except StompError as error:
            self._failure = error
            log.error("%s", error)
        except Exception as error:
            # If the thread died in silence, it would look like an empty queue.
            self._failure = JournalError(f"the journal's writer failed unexpectedly: {error!r}")
            log.exception("the journal's writer failed unexpectedly")
        finally:
            self._changed()
            if self._stopping.is_set():
                self._journal.close()

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
        if self.unwritten and (linger := self._journal.linger):
            self._stopping.wait(linger)
        taken = [(one, batch) for one in self._receivers for batch in self._taken(one)]
        if not taken:
            return False
        positions = self._journal.append([batch for _, batch in taken])
        for (one, batch), position in zip(taken, positions, strict=True):
            one.journaled(batch, position)
            if self._ack_when_durable:
                one.commit(batch.end)
            elif position < self._committed:
                # Spark has already read and committed frames of this append.
                one.commit_position(self._committed)
        return True

    def _taken(self, receiver: Deliveries) -> list[FrameBatch]:
        return receiver.take(_GROUP_BYTES) if self._has_room(receiver) else []

    def _has_room(self, receiver: Deliveries) -> bool:
        if not receiver.unwritten:
            return False
        self._bound = self._bound_reached()
        return self._bound is None

    def _bound_reached(self) -> Bound | None:
        if self._journal.end - self._committed >= self._max_uncommitted:
            return "dedup index"
        if not self._lacks_space():
            return None
        # Ask this before the trim: a commit or a receipt that comes after the trim makes room only in the
        # next step.
        more_may_go = self._holds_anything()
        self._trim(self._committed)
        # If no commit and no receipt can make room, one group is written, however small the bound is.
        return "journalMaxBytes" if more_may_go and self._lacks_space() else None

    def _lacks_space(self) -> bool:
        return self._journal.size + _GROUP_BYTES > self._max_bytes

    def _holds_anything(self) -> bool:
        return self._committed < self._journal.end or any(
            one.oldest_position is not None for one in self._all
        )

    def _trim(self, upto: int, least: int = 1) -> None:
        """Delete committed frames below ``upto``, if their ACKs are confirmed or their keys are durable.

        They are deleted if that deletes ``least`` objects or more.
        """
        unconfirmed = [position for one in self._all if (position := one.oldest_position) is not None]
        acked = min(unconfirmed, default=self._journal.end)
        # Commits come while frames are gathered, too. The journal deletes only what it knows to be committed.
        self._journal.commit(self._committed, acked)
        upto = min(upto, acked)
        if self._journal.can_trim(upto, least):
            self._journal.remember(self._index.take_unwritten())
            self._journal.trim(upto)

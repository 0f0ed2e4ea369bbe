"""The thread between receivers and journal: log first, then offer, then acknowledge.

Invariants:

- A frame is offered to Spark, and with ``ackAfter=journal`` ACKed, only once it is durable (contract 1).
- What Spark has not committed is not deleted, and what was deleted is either confirmed by the broker as ACKed
  or its key is durable in the journal, so that a redelivery is known again (contract 4).
- At ``journalMaxBytes`` frames wait in the receivers' windows. Nothing is waited for that needs room itself:
  what is in the journal can be read, committed and deleted (contract 5).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from spark_stomp.errors import JournalError, StompError
from spark_stomp.framebatch import FrameBatch
from spark_stomp.journal.api import Journal
from spark_stomp.receiver import DedupIndex, Deliveries

__all__ = ["JournalWriter"]

log = logging.getLogger(__name__)

# Taken from one receiver at a time, and made durable together with what the others have.
_GROUP_BYTES = 4 << 20
# After so many seconds without a frame, what need not be durable at once becomes so.
_REST = 0.2


class JournalWriter:
    """Writes what receivers hold into ``journal``. ``recovered`` holds what earlier runs left there, and all
    share ``book``. ``changed`` is called whenever more is durable.
    """

    def __init__(
        self,
        journal: Journal,
        recovered: Deliveries,
        book: DedupIndex,
        *,
        max_bytes: int,
        ack_when_durable: bool,
        changed: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._receivers: Sequence[Deliveries] = ()
        self._all: Sequence[Deliveries] = (recovered,)
        self._book = book
        self._max_bytes = max_bytes
        self._ack_when_durable = ack_when_durable
        self._changed = changed
        self._committed = self._keep_from = journal.committed
        self._full = False
        self._failure: StompError | None = None
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stomp-journal", daemon=True)

    @property
    def failure(self) -> StompError | None:
        """What ended the writer."""
        return self._failure

    @property
    def full(self) -> bool:
        """Whether frames wait because the journal is at its bound."""
        return self._full and self.waiting > 0

    @property
    def waiting(self) -> int:
        """How many frames were received and are not durable yet."""
        return sum(receiver.waiting for receiver in self._receivers)

    def start(self, receivers: Sequence[Deliveries]) -> None:
        """Begin to write what these hold."""
        self._receivers = receivers
        self._all = (*self._all, *receivers)
        self._thread.start()

    def wake(self) -> None:
        """A receiver has frames."""
        self._work.set()

    def commit(self, position: int) -> bool:
        """Spark has committed everything below ``position``; False where that was known."""
        if position <= self._committed:
            return False
        for one in self._all:
            one.commit(one.window.below(position))
        # Only now: what is deleted must have left its keys behind. And what the batch before held is kept for
        # one batch more, where there is room.
        self._keep_from, self._committed = self._committed, position
        self._work.set()
        return True

    def stop(self, timeout: float) -> None:
        """Write nothing more; what is durable stays. The journal is closed, after ``timeout`` seconds by the
        writer's thread once it ends."""
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
                self._step()
            self._journal.commit(self._committed)
            self._journal.flush()
        except StompError as error:
            self._failure = error
            log.error("%s", error)
        except Exception as error:
            # A thread that dies in silence would look like an empty queue for ever.
            self._failure = JournalError(f"the journal's writer failed unexpectedly: {error!r}")
            log.exception("the journal's writer failed unexpectedly")
        finally:
            self._changed()
            if self._stopping.is_set():
                self._journal.close()

    def _step(self) -> None:
        if not self._step_once() and not self._work.wait(_REST):
            self._journal.flush()
            self._work.wait()

    def _step_once(self) -> bool:
        """All that can be done now; False where that was no writing."""
        self._journal.commit(self._committed)
        self._trim(self._keep_from)
        written = self._write()
        if written:
            self._changed()
        return written

    def _write(self) -> bool:
        """Make durable what has come; False where there was nothing to do, or no room."""
        if self.waiting and self._journal.linger:
            self._stopping.wait(self._journal.linger)
        taken = [(one, run) for one in self._receivers for run in self._taken(one)]
        if not taken:
            return False
        positions = self._journal.append([run for _, run in taken])
        for (one, run), position in zip(taken, positions, strict=True):
            one.journaled(run, position)
            if self._ack_when_durable:
                one.commit(run.end)
            elif position < self._committed:
                # Spark was quicker than this loop.
                one.commit(one.window.below(self._committed))
        return True

    def _taken(self, receiver: Deliveries) -> list[FrameBatch]:
        if not self._has_room(receiver):
            return []
        return receiver.take(_GROUP_BYTES)

    def _has_room(self, receiver: Deliveries) -> bool:
        if not receiver.waiting:
            return False
        if self._journal.size + _GROUP_BYTES > self._max_bytes:
            self._trim(self._committed)
        # However small the bound, one group goes where no commit and no receipt could make room.
        self._full = self._journal.size + _GROUP_BYTES > self._max_bytes and self._holds_anything()
        return not self._full

    def _holds_anything(self) -> bool:
        return self._committed < self._journal.end or any(
            one.window.oldest_position is not None for one in self._all
        )

    def _trim(self, upto: int) -> None:
        """Delete what is committed, and confirmed as ACKed or known by its key."""
        for one in self._all:
            unconfirmed = one.window.oldest_position
            upto = upto if unconfirmed is None else min(upto, unconfirmed)
        if upto > self._journal.first:
            self._journal.remember(self._book.take_unsaved())
            self._journal.trim(upto)

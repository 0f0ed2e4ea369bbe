"""What proves that a batch is committed, and what turns proof into ACKs (contract 1).

Four kinds of evidence exist: ``commit(end)``; the ``start`` of ``latestOffset(start, limit)``; on Spark 4.0
and 4.1, which pass no start, a ``latestOffset()`` that follows ``partitions(_, end)``; and the query's own
checkpoint, if ``checkpointLocation`` is set. Then it alone counts, because the others run ahead of the commit
log under asynchronous progress tracking. ``stop()`` proves nothing.

A listing of an object store may take seconds, and on a network that is gone it does not end at all. So one
thread looks into the checkpoint, and nobody else waits for a file system (contract 1.5). Spark's calls ask it
for a look and wait for that as long as they like; a task's read does not ask, and the end of the query waits
for a moment only.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from spark_stomp.errors import (
    CheckpointMismatch,
    CheckpointUnreadable,
    DeliveryError,
    StompError,
    UnsupportedError,
)
from spark_stomp.frameserver import FrameServer, RangeTicket
from spark_stomp.logs import get_log, in_context
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.offsets import Offset

log = get_log(__name__)

# Seconds between two looks.
_PAUSE = 0.1
_ASK_AGAIN = 0.1
# Between two looks at a store, where each costs a request.
_LONGEST_PAUSE = 2.0
_NO_EVIDENCE_AFTER = 10.0
_OFFSET_LOG_WAIT = 5.0
_UNREADABLE_AT_MOST = 60.0

OnCommitted = Callable[[Offset], None]


class CommitEvidence:
    """Collects evidence and names the newest committed offset; pure.

    ``call_evidence`` is False if ``checkpointLocation`` is set. ``on_committed`` is called with every offset
    newly known to be committed.
    """

    def __init__(self, on_committed: OnCommitted, *, call_evidence: bool) -> None:
        self._on_committed = on_committed
        self._call_evidence = call_evidence
        self._planned: list[Offset] = []
        self._uncommitted_plan: Offset | None = None

    def planned(self, end: Offset) -> None:
        """``partitions(_, end)`` was called: a batch up to ``end`` is in the offset log, or will be."""
        self._uncommitted_plan = end
        if end not in self._planned:
            self._planned.append(end)

    def nothing_planned(self, end: Offset) -> None:
        """``partitions(end, end)`` was called: on 4.0 and 4.1 the first call after a restart.

        By itself it proves nothing, but if ``latestOffset()`` is next, ``end`` is committed. Of an earlier
        run's messages a journal holds some.
        """
        self._uncommitted_plan = end

    def commit_called(self, end: Offset) -> None:
        """``commit(end)``."""
        if self._call_evidence:
            self._committed(end)

    def latest_offset_called(self, start: Offset | None) -> None:
        """``latestOffset(start, limit)``, or ``latestOffset()`` with ``start`` None on 4.0 and 4.1.

        Without a start, the last planned batch is committed: Spark asks for the next offset only after the
        batch is in the commit log.
        """
        if not self._call_evidence:
            return
        if start is not None:
            self._committed(start)
        elif self._uncommitted_plan is not None:
            self._committed(self._uncommitted_plan)

    def checkpoint_committed(self, end: Offset) -> None:
        """``commits/N`` exists and ``offsets/N`` holds ``end``."""
        self._committed(end)

    def unproved(self) -> list[Offset]:
        """Planned ends without evidence of a commit, oldest first."""
        return list(self._planned)

    def _committed(self, end: Offset) -> None:
        self._uncommitted_plan = None
        if end in self._planned:
            del self._planned[: self._planned.index(end) + 1]
        self._on_committed(end)


class CommitWatch:
    """Calls ``check`` in a thread of its own: now and then, at once when asked, and once more at the end.

    The pause between two looks is 0.1 s. While nobody asks it doubles, up to ``longest_pause`` seconds. The
    first exception of ``check`` ends the thread and becomes ``failure``. The thread is a daemon, which an
    executor's is not: a look that hangs must not keep the process alive.
    """

    def __init__(self, check: Callable[[], None], *, longest_pause: float = 0.0) -> None:
        self._check = check
        self._longest_pause = max(_PAUSE, longest_pause)
        self._asked: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._over = False
        self.failure: StompError | None = None
        self._thread = threading.Thread(
            target=in_context(self._run), name="stomp-commit-watcher", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> threading.Event:
        """Look at once, and often for a while. The event is set after a look that begins after this call."""
        looked = threading.Event()
        self._asked.put(looked)
        return looked

    def look_now(self, timeout: float) -> bool:
        """Wait for a look that begins after this call. False if it did not end within ``timeout`` seconds;
        True also if there are no more looks."""
        looked = self.ask()
        return self._over or self._stopping.is_set() or looked.wait(timeout)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the end."""
        self._stopping.wait(seconds)

    def stop(self, timeout: float) -> bool:
        """Look once more, and end. False if the thread did not end within ``timeout`` seconds."""
        self._stopping.set()
        self.ask()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # Everything below runs in the thread.

    def _run(self) -> None:
        pause, stopping = _PAUSE, False
        asked: list[threading.Event] = []
        try:
            while not stopping:
                asked = self._await_turn(pause)
                pause = _PAUSE if asked else min(pause * 2, self._longest_pause)
                stopping = self._stopping.is_set()
                self._check()
                _answer(asked)
        except StompError as error:
            self.failure = error
        except Exception as error:
            # A thread that dies in silence would leave messages without their ACK while no call comes.
            self.failure = DeliveryError(f"watching for commits failed unexpectedly: {error!r}")
            log.exception("watching for commits failed unexpectedly")
        finally:
            # In this order: who asks later sees that it is over.
            self._over = True
            _answer([*asked, *self._await_turn(0.0)])

    def _await_turn(self, pause: float) -> list[threading.Event]:
        """Wait for the next look; returns what asked for it."""
        asked = []
        with suppress(queue.Empty):
            asked.append(self._asked.get(timeout=pause))
            while True:
                asked.append(self._asked.get_nowait())
        return asked


def _answer(asked: list[threading.Event]) -> None:
    for looked in asked:
        looked.set()


class Committer:
    """Takes evidence from Spark's calls and from the checkpoint, and calls ``on_committed``.

    A thread watches the checkpoint, because no call brings evidence after the only batch of Trigger.Once, or
    between the batches of a long trigger interval. Nobody else looks for commits, and its lock is never held
    while a file is read. ``epochs`` are those of this run; ``frame_server`` tells when tasks have read a
    batch; ``acks_wait``: ACKs wait for the commit, so late evidence is worth a warning.
    """

    def __init__(
        self,
        on_committed: OnCommitted,
        epochs: frozenset[str],
        frame_server: FrameServer,
        checkpoint: Checkpoint | None,
        *,
        acks_wait: bool = True,
    ) -> None:
        self._epochs = epochs
        self._frame_server = frame_server
        self._acks_wait = acks_wait
        self._checkpoint = checkpoint
        self._on_committed = on_committed
        self._proved: list[Offset] = []
        self._evidence = CommitEvidence(self._proved.append, call_evidence=checkpoint is None)
        # Around the evidence: Spark's thread, the watcher and the status file use it.
        self._lock = threading.Lock()
        self._found_logged = False
        self._warned = False
        self._ended = False
        self._unreadable_since: float | None = None
        costly = checkpoint is not None and not checkpoint.on_local_disk
        self._watch = CommitWatch(self._check, longest_pause=_LONGEST_PAUSE if costly else 0.0)

    def start(self) -> None:
        self._watch.start()

    @property
    def failure(self) -> StompError | None:
        """The error that ended the watcher."""
        return self._watch.failure

    @property
    def ended_within_batch(self) -> bool:
        """Whether the run is over, and the checkpoint does not show its last batch as committed. False if no
        checkpoint is known: without one the commit of the last batch may never be told."""
        with self._lock:
            return self._ended and self._checkpoint is not None and bool(self._evidence.unproved())

    # --- what Spark calls

    def planned(self, end: Offset, tickets: list[RangeTicket]) -> None:
        """A batch up to ``end`` was planned and consists of ``tickets``.

        If ``checkpointLocation`` is set and its offset log does not hold ``end``, ACKs would wait for
        evidence that never comes. Then this raises UnsupportedError if the log is this query's, else
        CheckpointMismatch; CheckpointUnreadable if it cannot be read.
        """
        if self._checkpoint is not None:
            self._await_offset_log(self._checkpoint, end)
        # First, so that an earlier batch that was read is not taken for this one.
        self._frame_server.expect(tickets)
        with self._lock:
            self._evidence.planned(end)
        self._watch.ask()

    def nothing_planned(self, end: Offset) -> None:
        with self._lock:
            self._evidence.nothing_planned(end)

    def commit_called(self, end: Offset) -> None:
        with self._lock:
            self._evidence.commit_called(end)
        self._commit_proved()

    def latest_offset_called(self, start: Offset | None) -> None:
        """Also waits for a look into the checkpoint, since the last batch is in its commit log by now. Raises
        CheckpointUnreadable if the checkpoint does not answer for a minute."""
        with self._lock:
            self._evidence.latest_offset_called(start)
        self._commit_proved()
        checkpoint = self._checkpoint
        if checkpoint is None or not self._unproved():
            return
        if not self._watch.look_now(_UNREADABLE_AT_MOST):
            raise CheckpointUnreadable(
                f"checkpointLocation {checkpoint.location} did not answer for {_UNREADABLE_AT_MOST:g}s"
            )

    def began_at(self, start: Offset) -> None:
        """The run begins at ``start``. If the checkpoint shows it as committed, so are the messages before
        it: a journal may hold some whose ACKs the broker never saw."""
        if self._checkpoint is not None and self._checkpoint.last_commit_holds(start):
            with self._lock:
                self._evidence.checkpoint_committed(start)
            self._commit_proved()

    def fence(self, epochs: set[str]) -> None:
        """``epochs`` of another reader are about to be planned as lost: bar it from ACKing them."""
        if self._checkpoint is not None and epochs:
            self._checkpoint.fence(sorted(epochs))

    def stop(self, timeout: float) -> None:
        """Read the checkpoint once more, for ``timeout`` seconds at most, and warn of what stays un-acked."""
        failed_before = self.failure is not None
        if not self._watch.stop(timeout):
            log.warning("the checkpoint did not answer within %gs at the end of the query", timeout)
        elif self.failure is not None and not failed_before:
            log.warning("the checkpoint could not be read at the end: %s", self.failure)
        with self._lock:
            self._ended = True
            if self._evidence.unproved():
                self._warn_once("the query ends, and for its last batch")

    def _commit_proved(self) -> None:
        # Without the lock, since it wakes receivers. Spark's thread may come here while the watcher does: to
        # be told of an older end after a newer one changes nothing.
        with self._lock:
            proved = list(self._proved)
            self._proved.clear()
        for end in proved:
            self._on_committed(end)

    def _unproved(self) -> list[Offset]:
        with self._lock:
            return self._evidence.unproved()

    # --- the checkpoint, when a batch is planned

    def _await_offset_log(self, checkpoint: Checkpoint, end: Offset) -> None:
        # Spark writes the offset log before it plans, except under asynchronous progress tracking, which
        # writes it at about the same time, or not at all.
        problem: StompError | None = None
        deadline = time.monotonic() + _OFFSET_LOG_WAIT
        while time.monotonic() < deadline:
            try:
                if checkpoint.holds(end):
                    self._found_logged = True
                    return
                problem = None
            except CheckpointUnreadable as error:
                problem = error
            self._watch.pause(_ASK_AGAIN)
        raise problem or self._not_logged(checkpoint.location)

    def _not_logged(self, location: str) -> StompError:
        """Why the offset log does not hold a batch that Spark has planned."""
        if self._found_logged:
            return UnsupportedError(
                f"Spark left a batch out of the offset log under {location}, as it does under asynchronous "
                "progress tracking: nothing there would prove its commit, so its messages would never be "
                "ACKed. Set asyncProgressTrackingCheckpointIntervalMs=0 (an option of writeStream), so that "
                "Spark logs every batch, or set asyncProgressTrackingEnabled=false"
            )
        return CheckpointMismatch(
            f"the offset log under checkpointLocation {location} does not hold the batch "
            "that Spark just planned: name there the checkpointLocation of this very query "
            "(the option given to writeStream)"
        )

    # --- the watcher's thread

    def _check(self) -> None:
        """Look for evidence; cheap if no batch waits for it.

        Retries file-system errors for one minute, then fails the query.
        """
        if self._checkpoint is None:
            self._warn_if_evidence_is_late()
            return
        if not self._unproved():
            return
        try:
            self._examine(self._checkpoint)
            self._unreadable_since = None
        except CheckpointUnreadable as error:
            self._raise_or_log(error)

    def _examine(self, checkpoint: Checkpoint) -> None:
        # The order matters: first list the commits, then take the ends that could be among them, then look
        # for the fence. A reader that plans our epochs as lost writes the fence before it can commit anything
        # of its own.
        commits = checkpoint.new_commits()
        if not commits:
            return
        end = checkpoint.committed_end(commits, self._unproved())
        if end is None:
            return
        if checkpoint.fenced(self._epochs):
            raise CheckpointMismatch(
                "another run of this query has taken over the checkpoint; this one ACKs nothing any more"
            )
        with self._lock:
            # Not if the query has ended without this look: its receivers are gone.
            if not self._ended:
                self._evidence.checkpoint_committed(end)
        self._commit_proved()

    def _raise_or_log(self, error: CheckpointUnreadable) -> None:
        now = time.monotonic()
        if self._unreadable_since is None:
            self._unreadable_since = now
            log.warning("%s; trying again", error)
        elif now - self._unreadable_since >= _UNREADABLE_AT_MOST:
            raise error

    def _warn_if_evidence_is_late(self) -> None:
        with self._lock:
            # Asked under the lock: the frame server expects a batch before it counts as planned here, so an
            # earlier batch that was read is not taken for it.
            read_at = self._frame_server.read_at
            if read_at is None or time.monotonic() - read_at < _NO_EVIDENCE_AFTER:
                return
            if self._evidence.unproved():
                self._warn_once(f"a batch was read {_NO_EVIDENCE_AFTER:g}s ago, and for it")

    def _warn_once(self, occasion: str) -> None:
        if self._warned or not self._acks_wait:
            return
        self._warned = True
        advice = (
            "Setting the source option checkpointLocation to the query's own checkpoint lets them be ACKed "
            "as soon as Spark's commit log has the batch"
            if self._checkpoint is None
            else "Spark's commit log does not have the batch yet"
        )
        log.warning(
            "%s there is no evidence of a commit, so its messages are not ACKed: if none comes, the broker "
            "delivers them again. %s",
            occasion,
            advice,
        )

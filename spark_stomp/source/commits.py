"""Commits: what proves that Spark has committed a batch, and what turns that proof into ACKs (contract 1).

Goals, the most important first:

1. No ACK without proof: the broker would delete messages that no sink has.
2. ACK soon after the commit, even if Spark calls nothing more, as after the only batch of Trigger.Once, and
   between batches with a long trigger interval.
3. A slow file system delays only what needs its answer. A listing of an object store takes seconds, and
   without a network it never ends.

Plan. :class:`CommitEvidence` is pure: calls go in, what they prove comes out. Three calls are evidence:
``commit(end)``; the ``start`` of ``latestOffset(start, limit)``; and on Spark 4.0 and 4.1, which pass no
start, a ``latestOffset()`` that follows ``partitions(_, end)``. If ``checkpointLocation`` is set, only the
commit log there is evidence: under asynchronous progress tracking the calls come before the commit.
:class:`CommitWatch` is the one thread that looks into the commit log. :class:`Committer` takes both kinds of
evidence. Spark's calls ask the thread to look, and wait for it. Tasks never ask. The end of the query
waits two seconds at most.

Invariants. Planning proves nothing, nor does ``stop()``. Evidence for a batch also proves the batches before
it, and none after it. No lock is held while a file is read or a receiver is woken.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from spark_stomp.deadline import Deadline
from spark_stomp.errors import (
    CheckpointMismatch,
    CheckpointUnreadable,
    StompError,
    UnsupportedError,
)
from spark_stomp.frameserver import FrameServer, RangeTicket
from spark_stomp.logs import Once, get_log
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import ONE_BATCH
from spark_stomp.threads import Worker

log = get_log(__name__)

# Seconds.
_PAUSE = 0.1  # between two looks into the commit log
_ASK_AGAIN = 0.1  # between two looks for a planned batch in the offset log
_LONGEST_PAUSE = 2.0  # between two looks into a store, where each costs a request (contract 1.5)
_NO_EVIDENCE_AFTER = 10.0  # from the end of reading a batch to the warning that no commit came (contract 1.9)
_OFFSET_LOG_WAIT = 5.0  # until a planned batch must be in the offset log
_UNREADABLE_AT_MOST = 60.0  # until a checkpoint that does not answer fails the query (contract 1.8)

OnCommitted = Callable[[Offset], None]


class CommitEvidence:
    """Collects evidence. Methods return the offset that is proved to be committed; None if none is.

    ``call_evidence``: whether Spark's calls are evidence; False if ``checkpointLocation`` is set.
    """

    def __init__(self, *, call_evidence: bool) -> None:
        self._call_evidence = call_evidence
        self._planned: list[Offset] = []

    def planned(self, end: Offset) -> None:
        """``partitions(_, end)`` was called: a batch up to ``end`` is in the offset log, or will be."""
        if end not in self._planned:
            self._planned.append(end)

    def commit_called(self, end: Offset) -> Offset | None:
        """``commit(end)`` was called: the batch up to ``end`` is committed."""
        return self.committed(end) if self._call_evidence else None

    def latest_offset_called(self, start: Offset | None) -> Offset | None:
        """``latestOffset`` was called: ``start`` is committed, unless it is None."""
        return self.committed(start) if start is not None and self._call_evidence else None

    def unproved(self) -> list[Offset]:
        """The ends that were planned and are not proved to be committed, oldest first."""
        return list(self._planned)

    def committed(self, end: Offset) -> Offset:
        """``end`` is committed, by a call or because the checkpoint has ``commits/N``; returns ``end``."""
        if end in self._planned:
            del self._planned[: self._planned.index(end) + 1]
        return end


class CommitWatch:
    """Calls ``check`` in its own thread: several times a second, when asked, and once more at the end.

    The pause between two calls is 0.1 s. While nobody asks it doubles, up to ``longest_pause`` seconds. The
    first exception of ``check`` ends the thread, sets ``failure`` and calls ``on_failure``.
    """

    def __init__(
        self,
        check: Callable[[], None],
        *,
        longest_pause: float = 0.0,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._on_failure = on_failure
        self._longest_pause = max(_PAUSE, longest_pause)
        self._asked: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._asking: list[threading.Event] = []  # those that the present look answers
        self._over = False
        self._worker = Worker("stomp-commit-watcher", self._run, ended=self._on_end)

    def start(self) -> None:
        self._worker.start()

    @property
    def failure(self) -> StompError | None:
        """The error that ended the thread."""
        return self._worker.failure

    def ask(self) -> threading.Event:
        """Ask for a look at once. Returns an event, set after the first look that begins after this call."""
        looked = threading.Event()
        self._asked.put(looked)
        return looked

    def look_now(self, timeout: float) -> bool:
        """Wait for a look that begins after this call. False if it did not end within ``timeout`` seconds.

        True also if the thread is stopping or has ended.
        """
        looked = self.ask()
        return self._over or self._worker.is_stopping or looked.wait(timeout)

    def stop(self, timeout: float) -> bool:
        """Look once more, then end the thread. False if it did not end within ``timeout`` seconds."""
        self._worker.stop(0.0)
        self.ask()
        return self._worker.stop(timeout)

    # Everything below runs in the thread.

    def _run(self) -> None:
        pause, stopping = _PAUSE, False
        while not stopping:
            self._asking = self._await_turn(pause)
            pause = _PAUSE if self._asking else min(pause * 2, self._longest_pause)
            stopping = self._worker.is_stopping
            self._check()
            _answer(self._asking)

    def _on_end(self) -> None:
        # First ``_over``, then the answers: a caller who asks too late for an answer sees ``_over``.
        self._over = True
        _answer([*self._asking, *self._await_turn(0.0)])
        if self.failure is not None:
            self._on_failure()

    def _await_turn(self, pause: float) -> list[threading.Event]:
        """Wait ``pause`` seconds, or until a look is asked for. Returns the events of those who asked."""
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
    """Takes evidence from Spark's calls and from the checkpoint. Calls ``on_committed`` with what it proves.

    - ``logs``: the ids of the logs of this run. A fence file that names one of them bars it from ACKing.
    - ``frame_server``: knows when the tasks have read a batch.
    - ``checkpoint``: the query's own, or None if ``checkpointLocation`` is not set.
    - ``acks_wait``: whether ACKs wait for the commit. Only then is missing evidence worth a warning.
    - ``on_failure``: called when ``failure`` was set.

    Attributes:
        batch: the number of the last planned batch; None if the checkpoint does not say it.
    """

    def __init__(
        self,
        on_committed: OnCommitted,
        logs: frozenset[str],
        frame_server: FrameServer,
        checkpoint: Checkpoint | None,
        *,
        acks_wait: bool = True,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._logs = logs
        self._frame_server = frame_server
        self._acks_wait = acks_wait
        self._checkpoint = checkpoint
        self._on_committed = on_committed
        self._evidence = CommitEvidence(call_evidence=checkpoint is None)
        # Protects the evidence: Spark's thread, the watcher and the status writer use it.
        self._lock = threading.Lock()
        self.batch: int | None = None
        self._found_logged = False
        self._once = Once(log)
        self._ended = False
        self._unreadable_since: float | None = None
        costly = checkpoint is not None and not checkpoint.on_local_disk
        self._watch = CommitWatch(
            self._check, longest_pause=_LONGEST_PAUSE if costly else 0.0, on_failure=on_failure
        )

    def start(self) -> None:
        self._watch.start()

    @property
    def failure(self) -> StompError | None:
        """The error that ended the watcher."""
        return self._watch.failure

    @property
    def ended_within_batch(self) -> bool:
        """Whether the run is over, and its last batch is not proved to be committed.

        False if there is no checkpoint and no ACK that waits: then nobody misses the proof.
        """
        with self._lock:
            missed = self._checkpoint is not None or self._acks_wait
            return self._ended and missed and bool(self._evidence.unproved())

    @property
    def is_proved(self) -> bool:
        """Whether all planned batches are proved to be committed."""
        return not self._unproved()

    # --- what Spark calls

    def planned(self, end: Offset, tickets: list[RangeTicket]) -> None:
        """A batch up to ``end`` was planned. Its tasks read ``tickets``.

        If ``checkpointLocation`` is set, its offset log must hold ``end``: otherwise ACKs would wait for
        evidence that never comes. Raises UnsupportedError if the log is this query's and leaves batches out,
        CheckpointMismatch if it is another query's, CheckpointUnreadable if it cannot be read.
        """
        if self._checkpoint is not None:
            self._await_offset_log(self._checkpoint, end)
        # First, so that the time at which an earlier batch was read is not taken for this one's.
        self._frame_server.expect(tickets)
        with self._lock:
            self._evidence.planned(end)
        self._watch.ask()

    def commit_called(self, end: Offset) -> None:
        """``commit(end)`` was called."""
        with self._lock:
            proved = self._evidence.commit_called(end)
        self._report(proved)

    def latest_offset_called(self, start: Offset | None) -> None:
        """``latestOffset`` was called, and shows that ``start`` is committed; None if it shows nothing.

        With ``checkpointLocation`` it waits for a look into the commit log, which has the last batch by now.
        Raises CheckpointUnreadable if the checkpoint does not answer for a minute.
        """
        with self._lock:
            proved = self._evidence.latest_offset_called(start)
        self._report(proved)
        checkpoint = self._checkpoint
        if checkpoint is None or not self._unproved():
            return
        if not self._watch.look_now(_UNREADABLE_AT_MOST):
            raise CheckpointUnreadable(
                f"checkpointLocation {checkpoint.location} did not answer for {_UNREADABLE_AT_MOST:g}s"
            )

    def began_at(self, start: Offset) -> None:
        """The run begins at ``start``. If the checkpoint shows ``start`` as committed, report it.

        A journal may hold messages before ``start`` whose ACKs never reached the broker.
        """
        if self._checkpoint is not None and self._checkpoint.last_commit_holds(start):
            with self._lock:
                proved = self._evidence.committed(start)
            self._report(proved)

    def fence(self, logs: set[str]) -> None:
        """Bar another reader from ACKing ``logs``, because they are about to be planned as lost."""
        if self._checkpoint is not None and logs:
            self._checkpoint.fence(sorted(logs))

    def warn_if_unprovable(self) -> None:
        """A batch was cut that may be the only one of its run. Warn if nothing would prove its commit.

        At the end of the run it is too late: Spark then reads nothing more that this process writes.
        """
        with self._lock:
            if self._checkpoint is None:
                self._warn_of_no_evidence(f"if this batch is the only one of its run ({ONE_BATCH}),")

    def stop(self, timeout: float) -> None:
        """Look for commits once more, for ``timeout`` seconds at most. Warn if a batch stays un-acked."""
        failed_before = self.failure is not None
        if not self._watch.stop(timeout):
            log.warning("the checkpoint did not answer within %gs at the end of the query", timeout)
        elif self.failure is not None and not failed_before:
            log.warning("the checkpoint could not be read at the end: %s", self.failure)
        with self._lock:
            self._ended = True
            if self._evidence.unproved():
                self._warn_of_no_evidence("the query ends, and for its last batch")

    def _report(self, proved: Offset | None) -> None:
        # The lock is not held while receivers are woken. So Spark's thread and the watcher may report at the
        # same time. An older end that is reported after a newer one changes nothing.
        if proved is not None:
            self._on_committed(proved)

    def _unproved(self) -> list[Offset]:
        with self._lock:
            return self._evidence.unproved()

    # --- the checkpoint, when a batch is planned

    def _await_offset_log(self, checkpoint: Checkpoint, end: Offset) -> None:
        # Spark writes the offset log before it plans a batch. Under asynchronous progress tracking
        # this happens at about the same time, or not at all.
        problem: StompError | None = None
        deadline = Deadline.after(_OFFSET_LOG_WAIT)
        while not deadline.passed:
            try:
                if (batch := checkpoint.batch_of(end)) is not None:
                    self.batch, self._found_logged = batch, True
                    return
                problem = None
            except CheckpointUnreadable as error:
                problem = error
            time.sleep(_ASK_AGAIN)
        raise problem or self._not_logged(checkpoint.location)

    def _not_logged(self, location: str) -> StompError:
        """Why the offset log does not hold a batch that Spark has planned."""
        if self._found_logged:
            return UnsupportedError(
                f"Spark left a batch out of the offset log under {location}, as it does under asynchronous "
                "progress tracking. Nothing would prove the commit of that batch, so its messages would "
                "never be ACKed. Set asyncProgressTrackingCheckpointIntervalMs=0 (an option of "
                "writeStream), so that Spark logs every batch, or set asyncProgressTrackingEnabled=false"
            )
        return CheckpointMismatch(
            f"the offset log under checkpointLocation {location} does not hold the batch "
            "that Spark just planned. Set the source option checkpointLocation to the checkpoint of "
            "this query (its option checkpointLocation of writeStream)"
        )

    # --- the watcher's thread

    def _check(self) -> None:
        """Look for commits in the checkpoint if a batch waits for evidence.

        Retries file-system errors for one minute, then fails the query. Without a checkpoint it only warns
        of missing evidence.
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
        # The order matters. First list the commits, then take the ends that could be among them, then look
        # for the fence. A reader that plans our log as lost writes the fence before its first commit.
        commits = checkpoint.new_commits()
        if not commits:
            return
        end = checkpoint.committed_end(commits, self._unproved())
        if end is None:
            return
        if checkpoint.fenced(self._logs):
            raise CheckpointMismatch(
                "another run of this query has taken over the checkpoint; this run ACKs nothing any more"
            )
        with self._lock:
            # If the query has ended without waiting for this look, its receivers are gone.
            proved = None if self._ended else self._evidence.committed(end)
        self._report(proved)

    def _raise_or_log(self, error: CheckpointUnreadable) -> None:
        now = time.monotonic()
        if self._unreadable_since is None:
            self._unreadable_since = now
            log.warning("%s; trying again", error)
        elif now - self._unreadable_since >= _UNREADABLE_AT_MOST:
            raise error

    def _warn_if_evidence_is_late(self) -> None:
        with self._lock:
            # Read under the lock: the frame server expects a batch before this object counts it as planned,
            # so the time of an earlier batch is not taken for that of a later one.
            read_at = self._frame_server.read_at
            if read_at is None or time.monotonic() - read_at < _NO_EVIDENCE_AFTER:
                return
            if self._evidence.unproved():
                self._warn_of_no_evidence(f"a batch was read {_NO_EVIDENCE_AFTER:g}s ago, and for it")

    def _warn_of_no_evidence(self, occasion: str) -> None:
        if not self._acks_wait:
            return
        advice = (
            "If the source option checkpointLocation names the query's own checkpoint, they are ACKed as "
            "soon as Spark's commit log has the batch. In a pipeline, which keeps its checkpoint to itself, "
            "set journal and ackAfter = journal: then they are ACKed as soon as they are in the journal"
            if self._checkpoint is None
            else "Spark's commit log does not have the batch yet"
        )
        self._once.warning(
            "no evidence",
            "%s there is no evidence of a commit, so its messages are not ACKed. They stay on a "
            "broker that redelivers. %s",
            occasion,
            advice,
        )

"""From evidence to ACKs: watches the checkpoint, and says so when nothing proves a commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_stomp.errors import CheckpointMismatch, CheckpointUnreadable, DeliveryError, StompError
from spark_stomp.exchange import RangeTicket
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.offsets import Offset
from spark_stomp.source.receivers import ReceiverGroup

__all__ = ["CommitEvidence", "Committer"]

log = logging.getLogger(__name__)

_POLL = 0.1
_NO_EVIDENCE_AFTER = 10.0
_OFFSET_LOG_WAIT = 5.0
_UNREADABLE_AT_MOST = 60.0


class Committer:
    """Takes evidence from Spark's calls and from the checkpoint; tells the fleet what to ACK.

    The checkpoint is polled by a thread of its own: after Trigger.Once's only batch, and between the batches
    of a long trigger interval, no call comes that could carry evidence. ``acks_wait``: ACKs wait for the
    commit, so that late evidence is worth a word.
    """

    def __init__(
        self, fleet: ReceiverGroup, checkpoint: Checkpoint | None, *, acks_wait: bool = True
    ) -> None:
        self._fleet = fleet
        self._acks_wait = acks_wait
        self._checkpoint = checkpoint
        self._evidence = CommitEvidence(fleet.acknowledge, call_evidence=checkpoint is None)
        # One lock around the evidence and the checkpoint: Spark's thread and the watcher both use them.
        self._lock = threading.Lock()
        self._unread: set[RangeTicket] = set()
        self._read_at: float | None = None
        self._said = False
        self._failure: StompError | None = None
        self._unreadable_since: float | None = None
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="stomp-commit-watcher", daemon=True)

    def start(self) -> None:
        self._watcher.start()

    def raise_failure(self) -> None:
        """Raise what the watcher ran into."""
        if self._failure is not None:
            raise self._failure

    def planned(self, end: Offset, tickets: list[RangeTicket]) -> None:
        """A batch up to ``end`` was planned and consists of ``tickets``.

        Raises CheckpointMismatch where ``checkpointLocation`` is named and its offset log does not hold
        ``end``: ACKs would wait for evidence that never comes.
        """
        if self._checkpoint is not None:
            self._await_offset_log(self._checkpoint, end)
        with self._lock:
            self._evidence.planned(end, time.monotonic())
            self._unread = set(tickets)
            self._read_at = None

    def served(self, ticket: RangeTicket) -> None:
        """A task read ``ticket`` to its end."""
        with self._lock:
            self._unread.discard(ticket)
            if not self._unread and self._read_at is None:
                self._read_at = time.monotonic()

    def commit_called(self, end: Offset) -> None:
        with self._lock:
            self._evidence.commit_called(end)

    def latest_offset_called(self, start: Offset | None) -> None:
        with self._lock:
            self._evidence.latest_offset_called(start)
        self.check_checkpoint()

    def began_at(self, start: Offset) -> None:
        """The run begins at ``start``. Where the checkpoint has it as committed, a journal may hold messages
        before it whose ACKs the broker never saw."""
        with self._lock:
            if self._checkpoint is not None and self._checkpoint.last_commit_holds(start):
                self._evidence.checkpoint_committed(start)

    def check_checkpoint(self) -> None:
        """Look for evidence in the checkpoint now; cheap where no batch waits for it.

        A file system that fails is asked again; it fails the query only after a minute.
        """
        with self._lock:
            if self._checkpoint is None or not self._evidence.unproved():
                return
            try:
                self._examine(self._checkpoint)
                self._unreadable_since = None
            except CheckpointUnreadable as error:
                self._bear(error)

    def _bear(self, error: CheckpointUnreadable) -> None:
        now = time.monotonic()
        if self._unreadable_since is None:
            self._unreadable_since = now
            log.warning("%s; trying again", error)
        elif now - self._unreadable_since >= _UNREADABLE_AT_MOST:
            raise error

    def fence(self, epochs: set[str]) -> None:
        """``epochs`` of another reader are about to be planned as lost: bar it from ACKing them."""
        if self._checkpoint is not None and epochs:
            with self._lock:
                self._checkpoint.fence(sorted(epochs))

    def stop(self) -> None:
        """Stop watching, look once more, and say what stays un-acked."""
        self._stopped.set()
        try:
            self.check_checkpoint()
        except StompError as error:
            log.warning("the checkpoint could not be read at the end: %s", error)
        with self._lock:
            if self._evidence.unproved():
                self._say("the query ends, and for its last batch")

    def _await_offset_log(self, checkpoint: Checkpoint, end: Offset) -> None:
        # Spark writes the offset log before it plans, except under asynchronous progress tracking, which
        # writes it at about the same time.
        problem: StompError = CheckpointMismatch(
            f"the offset log under checkpointLocation {checkpoint.location} does not hold the batch "
            "that Spark just planned: name there the checkpointLocation of this very query "
            "(the option given to writeStream)"
        )
        deadline = time.monotonic() + _OFFSET_LOG_WAIT
        while time.monotonic() < deadline:
            try:
                with self._lock:
                    if checkpoint.holds(end):
                        return
            except CheckpointUnreadable as error:
                problem = error
            self._stopped.wait(_POLL)
        raise problem

    def _watch(self) -> None:
        try:
            while not self._stopped.wait(_POLL):
                self.check_checkpoint()
                if self._checkpoint is None:
                    self._say_where_evidence_is_late()
        except StompError as error:
            self._failure = error
        except Exception as error:
            # A thread that dies in silence would leave messages without their ACK while no call comes.
            self._failure = DeliveryError(f"watching for commits failed unexpectedly: {error!r}")
            log.exception("watching for commits failed unexpectedly")

    def _say_where_evidence_is_late(self) -> None:
        with self._lock:
            if self._read_at is not None and time.monotonic() - self._read_at >= _NO_EVIDENCE_AFTER:
                if self._evidence.unproved():
                    self._say(f"a batch was read {_NO_EVIDENCE_AFTER:g}s ago, and for it")
                self._read_at = None

    def _examine(self, checkpoint: Checkpoint) -> None:
        # The order matters: first which commits there are, then which ends could be among them, then the
        # fence. Whoever plans our epochs as lost writes the fence before it can commit anything of its own.
        commits = checkpoint.new_commits()
        if not commits:
            return
        end = checkpoint.committed_end(commits, self._evidence.unproved())
        if end is None:
            return
        if checkpoint.fenced(self._fleet.epochs):
            raise CheckpointMismatch(
                "another run of this query has taken over the checkpoint; this one ACKs nothing any more"
            )
        self._evidence.checkpoint_committed(end)

    def _say(self, occasion: str) -> None:
        if self._said or not self._acks_wait:
            return
        self._said = True
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


# MERGED from evidence.py: What proves that a batch is committed (contract 1).


@dataclass(slots=True)
class _Planned:
    end: Offset
    since: float


class CommitEvidence:
    """Collects evidence and names the newest committed offset.

    ``call_evidence`` is False where ``checkpointLocation`` is named. ``on_committed`` is called with every
    offset newly known to be committed. Times are monotonic seconds, passed in.
    """

    def __init__(self, on_committed: Callable[[Offset], None], *, call_evidence: bool) -> None:
        self._on_committed = on_committed
        self._call_evidence = call_evidence
        self._planned: list[_Planned] = []
        self._uncommitted_plan: Offset | None = None

    def planned(self, end: Offset, now: float) -> None:
        """``partitions(_, end)`` was called: a batch up to ``end`` is in the offset log, or will be."""
        self._uncommitted_plan = end
        if all(plan.end != end for plan in self._planned):
            self._planned.append(_Planned(end, now))

    def commit_called(self, end: Offset) -> None:
        """``commit(end)``."""
        if self._call_evidence:
            self._committed(end)

    def latest_offset_called(self, start: Offset | None) -> None:
        """``latestOffset(start, limit)``, or ``latestOffset()`` with ``start`` None on 4.0 and 4.1.

        Without a start, whatever was planned last is committed: Spark asks for the next offset only after
        the commit log has the last one. The exception, ``partitions(X, X)`` as the first call after a
        restart, names epochs of the old run, of which this one holds nothing to ACK.
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
        """Planned ends that nothing has proved committed, oldest first."""
        return [plan.end for plan in self._planned]

    def unproved_since(self) -> float | None:
        """When the oldest unproved end was planned; None where there is none."""
        return self._planned[0].since if self._planned else None

    def _committed(self, end: Offset) -> None:
        self._uncommitted_plan = None
        known = next((index for index, plan in enumerate(self._planned) if plan.end == end), None)
        if known is not None:
            del self._planned[: known + 1]
        self._on_committed(end)

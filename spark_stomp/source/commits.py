"""What proves that a batch is committed, and the thread that turns proof into ACKs (contract 1).

Four kinds of evidence exist: ``commit(end)``; the ``start`` of ``latestOffset(start, limit)``; on Spark 4.0
and 4.1, which pass no start, a ``latestOffset()`` that follows ``partitions(_, end)``; and the query's own
checkpoint, if ``checkpointLocation`` is set. Then it alone counts, because the others run ahead of the commit
log under asynchronous progress tracking. ``stop()`` proves nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from spark_stomp.errors import CheckpointMismatch, CheckpointUnreadable, DeliveryError, StompError
from spark_stomp.exchange import ExchangeServer, RangeTicket
from spark_stomp.logs import get_log, in_context
from spark_stomp.source.checkpoint import Checkpoint
from spark_stomp.source.offsets import Offset

log = get_log(__name__)

_POLL = 0.1
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

    def commit_called(self, end: Offset) -> None:
        """``commit(end)``."""
        if self._call_evidence:
            self._committed(end)

    def latest_offset_called(self, start: Offset | None) -> None:
        """``latestOffset(start, limit)``, or ``latestOffset()`` with ``start`` None on 4.0 and 4.1.

        Without a start, the last planned batch is committed: Spark asks for the next offset only after the
        batch is in the commit log. The exception is harmless: ``partitions(X, X)``, the first call after a
        restart, names epochs of the old run, and this run has nothing of them to ACK.
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


class Committer:
    """Takes evidence from Spark's calls and from the checkpoint, and calls ``on_committed``.

    A thread polls the checkpoint, because no call brings evidence after the only batch of Trigger.Once, or
    between the batches of a long trigger interval. ``epochs`` are those of this run; ``exchange`` tells when
    tasks have read a batch; ``acks_wait``: ACKs wait for the commit, so late evidence is worth a warning.
    """

    def __init__(
        self,
        on_committed: OnCommitted,
        epochs: frozenset[str],
        exchange: ExchangeServer,
        checkpoint: Checkpoint | None,
        *,
        acks_wait: bool = True,
    ) -> None:
        self._epochs = epochs
        self._exchange = exchange
        self._acks_wait = acks_wait
        self._checkpoint = checkpoint
        self._evidence = CommitEvidence(on_committed, call_evidence=checkpoint is None)
        # One lock around the evidence and the checkpoint: Spark's thread and the watcher both use them.
        self._lock = threading.Lock()
        self._warned = False
        self._failure: StompError | None = None
        self._unreadable_since: float | None = None
        self._stopped = threading.Event()
        self._watcher = threading.Thread(
            target=in_context(self._watch), name="stomp-commit-watcher", daemon=True
        )

    def start(self) -> None:
        self._watcher.start()

    @property
    def failure(self) -> StompError | None:
        """The error that ended the watcher."""
        return self._failure

    # --- what Spark calls

    def planned(self, end: Offset, tickets: list[RangeTicket]) -> None:
        """A batch up to ``end`` was planned and consists of ``tickets``.

        Raises CheckpointMismatch if ``checkpointLocation`` is set and its offset log does not hold ``end``
        (ACKs would wait for evidence that never comes), CheckpointUnreadable if it cannot be read.
        """
        if self._checkpoint is not None:
            self._await_offset_log(self._checkpoint, end)
        # First, so that an earlier batch that was read is not taken for this one.
        self._exchange.expect(tickets)
        with self._lock:
            self._evidence.planned(end)

    def commit_called(self, end: Offset) -> None:
        with self._lock:
            self._evidence.commit_called(end)

    def latest_offset_called(self, start: Offset | None) -> None:
        with self._lock:
            self._evidence.latest_offset_called(start)
        self.check_checkpoint()

    def began_at(self, start: Offset) -> None:
        """The run begins at ``start``. If the checkpoint shows it as committed, so are the messages before
        it: a journal may hold some whose ACKs the broker never saw."""
        with self._lock:
            if self._checkpoint is not None and self._checkpoint.last_commit_holds(start):
                self._evidence.checkpoint_committed(start)

    def fence(self, epochs: set[str]) -> None:
        """``epochs`` of another reader are about to be planned as lost: bar it from ACKing them."""
        if self._checkpoint is not None and epochs:
            with self._lock:
                self._checkpoint.fence(sorted(epochs))

    def stop(self) -> None:
        """Stop watching, read the checkpoint once more, and warn of what stays un-acked."""
        self._stopped.set()
        try:
            self.check_checkpoint()
        except StompError as error:
            log.warning("the checkpoint could not be read at the end: %s", error)
        with self._lock:
            if self._evidence.unproved():
                self._warn_once("the query ends, and for its last batch")

    # --- the checkpoint

    def check_checkpoint(self) -> None:
        """Look for evidence in the checkpoint now; cheap if no batch waits for it.

        Retries file-system errors for one minute, then fails the query.
        """
        with self._lock:
            if self._checkpoint is None or not self._evidence.unproved():
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
        end = checkpoint.committed_end(commits, self._evidence.unproved())
        if end is None:
            return
        if checkpoint.fenced(self._epochs):
            raise CheckpointMismatch(
                "another run of this query has taken over the checkpoint; this one ACKs nothing any more"
            )
        self._evidence.checkpoint_committed(end)

    def _raise_or_log(self, error: CheckpointUnreadable) -> None:
        now = time.monotonic()
        if self._unreadable_since is None:
            self._unreadable_since = now
            log.warning("%s; trying again", error)
        elif now - self._unreadable_since >= _UNREADABLE_AT_MOST:
            raise error

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

    # --- the watcher's thread

    def _watch(self) -> None:
        try:
            while not self._stopped.wait(_POLL):
                self.check_checkpoint()
                if self._checkpoint is None:
                    self._warn_if_evidence_is_late()
        except StompError as error:
            self._failure = error
        except Exception as error:
            # A thread that dies in silence would leave messages without their ACK while no call comes.
            self._failure = DeliveryError(f"watching for commits failed unexpectedly: {error!r}")
            log.exception("watching for commits failed unexpectedly")

    def _warn_if_evidence_is_late(self) -> None:
        with self._lock:
            # Asked under the lock: the exchange expects a batch before it counts as planned here, so an
            # earlier batch that was read is not taken for it.
            read_at = self._exchange.read_at
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

"""What proves that a batch is committed (contract 1).

Four kinds of evidence exist: ``commit(end)``; the ``start`` of ``latestOffset(start, limit)``; on Spark 4.0
and 4.1, which pass no start, a ``latestOffset()`` that follows ``partitions(_, end)``; and the query's own
checkpoint, where ``checkpointLocation`` names it. Where it is named it alone counts, since the others run
ahead of the commit log under asynchronous progress tracking. ``stop()`` proves nothing.

This module is pure: it is told what happened and answers what is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_stomp.source.offsets import Offset

__all__ = ["CommitEvidence"]


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

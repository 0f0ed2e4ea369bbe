"""When a malformed message fails the query: after everything that was received before it (contract 7)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from spark_stomp.errors import StompError
from spark_stomp.receiver import ReceiverStatus
from spark_stomp.source.memory_backlog import Backlog
from spark_stomp.source.offsets import Offset
from spark_stomp.source.planning import QUIET_PERIOD, QUIET_PERIOD_MAX


class Refusal:
    """Holds back the errors of malformed messages.

    What the other receivers had by then, or got in their first moment, counts as before it too: otherwise, at
    every start, one destination's malformed message would end the query before the others have brought
    anything.
    """

    def __init__(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._since: float | None = None
        self._seen: Sequence[ReceiverStatus] | None = None
        self._before: Offset | None = None

    def failure(self, statuses: Sequence[ReceiverStatus], now: float | None = None) -> StompError | None:
        """The error that the query fails with now; None if there is none, or something is still to be done.

        A connection that is lost meanwhile brings the messages and the malformed one again, and all of this
        begins anew.
        """
        refused = [status for status in statuses if status.refused is not None]
        if not refused:
            self._since = self._seen = self._before = None
            return None
        before = self._before or self._all_before(statuses, time.monotonic() if now is None else now)
        if before is None or not self._backlog.is_committed(before):
            return None
        return None if any(status.acks_pending for status in refused) else refused[0].refused

    def _all_before(self, statuses: Sequence[ReceiverStatus], now: float) -> Offset | None:
        """What came before the malformed message; None as long as that may still grow, or be unwritten."""
        if self._seen is None and self._is_first_moment(statuses, now):
            return None
        # Later ones do not count: under load there is always something unwritten.
        self._seen = self._seen or statuses
        self._before = self._backlog.all_before(self._seen)
        return self._before

    def _is_first_moment(self, statuses: Sequence[ReceiverStatus], now: float) -> bool:
        if not all(status.subscribed for status in statuses):
            return True
        self._since = since = self._since or now
        silence = now - max(status.last_active for status in statuses)
        return silence < QUIET_PERIOD and now - since < QUIET_PERIOD_MAX

"""Notices a broker that stops at a limit of its own, below the prefetch it was asked for.

ActiveMQ pages the messages of a queue in. How many it delivers un-acked depends on ``maxPageSize``, on other
consumers of the queue, and on ACKs that came meanwhile: any number may be where it stops. A queue that has
exactly so many messages looks the same. So silence is taken for such a limit for the time being, and no batch
waits in vain for its minimum (contract 5). Whether it was one shows when ACKs make room: messages that were
held back come at once. If none do, the next silence has to last twice as long, so that a queue to which
messages trickle still gets batches of the size that was asked for.

Times are monotonic seconds, passed in.
"""

from __future__ import annotations

# Silence after which a broker with un-acked messages seems to hold more back: at first, and at most.
_STALL = 1.0
_LONGEST_STALL = 60.0
# Messages that were held back come so soon after the receipt for the ACKs that made room, ...
_PROMPT = 0.25
# ... and so many at least. One may come by chance.
_BURST = 3


class PageLimitDetector:
    """What one receiver has learned of its broker on this connection.

    ``has_limit``: whether a broker of this kind may stop before ``prefetch``, where it stops in any case.
    """

    def __init__(self, *, has_limit: bool, prefetch: int) -> None:
        self._has_limit = has_limit
        self._prefetch = prefetch
        self._silence = _STALL
        self._stalled_at: int | None = None
        self._room_until: float | None = None
        self._came = 0
        self._confirmed_at: int | None = None

    @property
    def limit(self) -> int | None:
        """The un-acked messages at which the broker seems to have stopped, now or lately; None if it has
        not."""
        return self._confirmed_at if self._stalled_at is None else self._stalled_at

    def holds_back(self, unacked: int, quiet: float, *, acks_pending: bool = False) -> bool:
        """Whether no more messages seem to come while ``unacked`` are un-acked.

        ``quiet``: seconds in which nothing happened that could bring messages. ``acks_pending``: ACKs are
        about to make room.
        """
        waits = self._has_limit and not acks_pending and 0 < unacked < self._prefetch
        return waits and quiet >= self._silence

    def watch(self, unacked: int, quiet: float, now: float) -> None:
        """Called now and then while nothing comes, and before ACKs are sent."""
        if self._room_until is not None:
            if now > self._room_until:
                self._conclude(held_back=False)
        elif self.holds_back(unacked, quiet):
            self._stalled_at = unacked

    def acks_sent(self) -> None:
        """The broker has been told of ACKs, which make room."""
        if self._stalled_at is not None:
            self._room_until = float("inf")

    def acks_confirmed(self, now: float) -> None:
        """The broker's receipt for them came."""
        if self._room_until is not None:
            self._room_until = now + _PROMPT

    def delivered(self, count: int, now: float) -> bool:
        """So many messages came. True if that shows that the broker held them back: see ``limit``."""
        if self._stalled_at is None:
            return False
        if self._room_until is None or now > self._room_until:
            self._conclude(held_back=False)
            return False
        self._came += count
        if self._came < _BURST:
            return False
        self._confirmed_at = self._stalled_at
        self._conclude(held_back=True)
        return True

    def _conclude(self, *, held_back: bool) -> None:
        self._silence = _STALL if held_back else min(self._silence * 2, _LONGEST_STALL)
        self._stalled_at = self._room_until = None
        self._came = 0
